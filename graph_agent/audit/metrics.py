"""Figures over many decisions: exact counts and percentiles, added up by the database.

Durations are read as a histogram, one row for each whole millisecond that occurs, so a percentile is exact and a million rows
take no more memory than a thousand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import timedelta

from sqlalchemy import Connection, func, select

from graph_agent.audit.filters import DecisionFilter
from graph_agent.record.tables import DecisionLog, ToolInvocationLog, table_of
from graph_agent.models.base import Frozen, UtcDatetime
from graph_agent.models.record import CallDisposition, RecordStatus

_decisions = table_of(DecisionLog)
_invocations = table_of(ToolInvocationLog)

_SUCCESS = "SUCCESS"

LONGEST_TURN = timedelta(hours=1)


class Durations(Frozen):
    """In milliseconds; percentiles by nearest rank. All None over nothing."""

    count: int = 0
    average: float | None = None
    p50: int | None = None
    p95: int | None = None
    p99: int | None = None
    maximum: int | None = None

    @classmethod
    def of(cls, histogram: Mapping[int, int]) -> Durations:
        """`histogram` says how often each duration occurs."""
        count = sum(histogram.values())
        if not count:
            return cls()
        return cls(
            count=count,
            average=round(sum(ms * times for ms, times in histogram.items()) / count, 2),
            p50=percentile(histogram, 0.50),
            p95=percentile(histogram, 0.95),
            p99=percentile(histogram, 0.99),
            maximum=max(histogram),
        )


class ToolUsage(Frozen):
    """How one tool was used. `calls` counts every call asked for, `executed` those that were sent to it."""

    calls: int
    executed: int
    succeeded: int
    success_rate: float | None
    """Of the calls sent; None where none was."""
    errors: dict[str, int]
    durations: Durations


class TokenTotals(Frozen):
    """Sums over the decisions whose model told its usage, and how many these were."""

    decisions: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0


class MetricsSummary(Frozen):
    """What happened in a span of time.

    Rates, breakdowns and durations are over the closed decisions that began in it; the figures of tools are over the calls that
    were asked for in it.
    """

    since: UtcDatetime | None
    until: UtcDatetime | None
    total: int
    """Closed and open."""
    open: int
    """Still PENDING."""
    interrupted: int
    success_rate: float | None
    """The share of category SUCCESS; None over nothing."""
    categories: dict[str, int]
    outcomes: dict[str, int]
    decision_types: dict[str, int]
    intents: dict[str, int]
    """Decisions whose tools have no known intent count as UNKNOWN."""
    models: dict[str, int]
    constitutions: dict[str, int]
    durations: Durations
    tool_calls: int
    tool_durations: Durations
    """Of the calls sent to any tool."""
    tools: dict[str, ToolUsage]
    tokens: TokenTotals


def percentile(histogram: Mapping[int, int], share: float) -> int:
    """The smallest value that at least `share` of all are not above. Raises ValueError for an empty histogram."""
    rank = share * sum(histogram.values())
    below = 0
    for value in sorted(histogram):
        below += histogram[value]
        if below >= rank:
            return value
    raise ValueError("there is nothing to take a percentile of")


def read_metrics(connection: Connection, filters: DecisionFilter) -> MetricsSummary:
    """Add up the decisions that `filters` mean."""
    conditions = filters.conditions(connection)
    columns = _decisions.c
    kinds = (columns.status, columns.outcome_category, columns.decision_type, columns.intent_type, columns.model)
    grouped = connection.execute(
        select(
            *kinds,
            columns.constitution,
            func.count().label("times"),
            func.count(columns.total_tokens).label("told"),
            *(func.coalesce(func.sum(columns[name]), 0).label(name) for name in _TOKEN_COLUMNS),
        )
        .where(*conditions)
        .group_by(*kinds, columns.constitution)
    ).all()
    closed = [row for row in grouped if row.status != RecordStatus.PENDING]
    outcomes = _counted((row.outcome_category, row.times) for row in closed)
    categories = _counted((outcome.partition(":")[0], times) for outcome, times in outcomes.items())
    total = sum(row.times for row in grouped)
    ended = sum(row.times for row in closed)
    histogram = connection.execute(
        select(columns.duration_ms, func.count())
        .where(*conditions, columns.ended_at.is_not(None))
        .group_by(columns.duration_ms)
    )
    tools = _tools(connection, filters)
    return MetricsSummary(
        since=filters.since,
        until=filters.until,
        total=total,
        open=total - ended,
        interrupted=sum(row.times for row in closed if row.status == RecordStatus.INTERRUPTED),
        success_rate=round(categories.get(_SUCCESS, 0) / ended, 4) if ended else None,
        categories=categories,
        outcomes=outcomes,
        decision_types=_counted((row.decision_type, row.times) for row in closed),
        intents=_counted((row.intent_type or "UNKNOWN", row.times) for row in closed),
        models=_counted((row.model or "UNKNOWN", row.times) for row in closed),
        constitutions=_counted((row.constitution or "UNKNOWN", row.times) for row in closed),
        durations=Durations.of({row[0]: row[1] for row in histogram}),
        tool_calls=sum(tool.calls for tool, _ in tools.values()),
        tool_durations=Durations.of(sum((histogram for _, histogram in tools.values()), Counter())),
        tools={name: tool for name, (tool, _) in sorted(tools.items(), key=lambda item: (-item[1][0].calls, item[0]))},
        tokens=TokenTotals(
            decisions=sum(row.told for row in grouped),
            **{name: sum(getattr(row, name) for row in grouped) for name in _TOKEN_COLUMNS},
        ),
    )


_TOKEN_COLUMNS = ("prompt_tokens", "completion_tokens", "total_tokens")


def _tools(connection: Connection, filters: DecisionFilter) -> dict[str, tuple[ToolUsage, Counter[int]]]:
    """Each tool's usage, with the histogram of its durations."""
    columns = _invocations.c
    executed = columns.disposition == CallDisposition.EXECUTED
    kinds = (columns.tool_name, columns.error_code, columns.success, executed.label("executed"), columns.duration_ms)
    wanted = select(*kinds, func.count().label("times")).group_by(*kinds)
    if filters.since is not None:
        wanted = wanted.where(columns.invoked_at >= filters.since)
    if filters.until is not None:
        wanted = wanted.where(columns.invoked_at < filters.until)
    if filters != DecisionFilter(since=filters.since, until=filters.until):
        # A turn that sent a call in the span began no more than its longest deadline before it.
        early = filters if filters.since is None else filters.replace(since=filters.since - LONGEST_TURN)
        decisions = select(_decisions.c.decision_id).where(*early.conditions(connection))
        wanted = wanted.where(columns.decision_id.in_(decisions))
    rows = connection.execute(wanted).all()
    usage = {}
    for name in {row.tool_name for row in rows}:
        own = [row for row in rows if row.tool_name == name]
        sent = [row for row in own if row.executed]
        histogram: Counter[int] = Counter()
        for row in sent:
            histogram[row.duration_ms] += row.times
        succeeded = sum(row.times for row in sent if row.success)
        usage[name] = (
            ToolUsage(
                calls=sum(row.times for row in own),
                executed=histogram.total(),
                succeeded=succeeded,
                success_rate=round(succeeded / histogram.total(), 4) if sent else None,
                errors=_counted((row.error_code, row.times) for row in own if row.error_code is not None),
                durations=Durations.of(histogram),
            ),
            histogram,
        )
    return usage


def _counted(pairs: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Times by name, the most frequent first."""
    counter: Counter[str] = Counter()
    for name, times in pairs:
        counter[name] += times
    return dict(sorted(counter.items(), key=lambda item: (-item[1], item[0])))
