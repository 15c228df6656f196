"""The wording of a message: the text as written beside its normal form, which the cues are compared with.

"whats on teh list" and "What's on the list?" have the same key. Each character of the key knows its place in the text, so the
text of a task is always cut from what the user wrote.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from rapidfuzz.distance import OSA

from graph_agent.rules_model import words

SHOWN_LENGTH: Final = 200
"""The number of characters of a description that a reply shows."""

_QUOTES: Final = str.maketrans("’‘‛“”„«»`–—", '\'\'\'"""""\'--')
_WORD: Final = re.compile(
    r"(?:(?<=\bmy )|(?<=\bthe )|(?<=\bnew )|(?<=\bopen )|(?<=\bour )|(?<=\ba )|^)"
    r"to[ -]do(?:'?s)?(?![\w-])(?= |[:?.!,]|$)(?! (?:the|my|an?|it)\b)"
    r"|\bto[ -]do'?s?(?= (?:lists?|items?|apps?)\b)|\bto-do'?s?\b|\bto do'?s\b|\bto dos\b"
    r"|\bw/|[^\W_]+(?:['-][^\W_]+)*"
)
_ENDINGS: Final = (("n't", "not"), ("'m", "am"), ("'re", "are"), ("'ve", "have"), ("'ll", "will"), ("'d", "would"))


@dataclass(frozen=True, slots=True)
class Clause:
    """A piece of the message. `key` is its normal form, which begins at `start` of the message's.

    Character i of the message's normal form was written at `places[i]` of `message`, a start and an end.
    """

    key: str
    message: str
    places: tuple[tuple[int, int], ...]
    start: int = 0

    @property
    def text(self) -> str:
        """The clause as it was written."""
        if not self.key:
            return ""
        first, last = self.places[self.start], self.places[self.start + len(self.key) - 1]
        return self.message[first[0] : last[1]].strip()

    def cut(self, start: int, end: int | None = None) -> Clause:
        """Return a part of the clause, from and to places in the key, without spaces at its ends."""
        key = self.key[start:end]
        start += len(key) - len(key.lstrip())
        return Clause(key.strip(), self.message, self.places, self.start + start)


EMPTY: Final = Clause("", "", ())


def clause_of(text: str) -> Clause:
    """Return `text` with single spaces and without control characters, as a clause."""
    lines = (" ".join(_printable(line).split()) for line in text.splitlines())
    tidy = "\n".join(line for line in lines if line)
    plain = _lower(tidy).translate(_QUOTES)
    found = list(_WORD.finditer(plain))
    neighbors = ["", *(word[0] for word in found), ""]
    # The normal form in pieces, each with the place in `plain` where it was written.
    pieces: list[tuple[str, int, int]] = []
    position = 0
    for number, word in enumerate(found):
        pieces += [(plain[index], index, index + 1) for index in range(position, word.start())]
        position = word.end()
        split, normal = _normal(word[0], neighbors[number], neighbors[number + 2])
        first, space, rest = normal.partition(" ")
        middle = word.start() + split if split else word.end()
        pieces += [(first, word.start(), middle), (space + rest, middle, word.end())]
    pieces += [(plain[index], index, index + 1) for index in range(position, len(plain))]
    key = "".join(piece for piece, _, _ in pieces)
    return Clause(key, tidy, tuple((start, end) for piece, start, end in pieces for _ in piece))


def _normal(word: str, before: str, after: str) -> tuple[int, str]:
    """Return where a contraction is divided (0 if it is none), and the normal form of a word."""
    if word.startswith(("to do", "to-do")):
        return 0, "todos" if word.endswith("s") else "todo"
    if word in words.SPELLING:
        return 0, words.SPELLING[word]
    if word in {"2", "4"} and (before in words.BEFORE_TO or (word == "4" and after in {"today", "tomorrow", "tonight", "me"})):
        if word == "2" and after in words.ACTION_VERBS:
            return 0, "to"
        return (0, "for") if word == "4" and after in {"today", "tomorrow", "tonight", "me"} else (0, word)
    if "'" in word:
        if word in {"can't", "won't"}:
            return 3, "can not" if word == "can't" else "will not"
        for ending, expanded in _ENDINGS:
            if ending == "'d" and word[:-2] in words.ACTION_VERBS:
                return 0, f"{word[:-2]}ed"
            if word.endswith(ending):
                return len(word) - len(ending), f"{word.removesuffix(ending)} {expanded}"
        if word.endswith("'s"):
            stem = word[:-2]
            if stem == "let":
                return 3, "let us"
            if stem in words.TAKES_IS or words.is_past(after) or after in words.AFTER_IS:
                return len(stem), f"{stem} is"
        return 0, word
    return 0, _corrected(word)


@lru_cache(maxsize=4096)
def _corrected(word: str) -> str:
    """Return a command word that was misspelt by one letter; any other word as it is."""
    if re.fullmatch(r"a+d+|adda", word):
        return "add"
    known = word in words.COMMAND_WORDS or word in words.LOOKALIKES or words.is_action(word) or word in words.IRREGULAR
    if len(word) < 4 or known:
        return word
    near = (
        command for command in words.COMMAND_WORDS if word[0] == command[0] and OSA.distance(word, command, score_cutoff=1) <= 1
    )
    return next(near, word)


def shown(text: str) -> str:
    """Return `text` on one line, shortened to `SHOWN_LENGTH` characters."""
    line = " ".join(text.split())
    return line if len(line) <= SHOWN_LENGTH else line[: SHOWN_LENGTH - 1] + "…"


def _printable(text: str) -> str:
    # Zero-width joiners and variation selectors are parts of emoji.
    return "".join(char if char.isprintable() or char in "\u200d\ufe0f" else " " for char in text)


def _lower(text: str) -> str:
    """Lower-case each character on its own: the result must be as long as the text."""
    lower = text.lower()
    return lower if len(lower) == len(text) else "".join(char.lower() if len(char.lower()) == 1 else char for char in text)
