"""A call of the turn, as the guard and the conditions read it when they judge a later one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


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
