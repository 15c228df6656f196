"""What a person can mean, as frozen values: the language between reading a sentence and acting on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["pending", "completed"]


@dataclass(frozen=True, slots=True)
class Position:
    """A place in the list as it was shown: 1 is the first, -1 the last."""

    number: int


@dataclass(frozen=True, slots=True)
class Named:
    """A task by some of its words."""

    words: str


@dataclass(frozen=True, slots=True)
class Exact:
    """A task by its whole description, as it was shown."""

    description: str


@dataclass(frozen=True, slots=True)
class Referent:
    """Something said before: "it", "that one"."""


@dataclass(frozen=True, slots=True)
class Unnamed:
    """A task nobody named: "remove a task"."""


@dataclass(frozen=True, slots=True)
class Each:
    """Several tasks, each by its place: "1 and 3", "the first two"."""

    places: tuple[Position | Exact, ...]


Target = Position | Named | Exact | Referent | Unnamed | Each


@dataclass(frozen=True, slots=True)
class Create:
    """`description` None: something is to be added, but not said what."""

    description: str | None


@dataclass(frozen=True, slots=True)
class Show:
    """The list, or with `about` the answer to whether something is on it."""

    status: Status | None = None
    about: str | None = None


@dataclass(frozen=True, slots=True)
class Complete:
    target: Target


@dataclass(frozen=True, slots=True)
class Change:
    """`text` None: the new words were not said."""

    target: Target
    text: str | None


@dataclass(frozen=True, slots=True)
class Delete:
    target: Target


@dataclass(frozen=True, slots=True)
class DeleteEvery:
    """The whole list at once, which is never done."""


@dataclass(frozen=True, slots=True)
class Chat:
    """Small talk; `kind` is a key of `replies.CHAT`."""

    kind: str


@dataclass(frozen=True, slots=True)
class Refuse:
    """Not a task matter, or not allowed; `kind` is a key of `replies.REFUSALS`."""

    kind: str


@dataclass(frozen=True, slots=True)
class Unclear:
    """A bare phrase: add it, or find it?"""

    phrase: str


@dataclass(frozen=True, slots=True)
class Offer:
    """A plan that was mentioned, not asked for: offer to add it. `list_name` is a list that is not kept here."""

    phrase: str
    list_name: str | None = None


@dataclass(frozen=True, slots=True)
class Dangling:
    """A reference without anything it could refer to, or without anything to do to it."""

    known: bool = False


Command = Create | Show | Complete | Change | Delete | DeleteEvery
Talk = Chat | Refuse | Unclear | Offer | Dangling
Intent = Command | Talk
