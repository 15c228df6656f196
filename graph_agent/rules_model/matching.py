"""The tasks that a few words mean. Nothing is completed, changed or deleted on a guess."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Final

from rapidfuzz import fuzz

from graph_agent.rules_model.wording import shown
from graph_agent.rules_model.words import ACTION_VERBS, base_form, words

_WORD: Final = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_EMPTY: Final = words(
    """
    a an the my our your to of for and or in on at with about from some any task tasks reminder reminders item one thing
    that already have has had just now we no not never nevermind nvm won't will been am are was were today yesterday
    tonight earlier finally recently btw lol entry note chore errand stuff those these which who hey so then also this
    it is s todo do doing did done up off out i me please anymore both
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
    """Return the tasks that `wanted` names, and those that it may mean; the best ones only.

    A whole description counts most. Else the words are compared by their stems; a task that shares only its verb is not meant:
    "buy stamps" is not "buy milk". Words that no task has are forgiven if they are few.
    """
    if same := exact_matches(wanted, tasks):
        return same, ()
    asked = _stems(wanted)
    if not asked:
        return tuple(task for task in tasks if wanted and wanted in task.description), ()
    rated = [(rating, task) for task in tasks if (rating := _rate(asked, _stems(task.description)))]
    named = [(score, task) for (sure, score), task in rated if sure]
    if best := max((score for score, _ in named), default=0.0):
        return tuple(task for score, task in named if score >= best - 0.2), ()
    best = max((score for (_, score), _ in rated), default=0.0)
    return (), tuple(task for (_, score), task in rated if score >= best - 0.2)


def _rate(asked: tuple[str, ...], there: tuple[str, ...]) -> tuple[bool, float] | None:
    """Return if the words of a request name the words of a task, and how well; None if they share nothing that counts."""
    pairs = {word: max((_likeness(word, other) for other in there), default=0.0) for word in asked}
    joined = {word for first, word in pairwise(asked) for both in (first + word,) if both in there}
    joined |= {first for first, word in pairwise(asked) if first + word in there}
    shared = {word: 1.0 if word in joined else like for word, like in pairs.items() if like or word in joined}
    verb = there[0] if there[0] in _VERB_STEMS and len(there) > 1 else ""
    nouns = {word: like for word, like in shared.items() if not verb or _likeness(word, verb) < 1}
    missing = [word for word in asked if word not in shared]
    if not shared or (not nouns and missing):
        return None
    covered = len(there) > 1 and all(
        any(_likeness(word, other) for word in asked) or other in "".join(asked) for other in there
    )
    other_verb = asked[0] in missing and asked[0] in _VERB_STEMS and asked[0] not in _ANY_VERB and bool(verb) and len(asked) > 1
    few = len(missing) <= len(nouns) / 2 if missing else True
    score = sum(nouns.values()) + (1 if len(asked) == 1 else 0.5) * (len(shared) - len(nouns)) + (0.1 if covered else 0)
    whole = not missing and all(word in asked or any(map(str.isdigit, word)) for word in there)
    return covered or (few and not other_verb), score + (0.3 if whole else 0)


def containing(wanted: str, tasks: Sequence[Task]) -> tuple[Task, ...]:
    """Return the tasks that contain all the words of `wanted`."""
    stems = _stems(wanted)
    return tuple(
        task for task in tasks if all(any(_likeness(stem, other) for other in _stems(task.description)) for stem in stems)
    )


def _likeness(word: str, other: str) -> float:
    """Return 1 for the same stem, 0.8 for the beginning of a longer word or a typing error, 0 for another word."""
    if word == other:
        return 1.0
    short, long = sorted((word, other), key=len)
    if len(short) < 4 or short[0] != long[0]:
        return 0.0
    common = next((place for place, (one, two) in enumerate(zip(short, long, strict=False)) if one != two), len(short))
    if common == len(short) or (common >= 5 and len(short) - common <= 2):
        return 0.8
    near = fuzz.ratio(word, other) >= _ALIKE or sorted(word) == sorted(other)
    return 0.8 if near else 0.0


_SYNONYMS: Final = {
    "get": "buy", "grab": "buy", "purchase": "buy", "obtain": "buy", "phone": "call", "ring": "call", "speak": "call",
    "talk": "call", "email": "send", "mail": "send", "post": "send", "mum": "mom", "mother": "mom", "puppy": "dog",
    "appointment": "appointment", "appt": "appointment", "pic": "photo", "fix": "repair", "acct": "account", "vacation": "trip",
}  # fmt: skip
"""Words for the same thing: "I got the milk" reports "buy milk"."""
_ANY_VERB: Final = frozenset({"do", "finish", "complet", "handl", "settl"})


def _stems(text: str) -> tuple[str, ...]:
    """Return the stems of the words that carry a meaning, in their order."""
    found = [word.casefold().replace("’", "'").removesuffix("'s").replace("'", "") for word in _WORD.findall(text)]
    kept = [word for word in found if word not in _EMPTY]
    return tuple(dict.fromkeys(map(_stem, kept or found)))


@cache
def _stem(word: str) -> str:
    """Return a word without the endings of plurals and verbs: "groceries" and "grocery", "bought" and "buy"."""
    word = _SYNONYMS.get(base := base_form(word), base)
    if word in ACTION_VERBS:
        return word.removesuffix("e") if len(word) > 3 else word
    endings = (("ies", "y"), ("sses", "ss"), ("ches", "ch"), ("shes", "sh"), ("xes", "x"), ("ing", ""), ("ed", ""), ("s", ""))
    for ending, instead in endings:
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            word = word[: len(word) - len(ending)] + instead
            break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "lsz":
        word = word[:-1]
    return word.removesuffix("e") if len(word) > 3 else word


_VERB_STEMS: Final = frozenset(map(_stem, ACTION_VERBS))
