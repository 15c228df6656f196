"""A short text that matches the pattern of a JSON Schema, so that an example is a call which the guard can accept.

The solver knows no patterns. The common parts of regular expressions are read here; for another pattern there is no sample.
"""

from __future__ import annotations

import re

_CLASSES = {"d": "0", "w": "a", "s": " ", "D": "a", "W": "-", "S": "a"}
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v"}
_QUANTIFIER = re.compile(r"(?:[*?]|(?P<some>\+)|\{(?P<count>\d+)(?:,\d*)?\})\??")
_GROUP = re.compile(r"\((?:\?:|\?<\w+>)?(?!\?)")
_MAX_TIMES = 1000
_CANDIDATES = "a0A-_. @/:"


def matching_text(pattern: str, text: str = "") -> str | None:
    """Return `text` if it matches `pattern`, or else a short text that does; None if it has parts that are not read."""
    try:
        if re.search(pattern, text):
            return text
        sample, end = _alternatives(pattern, 0)
        return sample if end == len(pattern) and re.search(pattern, sample) else None
    except (IndexError, re.error, RecursionError, OverflowError):
        return None


def _alternatives(pattern: str, at: int) -> tuple[str, int]:
    """Return a text for the first of some alternatives, and the position behind the last one."""
    first, at = _sequence(pattern, at)
    while at < len(pattern) and pattern[at] == "|":
        _, at = _sequence(pattern, at + 1)
    return first, at


def _sequence(pattern: str, at: int) -> tuple[str, int]:
    found = ""
    while at < len(pattern) and pattern[at] not in "|)":
        part, at = _part(pattern, at)
        times = 1
        if quantifier := _QUANTIFIER.match(pattern, at):
            times, at = int(quantifier["count"] or bool(quantifier["some"])), quantifier.end()
            if times > _MAX_TIMES:
                raise IndexError(at)
        found += part * times
    return found, at


def _part(pattern: str, at: int) -> tuple[str, int]:
    """Return a text for one part, and the position behind it. Raises IndexError for one that is not read."""
    character = pattern[at]
    if character in "^$":
        return "", at + 1
    if character == "(":
        if (group := _GROUP.match(pattern, at)) is None:
            raise IndexError(at)
        inner, end = _alternatives(pattern, group.end())
        return inner, end + len(pattern[end])
    if character == "[":
        return _of_class(pattern, at)
    if character == "\\":
        escaped = pattern[at + 1]
        if escaped.isalnum() and escaped not in (*_CLASSES, *_CONTROLS):
            raise IndexError(at)
        return _CLASSES.get(escaped) or _CONTROLS.get(escaped) or escaped, at + 2
    return ("a" if character == "." else character), at + 1


def _of_class(pattern: str, at: int) -> tuple[str, int]:
    """Return a character that a class such as `[A-Z]` has, and the position behind the class."""
    end = at + 1 + (pattern[at + 1] == "^")
    end += pattern[end] == "]"
    while pattern[end] != "]":
        end += 1 + (pattern[end] == "\\")
    text = pattern[at : end + 1]
    first = text[1:2]
    candidates = [first, *_CANDIDATES, *map(chr, range(33, 127))]
    return next((one for one in candidates if one and re.fullmatch(text, one)), ""), end + 1
