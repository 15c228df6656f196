"""Middleware for LangChain's `create_agent`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import takewhile
from typing import Any

from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
from langchain_core.messages import AIMessage, AnyMessage, ToolCall, ToolMessage
from langgraph.config import get_config
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.runtime import Runtime
from langgraph.types import Command

from graph_agent.integrations.langchain.events import tool_message
from graph_agent.integrations.langchain.turns import LOCAL_USER, Roles, TaskTurns, User
from graph_agent.llm.openai_compatible import build_tools
from graph_agent.llm.wire import OPENAI_NAME, WireNames
from graph_agent.models.decision import Message
from graph_agent.models.llm import FunctionCall
from graph_agent.models.origin import Origin
from graph_agent.models.record import CallDisposition, ToolInvocation
from graph_agent.models.tools import ToolResult
from graph_agent.reply.text import visible
from graph_agent.tools.parts import AnswerParts, collected_parts, media
from graph_agent.turn.engine import LLMAgentEngine
from graph_agent.turn.finished import FinishedTurn

_MAX_READ = 20_000
"""The number of characters of a result of another tool in which copies are found."""


class GovernedTools(AgentMiddleware[Any, Any, Any]):
    """Gives an agent the tools of an engine: the calls of each model response are one decision without a model.

    The model is offered exactly the granted tools. Guard, confirmation, ledger and record are those of the engine; a
    confirmation is an `interrupt`, as in `as_node`. A call of any other tool of the agent is refused. The agent runs with
    `ainvoke` or `astream` only.
    """

    def __init__(self, engine: LLMAgentEngine, *, user: User = LOCAL_USER, roles: Roles = ()) -> None:
        """`user` and `roles` must come from your authentication: a client may set every other value of the configuration."""
        super().__init__()
        self._engine = engine
        self._user = user
        self._roles = roles

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        declared = (await self._engine.prepare()).policy.declarations
        # Declarations instead of tools: nothing but the engine can run one, and a changed list needs no other agent.
        tools: list[Any] = list(build_tools(declared, WireNames(OPENAI_NAME, declared)))
        return await handler(request.override(tools=tools))

    async def aafter_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:  # noqa: ARG002 (LangChain's signature)
        """Answer every call of the last message: make it, refuse it, or ask the user first."""
        requested = _open_calls(state["messages"])
        if not requested:
            return None
        declared = (await self._engine.prepare()).policy.declarations
        names = WireNames(OPENAI_NAME, declared)
        turns = TaskTurns(self._engine, self._user, self._roles, get_config(), position=len(state["messages"]))
        with collected_parts() as parts:
            called = [FunctionCall(names.real(one["name"]), one["args"], one["id"]) for one in requested]
            judged = await turns.call(called, list(_read_of_others(state["messages"])))
            answered = await turns.answered(judged, texts=False)
        return {"messages": list(_answers(requested, [judged, *answered], parts))}

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]],  # noqa: ARG002 (never called)
    ) -> ToolMessage | Command[Any]:
        """Refuse a call that reached the agent's own executor, past the guard."""
        call, refused = request.tool_call, ToolResult(success=False, error="this call was not judged")
        return tool_message(call["name"], call["id"], refused, artifact={"decision_id": ""})


def _open_calls(messages: list[AnyMessage]) -> list[ToolCall]:
    """Return the calls of the last message of the model that have no answer yet."""
    after = list(takewhile(lambda message: not isinstance(message, AIMessage), reversed(messages)))
    last = messages[-len(after) - 1] if len(after) < len(messages) else None
    answered = {message.tool_call_id for message in after if isinstance(message, ToolMessage)}
    return [call for call in last.tool_calls if call["id"] not in answered] if isinstance(last, AIMessage) else []


def _read_of_others(messages: Sequence[AnyMessage]) -> Iterator[Message]:
    """Yield the results of tools that are none of the engine's: they taint the calls after them."""
    for message in messages:
        ours = isinstance(message, ToolMessage) and isinstance(message.artifact, dict) and "decision_id" in message.artifact
        if isinstance(message, ToolMessage) and not ours:
            yield Message(role="assistant", content=visible(message.text)[:_MAX_READ], origin=Origin.FOREIGN)


def _answers(requested: list[ToolCall], turns: Sequence[FinishedTurn], parts: AnswerParts) -> Iterator[ToolMessage]:
    """Yield the answer to each call: that of the last of `turns` that judged it.

    The model reads a line about each image, sound and file, which many models do not take; the artifact has them.
    """
    for call, (turn, made) in zip(requested, _judged(len(requested), turns), strict=True):
        result = ToolResult(success=False, error=turn.decision.reply) if made is None else made.tool_result
        decision_id = turn.record.header.decision_id
        blocks = parts.of_call.get((decision_id, 0 if made is None else made.sequence), [])
        files = [found for block in blocks if (found := media(block)) is not None]
        artifact = {"decision_id": decision_id, **({"files": files} if files else {})}
        yield tool_message(call["name"], call["id"], result, artifact=artifact)


_ASKED = (CallDisposition.AWAITING, CallDisposition.WAITS)


def _judged(count: int, turns: Sequence[FinishedTurn]) -> list[tuple[FinishedTurn, ToolInvocation | None]]:
    """Return for each of `count` calls the last turn that judged it, and what became of it there; None if it was not reached.

    The first turn has all calls, each of the others those that the turn before it asked about, in the same order.
    """
    judged: dict[int, tuple[FinishedTurn, ToolInvocation | None]] = {}
    asked = list(range(count))
    for turn in turns:
        invocations = {one.sequence: one for one in turn.record.invocations}
        judged |= {call: (turn, invocations.get(sequence)) for sequence, call in enumerate(asked, 1)}
        asked = [call for call in asked if (made := judged[call][1]) and made.disposition in _ASKED]
    return [judged[call] for call in range(count)]
