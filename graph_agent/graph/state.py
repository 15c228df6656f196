"""The state of a turn: one frozen object of plain data. A node returns a changed copy."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from graph_agent.graph.ports import TurnPorts
from graph_agent.models.decision import (
    AgentDecision,
    AnswerState,
    ApprovalRequest,
    DecisionContext,
    OutcomeCategory,
    PendingAction,
)
from graph_agent.models.llm import LLMErrorCause, LLMErrorCode, LLMRequest, LLMResponse, TokenUsage
from graph_agent.models.prompt import Prompt
from graph_agent.models.record import RecordHeader
from graph_agent.models.undo import UndoneCall
from graph_agent.policy.past_call import PastCall
from graph_agent.policy.snapshot import PolicySnapshot
from graph_agent.policy.turn_call import TurnCall
from graph_agent.reply.authored import Parts, plain, reattributed


class EndingKind(StrEnum):
    """The way in which a turn ends. BUILD_DECISION derives the decision type and the outcome category from it."""

    ANSWER = "answer"
    QUESTION = "question"
    REFUSAL = "refusal"
    FAILURE = "failure"
    CAP = "cap"
    AWAITING = "awaiting"
    CONFIRMED = "confirmed"
    CALLED = "called"
    """The calls of a decision without a model were judged, and the permitted ones were made."""
    DECLINED = "declined"
    VOID_ANSWER = "void_answer"
    """The user answered a confirmation by id, but that one can no longer be answered."""


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of a turn, set by the last node before the decision. `reason` belongs to a question, `error` to a failure."""

    kind: EndingKind
    text: str = ""
    reason: OutcomeCategory | None = None
    error: LLMErrorCode | None = None
    parts: Parts = ()
    """The parts of `text` by author. An added state may replace the text without them; see `authored`."""
    void_answer: AnswerState | None = None
    """For VOID_ANSWER: the state of the question."""
    cause: LLMErrorCause | None = None
    """For a failure: why a response without an error could not be used, if that is known."""

    @classmethod
    def of(
        cls, kind: EndingKind, parts: Parts, reason: OutcomeCategory | None = None, error: LLMErrorCode | None = None
    ) -> Ending:
        """Return the end whose text is `parts`."""
        return cls(kind, plain(parts), reason, error, parts)

    @property
    def authored(self) -> Parts:
        """The text by author."""
        return reattributed(self.text, self.parts)


@dataclass(frozen=True)
class Turn:
    """The complete state of a turn."""

    context: DecisionContext
    decision_id: str
    started_at: datetime
    """The time when the message arrived, also if another process continues the turn later."""
    outcome: str = ""
    prompt: Prompt | None = None
    response: LLMResponse | None = None
    iterations: int = 0
    adapter_calls: int = 0
    usage: TokenUsage | None = None
    calls: tuple[TurnCall, ...] = ()
    fact_reads: tuple[PastCall, ...] = ()
    """The reads that the runtime has made for conditions. They are no calls of the turn, but count for limits."""
    repeating: bool = False
    """True once a round only repeated calls, with the same results: then the model may only answer."""
    confirmed: PendingAction | None = None
    """The action that the user has confirmed: EXECUTE_TOOLS runs exactly it."""
    agreed: PendingAction | None = None
    """The plan that the user has agreed to in this turn: the model goes on."""
    pending: PendingAction | None = None
    """The action that the user is asked to confirm."""
    approval: ApprovalRequest | None = None
    """The request for the approval of other people with which the turn ends."""
    report: Parts = ()
    """The report of the confirmed calls in the words of code, if the model goes on from them."""
    ending: Ending | None = None
    notices: tuple[str, ...] = ()
    """Lines that code adds beside the reply, such as "Not done: …"."""
    decision: AgentDecision | None = None

    @property
    def request(self) -> LLMRequest | None:
        """The request to the model."""
        return None if self.prompt is None else self.prompt.request

    @property
    def has_unwanted_plan(self) -> bool:
        """True if the message is no yes to the plan that the user was asked about: then it gets no second one."""
        asked = self.context.pending_confirmation
        return asked is not None and asked.plan is not None and self.agreed is None

    @property
    def went_on_from(self) -> PendingAction | None:
        """The question that the turn has gone on from: what was changed before it is not changed again."""
        return self.confirmed or self.agreed

    @property
    def unused_yes(self) -> PendingAction | None:
        """The action that the user has confirmed, until its calls have run: one yes is for one run of them."""
        return self.confirmed if self.response is None and self.iterations == 0 else None

    @property
    def has_yes(self) -> bool:
        """True if what the turn was given to run has the user's own yes; the approval of other people is none."""
        return self.context.approval is None or self.context.approval.request.confirmed

    @property
    def confirmed_calls(self) -> tuple[TurnCall, ...]:
        """The calls that the user has confirmed, with their results: the first of the turn."""
        return () if self.confirmed is None else self.calls[: len(self.confirmed.each)]

    def undone_by_call(self, position: int) -> UndoneCall | None:
        """Return the earlier call that the call at this place of the batch undoes; None if it undoes none."""
        if (yes := self.unused_yes) is not None:
            return yes.each[position].undoes
        return None if self.context.undoes is None else self.context.undoes.calls[position]

    @classmethod
    def of(cls, header: RecordHeader) -> Turn:
        """Return the state in which the turn of `header` begins."""
        return cls(header.context, header.decision_id, header.started_at)

    def to(self, outcome: str, **changes: Any) -> Turn:
        """Return a copy with `changes` and the outcome of a node, by which the topology selects the next node."""
        return Turn(**{**vars(self), "outcome": outcome, **changes})  # `dataclasses.replace` takes longer than most nodes


@dataclass(frozen=True, slots=True)
class TurnRuntime:
    """LangGraph's runtime context, which no node changes: the ports, the policy snapshot, and a callback."""

    ports: TurnPorts
    snapshot: PolicySnapshot
    ended: Callable[[str, Turn, Turn], Awaitable[None]] | None = None
    """Called at the end of each node with its name, and with the turn before and after it. The next node waits for it."""
