"""Phrases with slots, found in the words of a text.

A slot takes any of several fillings. A phrase is never written out with each of them: one with four slots has thousands of
forms, for which a pattern takes seconds to compile.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

Words = tuple[str, ...]

EMOJI_PARTS = "\ufe0f🏻🏼🏽🏾🏿"
"""The variation selector and the skin tones, which follow an emoji."""

_PART = re.compile(r"\{([^}]*)\}|([^{}\s][^{}]*)")
"""A slot, or the words between two."""


def words_of(text: str) -> Words:
    """Return the words of `text`: runs of letters, marks and digits. Apostrophes are removed, so that "don't" is "dont"."""
    plain = text.replace("'", "").replace("’", "")
    return tuple("".join(character if is_of_a_word(character) else " " for character in plain).split())


def is_of_a_word(character: str) -> bool:
    """True for a letter, a mark or a digit."""
    return unicodedata.category(character)[0] in "LMN" and character not in EMOJI_PARTS


_written_words = lru_cache(maxsize=4096)(words_of)
"""`words_of` for the phrases of word lists, which are the same for each question."""


@dataclass(frozen=True, slots=True)
class Fillings:
    """The phrases that may fill a slot."""

    phrases: frozenset[Words]
    longest: int
    """The most words that one of them has."""

    @classmethod
    def of(cls, texts: Iterable[str]) -> Self:
        phrases = frozenset(map(_written_words, texts)) - {()}
        return cls(phrases, max(map(len, phrases), default=0))

    def ends(self, words: Words, start: int) -> Iterator[int]:
        """Yield where each of these phrases ends that begins at `start`."""
        for end in range(start + 1, min(start + self.longest, len(words)) + 1):
            if words[start:end] in self.phrases:
                yield end


class Phrases:
    """A set of phrases, some with slots in braces: "delete", "{verb} {the} {object}"."""

    def __init__(self, texts: Iterable[str], slots: Mapping[str, Fillings]) -> None:
        different = dict.fromkeys(texts)
        self._plain = Fillings.of(text for text in different if "{" not in text)
        self._with_slots = [
            [slots[slot] if slot else Fillings.of([words]) for slot, words in _PART.findall(text)]
            for text in different
            if "{" in text
        ]

    def ends(self, words: Words, start: int = 0) -> set[int]:
        """Return where each of these phrases ends that begins at `start`."""
        found = set(self._plain.ends(words, start))
        for parts in self._with_slots:
            ends = {start}
            for part in parts:
                ends = {end for begin in ends for end in part.ends(words, begin)}
            found |= ends
        return found

    def found_in(self, words: Words) -> Iterator[Words]:
        """Yield these phrases in the order of `words`, at each place the longest one."""
        start = 0
        while start < len(words):
            end = max(self.ends(words, start), default=None)
            if end is not None:
                yield words[start:end]
            start = end or start + 1


def consists_of(words: Words, needed: Phrases, beside: Phrases) -> bool:
    """True if `words` are phrases of both sets in any order and nothing else, and at least one is `needed`."""
    reached = {(0, False)}
    for start in range(len(words)):
        for has_needed in {has for position, has in reached if position == start}:
            reached |= {(end, True) for end in needed.ends(words, start)}
            reached |= {(end, has_needed) for end in beside.ends(words, start)}
    return (len(words), True) in reached
