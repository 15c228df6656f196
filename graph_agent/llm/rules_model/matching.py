"""The tasks that a few words mean. Nothing is completed, changed or deleted on a guess."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from rapidfuzz import fuzz

from graph_agent.llm.rules_model.wording import shown
from graph_agent.llm.rules_model.words import ACTION_VERBS, base_form, pairs, words

_WORD: Final = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_EMPTY: Final = words("""
    a an the my our your to of for and or in on at with about from some any task tasks reminder reminders item one thing
    that already have has had just now we no not never nevermind nvm won't will been am are was were today yesterday
    tonight earlier finally recently btw lol entry note chore errand stuff those these which who hey so then also this
    it is s todo do doing done did up off out i me please anymore both
""")
_ENDING: Final = re.compile(r"(?<=...)(?:ies|es|ing|ed|(?<!s)s|y|e)$")
_SYNONYMS: Final = pairs("""
    get:buy grab:buy purchase:buy phone:call ring:call speak:call talk:call email:send mail:send post:send mum:mom mother:mom
    puppy:dog appt:appointment pic:photo fix:repair acct:account vacation:trip
""")
"""Words for the same thing: "I got the milk" reports "buy milk"."""


@dataclass(frozen=True, slots=True)
class KnownTask:
    id: str
    description: str
    completed: bool

    @property
    def shown(self) -> str:
        return shown(self.description)


def exact_matches(description: str, tasks: Sequence[KnownTask]) -> tuple[KnownTask, ...]:
    """Return the tasks with this whole description, in any case, also where a reply showed it shortened."""
    wanted = shown(description).casefold().strip(" .!?")
    return tuple(task for task in tasks if task.shown.casefold().strip(" .!?") == wanted)


def find(wanted: str, tasks: Sequence[KnownTask]) -> tuple[tuple[KnownTask, ...], tuple[KnownTask, ...]]:
    """Return the tasks that `wanted` names, and those that it may mean; the best ones only, so that one of the two is empty."""
    if same := exact_matches(wanted, tasks):
        return same, ()
    asked = _stems(wanted)
    if not asked:
        return tuple(task for task in tasks if wanted and wanted in task.description), ()
    ratings = [_rate(asked, _stems(task.description)) for task in tasks]
    best = max(ratings, default=(False, 0.0))
    found = tuple(task for task, rating in zip(tasks, ratings, strict=True) if rating[1] and rating == best)
    return (found, ()) if best[0] else ((), found)


def _rate(asked: Sequence[str], there: Sequence[str]) -> tuple[bool, float]:
    """Return if the words of a request name a task, and how well; 0 if they share nothing that counts.

    A task that shares only its verb is not meant: "buy stamps" is not "buy milk". Words that the task does not have are
    forgiven if they are few, or if they come with all the words of the task.
    """
    likeness = {word: _best_likeness(word, there) for word in asked}
    missing = [word for word in asked if not likeness[word]]
    verb = there[0] if there[0] in _VERB_STEMS and len(there) > 1 else ""
    nouns = [word for word in asked if likeness[word] and word != verb]
    if missing and not nouns:
        return False, 0.0
    covered = len(there) > 1 and all(_best_likeness(word, asked) for word in there)
    return covered or len(missing) <= len(nouns) / 2, sum(likeness.values())


def _best_likeness(word: str, others: Sequence[str]) -> float:
    return max((_likeness(word, other) for other in others), default=0.0)


def _likeness(word: str, other: str) -> float:
    """Return 1 for the same stem, 0.8 for the beginning of a longer word or a typing error, 0 for another word."""
    if word == other:
        return 1.0
    short, long = sorted((word, other), key=len)
    if len(short) < 4 or short[0] != long[0]:
        return 0.0
    near = long.startswith(short) or fuzz.ratio(word, other) >= 86 or sorted(word) == sorted(other)
    return 0.8 if near else 0.0


def _stems(text: str) -> tuple[str, ...]:
    """Return the stems of the words that carry a meaning, in their order."""
    found = [word.casefold().replace("’", "'").removesuffix("'s").replace("'", "") for word in _WORD.findall(text)]
    kept = [word for word in found if word not in _EMPTY]
    return tuple(dict.fromkeys(map(_stem, kept or found)))


@cache
def _stem(word: str) -> str:
    """Return a word without the endings of plurals and verbs: "groceries" and "grocery", "bought" and "buy"."""
    base = base_form(word)
    return _ENDING.sub("", _SYNONYMS.get(base, base))


_VERB_STEMS: Final = frozenset(map(_stem, ACTION_VERBS))
