"""The tasks that a few words mean. Nothing is completed, changed or deleted on a guess."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from rapidfuzz import fuzz

from graph_agent.rules_model.references import base_form
from graph_agent.rules_model.text import shown
from graph_agent.rules_model.vocabulary import ACTION_VERBS, words

_WORD: Final = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_EMPTY: Final = words(
    """
    a an the my our your to of for and or in on at with about from some any task tasks reminder reminders item one thing that
    this it is todo do doing did done up i me please anymore both
    """
)
_ALIKE: Final = 86.0
"""Two words of four letters or more that are at least so similar count as the same word, in percent."""


@dataclass(frozen=True, slots=True)
class Task:
    id: str
    description: str
    completed: bool

    @property
    def shown(self) -> str:
        return shown(self.description)


def exact_matches(description: str, tasks: Sequence[Task]) -> tuple[Task, ...]:
    """Return the tasks with this whole description, in any case, also where a reply showed it shortened."""
    wanted = shown(description).casefold().strip(" .!?")
    return tuple(task for task in tasks if task.shown.casefold().strip(" .!?") == wanted)


def find(wanted: str, tasks: Sequence[Task]) -> tuple[tuple[Task, ...], tuple[Task, ...]]:
    """Return the tasks that `wanted` names, and those that it may mean.

    A whole description counts more than all the wanted words, these more than a task all of whose words are wanted. A task
    that shares only the verb is not meant: "buy stamps" is not "buy milk".
    """
    if same := exact_matches(wanted, tasks):
        return same, ()
    stems = _stems(wanted)
    if not stems:
        return (), ()
    all_wanted, covered, possible = [], [], []
    for task in tasks:
        there = _stems(task.description)
        share = sum(_contains(there, stem) for stem in stems) / len(stems)
        if share == 1:
            all_wanted.append(task)
        elif len(there) > 1 and all(_contains(stems, stem) for stem in there):
            covered.append(task)
        elif share >= 0.5 and any(_contains(there, stem) for stem in stems - _verb_stems()):
            possible.append(task)
    whole = [task for task in all_wanted if len(_stems(task.description)) == len(stems)]
    named = whole if len(whole) == 1 else all_wanted or covered
    return tuple(named), tuple(possible)


def containing(wanted: str, tasks: Sequence[Task]) -> tuple[Task, ...]:
    """Return the tasks that contain all the words of `wanted`."""
    stems = _stems(wanted)
    return tuple(task for task in tasks if all(_contains(_stems(task.description), stem) for stem in stems))


_SYNONYMS: Final = {
    "get": "buy",
    "grab": "buy",
    "purchase": "buy",
    "phone": "call",
    "ring": "call",
    "speak": "call",
    "talk": "call",
}
"""Verbs for the same chore: "I got the milk" reports "buy milk"."""


@cache
def _verb_stems() -> frozenset[str]:
    return frozenset(map(_stem, ACTION_VERBS))


def _contains(stems: frozenset[str], stem: str) -> bool:
    if stem in stems:
        return True
    return len(stem) >= 4 and any(len(other) >= 4 and _is_alike(stem, other) for other in stems)


def _is_alike(stem: str, other: str) -> bool:
    """True for a typing error: one letter of many, or letters in the wrong order."""
    return fuzz.ratio(stem, other) >= _ALIKE or (stem[0] == other[0] and sorted(stem) == sorted(other))


def _stems(text: str) -> frozenset[str]:
    found = [word.casefold().replace("’", "'").removesuffix("'s") for word in _WORD.findall(text)]
    kept = [word for word in found if word not in _EMPTY]
    return frozenset(map(_stem, kept or found))


def _stem(word: str) -> str:
    """Return a word without the endings of plurals and verbs: "groceries" and "grocery", "bought" and "buy"."""
    word = _SYNONYMS.get(base := base_form(word), base)
    endings = (("ies", "y"), ("sses", "ss"), ("ches", "ch"), ("shes", "sh"), ("ing", ""), ("ed", ""), ("s", ""))
    for ending, instead in endings:
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            word = word[: len(word) - len(ending)] + instead
            break
    return word.removesuffix("e") if len(word) > 3 else word
