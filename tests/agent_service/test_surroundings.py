from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from graph_agent.agent_service import Surroundings, kept_open
from graph_agent.agent_service import surroundings as module
from graph_agent.bootstrap.agents import open_surroundings
from graph_agent.errors import ConfigurationError
from graph_agent.settings import Settings
from tests.agent_service.world import surroundings


class Wiring:
    """Notes openings and closings. `asked` is set when one begins, and it goes on when `ready` is."""

    def __init__(self, fails: bool = False) -> None:
        self.log: list[str] = []
        self.asked = asyncio.Event()
        self.ready = asyncio.Event()
        self.fails = fails

    @asynccontextmanager
    async def open(self, _: Settings) -> AsyncGenerator[Surroundings]:
        self.log.append("open")
        self.asked.set()
        await self.ready.wait()
        if self.fails:
            raise ConfigurationError("there is no place")
        yield surroundings()
        self.log.append("close")


Make = Callable[..., Wiring]


@pytest.fixture
def wiring(monkeypatch: pytest.MonkeyPatch) -> Make:
    def make(fails: bool = False) -> Wiring:
        made = Wiring(fails)
        monkeypatch.setattr(module, "_opening", lambda: made.open)
        return made

    return make


async def stay(until: asyncio.Event, inside: asyncio.Event) -> Surroundings:
    async with kept_open() as place:
        inside.set()
        await until.wait()
        return place


async def test_whoever_comes_meanwhile_shares_and_the_last_to_go_closes(wiring: Make) -> None:
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
    async with kept_open() as another:
        assert another is not places[0]
    assert made.log == ["open", "close"] * 2


async def test_a_failed_opening_is_told_to_everybody_and_the_next_one_tries_again(wiring: Make) -> None:
    made = wiring(fails=True)
    leave, inside = asyncio.Event(), asyncio.Event()
    guests = [asyncio.create_task(stay(leave, inside)) for _ in range(2)]
    await made.asked.wait()
    made.ready.set()
    told = await asyncio.gather(*guests, return_exceptions=True)
    assert [str(error) for error in told] == ["there is no place"] * 2
    with pytest.raises(ConfigurationError, match="there is no place"):
        async with kept_open():
            pass
    assert made.log == ["open", "open"]


async def test_a_guest_who_is_cancelled_does_not_take_the_place_along(wiring: Make) -> None:
    made = wiring()
    leave, inside = asyncio.Event(), asyncio.Event()
    impatient = asyncio.create_task(stay(leave, inside))
    patient = asyncio.create_task(stay(leave, inside))
    await made.asked.wait()
    impatient.cancel()
    assert isinstance((await asyncio.gather(impatient, return_exceptions=True))[0], asyncio.CancelledError)
    made.ready.set()
    leave.set()
    assert isinstance(await patient, Surroundings)
    assert made.log == ["open", "close"]


async def test_other_settings_are_another_place(wiring: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = wiring()
    made.ready.set()
    async with kept_open() as one:
        monkeypatch.setenv("GRAPH_AGENT_HOME", str(tmp_path / "elsewhere"))
        async with kept_open() as other:
            assert one is not other
    assert made.log == ["open", "open", "close", "close"]


async def test_the_real_wiring_is_found_by_its_name() -> None:
    opening: Callable[[Settings], AbstractAsyncContextManager[Surroundings]] = module._opening()
    assert opening is open_surroundings
