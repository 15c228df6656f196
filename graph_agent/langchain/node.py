"""A node for a graph of LangGraph."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig

from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.langchain.turns import LOCAL_USER, Roles, TaskTurns, User
from graph_agent.models.decision import DecisionContext, Message, content_problem
from graph_agent.turn.engine import LLMAgentEngine

Node = Callable[[Any, RunnableConfig], Awaitable[dict[str, Any]]]


def as_node(engine: LLMAgentEngine, *, user: User = LOCAL_USER, roles: Roles = ()) -> Node:
    """Return a node that answers the last of the state's `messages`, which is the user's.

    It adds the reply as a message whose `response_metadata["decision"]` has the decision. A confirmation is an `interrupt` with
    the exact question; `Command(resume=True)` or `Command(resume="no")` answers it. A thread is a conversation. `user` and
    `roles` must come from your authentication: a client may set every other value of the configuration. The node raises
    `ServiceError` for a last message that cannot be a turn.
    """

    async def node(state: Any, config: RunnableConfig) -> dict[str, Any]:
        turns = TaskTurns(engine, user, roles, config)
        *earlier, last = state["messages"] or [None]
        text = last.text if isinstance(last, HumanMessage) else ""
        if problem := content_problem(text):
            raise ServiceError(ServiceErrorCode.VALIDATION_ERROR, problem)
        context = DecisionContext(
            user_id=turns.user_id,
            message=text,
            conversation_id=turns.conversation_id,
            message_history=_history(earlier),
        )
        finished = await turns.confirmed(await turns.run(context), texts=True)
        decision = finished.decision
        reply = AIMessage(decision.reply, id=decision.decision_id, response_metadata={"decision": decision.to_json()})
        return {"messages": [reply]}

    return node


def _history(messages: Sequence[BaseMessage]) -> list[Message]:
    """Return what the user and the assistant said; calls and their results are left out."""
    return [
        Message(
            role="user" if isinstance(message, HumanMessage) else "assistant",
            content=message.text,
            decision_type=message.response_metadata.get("decision", {}).get("decision_type"),
        )
        for message in messages
        if isinstance(message, HumanMessage | AIMessage) and message.text.strip()
    ]
