"""Questions as those who are asked, and the requesters, see them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from graph_agent.chat.approval_looks import Circumstances
from graph_agent.chat.listed_question import ListedQuestion, listed
from graph_agent.models.approval import ApprovalAnswer, ApprovalState, ApproverIdentity, count_approvals
from graph_agent.models.base import Frozen, UtcDatetime
from graph_agent.models.canonical import canonical_json
from graph_agent.models.card import Card
from graph_agent.models.decision import ApprovalRequest, DecisionContext, PendingAction
from graph_agent.models.facts import ShownFact
from graph_agent.models.record import CallDisposition, DecisionRecord
from graph_agent.models.sources import CallSources, Source
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.question.approvals import StoredRequest
from graph_agent.question.confirmations import CARD_STATES, action_of
from graph_agent.question.stored import StoredQuestion
from graph_agent.question.tables import Asks, QuestionState
from graph_agent.words.approvals import STATES
from graph_agent.words.cards import card_of
from graph_agent.words.origins import describe_origin
from graph_agent.words.said import brief_of, said_of


class QuestionSummary(ListedQuestion):
    """A question in a list, with what the rules say about it."""

    state_words: str
    """The state in words."""
    card: PendingAction | None
    """For a question to the requester: everything that a yes confirms."""
    shown: Card | None
    """The same as people read it."""
    title: str
    origins: dict[str, str]
    """The origin of each argument, as a clause: `not from the requester's words: it stands in a result of 'List bills'`."""
    facts: list[ShownFact]
    """The values that the rules read about the call when it was requested."""
    by_program: bool
    """True if a program of the requester has made the call, and no message asked for it."""
    approvals: dict[str, int]
    """The number of people who approved it, by role."""
    decided_elsewhere: str
    """For an open request that was asked under other rules than those here: who decides it, in sentences."""


class ShownAnswer(Frozen):
    """The answer of one person."""

    approver: str
    approve: bool
    role: str
    reason: str
    identity: ApproverIdentity
    signature: str
    answered_at: UtcDatetime


class ShownCall(Frozen):
    """A call of the turn in which the request was made."""

    tool: str
    arguments: dict[str, Any]
    became: CallDisposition
    success: bool


class EarlierRequest(Frozen):
    """An earlier request for the same call."""

    id: str
    state: ApprovalState
    ended_at: UtcDatetime | None


class TextToSign(Frozen):
    """The text that the caller signs for an answer: `ssh-keygen -Y sign -n graph-agent-approval -f KEY FILE`."""

    approve: bool
    role: str
    text: str


class YourAnswer(Frozen):
    """The effect that the approval of the caller would have now, or the answer that the caller has given."""

    roles: list[str]
    """The roles in which the caller can answer."""
    answer: ShownAnswer | None
    to_sign: list[TextToSign]
    """The text for each answer, if the installation asks for signatures."""
    effect: Literal["runs", "waits", "refused"] | None
    """None after the caller's answer, and after the end."""
    effect_words: str = ""
    """The effect as a sentence, with the rules by which the call would still wait, or be refused."""
    why: str
    """These rules."""


class ApprovalView(QuestionSummary):
    """Everything that an approver is shown."""

    arguments: dict[str, Any]
    object_then: str
    """The object of the call, when it was requested."""
    object_now: str | None
    """The same, as it was `looked_at`; None if it was not looked up."""
    changed_since: list[str]
    """The sentences about what has changed since others had approved the call, or since its requester had said yes."""
    changed_before: str
    """The changes that the requester's message had made before."""
    facts_now: list[ShownFact] | None
    """The `facts` as they were `looked_at`, if the call was judged anew for this view."""
    looked_at: UtcDatetime | None
    """The time of the caller's last look; None if nothing has to be looked up. Each one is a decision of the requester's."""
    confirmed: bool
    """True if the requester has said yes to the call."""
    message: str
    """The message in answer to which the model requested the call."""
    earlier_messages: list[str]
    """Messages before it, the oldest first, if the installation shows them to approvers."""
    sources: dict[str, list[Source]]
    """The sources of each argument in short: the requester's words, results of tools, or the model alone."""
    named_in_message: dict[str, bool]
    """True for each argument whose value stands in that message."""
    calls: list[ShownCall]
    effects: list[str]
    """The receipts of the turn in which the call was requested."""
    answers: list[ShownAnswer]
    earlier: list[EarlierRequest]
    yours: YourAnswer | None
    """None for the requester."""


class QuestionList(Frozen):
    """A page of questions."""

    questions: list[QuestionSummary]
    next: str | None
    """The `before` of the next page; None after the last one."""
    waiting: int
    """The number of questions that wait for the caller's answer, at most 100."""


def state_of(stored: StoredRequest) -> ApprovalState:
    """Return the state of a request, also if its time is over and no sweep has ended it."""
    return ApprovalState.EXPIRED if stored.state is ApprovalState.OPEN and not stored.in_time else stored.state


def summary_of(stored: StoredRequest, policy: CompiledPolicy, decided_elsewhere: str) -> QuestionSummary:
    """Return a request for a list."""
    request, action = stored.request, stored.request.action
    return QuestionSummary(
        id=request.id,
        asks=Asks.OTHERS,
        digest=request.digest,
        state=QuestionState(state_of(stored)),
        state_words=STATES[state_of(stored)],
        requester=request.user_id,
        conversation_id=request.conversation_id,
        conversation_title="",
        card=None,
        shown=None,
        decision_id=request.decision_id,
        closing_decision=stored.closing_decision,
        tool=action.tool_name,
        title=said_of(action.each[0]).sentence,
        description=action.description,
        brief=brief_of(action),
        origins={} if request.sources is None else _origins(request, request.sources, policy),
        facts=list(request.facts),
        by_program=request.by_program,
        roles=list(request.roles),
        rules=list(request.rules),
        approvals=count_approvals(stored.answers, request.user_id),
        created_at=action.created_at,
        expires_at=action.expires_at,
        ended_at=stored.ended_at,
        why=stored.why,
        decided_elsewhere=decided_elsewhere,
    )


def summary_of_card(question: StoredQuestion, title: str) -> QuestionSummary:
    """Return a question to its requester for a list, with the title of its conversation."""
    card = action_of(question)
    return QuestionSummary(
        **dict(listed(question, title)),
        state_words=STATES[question.state_now],
        card=card,
        shown=card_of(card, CARD_STATES[question.state_now], answered_at=question.ended_at),
        title=card.description.partition("\n")[0],
        origins={},
        facts=[],
        by_program=False,
        approvals={},
        decided_elsewhere="",
    )


def view_of(
    stored: StoredRequest,
    policy: CompiledPolicy,
    *,
    asked: DecisionRecord | None,
    earlier_messages: int,
    now: Circumstances | None,
    earlier: Sequence[StoredRequest],
    yours: YourAnswer | None,
    decided_elsewhere: str,
) -> ApprovalView:
    """Return everything that an approver is shown. `asked` is the decision in which the call was requested."""
    request, action = stored.request, stored.request.action
    message, history = ("", []) if asked is None else _asked_by(asked.header.context, confirmed=request.confirmed)
    return ApprovalView(
        **dict(summary_of(stored, policy, decided_elsewhere)),
        arguments=action.arguments,
        object_then=action.object_text or action.description,
        object_now=None if now is None else now.object_text,
        facts_now=None if now is None else list(now.shown),
        looked_at=None if now is None else now.read_at,
        changed_since=list(action.changed_since),
        changed_before=action.changed_before,
        confirmed=request.confirmed,
        message=message,
        earlier_messages=history[-earlier_messages:] if earlier_messages else [],
        sources={} if request.sources is None else {name: request.sources.labels(name) for name in request.sources.arguments},
        named_in_message={
            name: not request.by_program and _stands_in(value, message) for name, value in action.arguments.items()
        },
        calls=[] if asked is None else _calls_of(asked),
        effects=[] if asked is None else asked.decision.effects,
        answers=[shown_answer(one) for one in stored.answers],
        earlier=[EarlierRequest(id=one.request.id, state=state_of(one), ended_at=one.ended_at) for one in earlier],
        yours=yours,
    )


def shown_answer(answer: ApprovalAnswer) -> ShownAnswer:
    """Return an answer as others see it."""
    return ShownAnswer(**{name: getattr(answer, name) for name in ShownAnswer.model_fields})


def _asked_by(context: DecisionContext, *, confirmed: bool) -> tuple[str, list[str]]:
    """Return the message that asked for the call, and the user's messages before it; a yes only answers the question."""
    said = [one.content for one in context.message_history if one.role == "user" and one.origin is None]
    # Each time that it was asked again, another answer stands between.
    since = 0 if context.pending_confirmation is None or not confirmed else context.pending_confirmation.asked
    return (said[-since], said[:-since]) if 0 < since <= len(said) else (context.message, said)


def _origins(request: ApprovalRequest, sources: CallSources, policy: CompiledPolicy) -> dict[str, str]:
    return {
        name: describe_origin(policy, given, by_program=request.by_program)
        for name, given in sources.arguments.items()
        if given
    }


def _calls_of(record: DecisionRecord) -> list[ShownCall]:
    return [
        ShownCall(tool=one.tool_name, arguments=one.parameters, became=one.disposition, success=one.success)
        for one in record.invocations
    ]


def _stands_in(value: Any, message: str) -> bool:
    """True if an argument's value stands in a message as it is."""
    text = value if isinstance(value, str) else canonical_json(value)
    return bool(text) and text.casefold() in message.casefold()
