"""Tool calls as wishes, their results, and what is known of a tool."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from graph_agent.errors import ToolErrorCode
from graph_agent.models.base import Frozen

_UNKNOWN = frozenset({ToolErrorCode.TIMEOUT_ERROR, ToolErrorCode.UNKNOWN_ERROR})


class ToolCall(Frozen):
    """A call the model wished for; `sequence` counts the turn's calls from 1."""

    tool_name: str
    parameters: dict[str, Any] = Field(default_factory=dict)
    sequence: int = Field(ge=1)


class ToolResult(Frozen):
    """What became of a call. `error` is written for the model; `duration_ms` stays out of the turn's state."""

    success: bool
    data: dict[str, Any] | list[Any] | None = None
    error: str | None = None
    error_code: ToolErrorCode | None = None
    duration_ms: int = Field(default=0, ge=0)

    @property
    def unknown(self) -> bool:
        """Whether nobody knows if the effect took place: a timeout or a lost connection is never a failure."""
        return self.error_code in _UNKNOWN


class ToolTraits(Frozen):
    """What a server says of one of its tools; the defaults are what is assumed of a stranger."""

    title: str | None = None
    read_only: bool = False
    ledger: bool = False
    """The server keeps the operation ledger: the same key never acts twice, and `settle` works."""
    preview: bool = False
    """The server can describe what a call would act on, without acting."""
