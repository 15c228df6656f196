"""Turns inside a LangGraph task, and a node that runs them: each runs once, whatever is resumed, retried or run again.

LangGraph runs a task again from its start when it is resumed. The id of each decision is derived from user, thread, task and
request: a turn that is closed is read from the record, one that a dead process left open is continued from it, and one that is
running in this process is joined. Another request in the same task is another turn.

LangGraph gives the values of resumes to the interrupts of a task in their order, and one that was used already also to a later
interrupt: of the same task, of the next task of a subgraph, of a fork. So a value counts only if it names its question.

A question waits in the inbox of its user as well: whatever resumes the graph reads what became of it there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final
from uuid import UUID, uuid5

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.types import interrupt

from graph_agent.chat.approvals import ApprovalService
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.integrations.langchain.events import NodeEvents
from graph_agent.models.canonical import canonical_json
from graph_agent.models.decision import (
    STILL_WAITING,
    AnswerState,
    ConfirmationAnswer,
    DecisionContext,
    Message,
    OutcomeCategory,
    PendingAction,
    content_problem,
)
from graph_agent.models.llm import FunctionCall
from graph_agent.models.origin import Origin
from graph_agent.models.record import DecisionRecord
from graph_agent.policy.consent import Consent, read_consent
from graph_agent.reply.fixed import NO_ANSWER_TO_THIS
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

    def __init__(self, engine: LLMAgentEngine, user: User, roles: Roles, config: RunnableConfig, position: int) -> None:
        """`position` is the number of messages up to the one that the turns answer."""
        configurable = config.get("configurable", {})
        self._engine = engine
        self._config = config
        # The namespace of the task ends with its id, which depends on the checkpoint that it started from.
        self.user_id = user if isinstance(user, str) else user(config)
        # With the user, so that a turn of a thread is read from the record for its user only.
        self._key = [self.user_id, configurable.get("thread_id"), configurable.get("checkpoint_ns", ""), position]
        self._last_id = ""
        """The id of the turn before the next one."""
        self._roles = tuple(roles(config) if callable(roles) else roles)
        self.conversation_id = str(configurable.get("thread_id") or _id_of(self._key))

    async def run(self, context: DecisionContext) -> FinishedTurn:
        """Run the turn of a request that follows the last one, or return what it was."""
        # Without the roles, which may change until the task is run again: what was decided stays decided.
        return await self._run(_id_of([*self._key, self._last_id, context.to_json()]), context)

    async def call(self, called: list[FunctionCall], read: Sequence[Message] = ()) -> FinishedTurn:
        """Make a decision without a model, or return what it was. `read` is what its agent has read of others."""
        context = DecisionContext.for_calls(self.user_id, called, self.conversation_id)
        return await self.run(context.replace(message_history=list(read)) if read else context)

    async def answered(self, asked: FinishedTurn, *, texts: bool) -> list[FinishedTurn]:
        """Interrupt the graph while the question of a turn waits for people, until none does.

        Returns the turns that have closed the questions in their order; empty if nothing was asked.

        What became of a question is read where it is stored, so that an answer at any front door counts. A resume answers as
        `Command(resume=...)` says; with `texts`, a text that is neither yes nor no is a message to the model. An answer after
        the lifetime of the action does nothing: its object is looked up again, and the user is asked anew. Whatever does not
        name the open question, or was its answer before, does nothing either, and no resume approves anything.
        """
        closed: list[FinishedTurn] = []
        notice: str | None = None
        while (decision := asked.decision).pending_action is not None or decision.approval is not None:
            if (turn := await self._closing(asked)) is None and decision.pending_action is None:
                interrupt(_request(asked))
            elif turn is None:
                turn, notice = await self._asked(asked, notice, texts=texts, earlier=closed)
            if turn is not None:
                asked = turn
                closed.append(turn)
        return closed

    async def _closing(self, asked: FinishedTurn) -> FinishedTurn | None:
        """Return the turn that has closed the question of a turn, at whichever front door; None if the question waits."""
        pending, approval = asked.decision.pending_action, asked.decision.approval
        if pending is None:
            assert approval is not None, "the decision asks nothing"
            requests = ApprovalService.of_engine(self._engine)
            assert requests is not None, "a policy that counts approvals is not used without a store"
            record = await requests.closing(approval.id)
            return None if record is None else FinishedTurn(record)
        store = self._engine.ports.confirmations
        ended = await store.ended(pending.id, self.user_id)
        if ended is None:
            await store.ask(pending, self.user_id, asked.record.header.decision_id)
            return None
        if ended.decision_id is None:
            withdrawn = ConfirmationAnswer(pending_action=pending.id, yes=False, state=AnswerState.WITHDRAWN)
            return await self._answer(asked, pending, withdrawn)
        found = await self._engine.audit.load(ended.decision_id)
        if not isinstance(found, DecisionRecord):
            return None
        self._last_id = ended.decision_id
        return FinishedTurn(found)

    async def _asked(
        self, asked: FinishedTurn, notice: str | None, *, texts: bool, earlier: Sequence[FinishedTurn]
    ) -> tuple[FinishedTurn | None, str | None]:
        """Interrupt the graph with a question to its user; return the turn of the answer, or the notice why it was none."""
        pending = asked.decision.pending_action
        assert pending is not None
        given = interrupt(_question(asked, pending, notice), response_schema=_answer_schema(pending))
        answer = _read_answer(given, pending)
        if answer is None:
            return None, NO_ANSWER_TO_THIS
        if isinstance(answer, str) and ((problem := content_problem(answer)) is not None or not texts):
            return None, problem
        turn = await self._answer(asked, pending, answer)
        # LangGraph has given the value of an earlier interrupt once more.
        repeated = turn.decision.decision_id in {one.decision.decision_id for one in earlier}
        return (None, NO_ANSWER_TO_THIS) if repeated else (turn, None)

    async def _answer(self, asked: FinishedTurn, pending: PendingAction, answer: ConfirmationAnswer | str) -> FinishedTurn:
        """Run the turn of an answer, or return what it was; after a late yes also the one that asks anew."""
        by_id = None if isinstance(answer, str) else answer
        said = answer if by_id is None else by_id.to_json()
        finished = await self._run(_id_of([*self._key, pending.id, said]), asked.answered(answer))
        void = finished.decision.outcome_category is OutcomeCategory.USER_INPUT
        # The task has used its answer, even if the question could be answered elsewhere.
        late = not pending.can_be_answered(finished.record.ended_at)
        if by_id is not None and by_id.yes and void and (late or finished.decision.void_answer in STILL_WAITING):
            finished = await self.call([FunctionCall(one.tool_name, one.arguments) for one in pending.each])
        return finished

    async def _run(self, decision_id: str, context: DecisionContext) -> FinishedTurn:
        events = NodeEvents(await self._engine.prepare(), self._config, self._engine.model)
        async with events.reported():
            run: TurnHandle[Any] | None = self._engine.running(decision_id)
            if run is None:
                start = TurnStart(context.replace(roles=self._roles), resumes=True)
                run = self._engine.start(start, PlainSession(), decision_id, user_id=self.user_id, hooks=[events])
            finished: FinishedTurn = await run.result()
        self._last_id = decision_id
        return finished


def _id_of(key: Sequence[Any]) -> str:
    return str(uuid5(_NAMESPACE, canonical_json(list(key))))


def _question(finished: FinishedTurn, pending: PendingAction, notice: str | None) -> dict[str, Any]:
    """Return the value of the interrupt: the exact question, and everything that a yes would confirm.

    `notice` says why what was given before answers nothing.
    """
    action = {name: value for name, value in pending.to_json().items() if name != "signature"}
    asked = {"question": finished.decision.reply, "pending_action": action}
    return asked if notice is None else {"notice": notice, **asked}


def _request(finished: FinishedTurn) -> dict[str, Any]:
    """Return the value of the interrupt while a call waits for other people: whatever resumes it makes the graph look again."""
    approval = finished.decision.approval
    assert approval is not None
    return {"approval": approval.id, "reply": finished.decision.reply}


def _answer_schema(pending: PendingAction) -> dict[str, Any]:
    """Return the JSON Schema of an answer, for clients that show a form."""
    return {
        "type": "object",
        "properties": {
            "pending_action": {"const": pending.id},
            "yes": {"type": "boolean"},
            "text": {"type": "string"},
            "read": {"type": "string"},
        },
        "required": ["pending_action"],
        "oneOf": [{"required": ["yes"]}, {"required": ["text"]}],
        "additionalProperties": False,
    }


def _read_answer(given: Any, pending: PendingAction) -> ConfirmationAnswer | str | None:
    """Return the yes or no, or the other text, in the value of a resume; None if it is no answer to `pending`."""
    if not isinstance(given, dict) or given.get("pending_action") != pending.id or ("yes" in given) == ("text" in given):
        return None
    yes, text = given.get("yes"), given.get("text")
    if isinstance(text, str):
        yes = {Consent.YES: True, Consent.NO: False}.get(read_consent(text, pending.described), text)
    if isinstance(yes, bool):
        read = pending.whole_digest if given.get("read") == pending.whole_digest else ""
        return ConfirmationAnswer(pending_action=pending.id, yes=yes, read=read)
    return yes if isinstance(text, str) else None


Node = Callable[[Any, RunnableConfig], Awaitable[dict[str, Any]]]


def as_node(engine: LLMAgentEngine, *, user: User = LOCAL_USER, roles: Roles = ()) -> Node:
    """Return a node that answers the last of the state's `messages`, which is the user's.

    It adds the reply as a message whose `response_metadata["decision"]` has the decision. A confirmation is an `interrupt` with
    the exact question; `Command(resume={"pending_action": ID, "yes": True})` answers it, with the id from the interrupt's
    value. A thread is a conversation, and in one task a message at one place of it is answered once. `user` and `roles` must
    come from your authentication: a client may set every other value of the configuration. The node raises `ServiceError` for
    a last message that cannot be a turn.
    """

    async def node(state: Any, config: RunnableConfig) -> dict[str, Any]:
        *earlier, last = state["messages"] or [None]
        turns = TaskTurns(engine, user, roles, config, position=len(state["messages"]))
        text = last.text if isinstance(last, HumanMessage) else ""
        if problem := content_problem(text):
            raise ServiceError(ServiceErrorCode.VALIDATION_ERROR, problem)
        context = DecisionContext(
            user_id=turns.user_id, message=text, conversation_id=turns.conversation_id, message_history=_history(earlier)
        )
        asked = await turns.run(context)
        decision = [asked, *await turns.answered(asked, texts=True)][-1].decision
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
            # Another agent of the graph may have read anything.
            origin=None if isinstance(message, HumanMessage) or "decision" in message.response_metadata else Origin.FOREIGN,
        )
        for message in messages
        if isinstance(message, HumanMessage | AIMessage) and message.text.strip()
    ]
