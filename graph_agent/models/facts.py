"""Facts about the moment of a call, which conditions may read: the time, what was used, which calls were made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from operator import not_
from typing import Any, Self
from zoneinfo import ZoneInfo

from pydantic import Field

from graph_agent.models.base import Frozen, UtcDatetime
from graph_agent.models.canonical import canonical_json
from graph_agent.models.tools import ToolResult

WINDOWS = ("message", "hour", "day")
"""The spans in which uses are counted. Hour and day are those of the calendar in one time zone, so that an hour is in a day."""
COUNTED_WINDOWS = ("hour", "day")
"""The windows that calls of earlier turns can be in."""
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


class ToolUse(Frozen):
    """The earlier calls of one tool in a window. `sums` has the integer arguments, and the others times 10,000."""

    calls: int = Field(default=0, ge=0)
    sums: dict[str, int] = Field(default_factory=dict)


class WindowUse(Frozen):
    """The earlier calls of a user in a window: those of each tool, and the number of writes of all tools."""

    writes: int = Field(default=0, ge=0)
    tools: dict[str, ToolUse] = Field(default_factory=dict)


class Selected(Frozen):
    """The facts from one result. A fact that is in neither is absent: what it is about does not exist."""

    values: dict[str, Any] = Field(default_factory=dict)
    """The values by fact; of an object only the fields that something names."""
    failed: dict[str, str] = Field(default_factory=dict, exclude_if=not_)
    """The reason, a clause, for each fact that the result does not give, although it should."""


class FactRead(Selected):
    """A read that the runtime has made for a call, with what all uses of it need, as it is recorded.

    Conditions have their facts by name. What an undo restores is at its path in the result, such as `$.address.street`.
    """

    tool: str
    arguments: dict[str, Any]
    error: str | None = Field(default=None, exclude_if=lambda error: error is None)
    """The reason, a clause, if there is no result at all."""
    # Left out of the JSON of most reads.
    compared: dict[str, Any] = Field(default_factory=dict, exclude_if=not_)
    """The arguments of the call that the paths of its facts compare."""
    after: int | None = Field(default=None, ge=1, exclude_if=lambda number: number is None)
    """The number of the call after which it was made, to know how that has left its object; None for a read before."""

    @classmethod
    def recorded(cls, entry: Mapping[str, Any]) -> Self:
        """Return the read that an entry of a record has, without fields of entries of before, which it no longer has."""
        return cls.model_validate({name: value for name, value in entry.items() if name in cls.model_fields})

    @property
    def is_absent(self) -> bool:
        """True if the server says that there is no such object."""
        return self.error is None and not self.values and not self.failed

    @property
    def in_words(self) -> str:
        """The values as `name = JSON`, and why others are not known."""
        if self.error is not None:
            return f"not read: {self.error}"
        found = [f"{name} = {canonical_json(value)}" for name, value in self.values.items()]
        return "; ".join([*found, *(f"{name}: {why}" for name, why in self.failed.items())]) or "not found"


NOT_GIVEN = "the given read does not have it"
"""The reason for a fact that a `KnownRead` says nothing about."""


class KnownRead(ToolResult, kw_only=True):
    """The result of a read of which only the facts are known, as a record has them.

    `read` has them by the path in the result, such as `$.payments[*].method`, and `$` for the whole of it. In an object, null
    is a field that the result did not have.
    """

    read: FactRead

    @classmethod
    def of(cls, read: FactRead) -> Self:
        return cls(success=read.error is None, read=read)


class ShownFact(Frozen):
    """A fact about a call as people are shown it. The values are the words of a server."""

    name: str
    about: tuple[Any, ...] = ()
    """The arguments of the read: what distinguishes an object from others."""
    values: dict[str, Any] = Field(default_factory=dict)
    """The parts of an object that conditions read, by their path there; a value that is no object has the empty path."""
    missing: str = Field(default="", exclude_if=not_)
    """The reason why it has no values, as a clause: `not found`, or why it is not known."""

    @property
    def title(self) -> str:
        """The name with the object: `order "W1"`."""
        return " ".join([self.name, *map(canonical_json, self.about)])

    @property
    def by_path(self) -> dict[str, Any]:
        """The values by their whole path. None means that there is no such object, and True that there is one."""
        if self.missing:
            return {self.name: None}
        return {f"{self.name}.{path}" if path else self.name: value for path, value in (self.values or {"": True}).items()}

    @property
    def in_words(self) -> str:
        """The title and the values: `order "W1": status = "delivered"`."""
        found = [f"{path} = {canonical_json(value)}" if path else canonical_json(value) for path, value in self.values.items()]
        return f"{self.title}: {self.missing or ', '.join(found) or 'found'}"


class Facts(Frozen):
    """The answer of one recorded question, from which a replay evaluates the conditions again."""

    now: UtcDatetime
    hour: int = Field(ge=0, le=23)
    weekday: str
    used: dict[str, WindowUse] | None = None
    """By window, without the calls of this message. None if no condition reads it, or if uses are not counted here."""
    succeeded: list[str] | None = None
    """The tools of the user's calls of earlier turns in this conversation whose result says success, sorted. None as above."""
    attempted: list[str] | None = None
    """The same for all calls that were sent, whatever their result, and for those of a turn that runs now. None as above."""
    # Left out of the JSON if no condition reads it.
    last: dict[str, Selected] | None = Field(default=None, exclude_if=lambda last: last is None)
    """The facts from the newest result of a tool in the earlier turns of this conversation, by fact. None as above."""

    @classmethod
    def at(cls, now: datetime, time_zone: str, **known: Any) -> Self:
        """Return the time `now` in an IANA time zone, with what is `known` of the uses and calls."""
        local = now.astimezone(ZoneInfo(time_zone))
        return cls(now=now, hour=local.hour, weekday=WEEKDAYS[local.weekday()], **known)


@dataclass(frozen=True, slots=True)
class PastUse:
    """A counted call that was made, or that may still be made."""

    tool_name: str
    amounts: Mapping[str, int | str]
    """By argument: an integer, or a decimal as text."""
    at: datetime
    settled: bool = True
    """False if it may still turn out not to have been done."""


@dataclass(frozen=True, slots=True)
class PastUses:
    """The counted calls of a user since a time, and the tools that were called in a conversation; without one decision."""

    uses: Sequence[PastUse] = ()
    succeeded: Sequence[str] = ()
    """As in `Facts`."""
    attempted: Sequence[str] = ()
    last: Mapping[str, Selected] | None = None
    """As in `Facts`."""


def window_start(window: str, now: datetime, time_zone: str) -> datetime:
    """Return when the calendar `hour` or `day` that contains `now` has begun in an IANA time zone, in UTC."""
    local = now.astimezone(ZoneInfo(time_zone)).replace(minute=0, second=0, microsecond=0)
    return (local if window == "hour" else local.replace(hour=0, fold=0)).astimezone(UTC)


def uses_by_window(uses: Iterable[PastUse], now: datetime, time_zone: str) -> dict[str, dict[str, list[PastUse]]]:
    """Return the uses in each counted window, by tool. A use from a clock that is ahead is in it too."""
    found: dict[str, dict[str, list[PastUse]]] = {window: {} for window in COUNTED_WINDOWS}
    starts = {window: window_start(window, now, time_zone) for window in COUNTED_WINDOWS}
    for use in uses:
        for window in COUNTED_WINDOWS:
            if use.at >= starts[window]:
                found[window].setdefault(use.tool_name, []).append(use)
    return found


def total_of(uses: Sequence[PastUse]) -> dict[str, Any]:
    """Return the number of `calls`, and the `sum` of each amount as text."""
    names = dict.fromkeys(name for use in uses for name in use.amounts)
    sums = {name: sum((Decimal(use.amounts.get(name, 0)) for use in uses), Decimal(0)) for name in names}
    return {"calls": len(uses), "sum": {name: f"{total:f}" for name, total in sums.items()}}
