"""Text that people read. One table says which characters are hidden and where they join; three renderings use it.

    characters                       reply, terminal    line             quoted
    a joiner where it joins          kept               kept             kept
    hidden: invisible, bidi, ...     ‹U+202E›           ‹U+202E›         ‹U+202E›
    line break, tab                  kept               one space        ‹U+000A›
    the second of two spaces         kept               left out         ‹U+0020›
    ‹U+                              kept               kept             ‹U+2039›U+

A run of one hidden character is shown once, with its length: `‹U+200B×5000›`. The ranges are written out, because the tables of
`unicodedata` change with the version of Python, and a replay must give the same text everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from functools import lru_cache
from typing import Final

MAX_REPLY_CHARS: Final = 8_000
_LONGEST_CODE: Final = len("‹U+10FFFF›")
_MAX_READ: Final = 4_000
"""The number of characters of a text that a line reads; the rest cannot change the short result."""

HIDDEN: Final = "".join(
    (
        r"\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028\u2029",  # control characters, line separators
        r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069",  # bidirectional controls
        r"\u00ad\u034f\u180b-\u180f\u200b-\u200d\u2060-\u2065\u206a-\u206f\ufe00-\ufe0f\ufeff\ufff0-\ufffb",  # zero width
        r"\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0",  # letters that are blank
        r"\ud800-\uf8ff\ufdd0-\ufdef\ufffe\uffff",  # surrogates, private use, noncharacters
        r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U0001fffe\U0001ffff\U0002fffe\U0002ffff\U0003fffe\U0003ffff",
        r"\U00040000-\U0010ffff",  # unassigned planes, tags, more variation selectors, private use
    )
)
"""The characters that are invisible, reorder text or have no agreed glyph. `ui/src/shared/text.tsx` has them too."""

_CURSIVE: Final = r"[\u0620-\u0669\u066e-\u06d3\u06d5-\u077f\u07c0-\u07ff\u0840-\u08ff\u1820-\u18aa\U0001e900-\U0001e95f]"
_INDIC: Final = r"[\u0900-\u0dff\u1000-\u109f\u1780-\u17d3]"
_VIRAMA: Final = r"[\u094d\u09cd\u0a4d\u0acd\u0b4d\u0bcd\u0c4d\u0ccd\u0d3b\u0d3c\u0d4d\u0dca\u1039\u103a\u17d2]"
_UNSPACED: Final = r"[\u0e01-\u0eff\u1000-\u109f\u1780-\u17ff]"
_EMOJI: Final = (
    r"[\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u27ff\u2900-\u297f\u2b00-\u2bff\u3030\u303d\u3297\u3299"
    r"\U0001f000-\U0001faff]"
)
_JOINED: Final = "|".join(
    (
        rf"\u200c(?<={_CURSIVE}\u200c)(?={_CURSIVE})",
        rf"[\u200c\u200d](?<={_INDIC}[\u200c\u200d])(?={_INDIC})",
        rf"[\u200c\u200d](?<={_VIRAMA}[\u200c\u200d])",
        rf"\u200b(?<={_UNSPACED}\u200b)(?={_UNSPACED})",  # between words of Thai, Lao, Burmese and Khmer
        rf"\u200d(?<={_EMOJI}\u200d)(?={_EMOJI})",
        rf"\u200d(?<={_EMOJI}\ufe0f\u200d)(?={_EMOJI})",
        rf"[\ufe0e\ufe0f](?<={_EMOJI}[\ufe0e\ufe0f])",
        r"\ufe0f(?<=[#*0-9]\ufe0f)(?=\u20e3)",  # keycaps
        r"\U0001f3f4\U000e0067\U000e0062"  # the flags of England, Scotland and Wales
        r"(?:\U000e0065\U000e006e\U000e0067|\U000e0073\U000e0063\U000e0074|\U000e0077\U000e006c\U000e0073)\U000e007f",
    )
)
"""The places where a character of `HIDDEN` joins its neighbours, as Unicode defines it, and can be seen by what it does."""

_HIDDEN: Final = re.compile(f"({_JOINED})|([{HIDDEN}])\\2*")
_ANY_HIDDEN: Final = re.compile(f"[{HIDDEN}]")
_ONLY_HIDDEN: Final = re.compile(f"[{HIDDEN}\\s]*")
_NOT_EXACT: Final = re.compile(rf"({_JOINED})|([{HIDDEN}\t\n]|‹(?=U\+)|(?<=\s)\s)\2*")
_BREAK: Final = re.compile(r"\s{2,}|[\t-\r\x1c-\x1e\x85\u2028\u2029]")
_OPEN_CODE: Final = re.compile("‹[^›]*$")
_LOOSE_APOSTROPHE: Final = re.compile(r"(?<!\w)'|'(?!\w)")

_ESCAPES: Final = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}[@-~]?"  # colors, cursor
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]{0,2000}(?:\x07|\x1b\\|\x9c)?"  # titles, links
    r"|\x1b[ -/]{0,4}[0-~]?"
)
_NEWLINES: Final = re.compile("\r\n|[\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_NAMING: Final = re.compile(r"(?<!\w)(?:call:)?default_api(?:\s?\.\s?|:)(?=\w)|(?<!\w)functions\.(?=\w)")
_TEMPLATE: Final = re.compile(r"<\|\w{1,40}\|>")
_PARTS: Final = re.compile(r"[_\-.\s]+|(?<=[a-z0-9])(?=[A-Z])")
_ALWAYS_HIDDEN: Final = ("default_api", "tool_code")


def visible(text: str, by: Callable[[str], str] | None = None) -> str:
    """Return `text` with hidden characters made visible; `by` replaces a run of one of them. Line breaks and tabs stay."""
    if _ANY_HIDDEN.search(text) is None:
        return text
    code = by or _code
    return _HIDDEN.sub(lambda match: match[1] or code(match[0]), text)


def one_line(text: str, limit: int = 80) -> str:
    """Return `text` on one line of at most `limit` characters, with an ellipsis if it is cut. Empty if nothing is visible."""
    text = text[:_MAX_READ]
    if not _is_plain(text):
        text = "" if _ONLY_HIDDEN.fullmatch(text) else visible(_BREAK.sub(" ", text))
    text = text.strip()
    return text if len(text) <= limit else f"{_start(text, limit)}…"


def exact(text: str, limit: int = 80) -> str:
    """Return `text` on one line, so that two texts never look the same: `Dear all… (5,000 characters)` if it is cut."""
    line = text[: max(limit, _MAX_READ)]
    if not _is_plain(line):
        line = _NOT_EXACT.sub(lambda match: match[1] or _code(match[0]), line)
    complete = len(line) <= limit and len(text) <= max(limit, _MAX_READ)
    return line if complete else f"{_start(line, limit)}… ({len(text):,} characters)"


def quoted(text: str, limit: int = 1_000) -> str:
    """Return `exact(text, limit)` in quotes that it cannot close: in double ones if it has an apostrophe that could."""
    line = exact(text, limit)
    if _LOOSE_APOSTROPHE.search(line) is None:
        return f"'{line}'"
    return '"{}"'.format(line.replace('"', _code('"')))


def whole_line(text: str) -> int:
    """Return the limit with which `exact` and `quoted` show all of `text`: each character of it may become a code."""
    return max(1, len(text)) * _LONGEST_CODE


def clean_reply(text: str, hidden_names: Collection[str]) -> str:
    """Return `text` without anything that could mislead its reader on a screen, and with `hidden_names` in plain words.

    At most `MAX_REPLY_CHARS` characters, cut at a word; empty if nothing is visible. Never raises; takes time linear in the
    length of `text`.
    """
    text = in_plain_words(_NEWLINES.sub("\n", _ESCAPES.sub("", _TEMPLATE.sub("", text))), hidden_names)
    if _ONLY_HIDDEN.fullmatch(text):
        return ""
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(line.rstrip() for line in text.split("\n"))).strip()
    # The rest cannot be in the reply, and a visible form is several times as long as its character.
    return _cut(visible(text[: MAX_REPLY_CHARS + 1]))


def _is_plain(text: str) -> bool:
    """True if a line shows `text` as it is, which most texts are: this takes a tenth of the time of the patterns."""
    return text.isascii() and text.isprintable() and "  " not in text


@lru_cache(maxsize=64)
def _names(names: frozenset[str]) -> re.Pattern[str] | None:
    # The longest name first, because the pattern takes the first alternative that matches.
    longest_first = sorted(names, key=lambda name: (-len(name), name))
    spelled = (r"(?:\\?[_.]|-)?".join(map(re.escape, filter(None, _PARTS.split(name)))) for name in longest_first)
    found = "|".join(filter(None, spelled))
    return re.compile(rf"(`?)(?<!\w)(?:mcp__\w{{1,60}}?__)?({found})(?!\w)(?:\(\))?(`?)", re.IGNORECASE) if found else None


def in_plain_words(text: str, names: Collection[str]) -> str:
    """Return `text` with `names` in any spelling replaced by plain words: `add_task` becomes "add task"."""
    text = _NAMING.sub("", text)
    pattern = _names(frozenset((*names, *_ALWAYS_HIDDEN)))
    return pattern.sub(_plain, text) if pattern else text


def _plain(match: re.Match[str]) -> str:
    """Return the matched name as words, without a pair of backticks around it. A single backtick is kept."""
    opening, name, closing = match.groups()
    words = " ".join(filter(None, _PARTS.split(name.replace("\\", ""))))
    return words if opening and closing else opening + words + closing


@lru_cache(maxsize=4_096)
def _code(run: str) -> str:
    """Return the visible form of a run of one character."""
    return f"‹U+{ord(run[0]):04X}{f'×{len(run)}' if len(run) > 1 else ''}›"


def _start(text: str, limit: int) -> str:
    """Return the first characters of `text`, one less than `limit`, without a code or a space at their end that is cut."""
    return _OPEN_CODE.sub("", text[: limit - 1]).rstrip()


def _cut(text: str) -> str:
    if len(text) <= MAX_REPLY_CHARS:
        return text
    head = text[: MAX_REPLY_CHARS - 1]
    at = max(head.rfind(" "), head.rfind("\n"))
    return _OPEN_CODE.sub("", head[:at] if at > MAX_REPLY_CHARS // 2 else head).rstrip() + "…"


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return `1 call` or `2 calls`; `noun` is the singular, and the plural has an s unless it is given."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"
