"""Requested tool calls, their results, and the traits of a tool."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from graph_agent.errors import ToolErrorCode
from graph_agent.models.base import Frozen

UNKNOWN_CODES = frozenset({ToolErrorCode.TIMEOUT_ERROR, ToolErrorCode.UNKNOWN_ERROR, ToolErrorCode.TOOL_REPORTED_FAILURE})


class ToolCall(Frozen, kw_only=False):
    """A call that the model requested; `sequence` counts the calls of the turn from 1."""

    tool_name: str
    parameters: dict[str, Any] = Field(default_factory=dict)
    sequence: int = Field(default=1, ge=1)


class ToolResult(Frozen, kw_only=False):
    """The result of a call. `error` is written for the model; `duration_ms` is not part of the turn's state."""

    success: bool
    data: dict[str, Any] | list[Any] | None = None
    error: str | None = None
    error_code: ToolErrorCode | None = None
    duration_ms: int = Field(default=0, ge=0)

    @property
    def unknown(self) -> bool:
        """True if the effect may have taken place: a timeout or a lost connection is not a failure."""
        return self.error_code in UNKNOWN_CODES

    @property
    def may_be_done(self) -> bool:
        """True if the call took effect, or may have; False if it failed for certain."""
        return self.success or self.unknown


class ToolTraits(Frozen):
    """The properties that a server declares for one of its tools. The defaults apply if it declares nothing."""

    title: str | None = None
    read_only: bool | None = None
    """True for a declared read, False for a declared write, None if the server declares neither."""
    destructive: bool = False
    """The server marks the tool as destructive."""
    ledger: bool = False
    """The server keeps the operation ledger: a key takes effect at most once, and `settle` works."""
    preview: bool = False
    """The server can describe the target of a call without performing it."""
    action: str | None = None
    """One word for the action, such as "Delete": with a preview it makes the question "Delete 'buy bread'."."""
