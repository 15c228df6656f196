"""A question to the user as people see it, from the question to its receipt: one card. `words/cards.py` composes it."""

from __future__ import annotations

from enum import StrEnum
from operator import not_
from typing import Any

from pydantic import Field

from graph_agent.models.base import Frozen, UtcDatetime
from graph_agent.models.said import Said, SaidRow


class CardState(StrEnum):
    """The state of a question and of its calls, as its row, the operations and the record have it."""

    WAITING = "waiting"
    WORKING = "working"
    """The user said yes, and the turn that follows it is running."""
    DONE = "done"
    UNDONE = "undone"
    """It was done, and undone later."""
    PARTLY = "partly"
    NOT_DONE = "not_done"
    UNKNOWN = "unknown"
    """It is not known whether it was done."""
    WAITS = "waits"
    """The user said yes, and it waits for the approval of other people."""
    AGREED = "agreed"
    """The user said yes to a plan, which is in force."""
    ENDED = "ended"
    """The user said yes to a plan, which is in force no more."""
    DECLINED = "declined"
    DENIED = "denied"
    """Another person denied it."""
    UNAPPROVED = "unapproved"
    """Not enough people approved it in time."""
    EXPIRED = "expired"
    SET_ASIDE = "set_aside"
    """Another message or question came in its place."""
    CANCELLED = "cancelled"
    VOID = "void"


class CardCall(Frozen):
    """One call of a card."""

    said: Said
    state: CardState | None = Field(default=None, exclude_if=not_)
    """The outcome of the call; None before a yes, and without one."""
    heading: str = Field(default="", exclude_if=not_)
    """The same in words, on a card of several calls."""
    result: tuple[SaidRow, ...] = Field(default=(), exclude_if=not_)
    """The values of its result that the call does not say: a server's words."""
    why: str = Field(default="", exclude_if=not_)
    """The reason for which it was not done, as a clause: a rule's, or a server's words."""
    tool_name: str
    arguments: dict[str, Any]


class Card(Frozen):
    """A question with everything that people read about it. A client shows it, and infers nothing."""

    id: str
    """The id of the question."""
    state: CardState
    heading: str
    late: str = Field(default="", exclude_if=not_)
    """The heading from `expires_at` on, of a card that waits."""
    note: str = Field(default="", exclude_if=not_)
    """The meaning of the state for the user, as a sentence."""
    calls: tuple[CardCall, ...]
    notices: tuple[str, ...] = Field(default=(), exclude_if=not_)
    """The sentences before the question: that it is asked again, what its message had changed, and the origins of values."""
    because: tuple[str, ...] = Field(default=(), exclude_if=not_)
    """The rules that ask for the yes, as sentences."""
    approval_then: str = Field(default="", exclude_if=not_)
    """The sentence about the other people who have to approve after the yes."""
    people: tuple[str, ...] = Field(default=(), exclude_if=not_)
    """The sentences about the other people who have to approve, and about those who have answered."""
    withdraw: str = Field(default="", exclude_if=not_)
    """The id of the open request for approval, which its requester can withdraw."""
    says: tuple[str, ...] = Field(default=(), exclude_if=not_)
    """The decisions whose replies say no more than the card."""
    request: str | None = Field(default=None, exclude_if=not_)
    """The id of the request for approval that its yes has opened."""
    created_at: UtcDatetime
    expires_at: UtcDatetime
    answered_at: UtcDatetime | None = Field(default=None, exclude_if=not_)
    answered_in: str | None = Field(default=None, exclude_if=not_)
    """The decision that followed the answer."""
    read: str = Field(default="", exclude_if=not_)
    """The digest that an answer names if the sentences do not show the calls in full; else empty."""
