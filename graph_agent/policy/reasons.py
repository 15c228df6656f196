"""The reasons for which a call is not made now, as codes with their data. Their words are in `words/reasons.py`."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final, NamedTuple, Self


class ReasonCode(StrEnum):
    """The kinds of reasons. In brackets what `Reason.values` has."""

    # The call was not taken.
    TURN_ENDED = "turn ended"
    LEFT_OUT = "left out"
    """It comes after a call that waits for people."""
    CARD_STOPPED = "card stopped"
    """A call before it, which the user confirmed with it, was not done."""
    SAME_CALL = "same call"
    """The same call waits already."""

    # By itself.
    UNAVAILABLE = "unavailable"
    """(why, None if its server does not serve it now)"""
    NOT_LISTED = "not listed"
    TOO_MANY_AT_ONCE = "too many at once"
    """(limit)"""
    TOO_MANY_CALLS = "too many calls"
    """(limit)"""
    NO_OBJECT = "no object"
    NO_JSON = "no JSON"
    TOO_LARGE = "too large"
    TOO_DEEP = "too deep"
    SET_BY_RUNTIME = "set by the runtime"
    """(argument)"""
    UNCHECKED = "unchecked"
    MISFIT = "misfit"
    """(path, violation)"""
    OWN_DATA_ONLY = "own data only"

    # In view of other calls.
    DONE_BEFORE = "done before"
    LIMIT_PER_MESSAGE = "limit per message"
    """(limit)"""

    # By the rules. (names of the rules, the same with the facts that they read)
    CONDITIONS = "conditions"
    AWAITS_USER = "awaits user"
    AWAITS_OTHERS = "awaits others"
    WOULD_BE_DONE = "would be done"
    WOULD_BE_ASKED = "would be asked"
    WOULD_WAIT = "would wait"
    MAY_CHANGE = "may change"
    """A read of the runtime."""

    # By what it acts on.
    OBJECT_MISSING = "object missing"
    OBJECT_UNREADABLE = "object unreadable"
    NOT_COMPARED = "not compared"
    """(why)"""
    CHANGED_SINCE = "changed since"
    """(object, path, the value now, the value that was left)"""
    UNDONE_ALREADY = "undone already"
    """(decision)"""

    # By the question, or the request, with which it would end.
    TOO_MUCH_TO_SHOW = "too much to show"
    CHANGED_AGAIN = "changed again"
    REQUESTED_ALREADY = "requested already"
    """(request)"""
    DENIED = "denied"
    """(clause for the user)"""
    TOO_MANY_REQUESTS = "too many requests"
    """(limit)"""

    GIVEN = "given"
    """By a gate of an application. (for the model, for the user, names of the rules)"""


INVALID_ARGUMENTS: Final = frozenset(
    {
        ReasonCode.NO_OBJECT,
        ReasonCode.NO_JSON,
        ReasonCode.TOO_LARGE,
        ReasonCode.TOO_DEEP,
        ReasonCode.SET_BY_RUNTIME,
        ReasonCode.UNCHECKED,
        ReasonCode.MISFIT,
    }
)
"""The reasons after which other arguments may do."""


class Reason(NamedTuple):
    """A reason, with the data that its words name."""

    code: ReasonCode
    values: tuple[Any, ...] = ()

    @classmethod
    def of(cls, why: ReasonCode | Reason | str, clause: str = "") -> Self:
        """Return the reason of a code without data, or of an application: `why` for the model, and a `clause` for the user."""
        if isinstance(why, Reason):
            return cls(*why)
        return cls(why) if isinstance(why, ReasonCode) else cls(ReasonCode.GIVEN, (why, clause))
