"""A card: the question about the calls of a batch that wait for one yes of the user."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Self

from graph_agent.graph.state import Ending, EndingKind, Turn, TurnRuntime
from graph_agent.models.decision import (
    MAX_DONE_BEFORE,
    AfterYes,
    EarlierCall,
    PendingAction,
    PendingCall,
)
from graph_agent.models.record import CallDisposition
from graph_agent.policy.call_in_hand import CallInHand
from graph_agent.policy.committed import is_done
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.policy.objects import NamedObjects, named_objects
from graph_agent.policy.tool_rule import ToolRule
from graph_agent.reply import fixed
from graph_agent.reply.authored import by_code, plain
from graph_agent.words import confirmation
from graph_agent.words.approvals import then_approved
from graph_agent.words.said import NOTHING_KNOWN, Known, say

_MAX_CHANGED_BEFORE = 4_000
"""The longest text that a question shows before its actions, in characters."""


@dataclass(frozen=True, slots=True)
class AskedCall:
    """One call of a card, as the user reads it."""

    call: PendingCall
    because: str = ""
    """The rules that require the yes, for the sentence before the question."""
    origins: tuple[str, ...] = ()
    """The sentences about its values that are not the user's words."""

    approval_then: str = ""
    """The sentence about the people who have to approve after the yes."""
    changed: tuple[str, ...] = ()
    """For a call that was confirmed: the sentences about what has changed since."""

    @classmethod
    def of(cls, rule: ToolRule, arguments: dict[str, Any], known: Known = NOTHING_KNOWN, because: str = "") -> Self:
        """Return a call of the tool of `rule`, with what is `known` about it."""
        said = say(rule, arguments, known)
        call = PendingCall(
            tool_name=rule.grant.name,
            arguments=arguments,
            description=said.text,
            said=said,
            whole_digest=confirmation.digest_of_call(rule, arguments, known),
            known=confirmation.kept(known),
            by_id_only=not said.is_complete,
            object_text=confirmation.unshown_text(known),
            undoes=known.undoes,
        )
        return cls(call, because)

    @classmethod
    def in_hand(cls, hand: CallInHand, because: str = "") -> Self:
        """Return a call with what was read for its gates."""
        known, shown = Known.of(hand), hand.shown_before
        changed = () if shown is None else confirmation.changes_since(shown, known)
        asked = cls.of(hand.rule, hand.arguments, known, because)
        return replace(asked, approval_then=then_approved(hand.found.needs), changed=changed)


def ask_about(turn: Turn, runtime: TurnRuntime, asked: Sequence[AskedCall], *, left_out: bool) -> Turn:
    """Return the turn with the signed card, and the question about it as its end.

    With `left_out` the batch has more calls than are asked about.
    """
    policy, created_at = runtime.snapshot.policy, runtime.ports.now()
    calls = tuple(one.call for one in asked)
    then = _then(turn, runtime, left_out=left_out)
    pending = PendingAction(
        id=runtime.ports.new_id(),
        tool_name=calls[0].tool_name,
        arguments=calls[0].arguments,
        description=fixed.described_together([one.description for one in calls]),
        said=calls[0].said,
        because=tuple(dict.fromkeys(one.because for one in asked if one.because)),
        approval_then=next((one.approval_then for one in asked if one.approval_then), ""),
        whole_digest=calls[0].whole_digest,
        known=calls[0].known,
        by_id_only=any(one.by_id_only for one in calls),
        object_text=calls[0].object_text,
        undoes=calls[0].undoes,
        changed_since=_why_anew(turn, asked),
        changed_before=changed_before(turn, policy, asked),
        origins=tuple(dict.fromkeys(sentence for one in asked for sentence in one.origins)),
        asked_under=policy.digests([one.tool_name for one in calls]),
        created_at=created_at,
        expires_at=earliest(created_at + turn.context.question_lifetime, calls),
        calls=calls if len(calls) > 1 else (),
        done_before=() if then is AfterYes.END else done_before(turn, policy),
        job=turn.context.job,
        then=then,
    )
    pending = pending.replace(signature=runtime.ports.sign(pending))
    ending = Ending.of(EndingKind.AWAITING, by_code(fixed.pending_question(pending)))
    return turn.to(turn.outcome, pending=pending, ending=ending)


def _then(turn: Turn, runtime: TurnRuntime, *, left_out: bool) -> AfterYes:
    if turn.context.called:
        return AfterYes.END
    after_yes = runtime.snapshot.config.after_yes
    # The user of a job answers later, and says nothing more by which its run would go on.
    goes_on = after_yes is AfterYes.EXPLAIN and (left_out or bool(turn.context.job))
    return AfterYes.GO_ON if goes_on else after_yes


def earliest(expires_at: datetime, calls: Sequence[PendingCall]) -> datetime:
    """Return the time until which calls can be confirmed, or approved: nothing is undone later than its line permits."""
    return min([expires_at, *(one.undoes.until for one in calls if one.undoes is not None)])


def is_too_long_together(turn: Turn, policy: CompiledPolicy, asked: Sequence[AskedCall]) -> bool:
    """True if one question cannot show all of several calls, or what the message has changed before them."""
    cut = len(asked) > 1 and any(one.call.by_id_only for one in asked)
    return cut or len(changed_before(turn, policy, asked)) > _MAX_CHANGED_BEFORE


def changed_before(turn: Turn, policy: CompiledPolicy, asked: Sequence[AskedCall]) -> str:
    """Return the sentences about what the message has changed, or may have, before a question.

    Left out are changes of what are certainly other objects than those of the calls, and those that the user has confirmed.
    """
    if turn.unused_yes is not None:
        return turn.unused_yes.changed_before
    if turn.context.undoes is not None:
        return " ".join(turn.context.undoes.left_out)
    objects = [_objects(policy, one.call.tool_name, one.call.arguments) for one in asked]
    unseen = [call for call in turn.calls[len(turn.confirmed_calls) :] if call.receipt]
    related = [
        call
        for call in unseen
        if not all(_objects(policy, call.call.name, call.arguments, call.result.data).are_others_than(one) for one in objects)
    ]
    done = [call.receipt for call in related if is_done(call, policy)]
    return plain(fixed.with_receipts((), done, [call.receipt for call in related if not is_done(call, policy)]))


def _objects(policy: CompiledPolicy, tool_name: str, arguments: dict[str, Any], result: Any = None) -> NamedObjects:
    rule = policy.rules[tool_name]
    return named_objects(rule.declaration.parameters, arguments, result, without={rule.grant.bound_argument or ""})


def _why_anew(turn: Turn, asked: Sequence[AskedCall]) -> tuple[str, ...]:
    """Return the sentences before a question about calls that the user has confirmed already; none for others."""
    if turn.unused_yes is None:
        return ()
    ran = any(call.disposition is CallDisposition.EXECUTED for call in turn.confirmed_calls)
    first = fixed.REST_CHANGED_SINCE_ASKED if ran else fixed.CHANGED_SINCE_ASKED
    # Several calls may read the same object.
    return tuple(dict.fromkeys([first, *(sentence for one in asked for sentence in one.changed)]))


def done_before(turn: Turn, policy: CompiledPolicy) -> tuple[EarlierCall, ...]:
    """Return the changes of this turn, and those that were made before the question that it followed."""
    made = [call for call in turn.calls if call.disposition is CallDisposition.EXECUTED and call.result.may_be_done]
    writes = [
        EarlierCall(tool_name=call.call.name, arguments=call.arguments, unknown=call.result.unknown)
        for call in made
        if policy.is_write(call.call.name)
    ]
    earlier = () if turn.went_on_from is None else turn.went_on_from.done_before
    return (*earlier, *writes)[-MAX_DONE_BEFORE:]
