"""The gates between a call and its effect. Each one is a pure function of the call in hand. `guard.py` has their table.

A gate returns None for a call that passes, the verdict on one that it stops, or what it has found about one that goes on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from graph_agent.errors import ToolErrorCode
from graph_agent.models.approval import MAX_OPEN_REQUESTS, MAX_RENEWALS
from graph_agent.models.canonical import canonical_json
from graph_agent.models.record import CallDisposition
from graph_agent.policy.call_in_hand import ASKED_AT, CallInHand, Findings, GuardVerdict, Question
from graph_agent.policy.cedar.conditions import ConditionsVerdict, NeededApproval, Verdict
from graph_agent.policy.reasons import Reason, ReasonCode
from graph_agent.policy.schema.check import MAX_ARGUMENT_BYTES, MAX_ARGUMENT_DEPTH
from graph_agent.policy.undo import place_of

MAX_CALLS_PER_ROUND = 5

_MAY_BE_DONE = "it is not known whether the same was done before"
"""The name of the rule that asks before a change is repeated whose outcome is not known."""

DRY_RUN = "dry run"
"""The name of the gate whose verdicts the calls after it take for effects."""
AS_SHOWN = "as shown"
CONDITIONS, BUDGET = "conditions", "budget"
BY_CONDITIONS = frozenset({CONDITIONS, BUDGET})
"""The gates at which conditions refuse a call."""


def is_open(hand: CallInHand) -> GuardVerdict | None:
    return hand.skipped(hand.before.ended) if hand.before.ended else None


def is_not_left_out(hand: CallInHand) -> GuardVerdict | None:
    """From the first call on that waits for the user, a read is left out: its result belongs after the change."""
    left_out = hand.setting.confirmed is None and hand.waits and not hand.setting.policy.is_write(hand.name)
    return hand.skipped(ReasonCode.LEFT_OUT) if left_out else None


def is_listed(hand: CallInHand) -> GuardVerdict | None:
    policy = hand.setting.policy
    if hand.name in policy.unavailable:
        return hand.refused(Reason(ReasonCode.UNAVAILABLE, (policy.unavailable[hand.name],)), ToolErrorCode.TOOL_UNAVAILABLE)
    if hand.name not in policy.rules:
        return hand.refused(ReasonCode.NOT_LISTED, ToolErrorCode.TOOL_NOT_FOUND)
    return None


def is_within_limits(hand: CallInHand) -> GuardVerdict | None:
    most = hand.setting.max_calls_per_turn
    if hand.place >= MAX_CALLS_PER_ROUND:
        return hand.refused(Reason(ReasonCode.TOO_MANY_AT_ONCE, (MAX_CALLS_PER_ROUND,)))
    if hand.sequence > most and not hand.setting.for_facts:
        return hand.refused(Reason(ReasonCode.TOO_MANY_CALLS, (most,)))
    return None


def is_plain_json(hand: CallInHand) -> GuardVerdict | None:
    arguments = hand.call.arguments
    if not isinstance(arguments, dict):
        return hand.refused(ReasonCode.NO_OBJECT)
    try:
        text = canonical_json(arguments)
        size = len(text.encode())
    except (ValueError, TypeError, RecursionError):
        return hand.refused(ReasonCode.NO_JSON)
    if size > MAX_ARGUMENT_BYTES:
        return hand.refused(ReasonCode.TOO_LARGE)
    # With few brackets nothing is deep, so that most arguments are not walked through.
    may_be_deep = text.count("{") + text.count("[") > MAX_ARGUMENT_DEPTH
    if may_be_deep and any(
        depth == MAX_ARGUMENT_DEPTH and isinstance(value, dict | list) for _, value, depth in _nested(arguments)
    ):
        return hand.refused(ReasonCode.TOO_DEEP)
    return None


def is_own_data(hand: CallInHand) -> GuardVerdict | Findings | None:
    """Set the bound argument to the signed-in user, and leave out a `user_id` that no schema declares."""
    rule, arguments, user_id = hand.rule, hand.call.arguments, hand.setting.user_id
    bound = rule.grant.bound_argument
    named = [] if rule.takes_user_id else [value for key, value, _ in _nested(arguments) if key == "user_id"]
    if bound is not None and bound in arguments:
        named.append(arguments[bound])
    if rule.key is not None and rule.key.argument in arguments:
        return hand.refused(Reason(ReasonCode.SET_BY_RUNTIME, (rule.key.argument,)))
    if any(value != user_id for value in named):
        return hand.refused(ReasonCode.OWN_DATA_ONLY, ToolErrorCode.ACCESS_DENIED)
    if bound is not None:
        return hand.found._replace(arguments={**arguments, bound: user_id})
    if rule.takes_user_id or "user_id" not in arguments:
        return None
    return hand.found._replace(arguments={key: value for key, value in arguments.items() if key != "user_id"})


def fits_schema(hand: CallInHand) -> GuardVerdict | None:
    try:
        issue = hand.rule.check.first_issue(hand.arguments)
    except Exception:
        # The check is too expensive or the validator failed: arguments that were not checked are not permitted.
        return hand.refused(ReasonCode.UNCHECKED)
    return None if issue is None else hand.refused(Reason(ReasonCode.MISFIT, (issue.path, issue.why)))


def is_asked_once(hand: CallInHand) -> GuardVerdict | None:
    """One question does not ask twice for the same."""
    return hand.skipped(ReasonCode.SAME_CALL) if any(one.waits and hand.is_same_as(one) for one in hand.before.calls) else None


def is_not_done_before(hand: CallInHand) -> GuardVerdict | None:
    done = hand.setting.done_before
    if done and hand.rule.mutating and hand.operation_key is None and any(map(hand.is_same_as, done)):
        return hand.refused(ReasonCode.DONE_BEFORE)
    return None


def is_no_repetition(hand: CallInHand) -> GuardVerdict | None:
    """A change is made once for a message, unless it failed for certain. A read repeats nothing."""
    if not hand.before.calls or not hand.rule.mutating or hand.operation_key is not None:
        return None
    known = next((one.sequence for one in hand.before.calls if one.may_have_run and hand.is_same_as(one)), None)
    if known is None:
        return None
    if hand.setting.dry_run:
        # The first one was not made: there is no result to answer it with.
        return hand.refused(ReasonCode.WOULD_BE_DONE, None)
    return GuardVerdict(hand, CallDisposition.REPEATED, hand.gate, repeats=known)


def is_below_limit(hand: CallInHand) -> GuardVerdict | None:
    limit = hand.rule.grant.max_per_message
    if limit is None or sum(one.tool_name == hand.name for one in hand.running) < limit:
        return None
    return hand.refused(Reason(ReasonCode.LIMIT_PER_MESSAGE, (limit,)))


def needs_facts(hand: CallInHand) -> bool:
    conditions = hand.setting.policy.conditions
    return conditions is not None and not hand.setting.for_facts and conditions.needs_facts(hand.name)


def meets_conditions(hand: CallInHand) -> GuardVerdict | Findings | None:
    if (ruling := _ruling(hand)) is hand.found.ruling:
        return None
    return _refused_by(hand, ruling) or hand.found._replace(ruling=ruling)


def _refused_by(hand: CallInHand, ruling: ConditionsVerdict) -> GuardVerdict | None:
    if ruling.verdict is not Verdict.REFUSED:
        return None
    reason = Reason(ReasonCode.CONDITIONS, (ruling.names, _in_words(hand, ruling).reason))
    return hand.refused(reason, ToolErrorCode.ACCESS_DENIED)


def _in_words(hand: CallInHand, ruling: ConditionsVerdict) -> ConditionsVerdict:
    """Return a verdict whose facts, a server's words, have no name of a tool in them."""
    return ruling._replace(facts=hand.rule.user_text(ruling.facts)) if ruling.facts else ruling


def _ruling(hand: CallInHand) -> ConditionsVerdict:
    """Return the verdict of the conditions; without any, the call runs, unless it is limited per message and has none."""
    conditions, limit = hand.setting.policy.conditions, hand.rule.grant.max_per_message
    known = hand.found.ruling
    decided = known if conditions is None else conditions.judge(hand.name, hand.arguments, hand.situation)
    return decided if hand.setting.of_message or limit is None else decided.outside_message((_per_message(limit),))


def _per_message(limit: int) -> str:
    return f"at most {limit} per message (constitution)"


def passes(hand: CallInHand) -> GuardVerdict | None:  # noqa: ARG001 (for a gate that only reads)
    return None


def may_be_covered(hand: CallInHand) -> bool:
    """True for a call that needs only the user's yes, if plans may have lines for its tool.

    A plan is no yes to what other people have to approve, to the repetition of a change that may have been made, to an undo,
    nor to calls that the user has confirmed and that have changed since.
    """
    setting, ruling = hand.setting, hand.found.ruling
    if hand.rule.grant.in_plans is None or setting.for_facts or setting.dry_run or not setting.of_message:
        return False
    if setting.confirmed is not None or setting.closes is not None or setting.asks or hand.undoes is not None or hand.waits:
        return False
    if ruling.needs is not None or ruling.verdict is Verdict.WAITS or any(map(hand.may_repeat, setting.unknown_before)):
        return False
    return hand.rule.grant.requires_confirmation or ruling.verdict is Verdict.ASKS


def has_consent(hand: CallInHand) -> GuardVerdict | Findings | None:
    return _consent(hand, hand.found.ruling)


def _consent(hand: CallInHand, ruling: ConditionsVerdict) -> GuardVerdict | Findings | None:
    """Let a call without the user's yes, or the approvals that it needs, end with a question.

    From the first call on that needs the yes, every change waits for the same one. A call that needs an approval waits alone.
    """
    setting, question = hand.setting, None
    needs = ruling.needs or (NeededApproval((), ()) if ruling.verdict is Verdict.WAITS else None)
    must_ask = hand.rule.grant.requires_confirmation or ruling.verdict is Verdict.ASKS
    is_unknown = hand.rule.mutating and any(map(hand.may_repeat, setting.unknown_before))
    must_ask = must_ask or is_unknown or (setting.asks and hand.rule.mutating)
    has_yes = (setting.yes and hand.operation_key is not None) or (hand.is_covered and may_be_covered(hand))
    lacks_yes = must_ask and not has_yes
    if needs is not None and hand.waits:
        return hand.skipped(ReasonCode.LEFT_OUT, ends_batch=True)
    if lacks_yes or (hand.waits and needs is None):
        asked = ruling._replace(reasons=(*ruling.reasons, _MAY_BE_DONE)) if is_unknown else ruling
        question = Question(CallDisposition.AWAITING, names=asked.names, facts=_in_words(hand, asked).reason)
    elif needs is not None:
        # The conditions may have asked for the yes too, which the call has.
        question = Question(CallDisposition.WAITS, names="; ".join(needs.rules))
    elif hand.before.anew:
        question = Question(CallDisposition.AWAITING)
    if question is None:
        return None
    if setting.closes is not None:
        return hand.refused(question.reason, ToolErrorCode.ACCESS_DENIED, gate=ASKED_AT)
    return hand.asking(question, needs)


def is_looked_at(hand: CallInHand) -> bool:
    return hand.setting.looks and has_description(hand)


def is_meant(hand: CallInHand) -> GuardVerdict | None:
    """In a dry run only reads are made."""
    question = hand.found.question
    if not hand.setting.dry_run or (question is None and not hand.rule.mutating):
        return None
    if question is None:
        return hand.refused(ReasonCode.WOULD_BE_DONE, None)
    code = ReasonCode.WOULD_WAIT if question.whom is CallDisposition.WAITS else ReasonCode.WOULD_BE_ASKED
    return hand.refused(Reason(code, (question.names, question.facts)), None)


def was_shown(hand: CallInHand) -> bool:
    """True for a call that was shown to those who said yes. If the user is asked again, the question shows it anew."""
    return hand.setting.confirmed is not None and not awaits_user(hand)


def is_as_shown(hand: CallInHand) -> GuardVerdict | Findings | None:
    """If the object of a confirmed call has changed, the user is asked again, or the people who have approved the call."""
    assert hand.setting.confirmed is not None
    if (refused := shows_object(hand)) is not None:
        return refused
    if not has_changed(hand):
        return None
    whom = CallDisposition.AWAITING if hand.setting.closes is None else CallDisposition.WAITS
    return hand.asking(Question(whom, object_changed=True))


def has_changed(hand: CallInHand) -> bool:
    """True if the object of a confirmed call is not as it was shown."""
    return hand.evidence.object_changed


def has_object(hand: CallInHand) -> bool:
    return hand.found.question is not None and has_description(hand)


def has_description(hand: CallInHand) -> bool:
    """True if something is read to describe the call: a preview, or what its sentence names. An undo says what it undoes."""
    return is_previewed(hand) or (bool(hand.rule.grant.reads_for_sentence) and hand.undoes is None)


def is_said_of(hand: CallInHand) -> bool:
    """True for a change that runs without a question, and whose sentence names facts."""
    if hand.found.permission is None or hand.setting.confirmed is not None or hand.undoes is not None:
        return False
    return hand.rule.mutating and any(read.said for read in hand.rule.grant.reads_for_sentence)


def is_previewed(hand: CallInHand) -> bool:
    return hand.rule.traits.preview


def shows_object(hand: CallInHand) -> GuardVerdict | None:
    """The user is never asked about a bare id where a preview is offered, because a user cannot know what it refers to."""
    seen = hand.evidence.seen
    if seen is None or seen.success:
        return None
    # Only the preview has an unknown outcome: the call itself was not sent. The text is ours, so that by a call that counts as
    # refused the model has read nothing of the server.
    is_missing = seen.error_code is ToolErrorCode.NOT_FOUND
    code = seen.error_code if seen.error_code and not seen.unknown else ToolErrorCode.TOOL_EXECUTION_ERROR
    return hand.refused(ReasonCode.OBJECT_MISSING if is_missing else ReasonCode.OBJECT_UNREADABLE, code)


def undoes(hand: CallInHand) -> bool:
    return hand.undoes is not None and not _object_changed(hand)


def _object_changed(hand: CallInHand) -> bool:
    return hand.found.question is not None and hand.found.question.object_changed


def is_left_alone(hand: CallInHand) -> GuardVerdict | None:
    """An undo is made only if its object is as the change has left it."""
    restored, read = None if hand.undoes is None else hand.undoes.restored, hand.evidence.object_now
    if restored is None or read is None:
        return None
    if (why := "it was not found" if read.is_absent else read.error) is not None:
        return hand.refused(Reason(ReasonCode.NOT_COMPARED, (why,)), ToolErrorCode.ACCESS_DENIED)
    now = {**{path: read.values.get(place_of(path)) for path in restored.left}, **hand.evidence.restored_before}
    for path, left in restored.left.items():
        if now.get(path) != left:
            about = " ".join([restored.tool, *map(str, restored.arguments.values())])
            shown = hand.setting.policy.rules[restored.tool].user_text(about)
            return hand.refused(
                Reason(ReasonCode.CHANGED_SINCE, (shown, path, now.get(path), left)), ToolErrorCode.ACCESS_DENIED
            )
    return None


def is_counted(hand: CallInHand) -> bool:
    counts = hand.setting.policy.counts(hand.name) or hand.evidence.covered is not None
    return hand.found.permission is not None and counts


def is_within_budget(hand: CallInHand) -> GuardVerdict | Findings | None:
    """The conditions once more, by the uses of this moment: the reservation wins. Without one the turn was interrupted."""
    ruling = hand.evidence.uses
    return hand.skipped(ReasonCode.TURN_ENDED) if ruling is None else _refused_by(hand, ruling) or _consent(hand, ruling)


def undoes_now(hand: CallInHand) -> bool:
    return hand.undoes is not None and hand.found.permission is not None


def is_undone_once(hand: CallInHand) -> GuardVerdict | None:
    undone_by = hand.evidence.undone_by
    if undone_by is None:
        return hand.skipped(ReasonCode.TURN_ENDED)
    return hand.refused(Reason(ReasonCode.UNDONE_ALREADY, (undone_by,)), ToolErrorCode.ACCESS_DENIED) if undone_by else None


def asks(hand: CallInHand) -> bool:
    return hand.found.question is not None and not _object_changed(hand)


def has_room(hand: CallInHand) -> GuardVerdict | None:
    return None if hand.evidence.has_room else hand.refused(ReasonCode.TOO_MUCH_TO_SHOW)


def awaits_user(hand: CallInHand) -> bool:
    return hand.found.question is not None and hand.found.question.whom is CallDisposition.AWAITING


def fits_card(hand: CallInHand) -> GuardVerdict | None:
    """Nothing overtakes a call that is too long to be shown with those that wait already."""
    return None if hand.evidence.fits_card else hand.skipped(ReasonCode.LEFT_OUT, ends_batch=True)


def awaits_others(hand: CallInHand) -> bool:
    return hand.found.question is not None and hand.found.question.whom is CallDisposition.WAITS


def can_be_requested(hand: CallInHand) -> GuardVerdict | None:
    """The same call is requested once, not again after a denial, and a user has a bounded number of open requests."""
    closes, known = hand.setting.closes, hand.evidence.requests
    if closes is not None:
        # Its object has changed: the request of the decision is opened anew.
        too_often = closes.renewals >= MAX_RENEWALS
        return hand.refused(ReasonCode.CHANGED_AGAIN, ToolErrorCode.ACCESS_DENIED) if too_often else None
    assert known is not None
    if known.same:
        return hand.refused(Reason(ReasonCode.REQUESTED_ALREADY, (known.same,)), ToolErrorCode.ACCESS_DENIED)
    if known.denied:
        return hand.refused(Reason(ReasonCode.DENIED, (known.denied,)), ToolErrorCode.ACCESS_DENIED)
    if known.open >= MAX_OPEN_REQUESTS:
        return hand.refused(Reason(ReasonCode.TOO_MANY_REQUESTS, (MAX_OPEN_REQUESTS,)), ToolErrorCode.ACCESS_DENIED)
    return None


def _nested(value: Any, key: str | int = "", depth: int = 0) -> Iterator[tuple[str | int, Any, int]]:
    """Yield every value in JSON with its key or position and its depth, from 0 to `MAX_ARGUMENT_DEPTH`."""
    yield key, value, depth
    if isinstance(value, dict | list) and depth < MAX_ARGUMENT_DEPTH:
        for name, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _nested(part, name, depth + 1)
