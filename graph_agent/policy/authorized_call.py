"""Permission to make a call. It is a value: what sends calls accepts nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, InitVar, dataclass, replace
from typing import Any, Final, Self

from graph_agent.errors import ToolErrorCode
from graph_agent.models.tools import ToolResult
from graph_agent.policy.key_location import KeyPlace
from graph_agent.policy.operation_key import SentKey

SEAL: Final = object()
"""Imported by the guard only, so that no other code creates an `AuthorizedCall` by accident."""


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
    """The read that shows whether the call took effect."""
    request: str | None = None
    """For a change without a ledger, the digest of exactly what is sent, to which server, and for whom."""
    seal: InitVar[object] = None

    def __post_init__(self, seal: object) -> None:
        if seal is not SEAL:
            raise TypeError("only the guard creates an AuthorizedCall")

    def as_sent(self, attempt: int) -> Self:
        """Return the same permission as the attempt sends it: with the arguments that the runtime fills."""
        return replace(self, arguments=with_key(self.arguments, self.key), attempt=attempt, seal=SEAL)

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
        call = self if lost else replace(self, key=None, seal=SEAL)
        return call if call.may_be_sent_again or call.read_back is not None else None


@dataclass(frozen=True, slots=True)
class OutcomeRead:
    """A permitted read that shows whether a change was made."""

    call: AuthorizedCall
    path: str
    complete_after: int | None
    """The seconds after the call from which on a read that does not find the change proves that it was not made."""
    of_arguments: Mapping[str, Any]
    """The arguments of the change."""


def with_key(arguments: dict[str, Any], key: SentKey | None) -> dict[str, Any]:
    return arguments if key is None else {**arguments, **key.at(KeyPlace.ARGUMENT)}
