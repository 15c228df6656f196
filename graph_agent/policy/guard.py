"""The guard: decides which calls of a batch are permitted. Pure functions without I/O.

A whole batch is judged before any of its calls starts; a call whose conditions depend on the calls before it is deferred, and
judged with the rest of the batch after they have ended. Every check fails closed. Permission is a value: only `judge_batch`
creates an `AuthorizedCall`, and a tool server accepts nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from graph_agent.errors import ToolErrorCode
from graph_agent.models.canonical import canonical_json, digest
from graph_agent.models.decision import ApprovalRequest, EarlierCall, PendingAction, PendingCall
from graph_agent.models.facts import Facts
from graph_agent.models.llm import FunctionCall
from graph_agent.models.record import FACT_READS
from graph_agent.models.sources import BatchSources, CallSources, FoundSource, Source
from graph_agent.models.tools import ToolResult
from graph_agent.policy.cedar.conditions import ConditionsDecision, Decision, NeededApproval, Situation
from graph_agent.policy.compiled import ONE_SERVER, CompiledPolicy, ToolRule
from graph_agent.policy.key_location import KeyPlace
from graph_agent.policy.operation_key import SentKey
from graph_agent.policy.outcome_reads import arguments_of
from graph_agent.policy.past_call import PastCall
from graph_agent.policy.schema.check import MAX_ARGUMENT_BYTES, MAX_ARGUMENT_DEPTH
from graph_agent.reply.fixed import NOT_PERMITTED

if TYPE_CHECKING:
    # Only named in a signature: it imports Cedar, which belongs to an extra.
    from graph_agent.policy.cedar.fact_values import CallFacts

MAX_CALLS_PER_ROUND = 5

SKIPPED = "skipped: the turn stopped before this call"
AWAITING = "waiting for the user's confirmation"
LEFT_OUT = "not run: it comes after a call that waits for the user's confirmation; request it again after the answer"
NEEDS_APPROVAL = "waiting for the approval of another person"
STOPPED = "not run: the call before it, which the user confirmed with it, was not done"
SAME_CALL = "not run: the same call waits for the user's confirmation already"
CONFIRMED_BEFORE = "not permitted again: the user has confirmed this call once, and it was made"
DONE_BEFORE = "not run: it was done before the user was asked"
DEFERRED = "it depends on the calls before it, which have not ended"

# The rules in words for the user, who reads them in a notice; the texts above are for the model.
NOT_LISTED = "not in the constitution"
INVALID_ARGUMENTS = "its details were not valid"
_NOT_SERVED = "not available now"
_OWN_DATA_ONLY = "only your own data can be used"
_MAY_CHANGE = "it may change something"
_DONE_BEFORE = "it was done before I asked you"

_OF_USER = FoundSource(source=Source.USER)

# Passed by `judge_batch` only, so that no other code creates an AuthorizedCall by accident.
_SEAL = object()


class CallDecision(StrEnum):
    """The guard's decision on one call."""

    PERMITTED = "permitted"
    REFUSED = "refused"
    REPEATED = "repeated"
    """An identical call came earlier in this turn and is not a read; this one runs only if that one definitely failed."""
    AWAITING = "awaiting"
    """It needs the user's confirmation, or may change something and comes after a call that needs it."""
    WAITS = "waits"
    """It needs the approval of other people, and the user's confirmation only if it has that already."""
    SKIPPED = "skipped"
    """A read after a call that waits for the user, the same call as that one, or one that would wait for an approval alone."""
    DEFERRED = "deferred"
    """Its conditions depend on what the calls before it in the batch do: it is judged after they have ended, with the rest."""


@dataclass(frozen=True, slots=True)
class AuthorizedCall:
    """Permission for one call: only the guard creates it, only `run_authorized` uses it."""

    tool_name: str
    arguments: dict[str, Any]
    user_id: str
    sequence: int
    operation_key: str
    """A server that keeps an operation ledger performs the effect at most once under this key."""
    mutating: bool
    ledger: bool
    _: KW_ONLY
    decision_id: str = ""
    attempt: int = 1
    """The number of the attempt of the turn that sends the call."""
    key: SentKey | None = None
    """The operation key as the server takes it: such a call may be sent again."""
    read_back: OutcomeRead | None = None
    """The read that tells whether the call took effect."""
    request: str | None = None
    """For a change without a ledger, the digest of exactly what is sent, to which server, and for whom."""
    seal: InitVar[object] = None

    def __post_init__(self, seal: object) -> None:
        if seal is not _SEAL:
            raise TypeError("only the guard creates an AuthorizedCall")

    def as_sent(self, attempt: int) -> Self:
        """Return the same permission as the attempt sends it: with the arguments that the runtime fills."""
        return replace(self, arguments=_with_key(self.arguments, self.key), attempt=attempt, seal=_SEAL)

    @property
    def may_be_sent_again(self) -> bool:
        """True if its server performs it at most once, however often it is sent."""
        return self.ledger or self.key is not None

    def unsettled_after(self, result: ToolResult) -> Self | None:
        """Return the call with all that can tell its outcome after this result; None if nothing can, or if it is known."""
        if not result.unknown:
            return None
        # A server that reports a failure has not lost its answer: the same call is not sent again.
        lost = result.error_code is not ToolErrorCode.TOOL_REPORTED_FAILURE
        call = self if lost else replace(self, key=None, seal=_SEAL)
        return call if call.may_be_sent_again or call.read_back is not None else None


@dataclass(frozen=True, slots=True)
class OutcomeRead:
    """A permitted read that tells whether a change was made."""

    call: AuthorizedCall
    path: str
    complete_after: int | None
    """The seconds after the call from which on a read that does not find the change proves that it was not made."""
    of_arguments: Mapping[str, Any]
    """The arguments of the change."""


@dataclass(frozen=True, slots=True)
class JudgedCall:
    """The guard's decision on one call of a batch, with the reason or the permission."""

    sequence: int
    tool_name: str
    arguments: dict[str, Any]
    """The arguments without `user_id`, which the runtime supplies."""
    decision: CallDecision
    authorized: AuthorizedCall | None = None
    repeats: tuple[int, ...] = ()
    """For REPEATED: the sequences of the identical earlier calls."""
    error_code: ToolErrorCode | None = None
    error: str | None = None
    rule: str = ""
    """For REFUSED: the rule that refuses the call, as a clause for the user. For AWAITING: the rules that require the yes."""
    needs: NeededApproval | None = None
    """The approval that the call waits for, now or after the yes. Such a call waits alone: no later one of its batch runs."""


class _Refusal(Exception):  # noqa: N818 (raised and caught in this module: a decision, not an error)
    def __init__(
        self, text: str, code: ToolErrorCode = ToolErrorCode.VALIDATION_ERROR, *, rule: str = INVALID_ARGUMENTS
    ) -> None:
        self.text = text
        self.code = code
        self.rule = rule
        super().__init__(text)


def judge_batch(
    batch: Sequence[FunctionCall],
    *,
    policy: CompiledPolicy,
    user_id: str,
    decision_id: str,
    past: Sequence[PastCall] = (),
    max_calls_per_turn: int,
    confirmed: PendingAction | None = None,
    done_before: Sequence[EarlierCall] = (),
    roles: tuple[str, ...] = (),
    facts: Facts | None = None,
    sources: BatchSources | None = None,
    of_message: bool = True,
    position: int = 0,
    reserved: ConditionsDecision | None = None,
    results: CallFacts | None = None,
    fact_reads: Sequence[PastCall] = (),
    for_facts: bool = False,
    approvals: Mapping[str, int] = MappingProxyType({}),
    yes: bool = True,
    asks: bool = False,
) -> tuple[JudgedCall, ...]:
    """Judge `batch` as a whole.

    `past` has every call that was judged earlier in this turn; `position` of them are of this batch, whose rest is judged.
    `confirmed` is the action whose calls are this batch, if the user has confirmed it: it permits exactly these, each at its
    place, with their operation keys. A change that is one of `done_before` is refused. From the first call on that needs the
    user's yes, every change waits for the same yes, and a read is left out: its result belongs after the change. The conditions
    see the `roles` of the user, the `facts` and the `sources` of the whole batch; they come after every other check, and only
    restrict. Without `of_message` a call that is limited per message needs the user's yes. `reserved` is the decision of the
    conditions on the first call, if it was reserved. `results` are the facts of the first call from the results of tools;
    another call that needs some is deferred. `fact_reads` are the reads that the runtime has made for such facts in this turn,
    which count as calls. With `for_facts` the batch itself is one. A call that needs more than the `approvals` of other people,
    counted by role, waits alone, after the calls before it. Without `yes` the calls of `confirmed` have approvals only, and not
    the user's yes. With `asks` every change needs it.
    """
    known = list(past)
    judged_calls: list[JudgedCall] = []
    waits, precedes = any(one.waits for one in past) and not for_facts, False
    for index, call in enumerate(batch):
        sequence = len(past) + index + 1
        if waits and confirmed is None and not policy.is_write(call.name):
            judged_calls.append(JudgedCall(sequence, call.name, call.arguments, CallDecision.SKIPPED, error=LEFT_OUT))
            continue
        try:
            rule, arguments = _check(call, position + index, sequence, policy, user_id, max_calls_per_turn)
            if any(one.waits and _is_call(one, call.name, arguments) for one in known):
                # One question does not ask twice for the same.
                judged_calls.append(JudgedCall(sequence, call.name, arguments, CallDecision.SKIPPED, error=SAME_CALL))
                continue
            if _is_deferred(policy, call.name, first=index == 0, precedes=precedes, for_facts=for_facts):
                judged_calls.append(JudgedCall(sequence, call.name, arguments, CallDecision.DEFERRED, error=DEFERRED))
                known.append(PastCall(sequence, call.name, arguments))
                continue
            key = _confirmed_key(confirmed, position + index, call.name, arguments)
            if key is None and rule.mutating and any(_is_call(one, call.name, arguments) for one in done_before):
                raise _Refusal(DONE_BEFORE, rule=_DONE_BEFORE)
            before = [*known, *fact_reads]
            running = [one for one in before if one.may_have_run]
            source = None if sources is None else sources.calls[position + index]
            situation = Situation(user_id, roles, facts, before, of_message, source, results, for_facts, approvals)
            decided = reserved if reserved and index == 0 else _ruling(policy, rule, arguments, situation)
            repeated = key is None and bool(_repeats(rule, call.name, arguments, running))
            again = repeated and any(one.confirmed and _is_call(one, call.name, arguments) for one in running)
            if repeated and (again or waits or decided.decision is not Decision.RUNS):
                # It is answered with the result of the earlier call, but has no permission to run.
                repeats = _repeats(rule, call.name, arguments, known)
                judged = JudgedCall(sequence, call.name, arguments, CallDecision.REPEATED, repeats=repeats, rule=decided.reason)
                why = CONFIRMED_BEFORE if again or not decided.reason else _not_permitted(decided)
                judged_calls.append(replace(judged, error_code=ToolErrorCode.ACCESS_DENIED, error=why))
                continue
            if decided.facts:
                # A server's words: no name of a tool is left in them.
                decided = decided._replace(facts=rule.user_text(decided.facts))
            if decided.decision is Decision.REFUSED:
                raise _Refusal(_not_permitted(decided), ToolErrorCode.ACCESS_DENIED, rule=decided.reason)
            needs, has_yes = decided.needs, key is not None and yes
            if decided.decision is Decision.WAITS:
                needs = needs or NeededApproval((), ())
            must_ask = rule.grant.requires_confirmation or decided.decision is Decision.ASKS or (asks and rule.mutating)
            waits_for_yes = must_ask and not has_yes
            if waits and needs is not None:
                judged_calls.append(
                    JudgedCall(sequence, call.name, arguments, CallDecision.SKIPPED, error=LEFT_OUT, needs=needs)
                )
                continue
            if waits_for_yes or waits or needs is not None:
                # The user is not asked about what would be refused after the yes.
                _require_below_limit(rule, running)
        except _Refusal as refusal:
            judged_calls.append(_refused(JudgedCall(sequence, call.name, call.arguments, CallDecision.REFUSED), refusal))
            continue
        if waits_for_yes or waits or needs is not None:
            decision = CallDecision.AWAITING if waits_for_yes or needs is None else CallDecision.WAITS
            judged_calls.append(_awaiting(JudgedCall(sequence, call.name, arguments, decision, needs=needs), decided))
            known.append(PastCall.waiting(sequence, call.name, arguments))
            waits = True
            continue
        keys = user_id, sequence, key or f"{decision_id}:{sequence}"
        authorized = _authorized(policy, rule, arguments, *keys, decision_id, roles, facts)
        judged = _judge_limit(authorized, rule, [*known, *fact_reads])
        judged_calls.append(judged)
        if judged.authorized is not None:
            # A repetition runs only if every identical call before it failed for certain.
            may_run = not any(earlier.may_have_run for earlier in known if earlier.sequence in judged.repeats)
            known.append(PastCall(sequence, call.name, arguments, may_have_run=may_run))
            precedes = True
    return tuple(judged_calls)


def _is_deferred(policy: CompiledPolicy, tool_name: str, *, first: bool, precedes: bool, for_facts: bool) -> bool:
    """True if a call cannot be judged yet: the calls before it change what its conditions read, or its facts are not read."""
    conditions = policy.conditions
    if conditions is None or for_facts:
        return False
    return (precedes and conditions.depends_on_calls(tool_name)) or (not first and conditions.needs_facts(tool_name))


def _authorized(
    policy: CompiledPolicy,
    rule: ToolRule,
    arguments: dict[str, Any],
    user_id: str,
    sequence: int,
    operation_key: str,
    decision_id: str,
    roles: tuple[str, ...],
    facts: Facts | None,
) -> AuthorizedCall:
    key = None if rule.key is None else rule.key.filled(operation_key)
    name, sent = rule.grant.name, _with_key(arguments, key)
    whole = [name, policy.servers.get(name, ONE_SERVER), sent, user_id]
    if key is not None and key.location.place is not KeyPlace.ARGUMENT:
        whole.append([str(key.location), key.value])
    return AuthorizedCall(
        name,
        arguments,
        user_id,
        sequence,
        operation_key,
        rule.mutating,
        rule.traits.ledger,
        decision_id=decision_id,
        key=key,
        read_back=_outcome_read(policy, rule, sent, user_id, roles, facts),
        request=digest(whole) if rule.mutating and not rule.traits.ledger else None,
        seal=_SEAL,
    )


def _with_key(arguments: dict[str, Any], key: SentKey | None) -> dict[str, Any]:
    return arguments if key is None else {**arguments, **key.at(KeyPlace.ARGUMENT)}


def _outcome_read(
    policy: CompiledPolicy,
    rule: ToolRule,
    arguments: dict[str, Any],
    user_id: str,
    roles: tuple[str, ...],
    facts: Facts | None,
) -> OutcomeRead | None:
    """Return the read that tells whether a call was made; None without one, or if the rules do not permit it now.

    Conditions that name facts judge the call itself, and no read that the runtime makes about it.
    """
    declared = rule.grant.done_if
    filled = None if declared is None else arguments_of(declared, arguments)
    if declared is None or filled is None:
        return None
    call = FunctionCall(name=declared.tool, arguments=filled)
    permitted = permitted_read(call, policy=policy, user_id=user_id, roles=roles, facts=facts, for_facts=True)
    return None if permitted is None else OutcomeRead(permitted, declared.path, declared.complete_after, arguments)


def _confirmed_key(confirmed: PendingAction | None, place: int, tool_name: str, arguments: dict[str, Any]) -> str | None:
    """Return the operation key of a call that the user has confirmed at this place of the batch; None for any other."""
    if confirmed is None or place >= len(confirmed.each) or not _is_call(confirmed.each[place], tool_name, arguments):
        return None
    return confirmed.operation_key(place + 1)


def judge_request(
    request: ApprovalRequest,
    policy: CompiledPolicy,
    approvals: Mapping[str, int],
    facts: Facts | None = None,
    results: CallFacts | None = None,
) -> JudgedCall:
    """Judge the call of an approval request, with the requester's yes if it was given, as its closing decision does."""
    action = request.action
    (judged,) = judge_batch(
        [FunctionCall(name=action.tool_name, arguments=action.arguments)],
        policy=policy,
        user_id=request.user_id,
        decision_id="",
        max_calls_per_turn=1,
        confirmed=action,
        roles=request.user_roles,
        facts=facts,
        results=results,
        sources=None if request.sources is None else BatchSources(calls=[request.sources]),
        approvals=approvals,
        yes=request.confirmed,
    )
    return judged


def sent_before(
    policy: CompiledPolicy,
    tool_name: str,
    arguments: dict[str, Any],
    *,
    user_id: str,
    decision_id: str,
    sequence: int,
    operation_key: str,
    request: str | None,
    roles: tuple[str, ...] = (),
    facts: Facts | None = None,
) -> AuthorizedCall | None:
    """Return the permission to learn the outcome of a call that a closed decision has sent; None if it was another one.

    `request` is the digest of what was sent. With its key it is sent again only if `policy` still grants exactly that.
    """
    rule = policy.rules.get(tool_name)
    if rule is None or not rule.mutating or request is None:
        return None
    # The line may have got the marker of the key after the call.
    for known in (rule, replace(rule, key=None)):
        call = _authorized(policy, known, arguments, user_id, sequence, operation_key, decision_id, roles, facts)
        if call.request == request:
            return call
    return None


def permitted_read(
    call: FunctionCall,
    *,
    policy: CompiledPolicy,
    user_id: str,
    roles: tuple[str, ...] = (),
    facts: Facts | None = None,
    for_facts: bool = False,
) -> AuthorizedCall | None:
    """Return the permission of a read for display, outside any decision; None for a call that may change something.

    With `for_facts` the runtime makes it, and the conditions that name facts do not judge it.
    """
    # A display shows the user's own choice, and no model.
    sources = BatchSources(calls=[CallSources(arguments={name: [_OF_USER] for name in call.arguments})])
    given: dict[str, Any] = {"policy": policy, "user_id": user_id, "roles": roles, "facts": facts, "sources": sources}
    (judged,) = judge_batch([call], **given, decision_id="", max_calls_per_turn=1, for_facts=for_facts)
    permitted = judged.authorized
    return None if permitted is None or permitted.mutating else permitted


def judge_fact_read(
    tool_name: str,
    arguments: dict[str, Any],
    *,
    policy: CompiledPolicy,
    user_id: str,
    decision_id: str,
    past: Sequence[PastCall],
    fact_reads: Sequence[PastCall],
    roles: tuple[str, ...],
    facts: Facts | None,
    of_message: bool,
    sources: CallSources | None,
    number: int,
) -> JudgedCall:
    """Judge a read that the runtime makes for facts, as a call of the user beside the `past` ones and the other such reads.

    Everything that restricts the tool holds for it, but for the conditions that name facts: they could only be judged after it.
    `sources` are those of the call that it is made for: any of them may be that of an argument. `number` counts these reads.
    """
    (judged,) = judge_batch(
        [FunctionCall(name=tool_name, arguments=arguments)],
        policy=policy,
        user_id=user_id,
        decision_id=decision_id,
        past=past,
        max_calls_per_turn=len(past) + 1,
        roles=roles,
        facts=facts,
        of_message=of_message,
        sources=None if sources is None else BatchSources(calls=[_inherited(sources, arguments)]),
        fact_reads=fact_reads,
        for_facts=True,
    )
    permitted = judged.authorized
    if permitted is None:
        return judged
    if permitted.mutating:
        return replace(judged, decision=CallDecision.REFUSED, authorized=None, rule=_MAY_CHANGE)
    # It is none of the calls of the turn.
    key = f"{decision_id}:read:{number}"
    return replace(judged, authorized=replace(permitted, sequence=FACT_READS + number, operation_key=key, seal=_SEAL))


def _inherited(sources: CallSources, arguments: dict[str, Any]) -> CallSources:
    found = [one for each in sources.arguments.values() for one in each] or [_OF_USER]
    return sources.replace(arguments=dict.fromkeys(arguments, found))


def checked_arguments(
    call: FunctionCall, *, position: int, sequence: int, policy: CompiledPolicy, user_id: str, max_calls_per_turn: int
) -> dict[str, Any] | None:
    """Return the arguments that conditions would see; None if the call is refused before they are asked."""
    try:
        return _check(call, position, sequence, policy, user_id, max_calls_per_turn)[1]
    except _Refusal:
        return None


def _ruling(policy: CompiledPolicy, rule: ToolRule, arguments: dict[str, Any], situation: Situation) -> ConditionsDecision:
    """Return the decision of the conditions; without any, the call runs, unless it is limited per message and has none."""
    name, conditions = rule.grant.name, policy.conditions
    decided = ConditionsDecision(Decision.RUNS) if conditions is None else conditions.judge(name, arguments, situation)
    limit = rule.grant.max_per_message
    return decided if situation.of_message or limit is None else decided.outside_message((_per_message(limit),))


def _per_message(limit: int) -> str:
    return f"at most {limit} per message (constitution)"


def _refused(judged: JudgedCall, refusal: _Refusal) -> JudgedCall:
    return replace(judged, decision=CallDecision.REFUSED, error_code=refusal.code, error=refusal.text, rule=refusal.rule)


def _awaiting(judged: JudgedCall, decided: ConditionsDecision) -> JudgedCall:
    if judged.decision is CallDecision.WAITS and judged.needs is not None:
        # The conditions may have asked for the yes too, which the call has.
        waits_for, reason = NEEDS_APPROVAL, "; ".join(judged.needs.rules)
    else:
        waits_for, reason = AWAITING, decided.reason
    return replace(judged, error=f"{waits_for} ({reason})" if reason else waits_for, rule=reason)


def _not_permitted(decided: ConditionsDecision) -> str:
    return f"{NOT_PERMITTED}{decided.reason}"


def _repeats(rule: ToolRule, tool_name: str, arguments: dict[str, Any], known: Sequence[PastCall]) -> tuple[int, ...]:
    """Return the sequences of the identical earlier calls. A read repeats nothing."""
    return tuple(one.sequence for one in known if rule.mutating and _is_call(one, tool_name, arguments))


def _judge_limit(call: AuthorizedCall, rule: ToolRule, known: Sequence[PastCall]) -> JudgedCall:
    """Judge a call that is permitted by itself, in view of the earlier ones."""
    repeats = _repeats(rule, call.tool_name, call.arguments, known)
    decision = CallDecision.REPEATED if repeats else CallDecision.PERMITTED
    judged = JudgedCall(call.sequence, call.tool_name, call.arguments, decision, call, repeats)
    try:
        _require_below_limit(rule, [earlier for earlier in known if earlier.may_have_run])
    except _Refusal as refusal:
        # A repetition keeps its decision: it is answered with the earlier result, but has no permission to run.
        decision = CallDecision.REPEATED if repeats else CallDecision.REFUSED
        return replace(_refused(judged, refusal), decision=decision, authorized=None)
    return judged


def _require_below_limit(rule: ToolRule, running: Sequence[PastCall]) -> None:
    """Raise `_Refusal` if as many calls of the tool were made for the message as its rule permits."""
    limit = rule.grant.max_per_message
    if limit is not None and sum(one.tool_name == rule.grant.name for one in running) >= limit:
        text = f"this can be done at most {limit} {'time' if limit == 1 else 'times'} for one message"
        raise _Refusal(text, rule=_per_message(limit))


def _check(
    call: FunctionCall, index: int, sequence: int, policy: CompiledPolicy, user_id: str, max_calls_per_turn: int
) -> tuple[ToolRule, dict[str, Any]]:
    """Return the rule of a call and its arguments without `user_id`. Raises `_Refusal`."""
    rule = policy.rules.get(call.name)
    if call.name in policy.unavailable:
        raise _Refusal(f"unavailable: {policy.unavailable[call.name]}", ToolErrorCode.TOOL_UNAVAILABLE, rule=_NOT_SERVED)
    if rule is None:
        raise _Refusal("there is no such tool", ToolErrorCode.TOOL_NOT_FOUND, rule=NOT_LISTED)
    if index >= MAX_CALLS_PER_ROUND:
        text = f"at most {MAX_CALLS_PER_ROUND} calls can be made at once"
        raise _Refusal(text, rule=f"at most {MAX_CALLS_PER_ROUND} at once")
    if sequence > max_calls_per_turn:
        text = f"at most {max_calls_per_turn} calls can be made for one message"
        raise _Refusal(text, rule=f"at most {max_calls_per_turn} actions per message")
    arguments: Any = call.arguments
    if not isinstance(arguments, dict):
        raise _Refusal("the arguments must be an object")
    try:
        size = len(canonical_json(arguments).encode())
    except (ValueError, TypeError, RecursionError):
        raise _Refusal("the arguments are not plain JSON") from None
    if size > MAX_ARGUMENT_BYTES:
        raise _Refusal("the arguments are too large")
    parts = list(_nested(arguments))
    if any(depth == MAX_ARGUMENT_DEPTH and isinstance(value, dict | list) for _, value, depth in parts):
        raise _Refusal("the arguments are nested too deeply")
    arguments = _for_user(rule, arguments, user_id)
    try:
        issue = rule.check.first_issue(arguments)
    except Exception:
        # The check is too expensive or the validator failed: arguments that were not checked are not permitted.
        raise _Refusal("the arguments cannot be checked") from None
    if issue is not None:
        where = f" at {issue.path}" if issue.path else ""
        raise _Refusal(f"the arguments do not fit the schema{where}: {issue.why}")
    return rule, arguments


def _for_user(rule: ToolRule, arguments: dict[str, Any], user_id: str) -> dict[str, Any]:
    """Return the arguments with the bound one set to the signed-in user, and without a `user_id` that no schema declares."""
    bound = rule.grant.bound_argument
    named = [] if rule.takes_user_id else [value for key, value, _ in _nested(arguments) if key == "user_id"]
    if bound is not None and bound in arguments:
        named.append(arguments[bound])
    if rule.key is not None and rule.key.argument in arguments:
        raise _Refusal(f"'{rule.key.argument}' is set by the runtime: leave it out")
    if any(value != user_id for value in named):
        text = "only the signed-in user's own data can be used"
        raise _Refusal(text, ToolErrorCode.ACCESS_DENIED, rule=_OWN_DATA_ONLY)
    if bound is not None:
        return {**arguments, bound: user_id}
    return {key: value for key, value in arguments.items() if key != "user_id" or rule.takes_user_id}


def _nested(value: Any, key: str | int = "", depth: int = 0) -> Iterator[tuple[str | int, Any, int]]:
    """Yield every value in JSON with its key or position and its depth, from 0 to `MAX_ARGUMENT_DEPTH`."""
    yield key, value, depth
    if isinstance(value, dict | list) and depth < MAX_ARGUMENT_DEPTH:
        for name, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _nested(part, name, depth + 1)


def _is_call(known: PastCall | PendingCall | EarlierCall, tool_name: str, arguments: dict[str, Any]) -> bool:
    """True if a known call is the one of `tool_name` with exactly `arguments`."""
    return known.tool_name == tool_name and canonical_json(known.arguments) == canonical_json(arguments)
