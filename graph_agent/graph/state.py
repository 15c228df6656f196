"""The turn: one frozen object of plain data, replaced and never changed, equal to another one if everything in it is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from graph_agent.models.config import AgentEngineConfig
from graph_agent.models.decision import AgentDecision, DecisionContext, OutcomeCategory, PendingAction
from graph_agent.models.llm import FunctionCall, LLMErrorCode, LLMRequest, LLMResponse, TokenUsage
from graph_agent.models.record import CallDisposition
from graph_agent.models.tools import ToolResult
from graph_agent.policy.rules import Policy
from graph_agent.policy.snapshot import Terms
from graph_agent.ports import TurnPorts


class EndingKind(StrEnum):
    """How a turn comes to its end; the first row of the decision table that applies is chosen by it."""

    ANSWER = "answer"
    QUESTION = "question"
    REFUSAL = "refusal"
    FAILURE = "failure"
    CAP = "cap"
    AWAITING = "awaiting"
    CONFIRMED = "confirmed"
    DECLINED = "declined"


@dataclass(frozen=True, slots=True)
class Ending:
    """What the last node before the decision found. `reason` goes with a question, `error` with a failure."""

    kind: EndingKind
    text: str = ""
    reason: OutcomeCategory | None = None
    error: LLMErrorCode | None = None


@dataclass(frozen=True, slots=True)
class TurnCall:
    """A call the model asked for, and what became of it."""

    sequence: int
    iteration: int
    call: FunctionCall
    """As the model made it."""
    arguments: dict[str, Any]
    """As it was judged: without the user's id."""
    disposition: CallDisposition
    result: ToolResult
    receipt: str | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """Everything a turn knows."""

    context: DecisionContext
    decision_id: str
    outcome: str = ""
    request: LLMRequest | None = None
    response: LLMResponse | None = None
    iterations: int = 0
    adapter_calls: int = 0
    usage: TokenUsage | None = None
    calls: tuple[TurnCall, ...] = ()
    forms: tuple[FunctionCall, ...] = ()
    """Reply forms that came beside real calls in the current response; they are answered "not now"."""
    pending: PendingAction | None = None
    """The action the user has answered, or the one the user is asked about."""
    ending: Ending | None = None
    decision: AgentDecision | None = None

    def to(self, outcome: str, **changes: Any) -> Turn:
        """The turn after a node: `changes`, and the outcome that the topology will route by."""
        return replace(self, outcome=outcome, **changes)

    def __hash__(self) -> int:
        return hash((self.decision_id, self.outcome, self.iterations, self.adapter_calls, len(self.calls)))


@dataclass(frozen=True, slots=True)
class TurnRuntime:
    """What a turn is given and does not change: LangGraph's runtime context."""

    ports: TurnPorts
    terms: Terms

    @property
    def policy(self) -> Policy:
        return self.terms.policy

    @property
    def config(self) -> AgentEngineConfig:
        return self.terms.config
