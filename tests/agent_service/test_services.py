from __future__ import annotations

import asyncio
import json
import sqlite3
import uuid
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from graph_agent.agent_service import AgentLoopConfig, AgentServices, shared_services
from graph_agent.agent_service.run import AgentRequest, converse
from graph_agent.bootstrap.agent_services import open_agent_services
from graph_agent.db import Database, DatabaseUnavailableError
from graph_agent.errors import ConfigurationError
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.llm import LLMResponse
from graph_agent.settings import Settings
from tests.agent_service.environment import USER, agent_services, at, said


class Wiring:
    """Records when services are opened and closed. Opening sets `asked` and waits for `ready`."""

    def __init__(self, fails: bool = False) -> None:
        self.log: list[str] = []
        self.asked = asyncio.Event()
        self.ready = asyncio.Event()
        self.fails = fails

    @asynccontextmanager
    async def open(self, _: Settings) -> AsyncGenerator[AgentServices]:
        self.log.append("open")
        self.asked.set()
        await self.ready.wait()
        if self.fails:
            raise ConfigurationError("no database")
        yield agent_services()
        self.log.append("close")


Make = Callable[..., Wiring]


@pytest.fixture
def wiring(monkeypatch: pytest.MonkeyPatch) -> Make:
    def make(fails: bool = False) -> Wiring:
        made = Wiring(fails)
        # Callers name no services: they share those that the environment configures.
        monkeypatch.setattr("graph_agent.bootstrap.agent_services.open_agent_services", made.open)
        return made

    return make


async def stay(until: asyncio.Event, inside: asyncio.Event) -> AgentServices:
    async with shared_services() as place:
        inside.set()
        await until.wait()
        return place


async def test_callers_share_the_services_and_the_last_one_closes_them(wiring: Make) -> None:
    made = wiring()
    made.ready.set()
    go = [asyncio.Event() for _ in range(3)]
    come = [asyncio.Event() for _ in range(3)]
    guests = [asyncio.create_task(stay(leave, inside)) for leave, inside in zip(go, come, strict=True)]
    await asyncio.gather(*(inside.wait() for inside in come))
    places = []
    for leave, guest in zip(go, guests, strict=True):
        assert made.log == ["open"]
        leave.set()
        places.append(await guest)
    assert places[0] is places[1] is places[2]
    assert made.log == ["open", "close"]
    async with shared_services() as another:
        assert another is not places[0]
    assert made.log == ["open", "close"] * 2


async def test_a_failed_opening_is_raised_for_every_caller_and_the_next_one_tries_again(wiring: Make) -> None:
    made = wiring(fails=True)
    leave, inside = asyncio.Event(), asyncio.Event()
    guests = [asyncio.create_task(stay(leave, inside)) for _ in range(2)]
    await made.asked.wait()
    made.ready.set()
    errors = await asyncio.gather(*guests, return_exceptions=True)
    assert [str(error) for error in errors] == ["no database"] * 2
    with pytest.raises(ConfigurationError, match="no database"):
        async with shared_services():
            pass
    assert made.log == ["open", "open"]


async def test_a_cancelled_caller_does_not_close_the_services_of_the_others(wiring: Make) -> None:
    made = wiring()
    leave, inside = asyncio.Event(), asyncio.Event()
    impatient = asyncio.create_task(stay(leave, inside))
    patient = asyncio.create_task(stay(leave, inside))
    await made.asked.wait()
    impatient.cancel()
    assert isinstance((await asyncio.gather(impatient, return_exceptions=True))[0], asyncio.CancelledError)
    made.ready.set()
    leave.set()
    assert isinstance(await patient, AgentServices)
    assert made.log == ["open", "close"]


async def test_other_settings_are_another_place(wiring: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = wiring()
    made.ready.set()
    async with shared_services() as one:
        monkeypatch.setenv("GRAPH_AGENT_HOME", str(tmp_path / "elsewhere"))
        async with shared_services() as other:
            assert one is not other
    assert made.log == ["open", "open", "close", "close"]


async def test_a_record_that_the_database_does_not_take_at_first_delays_the_response(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Database.write

    async def fail_once(*_: object) -> None:
        # The database comes back.
        monkeypatch.setattr(Database, "write", write)
        raise DatabaseUnavailableError("gone")

    def say_and_lose(*_: object) -> LLMResponse:
        # `open_agent_services` opens its database itself, and a SQLite file cannot be unreachable for one write.
        monkeypatch.setattr(Database, "write", fail_once)
        return LLMResponse(content="Hello.", finish_reason="stop")

    settings = Settings(GRAPH_AGENT_HOME=home, DATABASE_URL="")
    async with open_agent_services(settings) as services:
        request = AgentRequest([said("hi")], USER, at("http://localhost:1"))
        response = await converse(services, ScriptedAdapter([say_and_lose]), request)
    assert (response.status, response.final_response) == ("completed", "Hello.")
    with closing(sqlite3.connect(home / "graph_agent.db")) as log:
        assert log.execute("SELECT status FROM decision_logs").fetchall() == [("completed",)]


async def test_calls_for_other_users_and_with_other_limits_are_made_under_the_same_rules(home: Path) -> None:
    """The prompt names the user: it would be kept for ever, and each call would activate rules of its own."""
    settings = Settings(GRAPH_AGENT_HOME=home, DATABASE_URL="")
    async with open_agent_services(settings) as services:
        for number, user in enumerate((USER, str(uuid.UUID(int=7)))):
            limits = AgentLoopConfig(max_iterations=3 + number)
            request = AgentRequest([said("hi")], user, at("http://localhost:1", temperature=number / 2), loop_config=limits)
            adapter = ScriptedAdapter([LLMResponse(content="Hello.", finish_reason="stop")])
            assert (await converse(services, adapter, request)).status == "completed"
    with closing(sqlite3.connect(home / "graph_agent.db")) as log:
        [(parts,)] = log.execute("SELECT parts FROM rule_sets").fetchall()
        assert log.execute("SELECT number FROM rule_activations").fetchall() == [(1,)]
    assert sorted(json.loads(parts)) == ["constitution", "settings"]
    assert USER not in parts
