"""A call of the turn, as the guard and the conditions read it when they judge a later one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class PastCall:
    """A call that was judged earlier in the turn. By default it was sent, and its outcome is not known."""

    sequence: int
    tool_name: str
    arguments: dict[str, Any]
    may_have_run: bool = True
    """False for a call that was refused or skipped, or failed for certain."""
    attempted: bool = True
    """False for a call that was not sent: the model has read nothing of its tool."""
    succeeded: bool = False
    """True if its result says success."""
    waits: bool = False
    """True if it waits for the user. The calls after it are judged as if it had been made, and had succeeded."""

    @classmethod
    def waiting(cls, sequence: int, tool_name: str, arguments: dict[str, Any]) -> Self:
        """Return a call that waits for the user."""
        return cls(sequence, tool_name, arguments, succeeded=True, waits=True)
