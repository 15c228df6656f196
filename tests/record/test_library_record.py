"""`open_record`: the record of an engine of your own."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from sqlalchemy import text

from graph_agent import (
    ConditionsFile,
    DecisionContext,
    EngineOptions,
    FunctionTools,
    LibraryRecord,
    LLMAgentEngine,
    ScriptedAdapter,
    open_record,
)
from graph_agent.db import Database
from graph_agent.integrations.langchain import GovernedTools
from graph_agent.testing import says
from tests.cli.conftest import Cli, cli, home  # noqa: F401 (fixtures)
from tests.integrations.langchain.chat_model import THREAD, ScriptedChatModel, requests
from tests.scripted_turns import calls

CONSTITUTION = "You refund.\n\n## Available Tools\n- refund: Refund an amount\n"
BUDGET = """
permit (principal, action, resource);
@id("100 a day") forbid (principal, action == Action::"refund", resource) when { context.used.day.sum.amount > 100 };
"""

pytestmark = pytest.mark.usefixtures("home")


def refund(amount: int) -> str:
    """Refund an amount."""
    return f"refunded {amount}"


def engine_of(record: LibraryRecord, amount: int) -> LLMAgentEngine:
    script = [calls(("refund", {"amount": amount})), says("Well.")]
    options = EngineOptions(conditions=ConditionsFile(BUDGET))
    return LLMAgentEngine(ScriptedAdapter(script), FunctionTools(refund), CONSTITUTION, ports=record.ports, options=options)


async def refunded(record: LibraryRecord, amount: int) -> str:
    finished = await engine_of(record, amount).run(DecisionContext(user_id="ann", message="refund", conversation_id="c"))
    return finished.record.invocations[0].disposition.value


async def test_the_record_of_an_engine_is_migrated_counts_uses_and_verifies(database_url: str) -> None:
    async with open_record(database_url) as record:
        assert await refunded(record, 70) == "executed"
        assert await refunded(record, 70) == "refused"
        report = await record.verify()
        assert (report.intact, report.records, report.waiting) == (True, 2, 0)
    # The budget is that of the record, not of a process.
    async with open_record(database_url) as record:
        assert [await refunded(record, 70), await refunded(record, 30)] == ["refused", "executed"]
        assert (await record.verify()).records == 4


async def test_a_change_by_hand_is_found(database_url: str) -> None:
    async with open_record(database_url) as record:
        await refunded(record, 70)
    database = Database.open(database_url)
    database.write_now(lambda connection: connection.execute(text("UPDATE decision_logs SET user_id = 'eve'")).close())
    await database.close()
    async with open_record(database_url) as record:
        assert not (await record.verify()).intact


async def test_the_middleware_of_langchain_has_a_record_that_verifies(tmp_path: Path) -> None:
    async with open_record(f"sqlite:///{tmp_path / 'record.db'}") as record:
        engine = LLMAgentEngine(ScriptedAdapter([]), FunctionTools(refund), CONSTITUTION, ports=record.ports)
        model = ScriptedChatModel(script=[requests(("refund", {"amount": 7})), AIMessage("Done.")])
        agent: Any = create_agent(model, middleware=[GovernedTools(engine, user="ann")], checkpointer=InMemorySaver())
        await agent.ainvoke({"messages": [("user", "refund 7")]}, THREAD)
        report = await record.verify()
        assert (report.intact, report.records) == (True, 1)


def test_the_commands_read_the_record_of_a_library(
    cli: Cli,  # noqa: F811 (a fixture)
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def write() -> None:
        async with open_record("sqlite:///record.db") as record:
            await refunded(record, 70)

    monkeypatch.setenv("DATABASE_URL", "sqlite:///record.db")
    # The same URL is another file, with a tree of its own, in each folder.
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        monkeypatch.chdir(tmp_path / folder)
        asyncio.run(write())
        verified = cli("log", "verify")
        assert (verified.code, verified.out.partition(";")[0]) == (0, "intact: 1 record, tree size 1")
        assert cli("replay", "--all").code == 0
        assert "refund" in cli("log", "show", "last").out
