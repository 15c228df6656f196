"""The words in which people read how a decision came out. The record has the codes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from graph_agent.models.decision import AgentDecision, DecisionType, OutcomeCategory
from graph_agent.models.said import SaidState

PENDING = "PENDING"
"""The outcome and the type of a decision whose turn runs."""

OF_OUTCOMES: Mapping[str, str] = {
    "SUCCESS": "done or answered",
    "AMBIGUITY": "asked back",
    "REFUSAL": "refused",
    "ERROR": "failed",
    OutcomeCategory.TASK_COMPLETED: "done",
    OutcomeCategory.RESPONSE_GIVEN: "answered",
    OutcomeCategory.CLARIFICATION_ANSWERED: "answered",
    OutcomeCategory.UNCLEAR_INTENT: "asked what is meant",
    OutcomeCategory.MULTIPLE_MATCHES: "asked which one",
    OutcomeCategory.MISSING_CONTEXT: "asked for details",
    OutcomeCategory.OUT_OF_SCOPE: "declined: not its job",
    OutcomeCategory.MISSING_PERMISSION: "refused by a rule",
    OutcomeCategory.RATE_LIMITED: "refused: too many requests",
    OutcomeCategory.TOOL_INVOCATION: "nothing could be done",
    OutcomeCategory.RESPONSE_GENERATION: "failed",
    OutcomeCategory.USER_INPUT: "message not accepted",
    OutcomeCategory.INTENT_CLASSIFICATION: "failed",
    PENDING: "running",
}
"""The words of each outcome, and of each category of outcomes."""

MEANINGS: Mapping[str, str] = {
    OutcomeCategory.TASK_COMPLETED: "A tool did what was asked: something was added, shown, changed or deleted. "
    "Other calls of the turn may have been refused.",
    OutcomeCategory.RESPONSE_GIVEN: "The assistant answered, or asked you to confirm an action. Nothing was changed.",
    OutcomeCategory.CLARIFICATION_ANSWERED: "The assistant answered after it had asked you something. Nothing was changed.",
    OutcomeCategory.UNCLEAR_INTENT: "The assistant asked what you mean.",
    OutcomeCategory.MULTIPLE_MATCHES: "Several things fit, so the assistant asked which one.",
    OutcomeCategory.MISSING_CONTEXT: "Something was missing, such as a thing of that name, so the assistant asked for it.",
    OutcomeCategory.OUT_OF_SCOPE: "The assistant declined, because this is not its job.",
    OutcomeCategory.MISSING_PERMISSION: "Every call was refused by a rule, such as a condition, "
    "or because it was for another user's data.",
    OutcomeCategory.RATE_LIMITED: "There were too many requests in a short time.",
    OutcomeCategory.TOOL_INVOCATION: "Nothing that was asked for could be done: every call failed or was refused.",
    OutcomeCategory.RESPONSE_GENERATION: "The model failed, or the turn was ended before it was done.",
    OutcomeCategory.USER_INPUT: "The message was not valid, or answered a question that is no longer open.",
    PENDING: "The turn is still running.",
}
"""The meaning of each outcome that occurs, for users."""

OF_TYPES: Mapping[str, str] = {
    DecisionType.RESPOND_ONLY: "answered only",
    DecisionType.INVOKE_TOOL: "used tools",
    DecisionType.ASK_CLARIFICATION: "asked back",
    DecisionType.REQUEST_CONFIRMATION: "asked first",
    DecisionType.EXECUTE_PENDING: "confirmed",
    DecisionType.CANCEL_PENDING: "declined",
    PENDING: "running",
}
"""The words of each decision type."""


class EndingKind(StrEnum):
    """The kind of an ending: the category of its outcome, or what the outcome does not say."""

    ASKED = "asked"
    """It waits for an answer."""
    DECLINED = "declined"
    UNKNOWN = "unknown"
    """It is not known of a change whether it was made."""
    SUCCESS = "success"
    AMBIGUITY = "ambiguity"
    REFUSAL = "refusal"
    ERROR = "error"
    PENDING = "pending"


_UNKNOWN = "not known whether it was done"
_LOOKED_UP = "looked up"
_ASKED_OTHERS = "waits for an approval"
_ASKED_AGAIN = "confirmed, then asked again"
_OTHERS_DATA = "refused: another user's data"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """The end of a decision, as the log has it."""

    decision_type: str
    outcome: str
    changed: bool = False
    """True if a call was sent that may change something."""
    unknown: bool = False
    """True if it is not known of such a call whether it was done."""
    refused_by: str | None = None
    """The reason of the conditions that refused a call."""
    answers: bool = False
    """True if the decision has followed the answer to a question."""
    asks_others: bool = False
    """True if its call waits for the approval of other people."""

    @classmethod
    def of(cls, decision: AgentDecision) -> Ending:
        """Return the end of a decision that is not in the log, as that of a replay."""
        return cls(
            decision_type=decision.decision_type,
            outcome=decision.outcome_category or PENDING,
            changed=bool(decision.effects),
            unknown=any(one.state is SaidState.UNKNOWN for one in decision.calls_said),
            refused_by=next((one.why for one in decision.calls_said if one.state is SaidState.REFUSED), None),
            answers=bool(decision.confirmed),
            asks_others=decision.approval is not None,
        )


_ASKING = (DecisionType.REQUEST_CONFIRMATION, DecisionType.ASK_CLARIFICATION)


def kind_of_ending(ending: Ending) -> EndingKind:
    """Return the kind of an ending."""
    if ending.unknown:
        return EndingKind.UNKNOWN
    if ending.decision_type == DecisionType.CANCEL_PENDING:
        return EndingKind.DECLINED
    return EndingKind.ASKED if ending.decision_type in _ASKING else kind_of_outcome(ending.outcome)


def words_of_type(decision_type: str) -> str:
    """Return the decision type in words."""
    return OF_TYPES.get(decision_type, decision_type)


def kind_of_outcome(outcome: str) -> EndingKind:
    """Return the kind of an outcome, or of a category of outcomes."""
    return EndingKind(outcome.partition(":")[0].lower())


def words_of_ending(ending: Ending) -> str:
    """Return how a decision came out. A question waits for an answer, and a no has done nothing, whatever the outcome says."""
    if ending.unknown:
        return _UNKNOWN
    if ending.decision_type == DecisionType.REQUEST_CONFIRMATION:
        if ending.asks_others:
            return _ASKED_OTHERS
        return _ASKED_AGAIN if ending.answers else OF_TYPES[ending.decision_type]
    if ending.decision_type == DecisionType.CANCEL_PENDING:
        return OF_TYPES[ending.decision_type]
    # The names are those of the shipped tools: also a list that was only shown is a "task completed".
    if ending.outcome == OutcomeCategory.TASK_COMPLETED and not ending.changed:
        return _LOOKED_UP
    if ending.outcome == OutcomeCategory.MISSING_PERMISSION:
        words = OF_OUTCOMES[ending.outcome]
        return _OTHERS_DATA if ending.refused_by is None else f"{words}: {ending.refused_by}"
    return OF_OUTCOMES.get(ending.outcome, ending.outcome)
