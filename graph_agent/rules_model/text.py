"""A message as normal words that remember where they stood, so that descriptions keep the user's own spelling."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import cached_property

from rapidfuzz.distance import OSA

from graph_agent.rules_model.vocabulary import CORRECTABLE, KNOWN_WORDS, NORMAL_FORMS

QUOTE = "@quote"

_PIECE = re.compile(
    r"""
      "[^"\n]{1,1000}"                                            # "a quoted text"
    | “[^”\n]{1,300}”
    | (?<!\w)['‘](?:[^'’‘\n]|(?<=\w)['’](?=\w)){1,300}['’](?!\w)   # 'a quoted text', apostrophes inside words allowed
    | [^\W_]+(?:['’.:/@-][^\W_]+)*                                # a word, a time, an address
    | \n
    | [^\w\s]
    """,
    re.VERBOSE,
)
_KEPT_MARKS = frozenset(",.;:?!\n-#+$%&")


@dataclass(frozen=True, slots=True)
class Token:
    """`norm` is what the grammar sees; `start` and `end` are where it stood in the message."""

    norm: str
    start: int
    end: int


@dataclass(frozen=True)
class Line:
    """A stretch of a message: `text` is its normal form, words separated by one space."""

    source: str
    tokens: tuple[Token, ...]

    @cached_property
    def text(self) -> str:
        return " ".join(token.norm for token in self.tokens)

    @cached_property
    def _starts(self) -> list[int]:
        starts, at = [], 0
        for token in self.tokens:
            starts.append(at)
            at += len(token.norm) + 1
        return starts

    def between(self, start: int, end: int) -> Line:
        """The tokens that lie in `text[start:end]`; a token that is only touched at its end is not in."""
        first = bisect_left(self._starts, start)
        last = bisect_right(self._starts, end - 1) if end > start else first
        return Line(self.source, self.tokens[first:last])

    def group(self, match: re.Match[str], name: str) -> Line:
        """The part of this line that a group of a match on `text` caught; empty if it caught nothing."""
        start, end = match.span(name)
        return Line(self.source, ()) if start < 0 else self.between(start, end)

    def after(self, position: int) -> Line:
        return self.between(position, len(self.text))

    @property
    def original(self) -> str:
        """The user's own words, on one line, without the quotation marks around the whole."""
        if not self.tokens:
            return ""
        start, end = self.tokens[0].start, self.tokens[-1].end
        opened = self.source.count("(", start, end) - self.source.count(")", start, end)
        if opened == 1 and self.source[end : end + 1] == ")":
            end += 1
        raw = " ".join(self.source[start:end].split())
        if len(self.tokens) == 1 and self.tokens[0].norm == QUOTE:
            raw = raw[1:-1].strip()
        return raw.strip(" ,;:!")

    def trimmed(self, marks: str = ",.;:?!-\n") -> Line:
        """Without the punctuation at both ends."""
        tokens = self.tokens
        first, last = 0, len(tokens)
        while first < last and tokens[first].norm in marks:
            first += 1
        while last > first and tokens[last - 1].norm in marks:
            last -= 1
        return Line(self.source, tokens[first:last])

    def merged(self, pattern: re.Pattern[str], norm: str) -> Line:
        """With every match of `pattern` in `text` turned into one token; matches must begin and end at words."""
        tokens: list[Token] = []
        done = 0
        for match in pattern.finditer(self.text):
            first = bisect_left(self._starts, match.start())
            last = bisect_right(self._starts, match.end() - 1)
            if first >= last or first < done:
                continue
            tokens.extend(self.tokens[done:first])
            tokens.append(Token(norm, self.tokens[first].start, self.tokens[last - 1].end))
            done = last
        tokens.extend(self.tokens[done:])
        return Line(self.source, tuple(tokens))


def read_line(message: str) -> Line:
    """The tokens of `message`. Quoted text is one opaque token; marks that mean nothing here are dropped."""
    tokens: list[Token] = []
    for match in _PIECE.finditer(message):
        piece = match.group()
        if piece[0] in "\"“'‘" and len(piece) > 2:
            tokens.append(Token(QUOTE, match.start(), match.end()))
        elif piece[0].isalnum():
            tokens.append(Token(_normal(piece), match.start(), match.end()))
        elif piece in _KEPT_MARKS:
            tokens.append(Token(piece, match.start(), match.end()))
    return Line(message, tuple(tokens))


def _normal(piece: str) -> str:
    word = piece.lower().replace("’", "'")
    if word in NORMAL_FORMS:
        return NORMAL_FORMS[word]
    if word in KNOWN_WORDS or len(word) < 4 or len(word) > 12:
        return word
    return _corrected(word)


def _corrected(word: str) -> str:
    """The one core word that `word` is a slip of, or `word`: words of four letters only by swapped letters."""
    for core in CORRECTABLE:
        if abs(len(core) - len(word)) > 1 or core[0] != word[0]:
            continue
        if (len(word) > 4 or sorted(core) == sorted(word)) and OSA.distance(core, word, score_cutoff=1) == 1:
            return core
    return word
