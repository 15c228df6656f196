"""Cleaning of a model's text before a user reads it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection
from functools import lru_cache
from typing import Final

MAX_REPLY_CHARS: Final = 8_000

_ESCAPES: Final = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}[@-~]?"  # colours, cursor
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]{0,2000}(?:\x07|\x1b\\|\x9c)?"  # titles, links
    r"|\x1b[ -/]{0,4}[0-~]?"
)
_PLAIN: Final = re.compile(r"[\n\t -~]*")
_NEWLINES: Final = re.compile("\r\n|[\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_NAMING: Final = re.compile(r"(?<!\w)(?:call:)?default_api(?:\s?\.\s?|:)(?=\w)|(?<!\w)functions\.(?=\w)")
_TEMPLATE: Final = re.compile(r"<\|\w{1,40}\|>")
_PARTS: Final = re.compile(r"[_\-.\s]+|(?<=[a-z0-9])(?=[A-Z])")

_ALWAYS_HIDDEN: Final = ("default_api", "tool_code")
_ZWNJ, _ZWJ = "\u200c", "\u200d"
_EMOJI_STYLES: Final = frozenset("\ufe0e\ufe0f")
_BLANK_LETTERS: Final = frozenset("\u115f\u1160\u3164\uffa0\u2800\u034f\u17b4\u17b5\u180b\u180c\u180d\u180f")
_VISIBLE_FORMATS: Final = frozenset("\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u08e2")


def clean_reply(text: str, hidden_names: Collection[str]) -> str:
    """Return `text` without anything that could mislead its reader on a screen, and with `hidden_names` in plain words.

    At most `MAX_REPLY_CHARS` characters, cut at a word; empty if nothing is left. Never raises; takes time linear in the length
    of `text`.
    """
    shown = visible(_NEWLINES.sub("\n", _ESCAPES.sub("", _TEMPLATE.sub("", text))))
    shown = in_plain_words(shown, hidden_names)
    shown = "\n".join(line.rstrip() for line in shown.split("\n"))
    return _cut(re.sub(r"\n{3,}", "\n\n", shown).strip())


@lru_cache(maxsize=64)
def _hidden(names: frozenset[str]) -> re.Pattern[str] | None:
    # The longest name first, because the pattern takes the first alternative that matches.
    longest_first = sorted(names, key=lambda name: (-len(name), name))
    spelled = (r"(?:\\?[_.]|-)?".join(map(re.escape, filter(None, _PARTS.split(name)))) for name in longest_first)
    found = "|".join(filter(None, spelled))
    return re.compile(rf"(`?)(?<!\w)(?:mcp__\w{{1,60}}?__)?({found})(?!\w)(?:\(\))?(`?)", re.IGNORECASE) if found else None


def in_plain_words(text: str, names: Collection[str]) -> str:
    """Return `text` with `names` in any spelling replaced by plain words: `add_task` becomes "add task"."""
    text = _NAMING.sub("", text)
    pattern = _hidden(frozenset((*names, *_ALWAYS_HIDDEN)))
    return pattern.sub(_plain, text) if pattern else text


def _plain(match: re.Match[str]) -> str:
    """Return the matched name as words, without a pair of backticks around it. A single backtick is kept."""
    opening, name, closing = match.groups()
    words = " ".join(filter(None, _PARTS.split(name.replace("\\", ""))))
    return words if opening and closing else opening + words + closing


def visible(text: str) -> str:
    """Return `text` without control and zero-width characters; keep those that emoji and cursive scripts need."""
    if _PLAIN.fullmatch(text):
        return text
    kept: list[str] = []
    for index, char in enumerate(text):
        if char < "\x7f":
            if char >= " " or char in "\n\t":
                kept.append(char)
            continue
        if char in (_ZWJ, _ZWNJ):
            following = text[index + 1] if index + 1 < len(text) else ""
            if kept and following and _joins(char, kept[-1], following):
                kept.append(char)
            continue
        category = unicodedata.category(char)
        if category in ("Cc", "Cs", "Cn", "Co") or (category == "Cf" and char not in _VISIBLE_FORMATS):
            continue
        if "\ufe00" <= char <= "\ufe0f" or "\U000e0100" <= char <= "\U000e01ef":
            if char in _EMOJI_STYLES and kept and kept[-1] not in _EMOJI_STYLES and not kept[-1].isspace():
                kept.append(char)
            continue
        if char not in _BLANK_LETTERS:
            kept.append(char)
    return "".join(kept)


def _joins(joiner: str, before: str, after: str) -> bool:
    """Return True if a joiner is needed here: between emoji, or between letters of a script that uses joiners."""
    if _script_uses_joiners(before) and _script_uses_joiners(after):
        return True
    after_emoji = before in _EMOJI_STYLES or "\U0001f3fb" <= before <= "\U0001f3ff" or unicodedata.category(before) == "So"
    return joiner == _ZWJ and after_emoji and unicodedata.category(after) == "So"


def _script_uses_joiners(char: str) -> bool:
    return "\u0600" <= char <= "\u0dff" or "\u1780" <= char <= "\u18af"


def _cut(text: str) -> str:
    if len(text) <= MAX_REPLY_CHARS:
        return text
    head = text[: MAX_REPLY_CHARS - 1]
    at = max(head.rfind(" "), head.rfind("\n"))
    return (head[:at] if at > MAX_REPLY_CHARS // 2 else head).rstrip() + "…"
