"""The guard: what a model's batch of calls may do. Pure functions, no I/O.

A whole batch is judged before any of its calls starts. Every check fails closed. Permission is a value: `judge_batch` alone
makes an `AuthorizedCall`, and nothing else opens the executor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, InitVar, dataclass
from enum import StrEnum
from typing import Any

from graph_agent.errors import ToolErrorCode
from graph_agent.models.canonical import canonical_json
from graph_agent.models.decision import PendingAction
from graph_agent.models.llm import FunctionCall
from graph_agent.models.tools import ToolResult
from graph_agent.policy.schema.check import MAX_ARGUMENT_BYTES, MAX_ARGUMENT_DEPTH
from graph_agent.policy.rules import Policy, ToolRule

MAX_CALLS_PER_ROUND = 5

SKIPPED = "skipped: the turn stopped before this call"
AWAITING = "waiting for the user's confirmation"

_SEAL = object()


class Verdict(StrEnum):
    """What the guard says of one call."""

    PERMITTED = "permitted"
    REFUSED = "refused"
    REPEATED = "repeated"
    """The same write stands earlier in this turn; whether it runs depends on what became of that one."""
    AWAITING = "awaiting"
    """It needs the user's own yes; the batch stops here."""
    SKIPPED = "skipped"
    """It came after a call that stopped the batch."""


@dataclass(frozen=True, slots=True)
class AuthorizedCall:
    """Permission as a value: only the guard makes one, only `run_authorized` spends it."""

    tool_name: str
    arguments: dict[str, Any]
    user_id: str
    sequence: int
    operation_key: str
    """Under this key the effect takes place at most once, wherever the server keeps a ledger."""
    mutating: bool
    ledger: bool
    _: KW_ONLY
    seal: InitVar[object] = None

    def __post_init__(self, seal: object) -> None:
        if seal is not _SEAL:
            raise TypeError("only the guard makes an AuthorizedCall")


@dataclass(frozen=True, slots=True)
class Judgement:
    """The guard's word on one call of a batch."""

    sequence: int
    tool_name: str
    arguments: dict[str, Any]
    """Without the user's id, which the model need not have given."""
    verdict: Verdict
    authorized: AuthorizedCall | None = None
    repeats: tuple[int, ...] = ()
    """The sequences of the identical writes before it, with REPEATED."""
    error_code: ToolErrorCode | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class PastCall:
    """What the guard needs to know of a call that was judged earlier in the turn."""

    sequence: int
    tool_name: str
    arguments: dict[str, Any]


class _Refusal(Exception):  # noqa: N818 (it is a verdict on its way out, not an error)
    def __init__(self, code: ToolErrorCode, text: str) -> None:
        self.code = code
        self.text = text
        super().__init__(text)


def judge_batch(
    batch: Sequence[FunctionCall],
    *,
    policy: Policy,
    user_id: str,
    decision_id: str,
    past: Sequence[PastCall] = (),
    max_calls_per_turn: int,
    consent: PendingAction | None = None,
) -> tuple[Judgement, ...]:
    """Judge `batch` as a whole.

    `past` holds every call judged earlier in this turn. `consent` is the action the user has said yes to, if any: it permits
    exactly that call, under its own id as the operation key.
    """
    writes: dict[str, tuple[int, ...]] = {}
    for earlier_call in past:
        if _is_write(policy, earlier_call.tool_name):
            identity = _identity(earlier_call.tool_name, earlier_call.arguments)
            writes[identity] = (*writes.get(identity, ()), earlier_call.sequence)
    judgements: list[Judgement] = []
    stopped = False
    for place, call in enumerate(batch):
        sequence = len(past) + place + 1
        if stopped:
            judgements.append(Judgement(sequence, call.name, call.arguments, Verdict.SKIPPED, error=SKIPPED))
            continue
        try:
            rule, arguments = _check(call, place, sequence, policy, user_id, max_calls_per_turn)
        except _Refusal as refusal:
            judgements.append(
                Judgement(sequence, call.name, call.arguments, Verdict.REFUSED, error_code=refusal.code, error=refusal.text)
            )
            continue
        consented = consent is not None and consent.tool_name == call.name and _same(consent.arguments, arguments)
        if rule.grant.requires_confirmation and not consented:
            judgements.append(Judgement(sequence, call.name, arguments, Verdict.AWAITING, error=AWAITING))
            stopped = True
            continue
        authorized = AuthorizedCall(
            tool_name=call.name,
            arguments=arguments,
            user_id=user_id,
            sequence=sequence,
            operation_key=consent.id if consent is not None and consented else f"{decision_id}:{sequence}",
            mutating=rule.mutating,
            ledger=rule.traits.ledger,
            seal=_SEAL,
        )
        identity = _identity(call.name, arguments)
        earlier = writes.get(identity, ())
        if rule.mutating:
            writes[identity] = (*earlier, sequence)
        verdict = Verdict.REPEATED if earlier else Verdict.PERMITTED
        judgements.append(Judgement(sequence, call.name, arguments, verdict, authorized, repeats=earlier))
    return tuple(judgements)


def stands_for(earlier: ToolResult) -> bool:
    """Whether an earlier result answers an identical write: it was committed, or nobody knows. A definite failure does not."""
    return earlier.success or earlier.unknown


def _check(
    call: FunctionCall, place: int, sequence: int, policy: Policy, user_id: str, max_calls_per_turn: int
) -> tuple[ToolRule, dict[str, Any]]:
    rule = policy.rules.get(call.name)
    if rule is None:
        raise _Refusal(ToolErrorCode.TOOL_NOT_FOUND, "there is no such tool")
    if place >= MAX_CALLS_PER_ROUND:
        raise _Refusal(ToolErrorCode.VALIDATION_ERROR, f"at most {MAX_CALLS_PER_ROUND} calls can be made at once")
    if sequence > max_calls_per_turn:
        raise _Refusal(ToolErrorCode.VALIDATION_ERROR, f"at most {max_calls_per_turn} calls can be made for one message")
    arguments: Any = call.arguments
    if not isinstance(arguments, dict):
        raise _Refusal(ToolErrorCode.VALIDATION_ERROR, "the arguments must be an object")
    try:
        size = len(canonical_json(arguments).encode())
    except (ValueError, TypeError, RecursionError):
        raise _Refusal(ToolErrorCode.VALIDATION_ERROR, "the arguments are not plain JSON") from None
    if size > MAX_ARGUMENT_BYTES:
        raise _Refusal(ToolErrorCode.VALIDATION_ERROR, "the arguments are too large")
    if not _within_depth(arguments, MAX_ARGUMENT_DEPTH):
        raise _Refusal(ToolErrorCode.VALIDATION_ERROR, "the arguments are nested too deeply")
    if any(named != user_id for named in _named_users(arguments)):
        raise _Refusal(ToolErrorCode.ACCESS_DENIED, "only the signed-in user's own data can be used")
    arguments = {key: value for key, value in arguments.items() if key != "user_id"}
    try:
        slip = rule.check.slip(arguments)
    except Exception:
        # Too dear to check, or the validator fails in a way of its own: then nothing is permitted.
        raise _Refusal(ToolErrorCode.VALIDATION_ERROR, "the arguments cannot be checked") from None
    if slip is not None:
        where = f" at {slip.where}" if slip.where else ""
        raise _Refusal(ToolErrorCode.VALIDATION_ERROR, f"the arguments do not fit the schema{where}: {slip.keyword}")
    return rule, arguments


def _named_users(value: Any) -> list[Any]:
    """Every `user_id` the arguments name, at any depth."""
    if isinstance(value, dict):
        here = [value["user_id"]] if "user_id" in value else []
        return here + [found for nested in value.values() for found in _named_users(nested)]
    if isinstance(value, list):
        return [found for nested in value for found in _named_users(nested)]
    return []


def _within_depth(value: Any, limit: int) -> bool:
    if not isinstance(value, dict | list):
        return True
    nested = value.values() if isinstance(value, dict) else value
    return limit > 0 and all(_within_depth(item, limit - 1) for item in nested)


def _is_write(policy: Policy, tool_name: str) -> bool:
    rule = policy.rules.get(tool_name)
    return rule is not None and rule.mutating


def _identity(tool_name: str, arguments: dict[str, Any]) -> str:
    return canonical_json([tool_name, arguments])


def _same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return canonical_json(one) == canonical_json(other)
