"""Limits of size, database connections during awaits, and log lines."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from graph_agent.errors import LLMError, ToolErrorCode
from graph_agent.models.llm import LLMResponse
from graph_agent.models.result_size import MAX_RESULT_BYTES
from graph_agent.models.tools import ToolResult
from graph_agent.testing import says
from graph_agent.turn.engine import LLMAgentEngine
from tests.invariants.adversary import Adversary
from tests.invariants.calls import ADD, CONSTITUTION, LIST
from tests.invariants.checks import CANARY
from tests.invariants.installation import Fault, open_installation
from tests.scaling import grows_with_length
from tests.scripted_turns import TableServer, asks, calls, done, engine_of, failed


async def test_tokens_and_result_sizes_are_capped() -> None:
    tasks = [{"id": f"t{n}", "description": "x" * 200} for n in range(500)]
    huge = {"list_tasks": done({"tasks": tasks}), "add_task": failed(ToolErrorCode.DATABASE_ERROR, "y" * 100_000)}
    model = Adversary([calls(LIST, ADD), says("Well.")])
    await LLMAgentEngine(model, TableServer(dict(huge)), CONSTITUTION).run(asks())
    answered = [message.function_response for message in model.requests[1] if message.function_response]
    assert [len(response.model_dump_json()) <= MAX_RESULT_BYTES + 200 for response in answered] == [True, True]
    assert "are shown" in str(answered[0].response["truncated"])


@pytest.mark.parametrize("piece", ["a", "{", "don't ", 'ask_user("', "\u200d😀", '{"name": "ask_user", ', "<", " \n"])
def test_a_reply_of_megabytes_is_truncated_in_linear_time(piece: str) -> None:
    def answer(text: str) -> None:
        finished = asyncio.run(engine_of(says(text)).run(asks()))
        assert len(finished.decision.reply) <= 8_000

    assert grows_with_length(answer, lambda length: "Well. " + piece * (length // len(piece)), 1_000_000)


async def test_no_database_connection_is_held_while_a_model_or_tool_is_awaited(tmp_path: Path) -> None:
    async with open_installation(tmp_path) as installation:
        awaited: list[str] = []

        async def use_both_databases(during: str) -> None:
            for database in (installation.tasks, installation.log):
                # A database that this turn occupied would wait for it for ever.
                async with asyncio.timeout(60):
                    await database.write(lambda connection: connection.exec_driver_sql("SELECT 1").close())
            awaited.append(during)

        class UsesTheDatabases(Adversary):
            async def generate(self, *arguments: Any, **named: Any) -> LLMResponse:
                await use_both_databases("model")
                return await super().generate(*arguments, **named)

        execute: Callable[..., Awaitable[ToolResult]] = installation.server.execute

        async def executed(*arguments: Any, **named: Any) -> ToolResult:
            await use_both_databases("tool")
            return await execute(*arguments, **named)

        installation.server.execute = executed  # type: ignore[method-assign]  # a fault takes the place of the method
        await installation.engine(UsesTheDatabases([calls(ADD), says("Added.")])).run(asks())
        assert awaited == ["model", "tool", "model"]


async def test_log_lines_contain_no_text_of_a_user_model_or_tool(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    forged = "\r\n2026-01-05 ERROR root: forged \x1b[31m"

    async def broken(*_: Any, **__: Any) -> ToolResult:
        raise Fault

    server = TableServer({"list_tasks": failed(ToolErrorCode.DATABASE_ERROR, forged)})
    server.settle = broken  # type: ignore[method-assign]  # a fault takes the place of the method
    server.answers["add_task"] = broken
    script = [calls((f"tool{forged}", {"x": forged}), LIST, ADD, content=forged), LLMError(forged, code=f"X{forged}")]
    await LLMAgentEngine(Adversary(script), server, CONSTITUTION).run(asks(f"hi{forged}", conversation_id="c1"))
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("graph_agent")]
    assert lines != []
    assert [line for line in lines if "forged" in line or "\n" in line or "\x1b" in line or CANARY in line] == []
