"""Facts about the moment of a call, which rules may read: the time, what was used, what was called."""

from __future__ import annotations

from datetime import datetime
from typing import Self
from zoneinfo import ZoneInfo

from pydantic import Field

from graph_agent.models.base import Frozen, UtcDatetime

WINDOWS = ("message", "hour", "day")
"""The spans in which uses are counted. Hour and day are those of the calendar in one time zone, so that an hour is in a day."""
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


class ToolUse(Frozen):
    """The earlier calls of one tool in a window. `sums` has the integer arguments, and the others times 10,000."""

    calls: int = Field(default=0, ge=0)
    sums: dict[str, int] = Field(default_factory=dict)


class WindowUse(Frozen):
    """The earlier calls of a user in a window: those of each tool, and the number of writes of all tools."""

    writes: int = Field(default=0, ge=0)
    tools: dict[str, ToolUse] = Field(default_factory=dict)


class Facts(Frozen):
    """The answer of one recorded question, from which a replay evaluates the rules again."""

    now: UtcDatetime
    hour: int = Field(ge=0, le=23)
    weekday: str
    used: dict[str, WindowUse] | None = None
    """By window, without the calls of this message. None if the installation does not count uses."""
    called: list[str] | None = None
    """The tools that may have run in this conversation, sorted. None as above."""

    @classmethod
    def at(cls, now: datetime, time_zone: str) -> Self:
        """Return the time `now` in an IANA time zone; what was used and called is not known."""
        local = now.astimezone(ZoneInfo(time_zone))
        return cls(now=now, hour=local.hour, weekday=WEEKDAYS[local.weekday()])
