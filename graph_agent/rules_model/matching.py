"""Finds the tasks that a few words mean. Nothing is completed, changed or deleted on a guess."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from rapidfuzz import fuzz

from graph_agent.rules_model.vocabulary import words

_T = TypeVar("_T")
SHOWN_LENGTH = 200
"""How many characters of a description are shown in a list."""

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_EMPTY = words(
    """
    a an the my our your to of for and or in on at with about from some any task tasks reminder reminders item one
    thing that this it is todo do doing did done up i me please
    """
)
_LIKE = 86.0


@dataclass(frozen=True, slots=True)
class Task:
    """A task as the list gave it."""

    id: str
    description: str
    completed: bool

    @property
    def shown(self) -> str:
        """The description on one line, shortened."""
        return shortened(self.description)


def shortened(text: str) -> str:
    """`text` on one line and at most `SHOWN_LENGTH` characters long."""
    line = " ".join(text.split())
    return line if len(line) <= SHOWN_LENGTH else line[: SHOWN_LENGTH - 1] + "…"


@dataclass(frozen=True, slots=True)
class Found:
    """`sure` are the tasks that bear all of the words, `possible` those that bear about half of them."""

    sure: tuple[Task, ...] = ()
    possible: tuple[Task, ...] = ()


def exactly(description: str, tasks: Sequence[Task]) -> tuple[Task, ...]:
    """The tasks with this whole description, also where it was shown shortened; letters' case does not matter."""
    wanted = shortened(description).casefold()
    return tuple(task for task in tasks if task.shown.casefold() == wanted)


def item_at(number: int, items: Sequence[_T]) -> _T | None:
    """The item at a place that counts from 1, or from -1 backwards; None outside."""
    index = number if number < 0 else number - 1
    return items[index] if number and -len(items) <= index < len(items) else None


def find(words: str, tasks: Sequence[Task]) -> Found:
    """The tasks that `words` may mean. A whole description beats a part of one."""
    same = exactly(words, tasks)
    if same:
        return Found(same)
    wanted = _stems(words)
    if not wanted:
        return Found()
    sure: list[Task] = []
    possible: list[Task] = []
    for task in tasks:
        there = _stems(task.description)
        share = sum(_is_in(stem, there) for stem in wanted) / len(wanted)
        if share == 1:
            sure.append(task)
        elif share >= 0.5 or (there and all(_is_in(stem, wanted) for stem in there)):
            possible.append(task)
    whole = [task for task in sure if len(_stems(task.description)) == len(wanted)]
    return Found(tuple(whole if len(whole) == 1 else sure), tuple(possible))


def _is_in(stem: str, stems: frozenset[str]) -> bool:
    if stem in stems:
        return True
    return len(stem) >= 4 and any(len(other) >= 4 and fuzz.ratio(stem, other) >= _LIKE for other in stems)


def _stems(text: str) -> frozenset[str]:
    words = [word.casefold().replace("’", "'").removesuffix("'s") for word in _WORD.findall(text)]
    kept = [word for word in words if word not in _EMPTY]
    return frozenset(_stem(word) for word in (kept or words))


_PAST = {
    "bought": "buy",
    "paid": "pay",
    "sent": "send",
    "wrote": "write",
    "made": "make",
    "went": "go",
    "took": "take",
    "got": "get",
    "gave": "give",
    "fed": "feed",
    "read": "read",
    "cut": "cut",
    "swept": "sweep",
    "brought": "bring",
    "met": "meet",
    "told": "tell",
    "found": "find",
    "sold": "sell",
}


def _stem(word: str) -> str:
    """`word` without the endings of plurals and verbs: groceries and grocery, washing and washed, bought and buy."""
    word = _PAST.get(word, word)
    for ending, instead in (("ies", "y"), ("sses", "ss"), ("ches", "ch"), ("shes", "sh"), ("ing", ""), ("ed", ""), ("s", "")):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            word = word[: len(word) - len(ending)] + instead
            break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "lse":
        word = word[:-1]
    return word.removesuffix("e") if len(word) > 3 else word
