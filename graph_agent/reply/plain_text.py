"""The fallback for a reply in plain text: it is an answer, or a question if its last sentence ends with a question mark.

A model is required to declare its reply with a form; this reads the text of one that does not. Nothing else is inferred from
wording, so a new language needs at most a new question mark.
"""

from __future__ import annotations

import re
import unicodedata

QUESTION_MARKS = frozenset(
    "?"
    "\u037e"  # Greek; normalization turns it into a semicolon, see `_GREEK_SEMICOLON`
    "\u055e"  # Armenian
    "\u061f"  # Arabic
    "\u1367"  # Ethiopic
    "\u1945"  # Limbu
    "\u203d"  # interrobang
    "\u2047\u2048\u2049"  # double, and together with an exclamation mark
    "\u2753\u2754"  # emoji
    "\u2cfa\u2cfb"  # Old Nubian
    "\u2e2e"  # reversed
    "\u2e54"  # medieval
    "\ua60f"  # Vai
    "\ua6f7"  # Bamum
    "\ufe16\ufe56\uff1f"  # vertical, small and full-width forms
    "\U00011143"  # Chakma
)
"""Every mark that ends a question. Marks that begin one (inverted, Adlam) and ornaments are not among them."""

_ARMENIAN = "\u055e"
"""This mark is written inside the sentence, on the last vowel of the question word; the sentence ends with U+0589."""

_GREEK_SEMICOLON = re.compile("(?<=[\u0370-\u03ff\u1f00-\u1fff]);")

_OPTION = re.compile(
    r"(?:[-*+•‣▪◦·–—]|[(\[]?(?:\d{1,3}|[^\W\d_])[.):\]]|\[[ xX✓]?\]|[☐☑✅✔⬜🔲◻]\ufe0f?|\d\ufe0f?\u20e3)(?:\s|$)"
)
"""The beginning of a line that is one of several options: a bullet, a number, a letter or a box."""

_OPTION_IN_LINE = re.compile(r"\(?(?:\d{1,2}|[a-hA-H])\)\s|\d{1,2}\.\s")


def is_question(text: str) -> bool:
    """Return True if the last sentence of `text` ends with a question mark.

    Closing quotes, brackets, emoji and a list of options after it do not matter. Takes time linear in the length of `text`.
    """
    lines = [stripped for line in text.splitlines() if (stripped := line.strip())]
    for line in reversed(lines):
        if _OPTION.match(line):
            continue
        if _ends_with_question_mark(line):
            return True
        # A line of emoji closes the sentence before it; a line that begins with an emoji is an option.
        if any(map(str.isalnum, line)) and unicodedata.category(line[0]) != "So":
            return False
    return bool(lines) and _ends_with_question_mark(lines[-1])


def _ends_with_question_mark(line: str) -> bool:
    line = _GREEK_SEMICOLON.sub("?", line)
    mark = max((line.rfind(mark) for mark in QUESTION_MARKS), default=-1)
    if mark < 0:
        return False
    after = line[mark + 1 :]
    if line[mark] == _ARMENIAN:
        return not any(end in after.rstrip(" :\u0589") for end in (". ", "\u0589", "! "))
    start = next((index for index, char in enumerate(after) if char.isalnum()), None)
    if start is None:
        return True
    # A bracket directly before the first letter belongs to it, as in a list in brackets or in "(a)".
    rest = after[max(start - 1, 0) :] if start and after[start - 1] in "([" else after[start:]
    return _OPTION_IN_LINE.match(rest) is not None or _is_one_group(rest)


def _is_one_group(text: str) -> bool:
    """Return True if `text` is one group in brackets, such as a list of options."""
    closing = {"(": ")", "[": "]"}.get(text[:1])
    if closing is None:
        return False
    end = text.find(closing)
    return end > 0 and not any(map(str.isalnum, text[end:]))
