"""Microsoft's Agent Framework. A session is serialized by the application."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from agent_framework import Agent, BaseChatClient, ChatResponse, Content, FunctionInvocationLayer, FunctionTool, Message

from benchmarks.peers.turns import ANSWER, MESSAGE, PROMPT, TOOL, Conversation, Turn, act
from graph_agent.task_server.declarations import TASK_TOOLS

PACKAGE = "agent-framework-core"


class _InstantClient(FunctionInvocationLayer[Any], BaseChatClient[Any]):
    """Calls the tool in so many rounds, then says one sentence."""

    def __init__(self, rounds: int) -> None:
        super().__init__()
        self._rounds = rounds

    async def _inner_get_response(self, *, messages: Sequence[Message], **_: Any) -> ChatResponse[Any]:
        done = 0
        for message in reversed(messages):
            if message.role == "user":
                break
            done += any(content.type == "function_call" for content in message.contents)
        content = (
            Content.from_function_call(call_id=str(done), name=TOOL, arguments={"description": f"task {done}"})
            if done < self._rounds
            else Content.from_text(ANSWER)
        )
        return ChatResponse(messages=[Message(role="assistant", contents=[content])])


def _agent(rounds: int) -> Agent[Any]:
    tools = [
        FunctionTool(name=each.name, description=each.description, func=act, input_model=dict(each.parameters))
        for each in TASK_TOOLS
    ]
    return Agent(client=_InstantClient(rounds), instructions=PROMPT, tools=[*tools])


def turn_of(rounds: int, texts: Sequence[str] = ()) -> Turn:
    """Return a function that runs one turn after `texts`."""
    agent = _agent(rounds)
    history = [
        Message(role="user" if number % 2 == 0 else "assistant", contents=[Content.from_text(text)])
        for number, text in enumerate(texts)
    ]

    async def turn() -> Any:
        return await agent.run([*history, Message(role="user", contents=[Content.from_text(MESSAGE)])])

    return turn


def conversation(*_: object) -> Conversation:
    """Return one conversation whose whole session is serialized after each turn, as the documentation shows."""
    agent = _agent(1)
    session = agent.create_session()

    async def turn() -> int:
        await agent.run(MESSAGE, session=session)
        return len(json.dumps(session.to_dict()))

    return turn
