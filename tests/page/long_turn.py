"""A turn of five rounds and twelve calls: two are refused, one gets no answer. Its clock moves only as the calls take time."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import Awaitable, Callable
from typing import Any

from graph_agent.bootstrap.runtime import Runtime
from graph_agent.clock import ManualClock
from graph_agent.errors import ToolErrorCode
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.llm import FunctionCall, LLMMessage, LLMResponse, TokenUsage, ToolDeclaration
from graph_agent.models.tools import ToolResult
from tests.chat.environment import Environment
from tests.scripted_turns import TableServer, failed

TASK = "0d2f4c1e-6a0b-4a53-9d39-0a4c3c1b7f52"
NO_ANSWER = "pay the rent"
ROUNDS: list[list[tuple[str, dict[str, Any]]]] = [
    [("list_tasks", {}), ("add_task", {"description": "buy bread"}), ("add_task", {"description": "call mom"})],
    [
        ("add_task", {"description": "book a table"}),
        ("list_tasks", {"status": "all"}),
        ("add_task", {"description": "fix the tap"}),
    ],
    [("complete_task", {"task_id": TASK}), ("add_task", {"description": NO_ANSWER})],
    [("list_tasks", {"status": "pending"}), ("update_task", {"task_id": TASK, "description": "buy rye bread"})],
    [("drop_database", {"name": "tasks"}), ("list_tasks", {"user_id": "bob"})],
]
_MODEL_MS = (1240, 860, 1710, 640, 980)
_TOOL_MS = {"list_tasks": 35, "add_task": 120, "complete_task": 85, "update_task": 210}
_NO_ANSWER_MS = 1500


class _Model(ScriptedAdapter):
    """Scripted responses that take their time by the clock, and wait for the test if there is a gate."""

    def __init__(self, clock: ManualClock, gate: threading.Semaphore | None) -> None:
        super().__init__([_response(batch, 400 + 90 * number) for number, batch in enumerate(ROUNDS)])
        self._clock = clock
        self._gate = gate
        self._times = iter(_MODEL_MS)

    async def generate(
        self, messages: list[LLMMessage], tools: list[ToolDeclaration], *args: Any, **kwargs: Any
    ) -> LLMResponse:
        while self._gate is not None and not await asyncio.to_thread(self._gate.acquire, timeout=0.05):
            pass
        self._clock.advance(milliseconds=next(self._times))
        return await super().generate(messages, tools, *args, **kwargs)


def _response(batch: list[tuple[str, dict[str, Any]]], tokens: int) -> LLMResponse:
    asked = [FunctionCall(name=name, arguments=arguments) for name, arguments in batch]
    usage = TokenUsage(prompt_tokens=tokens - 20, completion_tokens=20, total_tokens=tokens)
    return LLMResponse(function_calls=asked, finish_reason="tool_calls", usage=usage)


def long_turn(environment: Environment, gate: threading.Semaphore | None = None) -> Runtime:
    """Return a runtime that answers one message; with a gate each response of the model waits for a release."""
    clock = ManualClock()
    environment.use_clock(clock)

    def answer(name: str) -> Callable[[dict[str, Any]], ToolResult | Awaitable[ToolResult]]:
        def answered(arguments: dict[str, Any]) -> ToolResult:
            if arguments.get("description") == NO_ANSWER:
                clock.advance(milliseconds=_NO_ANSWER_MS)
                return failed(ToolErrorCode.TIMEOUT_ERROR, "the server did not answer in time")
            clock.advance(milliseconds=_TOOL_MS[name])
            task = {"id": TASK, "description": arguments.get("description", "buy bread"), "status": "pending"}
            return ToolResult(success=True, data={"tasks": [task]} if name == "list_tasks" else {"task": task})

        return answered

    # Without a ledger an outcome that is not known stays so.
    tools: Any = TableServer({name: answer(name) for name in _TOOL_MS}, ledger=False)
    return dataclasses.replace(environment, tools=tools).runtime(_Model(clock, gate))
