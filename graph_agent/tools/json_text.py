"""JSON from a server as text that every parser accepts: half a surrogate pair and bytes that are not UTF-8 become U+FFFD.

`JSON.stringify` writes half an emoji as `\\ud835`, which is JSON but no text. One such answer would be no answer at all.
"""

from __future__ import annotations

import codecs
import re
from typing import Final

_HIGH: Final = r"\\u[dD][89abAB][0-9a-fA-F]{2}"
_LOW: Final = r"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_ESCAPES: Final = re.compile(rf"(?P<pair>{_HIGH}{_LOW})|(?P<half>{_HIGH}|{_LOW})|\\.", re.DOTALL)
"""Every escape, so that the backslash of `\\\\ud835` is not taken for the beginning of one."""
_UNFINISHED: Final = re.compile(rf"(?:{_HIGH})?(?:\\(?:u[0-9a-fA-F]{{0,3}})?)?\Z")
"""An escape at the end of a text that the next text may continue."""
_MAX_UNFINISHED: Final = 12


def well_formed(json: str) -> str:
    """Return `json` with each escape of half a surrogate pair replaced."""
    return _ESCAPES.sub(_whole, json) if "\\u" in json else json


def _whole(escape: re.Match[str]) -> str:
    return "\\ufffd" if escape["half"] else escape[0]


class WellFormedText:
    """Replaces what is no text in JSON that arrives in chunks, each of which may end within a character or an escape."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._kept = ""

    def feed(self, chunk: bytes, *, last: bool = False) -> bytes:
        """Return the well-formed text up to the end of `chunk`, without an escape that the next chunk may continue."""
        text = self._kept + self._decoder.decode(chunk, last)
        end = len(text) if last else _finished(text)
        self._kept = text[end:]
        return well_formed(text[:end]).encode()


def _finished(text: str) -> int:
    """Return where the unfinished escape at the end of `text` begins; its length if there is none."""
    start = max(0, len(text) - _MAX_UNFINISHED)
    backslash = text.find("\\", start)
    if backslash < 0:
        return len(text)
    # Backslashes in a row escape each other, so they are read from the first one.
    while backslash > 0 and text[backslash - 1] == "\\":
        backslash -= 1
    at = backslash
    while at < len(text):
        if _UNFINISHED.match(text, at) and text[at] == "\\":
            return at
        escape = _ESCAPES.match(text, at)
        at = escape.end() if escape else at + 1
    return at
