"""Finds the parts of a user's text that forbid or deny: what stands in them is named, and not given.

The phrases are in `denials.txt`, for twenty languages. Rather too much than too little counts as denied: a value that is
not the user's is asked about.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import Final, NamedTuple

from graph_agent.policy.word_lists import word_lists

Span = tuple[int, int]


class _Role(StrEnum):
    """The effect of a phrase in its clause: the sections of `denials.txt`."""

    DENIES = "denies"
    DENIES_VERB = "denies a verb"
    INTERJECTION = "interjections"
    NO_DENIAL = "no denial"
    EXCEPTS = "excepts"
    DENIES_BEFORE = "denies before"
    CONTRASTS = "contrasts"
    JOINS = "joins"
    GOES_ON = "goes on"
    ACTS = "acts"


_DENYING = frozenset({_Role.DENIES, _Role.DENIES_VERB, _Role.INTERJECTION})

# Vowel signs of Indic and Arabic scripts are no `\w`.
_LETTER = r"[\w\u0300-\u036f\u064b-\u065f\u0900-\u0963\u0966-\u09ff]"
_WORD = re.compile(rf"n(?=['’]\w)|(?<![^\W\d_])\d+|{_LETTER}+(?:['’]{_LETTER}+)*")
"""A word; the French `n'` is one, and other apostrophes are a part of it."""
_OF_NAME = re.compile(r"[.@/_-]\w")
"""The end of a part of a file's name or an address, such as `not` in `not.txt`."""
_UNSPACED = r"\u2e80-\u31ff\u3400-\u9fff\uac00-\ud7af"
_HAS_UNSPACED = re.compile(f"[{_UNSPACED}]")
_END = re.compile(r"(?<!\d)(?<!\b\w)(?<!\b\w\w)(?<!\b\w\w\w)\.(?=\s|$)|[!?;…]+(?=[\s\"'”»)]|$)|[؟।۔。！？]+|\f")
"""The end of a sentence, but for full stops after numbers and short words, which may be dates and abbreviations."""
_PAUSE = re.compile(r"[,:](?!\d)|\.(?=\s|$)|[،、，：()]|\s[-–—*•]\s|\n")


_Placed = tuple[int, int, _Role | None]
"""A word or a phrase: its start, its end and its role."""
_place = itemgetter(0)


@dataclass(slots=True)
class _Clause:
    start: int
    end: int
    words: list[_Placed] = field(default_factory=list)
    contrasts: bool = False
    denied: list[Span] = field(default_factory=list)

    def has(self, role: _Role) -> bool:
        return any(one is role for _, _, one in self.words)

    @property
    def is_denial_alone(self) -> bool:
        return bool(self.words) and all(role in _DENYING for _, _, role in self.words)

    @property
    def denies(self) -> bool:
        # "No, pay Ann" answers something.
        always = self.has(_Role.DENIES) or self.has(_Role.DENIES_VERB)
        return always or (self.has(_Role.INTERJECTION) and not self.is_denial_alone)

    @property
    def waits_for_verb(self) -> bool:
        """True if the verb that is denied comes after a pause: "never, under any circumstances, pay"."""
        return bool(self.words) and self.words[-1][2] is _Role.DENIES_VERB

    def deny(self, *, denied: bool) -> bool:
        """Set what is denied here, if its beginning is or is not. Return True if its end is denied."""
        start, spans = self.start, []
        for at, end, role in self.words:
            turned = denied
            if role is _Role.EXCEPTS:
                turned = not denied
            elif role is _Role.ACTS and not self.denies:
                turned = False
            elif role is _Role.DENIES_BEFORE:
                spans.append((self.start, at))
            if turned is not denied:
                spans += [(start, at)] * denied
                start, denied = end if turned else at, turned
        spans += [(start, self.end)] * denied
        self.denied = spans
        return denied


def denied_spans(text: str) -> list[Span]:
    """Return the parts of a text in lower case that are denied. A line break in it is "\\n", an empty line "\\f"."""
    words = sorted(_roles(text), key=lambda one: one[:2])
    if not any(role in _DENYING or role in (_Role.EXCEPTS, _Role.DENIES_BEFORE) for _, _, role in words):
        return []
    found: list[_Clause] = []
    before: list[_Clause] = []
    start = 0
    for end, is_question in [*((one.end(), "?" in one[0] or "؟" in one[0]) for one in _END.finditer(text)), (len(text), False)]:
        clauses = _clauses(text, start, end, _between(words, start, end))
        if before and clauses and all(clause.is_denial_alone for clause in clauses if clause.words):
            # "Pay Bob? Never!"
            for clause in before:
                clause.denied = [(clause.start, clause.end)]
        _judge(clauses)
        found += clauses
        before = clauses if is_question else []
        start = end
    return [span for clause in found for span in clause.denied]


def _judge(clauses: Sequence[_Clause]) -> None:
    """Find what is denied in the clauses of a sentence."""
    denied = waits = False
    for number, clause in enumerate(clauses):
        acts = clause.has(_Role.ACTS)
        if clause.denies:
            begins = True
            if (clause.words[0][2] not in _DENYING and not clause.contrasts) or clause.is_denial_alone:
                _deny_list_before(clauses, number)
        elif waits:
            begins = True
        else:
            begins = denied and not clause.contrasts and not acts
        if clause.words and clause.words[0][2] is _Role.GOES_ON:
            begins = _goes_on(clauses, number) or begins
        waits = clause.waits_for_verb or (waits and not acts)
        denied = clause.deny(denied=begins) if clause.words else denied


def _deny_list_before(clauses: Sequence[_Clause], number: int) -> None:
    """Deny the clauses before one that are a list with it: "Bob, Eve and Mallory get nothing"."""
    for clause in reversed(clauses[:number]):
        if clause.denies or clause.contrasts or clause.has(_Role.ACTS):
            return
        clause.denied = [(clause.start, clause.end)]


def _goes_on(clauses: Sequence[_Clause], number: int) -> bool:
    """Deny the clauses between one that goes on and a denial before it: "never read it, open it, or pay Bob"."""
    first = next((at for at in reversed(range(number)) if clauses[at].denies), None)
    if first is None or any(clause.contrasts for clause in clauses[first + 1 : number]):
        return False
    for clause in clauses[first + 1 : number]:
        clause.denied = [(clause.start, clause.end)]
    return True


def _clauses(text: str, start: int, end: int, words: Sequence[_Placed]) -> list[_Clause]:
    """Split a sentence at its pauses, before a contrast, and before "and not"."""
    borders = {one.end(): False for one in _PAUSE.finditer(text, start, end)}
    for number, (at, _, role) in enumerate(words, 1):
        if role is _Role.CONTRASTS:
            borders[at] = True
        elif role is _Role.JOINS and number < len(words) and words[number][2] in _DENYING:
            borders[at] = False
    clauses, begun, contrasts = [], start, False
    for border, next_contrasts in [*sorted(borders.items()), (end, False)]:
        inside = _between(words, begun, border)
        # A join only binds: "and not" begins with the denial.
        while inside and inside[0][2] is _Role.JOINS:
            inside.pop(0)
        clauses.append(_Clause(begun, border, inside, contrasts))
        begun, contrasts = border, next_contrasts
    return clauses


def _between(words: Sequence[_Placed], start: int, end: int) -> list[_Placed]:
    return list(words[bisect_left(words, start, key=_place) : bisect_left(words, end, key=_place)])


class _Lexicon(NamedTuple):
    by_word: Mapping[str, Sequence[tuple[tuple[str, ...], _Role]]]
    """The phrases that begin with a word, the longest first."""
    within: re.Pattern[str]
    roles: Mapping[str, _Role]
    """By phrase, of those that are found within words."""


@cache
def _lexicon() -> _Lexicon:
    by_word: dict[str, list[tuple[tuple[str, ...], _Role]]] = defaultdict(list)
    within: dict[str, _Role] = {}
    for section, phrases in word_lists(Path(__file__).with_suffix(".txt")).items():
        for phrase in phrases:
            if _HAS_UNSPACED.search(phrase):
                within[phrase] = _Role(section)
            else:
                words = tuple(phrase.split())
                by_word[words[0]].append((words, _Role(section)))
    # Of equal ones the section that is first in the file counts.
    ordered = {word: sorted(found, key=lambda one: -len(one[0])) for word, found in by_word.items()}
    return _Lexicon(ordered, re.compile("|".join(sorted(map(re.escape, within), key=len, reverse=True))), within)


_NOTHING: Final[Sequence[tuple[tuple[str, ...], _Role]]] = ()


def _roles(text: str) -> Iterator[_Placed]:
    """Yield the words of a text, or phrases of them, with their roles."""
    known = _lexicon()
    places = [(one.start(), one.end()) for one in _WORD.finditer(text)]
    words = [text[start:end].replace("'", "").replace("’", "") for start, end in places]
    at = 0
    while at < len(words):
        start, end = places[at]
        if _HAS_UNSPACED.search(words[at]):
            yield start, end, None
            at += 1
            continue
        length, role = 1, None
        is_name = _OF_NAME.match(text, end) is not None
        for phrase, its_role in _NOTHING if is_name else known.by_word.get(words[at], _NOTHING):
            if tuple(words[at : at + len(phrase)]) == phrase:
                length, role = len(phrase), its_role
                break
        yield start, places[at + length - 1][1], role
        at += length
    if _HAS_UNSPACED.search(text):
        yield from ((one.start(), one.end(), known.roles[one[0]]) for one in known.within.finditer(text))
