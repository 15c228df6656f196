"""Pydantic AI: an agent whose model is a function. It stores nothing by itself; an application keeps its messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic_ai import Agent, Tool
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from benchmarks.peers.turns import ANSWER, MESSAGE, PROMPT, TOOL, Conversation, Turn, act
from graph_agent.task_server.declarations import TASK_TOOLS

PACKAGE = "pydantic-ai-slim"


def _agent(rounds: int) -> Agent[None, str]:
    def respond(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        done = 0
        for message in reversed(messages):
            if isinstance(message, ModelRequest) and any(isinstance(part, UserPromptPart) for part in message.parts):
                break
            done += isinstance(message, ModelResponse)
        if done < rounds:
            return ModelResponse(parts=[ToolCallPart(TOOL, {"description": f"task {done}"}, tool_call_id=str(done))])
        return ModelResponse(parts=[TextPart(ANSWER)])

    tools = [Tool.from_schema(act, each.name, each.description, each.parameters) for each in TASK_TOOLS]
    return Agent(FunctionModel(respond), system_prompt=PROMPT, tools=tools)


def turn_of(rounds: int, texts: Sequence[str] = ()) -> Turn:
    """Return a function that runs one turn after `texts`."""
    agent = _agent(rounds)
    history: list[ModelMessage] = [
        ModelRequest(parts=[UserPromptPart(text)]) if number % 2 == 0 else ModelResponse(parts=[TextPart(text)])
        for number, text in enumerate(texts)
    ]

    async def turn() -> Any:
        return await agent.run(MESSAGE, message_history=history)

    return turn


def conversation(*_: object) -> Conversation:
    """Return one conversation whose new messages are kept as JSON after each turn, as the documentation shows."""
    agent = _agent(1)
    history: list[ModelMessage] = []

    async def turn() -> int:
        result = await agent.run(MESSAGE, message_history=history)
        history.extend(result.new_messages())
        return len(ModelMessagesTypeAdapter.dump_json(result.new_messages()))

    return turn
