"""The requests that a message can make."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["pending", "completed"]


@dataclass(frozen=True, slots=True)
class Reference:
    """The task or tasks that the user means, by one of words, places, exact, pronoun and every; with none, by nothing.

    `places` count in the list as it was shown: 1 is the first, -1 the last. `exact` is a whole description as it was shown.
    With `every`, only the tasks of `status` are meant, and not those that have the words `but`. With `pronoun`, `other` stands
    for "the other one" of two. `told`: the words are a whole clause before "it": "lunch with Yuki happened, tick it".
    """

    words: str = ""
    places: tuple[int, ...] = ()
    exact: str = ""
    pronoun: bool = False
    every: bool = False
    told: bool = False
    other: bool = False
    status: Status | None = None
    but: str = ""


@dataclass(frozen=True, slots=True)
class Add:
    """One task for each text; without texts, the user did not say what to add. `timed`: the user expects to be alerted."""

    texts: tuple[str, ...] = ()
    timed: bool = False


@dataclass(frozen=True, slots=True)
class Show:
    """Show the list, or with `about` the tasks that contain these words. `dated`: the user asked for those of a date."""

    status: Status | None = None
    about: str | None = None
    dated: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """`instead` is the task to offer if none is meant: "I called mom" or "cancel the hotel" may not be about the list."""

    target: Reference
    instead: str = ""


class Complete(Change):
    """Mark a task as done."""


class Delete(Change):
    """Delete a task."""


@dataclass(frozen=True, slots=True)
class Update(Change):
    """Give a task the words `new`, which are None if the user did not say them; `inside`: in place of the words of `target`.

    `others` are readings in which the new words begin elsewhere: "change go to gym to swim".
    """

    new: str | None = None
    inside: bool = False
    others: tuple[Update, ...] = ()


@dataclass(frozen=True, slots=True)
class Offer:
    """Something that could be a task, or with `bare` also the words of a search; `items` are the things that it enumerates.

    `other_list` is the list that the user named instead of this one.
    """

    text: str
    items: tuple[str, ...] = ()
    bare: bool = False
    other_list: str = ""


@dataclass(frozen=True, slots=True)
class Say:
    """A fixed text: `kind` is its key in `replies`."""

    kind: str


Request = Add | Show | Complete | Update | Delete | Offer | Say
UNCLEAR = Say("unclear")
