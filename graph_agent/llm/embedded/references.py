"""The tasks that a few words name. A task is named only if it has every word; the words of a guess are asked about."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from rapidfuzz import fuzz

from graph_agent.llm.embedded.templates import begins_with, is_rule, meanings

SHOWN_LENGTH: Final = 200
"""The number of characters of a description that a reply shows."""
_SPAN: Final = re.compile(r"(?:the |my )?(first|last) (\w+)(?: ones| tasks| items)?", re.IGNORECASE)
_ENDINGS: Final = (("ies", "y"), ("es", ""), ("s", ""), ("ing", ""), ("ing", "e"), ("ed", ""), ("ed", "e"))


@dataclass(frozen=True, slots=True)
class KnownTask:
    id: str
    description: str
    completed: bool


def shown(text: str) -> str:
    """Return the text on one line, shortened if it is long."""
    line = " ".join(text.split())
    return line if len(line) <= SHOWN_LENGTH else f"{line[: SHOWN_LENGTH - 1]}…"


def bare(ref: str) -> str:
    """Return a reference without the words around the name of the task: "the milk one now" names "milk"."""
    words = ref.strip(" .!?,:;\"'").split()
    while len(words) > 1 and (begins_with("around", words[0]) or begins_with("after", words[-1])):
        words = words[1:] if begins_with("around", words[0]) else words[:-1]
    return " ".join(words).strip("\"'")


def exact(text: str, tasks: Sequence[KnownTask]) -> list[KnownTask]:
    """Return the tasks with this whole description, in any case, also where a reply showed it shortened."""
    wanted = shown(text).casefold().strip(" .!?")
    return [task for task in tasks if shown(task.description).casefold().strip(" .!?") == wanted]


def find_named(ref: str, tasks: Sequence[KnownTask]) -> list[KnownTask]:
    """Return the tasks that have all the words of `ref`; only one that has no others, if there is one."""
    wanted = _words(ref)
    found = [task for task in tasks if wanted and all(_is_one_of(word, _words(task.description)) for word in wanted)]
    whole = [task for task in found if has_no_other_word(task, ref)]
    return whole if len(whole) == 1 else found


def has_no_other_word(task: KnownTask, ref: str) -> bool:
    return all(_is_one_of(word, _words(ref)) for word in _words(task.description))


def share_a_word(text: str, other: str) -> bool:
    return any(_is_one_of(word, _words(other)) for word in _words(text))


def find_similar(ref: str, tasks: Sequence[KnownTask]) -> list[KnownTask]:
    """Return the tasks that share a word with `ref`, or nearly; their first word, mostly a verb, does not count."""
    near = [one for one in tasks for word in _words(ref) for other in _words(one.description)[1:] if _is_near(word, other)]
    return list(dict.fromkeys(near))


def places_of(ref: str) -> list[int]:
    """Return the numbers of a reference that consists of nothing else; those from the end are negative."""
    if (span := _SPAN.fullmatch(ref)) and (count := _number(span[2])):
        return list(range(1, count + 1) if span[1].lower() == "first" else range(-count, 0))
    words = re.findall(r"\w+", ref.lower())
    numbers = [_number(word) for word in words if not is_rule("beside_numbers", word)]
    other = re.search(r"[^\w\s,&#.]", ref) or None in numbers
    return [] if other else list(dict.fromkeys(filter(None, numbers))) or [1] * (words in (["task", "one"], ["number", "one"]))


def _number(word: str) -> int | None:
    digits = re.fullmatch(r"(\d{1,3})(?:st|nd|rd|th)?", word)
    return int(digits[1] if digits else meanings("number").get(word.lower(), 0)) or None


@lru_cache(maxsize=1024)
def _words(text: str) -> tuple[str, ...]:
    """Return the words that carry a meaning; all of them, if none does."""
    found = re.findall(r"[^\W_]+", re.sub(r"['’]s?\b", "", text.casefold()))
    return tuple(meanings("synonym").get(word, word) for word in [one for one in found if not is_rule("empty", one)] or found)


def _is_one_of(word: str, others: Sequence[str]) -> bool:
    return any(not _forms(word).isdisjoint(_forms(other)) for other in others)


def _is_near(word: str, other: str) -> bool:
    return _is_one_of(word, [other]) or (min(len(word), len(other)) > 3 and fuzz.ratio(word, other) >= 80)


@lru_cache(maxsize=1024)
def _forms(word: str) -> frozenset[str]:
    """Return the words that `word` can be a plural or a verb form of."""
    ends = [(end, new) for end, new in _ENDINGS if word.endswith(end) and len(word) > len(end) + 2]
    return frozenset({word, *(word.removesuffix(end) + new for end, new in ends)})
