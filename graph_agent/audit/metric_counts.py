"""The counts from which metrics are computed, and the hours for which they are stored."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, Text, func, select, type_coerce

from graph_agent.audit.filters import DecisionFilter
from graph_agent.db import Database, insert_or_replace
from graph_agent.models.record import OperationState
from graph_agent.record.metrics_hours import COUNTED_AFTER, HOUR, LONGEST_TURN, lock_hours, start_of_hour
from graph_agent.record.statements import read, write
from graph_agent.record.tables import call_operations, decision_logs, metrics_hours, tool_invocation_logs

HOURS_AT_ONCE = 100
"""The number of hours that one sweep counts, the newest first; it takes about a second."""
COUNTED_HOURS = 400 * 24
"""Older hours have no stored counts. Without a bound one decision with a wrong date would take decades of hours."""


class DecisionKind(NamedTuple):
    """The columns by which decisions are counted."""

    status: str
    outcome_category: str
    decision_type: str
    intent_type: str | None
    model: str | None
    response_model: str | None
    constitution: str | None


class CallKind(NamedTuple):
    """The columns by which tool calls are counted."""

    tool_name: str
    error_code: str | None
    success: bool
    disposition: str
    shadow: str | None
    """The verdicts of the rules in the shadow, as JSON."""
    gate: str | None
    """The gate that stopped the call."""


_DECISION = [decision_logs.c[name] for name in DecisionKind._fields]
_CALL = [
    # `shadow` as it is stored: a list could not be counted.
    type_coerce(column, Text).label("shadow") if column.name == "shadow" else column
    for column in map(tool_invocation_logs.c.__getitem__, CallKind._fields)
]
_USAGE = [decision_logs.c[name] for name in ("prompt_tokens", "completion_tokens", "total_tokens", "cached_tokens")]


@dataclass(frozen=True, slots=True)
class MetricCounts:
    """Decisions and tool calls, counted by kind and by duration in milliseconds, and sums of tokens."""

    decisions: defaultdict[DecisionKind, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    calls: defaultdict[CallKind, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    tokens: Counter[str] = field(default_factory=Counter)

    def count(self, connection: Connection, filters: DecisionFilter) -> None:
        """Add the decisions that match `filters`, and the calls that were requested in their time range."""
        columns = decision_logs.c
        sums = [func.coalesce(func.sum(column), 0) for column in _USAGE]
        kinds = [*_DECISION, columns.duration_ms]
        found = (
            select(*kinds, func.count(), func.count(columns.total_tokens), *sums)
            .where(*filters.conditions(connection))
            .group_by(*kinds)
        )
        for row in connection.execute(found):
            *kind, ms, times, with_usage = row[: len(kinds) + 2]
            self.decisions[DecisionKind(*kind)][ms] += times
            self.tokens["decisions"] += with_usage
            for column, tokens in zip(_USAGE, row[len(kinds) + 2 :], strict=True):
                self.tokens[column.name] += tokens
        self._count_calls(connection, filters)

    def _count_calls(self, connection: Connection, filters: DecisionFilter) -> None:
        columns = tool_invocation_logs.c
        kinds = [*_CALL, columns.duration_ms]
        found = select(*kinds, func.count()).where(*filters.times(columns.invoked_at)).group_by(*kinds)
        if not filters.restricts_only_time:
            # A call in the range may belong to a turn that started before it, but by no more than the longest turn.
            early = filters if filters.since is None else filters.replace(since=filters.since - LONGEST_TURN)
            decisions = select(decision_logs.c.decision_id).where(*early.conditions(connection))
            found = found.where(columns.decision_id.in_(decisions))
        for *kind, ms, times in connection.execute(found):
            self.calls[CallKind(*kind)][ms] += times

    def add(self, stored: Mapping[str, Any]) -> None:
        """Add counts that `to_json` has returned."""
        for kind, histogram in stored["decisions"]:
            self.decisions[DecisionKind(*kind)].update(dict(histogram))
        for kind, histogram in stored["calls"]:
            self.calls[CallKind(*kind)].update(dict(histogram))
        self.tokens.update(stored["tokens"])

    def to_json(self) -> dict[str, Any]:
        return {"decisions": _pairs(self.decisions), "calls": _pairs(self.calls), "tokens": self.tokens}


def unknown_outcomes(connection: Connection, filters: DecisionFilter) -> dict[str, int]:
    """Return how many outcomes of calls in the time range of `filters` are unknown to this day, by tool."""
    columns = call_operations.c
    found = (
        select(columns.tool_name, func.count())
        .where(columns.state == OperationState.UNKNOWN, *filters.times(columns.intended_at))
        .group_by(columns.tool_name)
    )
    if not filters.restricts_only_time:
        early = filters if filters.since is None else filters.replace(since=filters.since - LONGEST_TURN)
        found = found.where(columns.decision_id.in_(select(decision_logs.c.decision_id).where(*early.conditions(connection))))
    return {row.tool_name: row[1] for row in connection.execute(found)}


def _pairs(counts: Mapping[Any, Counter[int]]) -> list[Any]:
    # Pairs instead of an object: the keys of a JSON object would be text.
    return [[kind, list(histogram.items())] for kind, histogram in counts.items()]


async def count_hours(database: Database, now: datetime) -> int:
    """Store the counts of some hours that ended long before `now` and have none; return how many. Raises `ServiceError`."""
    hours = await read(database, lambda connection: _uncounted(connection, start_of_hour(now - COUNTED_AFTER)))
    for hour in hours:
        await write(database, lambda connection, hour=hour: _count_hour(connection, hour))  # type: ignore[misc]  # `hour` is bound now
    return len(hours)


def _uncounted(connection: Connection, end: datetime) -> Sequence[datetime]:
    oldest = connection.execute(select(func.min(decision_logs.c.created_at))).scalar_one()
    if oldest is None:
        return []
    first = max(start_of_hour(oldest), end - COUNTED_HOURS * HOUR)
    counted = set(connection.execute(select(metrics_hours.c.hour).where(metrics_hours.c.hour >= first)).scalars())
    every = (end - HOUR * number for number in range(1, (end - first) // HOUR + 1))
    return [hour for hour in every if hour not in counted][:HOURS_AT_ONCE]


def _count_hour(connection: Connection, hour: datetime) -> None:
    lock_hours(connection)
    counts = MetricCounts()
    counts.count(connection, DecisionFilter(since=hour, until=hour + HOUR))
    insert_or_replace(connection, metrics_hours, [{"hour": hour, "counts": counts.to_json()}])
