"""The guard: the table of everything between a call and its effect, and the walk of a call through it.

It is pure, without I/O: the walk yields the kind of evidence that a gate needs, and its driver reads it. In a turn that is
`graph/evidence.py`, by the recorded ports; a proof has none. Permission is a value: only the gate "permission" creates an
`AuthorizedCall`, and a tool server accepts nothing else.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from graph_agent.errors import ConfigurationError
from graph_agent.models.canonical import digest
from graph_agent.models.decision import ApprovalRequest
from graph_agent.models.facts import Facts
from graph_agent.models.llm import FunctionCall
from graph_agent.models.record import FACT_READS, CallDisposition
from graph_agent.models.sources import BatchSources, CallSources, FoundSource, Source
from graph_agent.policy import gates
from graph_agent.policy.authorized_call import SEAL, AuthorizedCall, OutcomeRead, with_key
from graph_agent.policy.call_in_hand import (
    ASKED_AT,
    NO_EVIDENCE,
    Before,
    CallInHand,
    Evidence,
    EvidenceKind,
    Findings,
    Gate,
    GuardVerdict,
    Setting,
)
from graph_agent.policy.cedar.call_facts import CallFacts
from graph_agent.policy.compiled import ONE_SERVER, CompiledPolicy
from graph_agent.policy.key_location import KeyPlace
from graph_agent.policy.outcome_reads import arguments_of
from graph_agent.policy.past_call import PastCall
from graph_agent.policy.reasons import Reason, ReasonCode
from graph_agent.policy.tool_rule import ToolRule

_log = logging.getLogger(__name__)
_OF_USER = FoundSource(source=Source.USER)


def permit(hand: CallInHand) -> Findings | None:
    if hand.found.question is not None:
        return None
    key = hand.operation_key or f"{hand.setting.decision_id}:{hand.sequence}"
    return hand.found._replace(permission=_authorized(hand, key, hand.rule))


_AS_SHOWN = "what it acts on is as it was shown with the question; else people are asked again"
_REQUEST = "its approval was neither requested nor denied before, and few requests of the user are open"

GATES: Final = (
    Gate("batch", gates.is_open, "no call before it has ended the batch"),
    Gate("left out", gates.is_not_left_out, "it is no read after a call that waits for the user"),
    Gate("listed", gates.is_listed, "the constitution lists its tool, and a server has it"),
    Gate("limits", gates.is_within_limits, "neither the batch nor the message has had too many calls"),
    Gate("plain JSON", gates.is_plain_json, "its arguments are an object of plain JSON, neither too large nor too deep"),
    Gate("own data", gates.is_own_data, "it names no other user, and no argument that the runtime fills"),
    Gate("schema", gates.fits_schema, "its arguments fit the strict schema of the tool"),
    Gate("asked once", gates.is_asked_once, "the same call does not wait for the user already"),
    Gate("done before", gates.is_not_done_before, "it was not done before the question that the user has answered"),
    Gate("repeated", gates.is_no_repetition, "the message has not made the same change; else that result answers it"),
    Gate("limit per message", gates.is_below_limit, "its tool was not used as often as its line permits for a message"),
    Gate("facts", gates.passes, "(only reads)", EvidenceKind.FACTS, gates.needs_facts),
    Gate(gates.CONDITIONS, gates.meets_conditions, "the conditions permit it, at least after a yes or an approval"),
    Gate("plan", gates.passes, "(only reads)", EvidenceKind.MANDATE, gates.may_be_covered),
    Gate(ASKED_AT, gates.has_consent, "it has the yes and the approvals that it needs; else people are asked"),
    Gate("look", gates.passes, "(only reads)", EvidenceKind.OBJECT, gates.is_looked_at),
    Gate(gates.DRY_RUN, gates.is_meant, "it only reads, or this is no dry run"),
    Gate(gates.AS_SHOWN, gates.is_as_shown, _AS_SHOWN, EvidenceKind.OBJECT, gates.was_shown),
    Gate("left alone", gates.is_left_alone, "what an undo restores is unchanged", EvidenceKind.RESTORED, gates.undoes),
    Gate("permission", permit, "(creates the permission of a call that runs)"),
    Gate(gates.BUDGET, gates.is_within_budget, "the conditions, by the uses of now", EvidenceKind.USES, gates.is_counted),
    Gate("undone once", gates.is_undone_once, "nothing has undone the change", EvidenceKind.CLAIM, gates.undoes_now),
    Gate("sentence", gates.passes, "(only reads)", EvidenceKind.SENTENCE, gates.is_said_of),
    Gate("room", gates.has_room, "a question can show what was changed before it", EvidenceKind.ROOM, gates.asks),
    Gate("object", gates.shows_object, "a question can show what it acts on", EvidenceKind.OBJECT, gates.has_object),
    Gate("card", gates.fits_card, "one question can show it with the others", EvidenceKind.CARD, gates.awaits_user),
    Gate("request", gates.can_be_requested, _REQUEST, EvidenceKind.REQUESTS, gates.awaits_others),
)
"""Everything between a call of the model and its effect, in order. The effect, or the question, follows the last gate."""

LOOK: Final = (
    Gate("listed", gates.is_listed, "a server has its tool"),
    Gate("facts", gates.passes, "(only reads)", EvidenceKind.FACTS, gates.needs_facts),
    Gate(gates.AS_SHOWN, gates.is_as_shown, _AS_SHOWN, EvidenceKind.OBJECT, gates.was_shown),
)
"""The look at what several confirmed calls act on, before the first of them runs."""


def with_gate(added: Gate, *, before: str, table: tuple[Gate, ...] = GATES) -> tuple[Gate, ...]:
    """Return the table with one more gate, directly before the gate of that name. Raises `ConfigurationError`.

    The gate may stop a call or ask the user about it, and changes nothing else: it can permit nothing that another one stops.
    A call at which it fails is refused, so that the turn goes on with what was done before.
    """
    names = [gate.name for gate in table]
    if before not in names:
        raise ConfigurationError(f"there is no gate '{before}': the gates are {', '.join(names)}")
    at = names.index(before)
    return (*table[:at], added._replace(check=_restricted(added)), *table[at:])


def _restricted(gate: Gate) -> Callable[[CallInHand], GuardVerdict | Findings | None]:
    def check(hand: CallInHand) -> GuardVerdict | Findings | None:
        try:
            found = gate.check(hand)
            _require_restricting(gate, hand, found)
        except Exception:
            _log.exception("the gate '%s' has failed at a call of %s, which is refused", gate.name, hand.name)
            return hand.refused("a check of this call failed", rule="it could not be checked")
        return found

    return check


def _require_restricting(gate: Gate, hand: CallInHand, found: GuardVerdict | Findings | None) -> None:
    if isinstance(found, GuardVerdict):
        may = found.disposition in (CallDisposition.REFUSED, CallDisposition.SKIPPED)
    else:
        may = found is None or (found.question is not None and found == hand.asking(found.question))
    if not may:
        raise ConfigurationError(f"the gate '{gate.name}' may stop a call or ask about it, and change nothing else")


def check_gates(table: Sequence[Gate]) -> None:
    """Raise `ConfigurationError` unless a table has all shipped gates in their order, and each name once.

    An added gate comes before "dry run": the gates from there on hold for what is asked about, too.
    """
    names, shipped = [gate.name for gate in table], [gate.name for gate in GATES]
    if [name for name in names if name in shipped] != shipped:
        raise ConfigurationError("the table of gates lacks a shipped one, or has them in another order: add yours by with_gate")
    added = [name for name in names if name not in shipped]
    if len({*added}) < len(added):
        raise ConfigurationError(f"two gates have the name '{next(one for one in added if added.count(one) > 1)}'")
    if late := [name for name in names[names.index(gates.DRY_RUN) :] if name not in shipped]:
        raise ConfigurationError(f"the gate '{late[0]}' must come before '{gates.DRY_RUN}'")


def in_order(table: tuple[Gate, ...], names: Sequence[str]) -> tuple[Gate, ...]:
    """Return the gates that a record names, in its order; without names the table.

    A gate that the table lacks is left out: if it has stopped a call of the record, the replay ends otherwise, and says why.
    """
    known = {gate.name: gate for gate in table}
    if not names or [*known] == [*names]:
        return table
    return tuple(known[name] for name in names if name in known)


def walk(hand: CallInHand, table: Sequence[Gate] = ()) -> Generator[EvidenceKind, Evidence | None, GuardVerdict]:
    """Let a call pass the gates, up to the first one that stops it. Yield the evidence that a gate needs.

    The driver sends the evidence with what it has read, or None if it reads nothing: then the call passes the gate.
    """
    for name, check, _, reads, when in table or hand.setting.gates or GATES:
        hand.gate = name
        if reads is not None:
            if when is not None and not when(hand):
                continue
            if (evidence := (yield reads)) is None:
                continue
            hand.evidence = evidence
        if (found := check(hand)) is None:
            continue
        if isinstance(found, GuardVerdict):
            return found
        hand.found = found
    return hand.concluded()


def judge(hand: CallInHand) -> GuardVerdict:
    """Return the verdict of the gates that need no evidence but what is in `hand` already."""
    walking = walk(hand)
    try:
        next(walking)
        while True:
            walking.send(None)
    except StopIteration as end:
        verdict: GuardVerdict = end.value
        return verdict


def foresee(hand: CallInHand) -> GuardVerdict | None:
    """Return the verdict on a call whose gates need nothing to be read; None for any other."""
    try:
        next(walk(hand))
    except StopIteration as end:
        verdict: GuardVerdict = end.value
        return verdict
    return None


def judge_batch(
    batch: Sequence[FunctionCall],
    setting: Setting,
    past: Sequence[PastCall] = (),
    *,
    place: int = 0,
    sources: BatchSources | None = None,
    evidence: Evidence = NO_EVIDENCE,
) -> tuple[GuardVerdict, ...]:
    """Judge the calls of a batch from a `place` on, as if every one before another had been sent: what a proof has."""
    known, judged_calls = list(past), []
    for at in range(place, len(batch)):
        known_sources = None if sources is None else sources.calls[at]
        sequence = len(past) + 1 + at - place
        before = Before(tuple(known))
        hand = CallInHand(
            call=batch[at],
            setting=setting,
            sequence=sequence,
            place=at,
            sources=known_sources,
            before=before,
            evidence=evidence,
        )
        judged = judge(hand)
        judged_calls.append(judged)
        if judged.disposition is CallDisposition.EXECUTED:
            known.append(PastCall(judged.sequence, judged.tool_name, judged.arguments))
        elif judged.disposition in (CallDisposition.AWAITING, CallDisposition.WAITS):
            known.append(PastCall.waiting(judged.sequence, judged.tool_name, judged.arguments))
    return tuple(judged_calls)


def _authorized(hand: CallInHand, operation_key: str, rule: ToolRule) -> AuthorizedCall:
    setting, arguments = hand.setting, hand.arguments
    key = None if rule.key is None else rule.key.filled(operation_key)
    name, sent = rule.grant.name, with_key(arguments, key)
    whole = [name, setting.policy.servers.get(name, ONE_SERVER), sent, setting.user_id]
    if key is not None and key.location.place is not KeyPlace.ARGUMENT:
        whole.append([str(key.location), key.value])
    return AuthorizedCall(
        name,
        arguments,
        setting.user_id,
        hand.sequence,
        operation_key,
        rule.mutating,
        rule.traits.ledger,
        decision_id=setting.decision_id,
        key=key,
        read_back=_outcome_read(setting, rule, sent),
        request=digest(whole) if rule.mutating and not rule.traits.ledger else None,
        seal=SEAL,
    )


def _outcome_read(setting: Setting, rule: ToolRule, arguments: dict[str, Any]) -> OutcomeRead | None:
    """Return the read that shows whether a call was made; None without one, or if the rules do not permit it now.

    Conditions that name facts judge the call itself, and no read that the runtime makes about it.
    """
    declared = rule.grant.done_if
    filled = None if declared is None else arguments_of(declared, arguments)
    if declared is None or filled is None:
        return None
    # It is none of the calls of a message.
    reads = replace(setting.of_reads(), decision_id="", of_message=True)
    permitted = permitted_read(FunctionCall(name=declared.tool, arguments=filled), reads)
    return None if permitted is None else OutcomeRead(permitted, declared.path, declared.complete_after, arguments)


def judge_request(
    request: ApprovalRequest,
    policy: CompiledPolicy,
    approvals: Mapping[str, int],
    facts: Facts | None = None,
    results: CallFacts | None = None,
) -> GuardVerdict:
    """Judge the call of an approval request, with the requester's yes if it was given, as its closing decision does."""
    action = request.action
    setting = Setting(
        policy=policy,
        user_id=request.user_id,
        roles=request.user_roles,
        facts=facts,
        confirmed=action,
        yes=request.confirmed,
        approvals=approvals,
    )
    call = FunctionCall(name=action.tool_name, arguments=action.arguments)
    return judge(CallInHand(call=call, setting=setting, sources=request.sources, evidence=Evidence(results=results)))


def sent_before(hand: CallInHand, operation_key: str, request: str | None) -> AuthorizedCall | None:
    """Return the permission to learn the outcome of a call that a closed decision has sent; None if it was another one.

    `request` is the digest of what was sent. With its key it is sent again only if the policy still grants exactly that.
    """
    rule = hand.setting.policy.rules.get(hand.name)
    if rule is None or not rule.mutating or request is None:
        return None
    # The line may have got the marker of the key after the call.
    for known in (rule, replace(rule, key=None)):
        call = _authorized(hand, operation_key, known)
        if call.request == request:
            return call
    return None


def permitted_read(call: FunctionCall, setting: Setting) -> AuthorizedCall | None:
    """Return the permission of a read for display, outside any decision; None for a call that may change something."""
    # A display shows the user's own choice, and no model.
    sources = CallSources(arguments={name: [_OF_USER] for name in call.arguments})
    permitted = judge(CallInHand(call=call, setting=setting, sources=sources)).authorized
    return None if permitted is None or permitted.mutating else permitted


def sources_of_read(of_call: CallSources, arguments: Iterable[str]) -> CallSources:
    """Return the sources of a read that the runtime makes for a call: each argument has all of those of the call."""
    found = [one for each in of_call.arguments.values() for one in each] or [_OF_USER]
    return of_call.replace(arguments=dict.fromkeys(arguments, found), parts={})


def judge_fact_read(hand: CallInHand, number: int) -> GuardVerdict:
    """Judge a read that the runtime makes for facts, as a call of the user beside the others of the turn.

    Everything that restricts the tool holds for it, but for the conditions that name facts: they could only be judged after it.
    Its sources are those of the call that it is made for: any of them may be that of an argument. `number` counts these reads.
    """
    if hand.sources is not None:
        hand = replace(hand, sources=sources_of_read(hand.sources, hand.call.arguments))
    judged = judge(hand)
    permitted = judged.authorized
    if permitted is None:
        return judged
    if permitted.mutating:
        return replace(judged, disposition=CallDisposition.REFUSED, authorized=None, reason=Reason(ReasonCode.MAY_CHANGE))
    # It is none of the calls of the turn.
    key = f"{hand.setting.decision_id}:read:{number}"
    return replace(judged, authorized=replace(permitted, sequence=FACT_READS + number, operation_key=key, seal=SEAL))
