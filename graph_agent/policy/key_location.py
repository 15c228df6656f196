"""The places of a request in which a server may take the operation key: an argument, an HTTP header, or `_meta`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

_HEADER: Final = r"[A-Za-z][A-Za-z0-9_-]{0,99}"
_LABEL: Final = r"[A-Za-z](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_META: Final = rf"(?:{_LABEL}(?:\.{_LABEL}){{0,9}}/)?[A-Za-z0-9](?:[A-Za-z0-9._-]{{0,99}}[A-Za-z0-9])?"
LOCATION: Final = rf"(?:header (?P<key_header>{_HEADER})|_meta (?P<key_meta>{_META})|(?P<key_argument>[A-Za-z_][A-Za-z0-9_-]*))"
"""The text of a location in a marker."""

_RESERVED_HEADERS: Final = re.compile(
    r"accept|accept-.*|access-control-.*|age|allow|api-key|authorization|baggage|cache-control|connection|content-.*|cookie|date"
    r"|expect|forwarded|from|host|http2-settings|if-.*|keep-alive|last-event-id|mcp-.*|origin|pragma|priority|proxy-.*|range"
    r"|referer|sec-.*|set-cookie|te|traceparent|tracestate|trailer|transfer-encoding|upgrade|user-agent|via|x-api-key"
    r"|x-forwarded-.*|x-real-ip",
    re.IGNORECASE,
)
_RESERVED_META: Final = re.compile(
    # By MCP, a prefix whose second label is `mcp` or `modelcontextprotocol`, and names of its own.
    r"(?:[^./]+\.)?(?:mcp|modelcontextprotocol)(?:\.[^/]+)?/.*|progresstoken|traceparent|tracestate|baggage",
    re.IGNORECASE,
)


class KeyPlace(StrEnum):
    """The part of a request that has the operation key."""

    ARGUMENT = "argument"
    HEADER = "header"
    META = "_meta"


@dataclass(frozen=True, slots=True)
class KeyLocation:
    """A part of a request, and the name of the key in it."""

    place: KeyPlace
    name: str

    @classmethod
    def found(cls, match: re.Match[str]) -> KeyLocation | None:
        """Return the location in a match of a pattern with `LOCATION`; None without one."""
        names = {place: match[f"key_{place.name.lower()}"] for place in KeyPlace}
        return next((cls(place, name) for place, name in names.items() if name), None)

    @property
    def is_reserved(self) -> bool:
        """True for a name that HTTP, MCP, credentials or the runtime itself use."""
        reserved = {KeyPlace.HEADER: _RESERVED_HEADERS, KeyPlace.META: _RESERVED_META}.get(self.place)
        return reserved is not None and reserved.fullmatch(self.name) is not None

    def __str__(self) -> str:
        return self.name if self.place is KeyPlace.ARGUMENT else f"{self.place} {self.name}"
