"""The wording of a message: tidied, without politeness, and with misspelt commands corrected."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from rapidfuzz.distance import OSA

from graph_agent.rules_model.patterns import part
from graph_agent.rules_model.vocabulary import ACTION_VERBS, COMMAND_LOOKALIKES, COMMAND_WORDS

SHOWN_LENGTH: Final = 200
"""The number of characters of a description that a reply shows."""

_LAST_WORDS: Final = re.compile(r"\b(?:my|the|teh) (?:[a-z-]+ ){0,2}[a-z]+[.!?]*$")
_QUOTES: Final = str.maketrans("’‘‛“”„«»`", '\'\'\'"""""\'')


@dataclass(frozen=True, slots=True)
class Clause:
    """A piece of the message: `text` as it was written, and `key`, the same characters in lower case with plain quotes."""

    text: str
    key: str

    def cut(self, start: int, end: int | None = None) -> Clause:
        """Return a part of the clause, without spaces at its ends."""
        text, key = self.text[start:end], self.key[start:end]
        left, right = len(text) - len(text.lstrip()), len(text.rstrip())
        return Clause(text[left:right], key[left:right])


EMPTY: Final = Clause("", "")


def clause_of(text: str) -> Clause:
    """Return `text` with single spaces and without control characters, as a clause."""
    lines = (" ".join(_printable(line).split()) for line in text.splitlines())
    tidy = "\n".join(line for line in lines if line)
    return Clause(tidy, _key(tidy))


def without_politeness(clause: Clause) -> Clause:
    """Return the clause without greetings, requests and thanks around it; never an empty one."""
    while (found := part("LEAD").match(clause.key)) and (rest := clause.cut(found.end())).key:
        clause = rest
    while found := part("TAIL").search(clause.key[-40:].rstrip(" .!?")):
        end = len(clause.key.rstrip(" .!?")) - len(found[0])
        if end <= 0:
            break
        clause = clause.cut(0, end)
    return clause


def with_known_list(clause: Clause) -> Clause:
    """Return the clause with a misspelt "add" at its start and a misspelt "list" at its end put right."""
    if found := re.match(r"(?:ad|a+dd+|adda)(?= (?!on\b|is\b|was\b))", clause.key):
        clause = clause_of("add" + clause.text[found.end() :])
    if (found := _LAST_WORDS.search(clause.key)) and (tail := corrected(clause.cut(found.start()))).key.endswith("list"):
        clause = clause_of(f"{clause.text[: found.start()]}{tail.text}")
    return clause


def corrected(clause: Clause) -> Clause:
    """Return the clause with command words that were misspelt by one letter put right."""

    def correct(found: re.Match[str]) -> str:
        word = found[0].lower()
        if word in COMMAND_WORDS or word in COMMAND_LOOKALIKES or word in ACTION_VERBS:
            return found[0]
        near = (command for command in COMMAND_WORDS if OSA.distance(word, command, score_cutoff=1) <= 1)
        return next(near, found[0])

    return clause_of(re.sub(r"[^\W\d_]{4,}", correct, clause.text, count=4))


def shown(text: str) -> str:
    """Return `text` on one line, shortened to `SHOWN_LENGTH` characters."""
    line = " ".join(text.split())
    return line if len(line) <= SHOWN_LENGTH else line[: SHOWN_LENGTH - 1] + "…"


def _printable(text: str) -> str:
    # Zero-width joiners and variation selectors are parts of emoji.
    return "".join(char if char.isprintable() or char in "\u200d\ufe0f" else " " for char in text)


def _key(text: str) -> str:
    """Lower-case each character on its own: the key must be as long as the text."""
    lower = text.lower()
    if len(lower) != len(text):
        lower = "".join(char.lower() if len(char.lower()) == 1 else char for char in text)
    return lower.translate(_QUOTES)
