"""Requested tool calls, their results, and the traits of a tool."""

from __future__ import annotations

from enum import StrEnum
from operator import not_
from typing import Any, Self

from pydantic import Field, model_validator

from graph_agent.errors import ToolErrorCode
from graph_agent.models.base import Frozen

UNKNOWN_CODES = frozenset({ToolErrorCode.TIMEOUT_ERROR, ToolErrorCode.UNKNOWN_ERROR, ToolErrorCode.TOOL_REPORTED_FAILURE})


class ToolCall(Frozen, kw_only=False):
    """A call that the model requested; `sequence` counts the calls of the turn from 1."""

    tool_name: str
    parameters: dict[str, Any] = Field(default_factory=dict)
    sequence: int = Field(default=1, ge=1)


class ContentKind(StrEnum):
    """The kinds of content of an MCP result. MORE stands for blocks that are not listed."""

    STRUCTURED = "structured"
    TEXT = "text"
    IMAGE = "image"
    AUDIO = "audio"
    RESOURCE = "resource"
    LINK = "link"
    MORE = "more"


def _is_none(value: object) -> bool:
    return value is None


class ContentItem(Frozen):
    """One part of an MCP result: its kind, media type, size in bytes and SHA-256, without its content."""

    kind: ContentKind
    type: str | None = Field(default=None, exclude_if=_is_none)
    size: int | None = Field(default=None, ge=0, exclude_if=_is_none)
    """For a link, the size that the server declares."""
    sha256: str | None = Field(default=None, exclude_if=_is_none)
    """For a link, the digest of its URI."""
    uri: str | None = Field(default=None, exclude_if=_is_none)
    name: str | None = Field(default=None, exclude_if=_is_none)
    for_user: bool = Field(default=False, exclude_if=not_)
    """True if the server addresses it to the user, so that the model does not read it."""

    @property
    def note(self) -> str | None:
        """A line for the model about what `data` does not have; None for structured content, text, and what is for the user."""
        if self.for_user or self.kind in (ContentKind.STRUCTURED, ContentKind.TEXT):
            return None
        size = None if self.size is None else f"{self.size:,} bytes"
        known = ", ".join(part for part in (self.uri, self.name, self.type, size) if part)
        return f"{self.kind}: {known}"


class ReadBack(Frozen):
    """The read that was made after the answer of a change was lost, and what it found."""

    tool: str
    arguments: dict[str, Any]
    found: list[Any] = Field(default_factory=list)


class ToolResult(Frozen, kw_only=False):
    """The result of a call. `error` is written for the model; `duration_ms` is not part of the turn's state."""

    success: bool
    data: dict[str, Any] | list[Any] | None = None
    error: str | None = None
    error_code: ToolErrorCode | None = None
    duration_ms: int = Field(default=0, ge=0)
    # Left out of the JSON if it is empty, as in most results.
    content: list[ContentItem] = Field(default_factory=list, exclude_if=not_)
    """The parts of which the answer of an MCP server consisted."""
    read_back: ReadBack | None = Field(default=None, exclude_if=_is_none)
    """The read by which the outcome of a change was learned, or that has proved nothing about it."""
    for_user: str = Field(default="", exclude_if=not_)
    """The text that the server addresses to the user: the model does not read it."""
    model_only: bool = Field(default=False, exclude_if=not_)
    """True if the server addresses a part of the data to the model alone: the user reads only `for_user`."""

    @classmethod
    def failed(cls, code: ToolErrorCode, error: str) -> Self:
        return cls(success=False, error=error, error_code=code)

    @property
    def unknown(self) -> bool:
        """True if the effect may have taken place: a timeout or a lost connection is not a failure."""
        return self.error_code in UNKNOWN_CODES

    @property
    def may_be_done(self) -> bool:
        """True if the call took effect, or may have; False if it failed for certain."""
        return self.success or self.unknown


class Transport(StrEnum):
    """The way to an MCP server."""

    HTTP = "HTTP"
    STDIO = "stdio"
    MEMORY = "memory"


class ToolTraits(Frozen):
    """The properties that a server declares for one of its tools. The defaults apply if it declares nothing."""

    title: str | None = None
    read_only: bool | None = None
    """True for a declared read, False for a declared write, None if the server declares neither."""
    destructive: bool | None = False
    """True if the server marks the tool as destructive, None if it is not trusted and does not: that proves nothing."""
    ledger: bool = False
    """The server keeps the operation ledger: a key takes effect at most once, and `settle` works."""
    preview: bool = False
    """The server can describe the target of a call without performing it."""
    # Left out of the JSON if there are none.
    untrusted: bool = Field(default=False, exclude_if=not_)
    """True if the operator does not trust the server."""
    transport: Transport | None = Field(default=None, exclude_if=_is_none)
    """The way to the MCP server; None for tools of an application."""
    output: dict[str, Any] | None = Field(default=None, exclude_if=_is_none)
    """The JSON Schema that the server declares for the data of results. None for a declared write, or if it declares none."""
    unread: tuple[str, ...] | None = Field(default=None, exclude_if=not_)
    """The fields of a result that only programs read; the model reads the result without them, without nulls, and times in
    whole seconds. None if the server names none."""

    @model_validator(mode="before")
    @classmethod
    def _without_word(cls, given: Any) -> Any:
        # A record of before has the word that its questions began with.
        return {name: value for name, value in given.items() if name != "action"} if isinstance(given, dict) else given
