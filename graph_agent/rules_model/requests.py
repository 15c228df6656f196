"""The requests that a message can make."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["pending", "completed"]


@dataclass(frozen=True, slots=True)
class Reference:
    """The task or tasks that the user means. At most one of words, places, exact, pronoun and every is set; with none, no task
    was named.
    """

    words: str = ""
    places: tuple[int, ...] = ()
    """Places in the list as it was shown: 1 is the first, -1 the last."""
    exact: str = ""
    """A whole description, as it was shown."""
    pronoun: bool = False
    every: bool = False
    told: bool = False
    """With `words`: a whole clause that tells of the task before "it": "lunch with Yuki happened, tick it"."""
    other: bool = False
    """With `pronoun`: "the other one" of two that were listed."""
    status: Status | None = None
    """With `every`: only the tasks of this status."""
    but: str = ""
    """With `every`: the words of the tasks that are not meant."""


@dataclass(frozen=True, slots=True)
class Add:
    """One task for each text; without texts, the user did not say what to add. `timed`: the user expects to be alerted."""

    texts: tuple[str, ...] = ()
    timed: bool = False


@dataclass(frozen=True, slots=True)
class Show:
    """Show the list, or with `about` the tasks that contain these words."""

    status: Status | None = None
    about: str | None = None
    dated: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """`instead` is the task to offer if none is meant: "I called mom" or "cancel the hotel" may not be about the list."""

    target: Reference
    instead: str = ""


@dataclass(frozen=True, slots=True)
class Complete(Change):
    pass


@dataclass(frozen=True, slots=True)
class Delete(Change):
    pass


@dataclass(frozen=True, slots=True)
class Update(Change):
    new: str | None = None
    """The new words; None if the user did not say them."""
    inside: bool = False
    """The new words may replace only those that were named ("change milk to oat milk")."""
    others: tuple[Update, ...] = ()
    """Readings in which the new words begin elsewhere ("change go to gym to swim")."""


@dataclass(frozen=True, slots=True)
class Offer:
    """Something that could be a task: a chore, or with `bare` a noun phrase, which may also be a search.

    `items` are the single things of an enumeration; `other_list` is the list that the user named instead of this one.
    """

    text: str
    items: tuple[str, ...] = ()
    bare: bool = False
    other_list: str = ""


@dataclass(frozen=True, slots=True)
class Say:
    """A fixed text: `kind` is the one that `replies.fixed` takes."""

    kind: str


Request = Add | Show | Complete | Update | Delete | Offer | Say
UNCLEAR = Say("unclear")
