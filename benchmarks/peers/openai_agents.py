"""OpenAI's Agents SDK, with its `SQLiteSession` where a conversation is stored."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import Any

from agents import Agent, FunctionTool, Model, ModelResponse, RunConfig, Runner, SQLiteSession, Usage
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from benchmarks.peers.files import growth
from benchmarks.peers.turns import ANSWER, MESSAGE, PROMPT, TOOL, Conversation, Turn, act
from graph_agent.task_server.declarations import TASK_TOOLS

PACKAGE = "openai-agents"
_CONFIG = RunConfig(tracing_disabled=True)


class _InstantModel(Model):
    """Calls the tool in so many rounds, then says one sentence."""

    def __init__(self, rounds: int) -> None:
        self._rounds = rounds
        # An id that came before in the conversation is taken for the same item.
        self._ids = map(str, itertools.count())

    async def get_response(self, *_: Any, input: Any, **__: Any) -> ModelResponse:  # noqa: A002 - the name is theirs
        done = 0
        for item in reversed([] if isinstance(input, str) else input):
            if item.get("role") == "user":
                break
            done += item.get("type") == "function_call"
        return ModelResponse(output=[self._item(done)], usage=Usage(), response_id=None)

    def _item(self, done: int) -> Any:
        if done < self._rounds:
            arguments = json.dumps({"description": f"task {done}"})
            return ResponseFunctionToolCall(arguments=arguments, call_id=next(self._ids), name=TOOL, type="function_call")
        text = ResponseOutputText(annotations=[], text=ANSWER, type="output_text")
        return ResponseOutputMessage(id=next(self._ids), content=[text], role="assistant", status="completed", type="message")

    def stream_response(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError


def _agent(rounds: int) -> Agent[None]:
    async def invoke(_: Any, arguments: str) -> str:
        return await act(**json.loads(arguments))

    tools = [
        FunctionTool(each.name, each.description, dict(each.parameters), invoke, strict_json_schema=False)
        for each in TASK_TOOLS
    ]
    return Agent(name="tasks", instructions=PROMPT, tools=[*tools], model=_InstantModel(rounds))


def turn_of(rounds: int, texts: Sequence[str] = ()) -> Turn:
    """Return a function that runs one turn after `texts`."""
    agent = _agent(rounds)
    history: list[Any] = [
        {"role": "user" if number % 2 == 0 else "assistant", "content": text} for number, text in enumerate(texts)
    ]

    async def turn() -> Any:
        return await Runner.run(agent, [*history, {"role": "user", "content": MESSAGE}], run_config=_CONFIG)

    return turn


def conversation(folder: str, _: object) -> Conversation:
    """Return one conversation of a `SQLiteSession`."""
    agent = _agent(1)
    session = SQLiteSession("c", f"{folder}/session.db")

    async def turn() -> int:
        with growth(folder) as grown:
            await Runner.run(agent, MESSAGE, session=session, run_config=_CONFIG)
        return grown()

    return turn
