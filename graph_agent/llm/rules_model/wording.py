"""The wording of a message: the text as written beside its normal form, which the cues are compared with.

"whats on teh list" and "What's on the list?" have the same key. Each character of the key knows its place in the text, so the
text of a task is always cut from what the user wrote.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import zip_longest
from typing import Final

from rapidfuzz import process
from rapidfuzz.distance import OSA, Prefix

from graph_agent.llm.rules_model import words
from graph_agent.reply.text import visible

SHOWN_LENGTH: Final = 200
"""The number of characters of a description that a reply shows."""

_QUOTES: Final = str.maketrans("’‘‛“”„«»`–—", '\'\'\'"""""\'--')
_TOKEN: Final = re.compile(
    r"(?:(?<=\bmy )|(?<=\bthe )|(?<=\bnew )|(?<=\ba )|^)to[ -]do(?:'?s)?(?= |[:?.!,]|$)(?! (?:the|my|an?|it)\b)"
    r"|\bto[ -]do'?s?(?= (?:lists?|items?|apps?)\b)|\bto-do'?s?\b|\bto do'?s\b"
    r"|\bw/|[^\W_]+(?:['-][^\W_]+)*|.",
    re.DOTALL,
)
"""A word, "to do" as a noun, or a single other character."""
_CONTRACTION: Final = re.compile(r"(.+?)(n't|'m|'re|'ve|'ll|'d|'s)")
_EXPANDED: Final = {"n't": " not", "'m": " am", "'re": " are", "'ve": " have", "'ll": " will", "'d": " would", "'s": " is"}


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
    """Return `text` with single spaces and without hidden characters, as a clause."""
    without_hidden = visible(text, lambda run: " " * len(run))
    message = re.sub(r" ?\n[ \n]*", "\n", re.sub(r"[^\S\n]+", " ", without_hidden)).strip()
    # Each character is lower-cased on its own: the result must be as long as the message.
    lower = "".join(char.lower() if len(char.lower()) == 1 else char for char in message)
    tokens = _TOKEN.findall(lower.translate(_QUOTES))
    key, places, start = "", [], 0
    # Between a word and the next one is a space.
    for token, after in zip_longest(tokens, tokens[2:], fillvalue=""):
        normal, end = _normal(token, after), start + len(token)
        same = Prefix.similarity(token, normal)
        key += normal
        places += [(place, place + 1) for place in range(start, start + same)] + [(start + same, end)] * (len(normal) - same)
        places[-1] = (places[-1][0], end)
        start = end
    return Clause(key, message, tuple(places))


def _normal(word: str, after: str) -> str:
    """Return the normal form of a word; `after` is the next one."""
    if word.startswith(("to do", "to-do")):
        return "todos" if word.endswith("s") else "todo"
    if word in words.SPELLING:
        return words.SPELLING[word]
    if word == "2" and after in words.ACTION_VERBS:
        return "to"
    found = _CONTRACTION.fullmatch(word)
    if found is None:
        return word if "'" in word else _corrected(word)
    stem, ending = found.groups()
    if ending == "'d" and stem in words.ACTION_VERBS:
        return f"{stem}ed"
    if ending == "'s" and not (stem in words.TAKES_IS or words.is_past(after) or after in words.AFTER_IS):
        return word
    return stem + _EXPANDED[ending]


@lru_cache(maxsize=4096)
def _corrected(word: str) -> str:
    """Return a command word that was misspelt by one letter; any other word as it is."""
    if re.fullmatch(r"a+d+|adda", word):
        return "add"
    if len(word) < 5 or word.startswith(words.COMMAND_WORDS) or words.is_action(word):
        return word
    near = process.extractOne(word, words.COMMAND_WORDS, scorer=OSA.distance, score_cutoff=1)
    return near[0] if near else word


def shown(text: str) -> str:
    """Return `text` on one line, shortened to `SHOWN_LENGTH` characters."""
    line = " ".join(text.split())
    return line if len(line) <= SHOWN_LENGTH else line[: SHOWN_LENGTH - 1] + "…"
