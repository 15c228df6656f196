"""The earlier calls of a user on a day, counted while the record is read: as `CedarConditions.facts` counts them.

A user may be a program that makes thousands of calls a day, so nothing is kept of each call, and none is counted twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from graph_agent.models.facts import COUNTED_WINDOWS, ToolUse, WindowUse, window_start
from graph_agent.policy.cedar.schema import ToolAction
from graph_agent.policy.cedar.values import Unconvertible, amount


@dataclass
class _Hour:
    """The calls in an hour of the calendar, by tool."""

    calls: Counter[str] = field(default_factory=Counter)
    writes: int = 0
    sums: dict[str, Counter[str]] = field(default_factory=dict)
    """By tool and argument, as in `ToolUse`."""


class DayUses:
    """The calls of one user since a day began."""

    def __init__(self, actions: Mapping[str, ToolAction], time_zone: str) -> None:
        self._actions = actions
        self._time_zone = time_zone
        self._hours: dict[datetime, _Hour] = {}
        """By their beginning in UTC."""

    def add(self, tool_name: str, arguments: Mapping[str, Any], at: datetime) -> None:
        """Count a call that may have run."""
        hour = self._hours.setdefault(window_start("hour", at, self._time_zone), _Hour())
        hour.calls[tool_name] += 1
        action = self._actions.get(tool_name)
        # A tool that is no longer served had effects too.
        hour.writes += action is None or action.writes
        for name, type_, _ in action.numbers if action is not None else ():
            if arguments.get(name) is None:
                continue
            try:
                value = max(0, amount(type_.kind, arguments[name], name))
            except Unconvertible:
                continue
            hour.sums.setdefault(tool_name, Counter())[name] += value

    def used(self, tool_name: str, now: datetime) -> dict[str, WindowUse]:
        """Return what the calls of a tool, and all writes, have used in each window at `now`."""
        starts = {window: window_start(window, now, self._time_zone) for window in COUNTED_WINDOWS}
        return {
            window: _use(tool_name, [hour for began, hour in self._hours.items() if began >= start])
            for window, start in starts.items()
        }


def _use(tool_name: str, hours: Iterable[_Hour]) -> WindowUse:
    calls, writes, sums = 0, 0, Counter[str]()
    for hour in hours:
        calls += hour.calls[tool_name]
        writes += hour.writes
        sums.update(hour.sums.get(tool_name, {}))
    return WindowUse(writes=writes, tools={tool_name: ToolUse(calls=calls, sums=dict(sums))} if calls else {})
