"""Turns inside a LangGraph task, and a node that runs them: each runs once, whatever is resumed, retried or run again.

LangGraph runs a task again from its start when it is resumed. The id of each decision is derived from user, thread and task: a
turn that is closed is read from the record, one that a dead process left open is continued from it, and one that is running in
this process is joined.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final
from uuid import UUID, uuid5

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.types import interrupt

from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.langchain.events import NodeEvents
from graph_agent.models.canonical import canonical_json
from graph_agent.models.decision import (
    ConfirmationAnswer,
    DecisionContext,
    Message,
    OutcomeCategory,
    PendingAction,
    ShownQuestion,
    content_problem,
)
from graph_agent.models.llm import FunctionCall
from graph_agent.policy.consent import Consent, read_consent
from graph_agent.turn.engine import LLMAgentEngine
from graph_agent.turn.finished import FinishedTurn
from graph_agent.turn.handle import TurnHandle
from graph_agent.turn.run import PlainSession, TurnStart

User = str | Callable[[RunnableConfig], str]
"""The user of the turns, or a function that returns the user of a run."""

Roles = Sequence[str] | Callable[[RunnableConfig], Sequence[str]]
"""The roles of the user, which conditions can name, or a function that returns those of a run."""

LOCAL_USER: Final = "local"
_NAMESPACE: Final = UUID("5f2dbb1e-7a36-4b39-9d5e-2c1f9b6f3f0a")


class TaskTurns:
    """The turns of one task of LangGraph, in their order."""

    def __init__(self, engine: LLMAgentEngine, user: User, roles: Roles, config: RunnableConfig) -> None:
        configurable = config.get("configurable", {})
        self._engine = engine
        self._config = config
        # The namespace of the task ends with its id, which depends on the checkpoint that it started from.
        self.user_id = user if isinstance(user, str) else user(config)
        # With the user, so that a turn of a thread is read from the record for its user only.
        self._key = [self.user_id, configurable.get("thread_id"), configurable.get("checkpoint_ns", "")]
        self._number = 0
        self._roles = tuple(roles(config) if callable(roles) else roles)
        self.conversation_id = str(configurable.get("thread_id") or self._decision_id())

    async def run(self, context: DecisionContext) -> FinishedTurn:
        """Run the next turn of the task, or return what it was."""
        self._number += 1
        decision_id = self._decision_id()
        events = NodeEvents(await self._engine.prepare(), self._config, self._engine.model)
        async with events.reported():
            run: TurnHandle[Any] | None = self._engine.running(decision_id)
            if run is None:
                start = TurnStart(context.replace(roles=self._roles), resumes=True)
                run = self._engine.start(start, PlainSession(), decision_id, user_id=self.user_id, hooks=[events])
            finished: FinishedTurn = await run.result()
        return finished

    async def call(self, called: list[FunctionCall]) -> FinishedTurn:
        """Make a decision without a model, or return what it was."""
        return await self.run(DecisionContext.for_calls(self.user_id, called, self.conversation_id))

    async def confirmed(self, finished: FinishedTurn, *, texts: bool) -> FinishedTurn:
        """Interrupt the graph with the question of a turn, and answer it as `Command(resume=...)` says, until none is open.

        With `texts`, a text that is neither yes nor no is a message to the model. An answer after the lifetime of the action
        does nothing: its object is looked up again, and the user is asked anew.
        """
        while (pending := finished.decision.pending_action) is not None:
            given = interrupt(_question(finished, pending))
            answers = _by_id(given, pending)
            if answers is None and not (texts and isinstance(given, str) and given.strip()):
                continue
            asked = finished.record.header.context
            finished = await self.run(
                DecisionContext(
                    user_id=self.user_id,
                    message=given if answers is None else "Yes." if answers.yes else "No.",
                    conversation_id=self.conversation_id,
                    message_history=asked.message_history,
                    pending_confirmation=pending,
                    answers=answers,
                    shown=ShownQuestion(pending_action=pending.id),
                )
            )
            void = finished.decision.outcome_category is OutcomeCategory.USER_INPUT
            if answers is not None and answers.yes and void and not pending.can_be_answered(finished.record.ended_at):
                finished = await self.call([FunctionCall(pending.tool_name, pending.arguments)])
        return finished

    def _decision_id(self) -> str:
        return str(uuid5(_NAMESPACE, canonical_json([*self._key, self._number])))


def _question(finished: FinishedTurn, pending: PendingAction) -> dict[str, Any]:
    """Return the value of the interrupt: the exact question, and everything that a yes would confirm."""
    action = {name: value for name, value in pending.to_json().items() if name != "signature"}
    return {"question": finished.decision.reply, "pending_action": action}


def _by_id(given: Any, pending: PendingAction) -> ConfirmationAnswer | None:
    """Return the yes or no in the value of a resume; None if it is neither."""
    read = ""
    if isinstance(given, dict):
        given, read = given.get("yes"), str(given.get("read", ""))
    if isinstance(given, str):
        given = {Consent.YES: True, Consent.NO: False}.get(read_consent(given))
    return ConfirmationAnswer(pending_action=pending.id, yes=given, read=read[:64]) if isinstance(given, bool) else None


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
            user_id=turns.user_id, message=text, conversation_id=turns.conversation_id, message_history=_history(earlier)
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
