"""Metrics over many decisions: exact counts and percentiles, aggregated by the database.

Durations are read as a histogram with one row for each millisecond value that occurs. Percentiles are therefore exact, and the
memory does not grow with the number of decisions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import timedelta

from sqlalchemy import Connection, func, select

from graph_agent.audit.filters import DecisionFilter
from graph_agent.models.base import Frozen, UtcDatetime
from graph_agent.models.record import CallDisposition, RecordStatus
from graph_agent.record.tables import decision_logs, tool_invocation_logs

_SUCCESS = "SUCCESS"

LONGEST_TURN = timedelta(hours=1)
"""An upper bound of the duration of a turn, far above its deadline."""


class Durations(Frozen):
    """Statistics of durations in milliseconds; percentiles by nearest rank. All are None if there are no durations."""

    count: int = 0
    average: float | None = None
    p50: int | None = None
    p95: int | None = None
    p99: int | None = None
    maximum: int | None = None

    @classmethod
    def of(cls, histogram: Mapping[int, int]) -> Durations:
        """Compute the statistics of a histogram, which maps each duration to its number of occurrences."""
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
    """The usage of one tool. `calls` counts all requested calls, `executed` those that were sent to the tool."""

    calls: int
    executed: int
    refused: int
    """The calls that code refused."""
    succeeded: int
    success_rate: float | None
    """The share of executed calls that succeeded; None if no call was executed."""
    errors: dict[str, int]
    durations: Durations


class TokenTotals(Frozen):
    """Sums over the decisions whose model reported its usage; `decisions` is their number."""

    decisions: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0
    cached_tokens: int = 0


class MetricsSummary(Frozen):
    """The metrics of a time range.

    Rates, breakdowns and durations cover the closed decisions that started in it. The metrics of tools cover the calls that
    were requested in it.
    """

    since: UtcDatetime | None
    until: UtcDatetime | None
    total: int
    """Closed and open decisions."""
    open: int
    """Still PENDING."""
    interrupted: int
    success_rate: float | None
    """The share of decisions with the category SUCCESS; None if there are no decisions."""
    categories: dict[str, int]
    outcomes: dict[str, int]
    decision_types: dict[str, int]
    intents: dict[str, int]
    """Decisions without an intent count as UNKNOWN."""
    models: dict[str, int]
    """Decisions by the model that was requested."""
    response_models: dict[str, int]
    """Decisions by the model that answered; those of models that did not name themselves are not counted."""
    constitutions: dict[str, int]
    durations: Durations
    tool_calls: int
    tool_durations: Durations
    """Durations of the calls to all tools."""
    tools: dict[str, ToolUsage]
    tokens: TokenTotals


def percentile(histogram: Mapping[int, int], share: float) -> int:
    """Return the smallest value that at least `share` of all values do not exceed. Raises ValueError if there are none."""
    rank = share * sum(histogram.values())
    below = 0
    for value in sorted(histogram):
        below += histogram[value]
        if below >= rank:
            return value
    raise ValueError("an empty histogram has no percentiles")


def read_metrics(connection: Connection, filters: DecisionFilter) -> MetricsSummary:
    """Compute the metrics of the decisions that match `filters`."""
    conditions = filters.conditions(connection)
    columns = decision_logs.c
    kinds = (
        columns.status,
        columns.outcome_category,
        columns.decision_type,
        columns.intent_type,
        columns.model,
        columns.response_model,
    )
    grouped = connection.execute(
        select(
            *kinds,
            columns.constitution,
            func.count().label("times"),
            func.count(columns.total_tokens).label("with_usage"),
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
        response_models=_counted((row.response_model, row.times) for row in closed if row.response_model),
        constitutions=_counted((row.constitution or "UNKNOWN", row.times) for row in closed),
        durations=Durations.of({row[0]: row[1] for row in histogram}),
        tool_calls=sum(tool.calls for tool, _ in tools.values()),
        tool_durations=Durations.of(sum((histogram for _, histogram in tools.values()), Counter())),
        tools={name: tool for name, (tool, _) in sorted(tools.items(), key=lambda item: (-item[1][0].calls, item[0]))},
        tokens=TokenTotals(
            decisions=sum(row.with_usage for row in grouped),
            **{name: sum(getattr(row, name) for row in grouped) for name in _TOKEN_COLUMNS},
        ),
    )


_TOKEN_COLUMNS = ("prompt_tokens", "completion_tokens", "total_tokens", "cached_tokens")


def _tools(connection: Connection, filters: DecisionFilter) -> dict[str, tuple[ToolUsage, Counter[int]]]:
    """Return the usage of each tool, with the histogram of its durations."""
    columns = tool_invocation_logs.c
    kinds = (columns.tool_name, columns.error_code, columns.success, columns.disposition, columns.duration_ms)
    wanted = select(*kinds, func.count().label("times")).group_by(*kinds)
    if filters.since is not None:
        wanted = wanted.where(columns.invoked_at >= filters.since)
    if filters.until is not None:
        wanted = wanted.where(columns.invoked_at < filters.until)
    if filters != DecisionFilter(since=filters.since, until=filters.until):
        # A call in the range may belong to a turn that started before it, but by no more than the longest turn.
        early = filters if filters.since is None else filters.replace(since=filters.since - LONGEST_TURN)
        decisions = select(decision_logs.c.decision_id).where(*early.conditions(connection))
        wanted = wanted.where(columns.decision_id.in_(decisions))
    rows = connection.execute(wanted).all()
    usage = {}
    for name in {row.tool_name for row in rows}:
        own = [row for row in rows if row.tool_name == name]
        sent = [row for row in own if row.disposition is CallDisposition.EXECUTED]
        histogram: Counter[int] = Counter()
        for row in sent:
            histogram[row.duration_ms] += row.times
        succeeded = sum(row.times for row in sent if row.success)
        usage[name] = (
            ToolUsage(
                calls=sum(row.times for row in own),
                executed=histogram.total(),
                refused=sum(row.times for row in own if row.disposition is CallDisposition.REFUSED),
                succeeded=succeeded,
                success_rate=round(succeeded / histogram.total(), 4) if sent else None,
                errors=_counted((row.error_code, row.times) for row in own if row.error_code is not None),
                durations=Durations.of(histogram),
            ),
            histogram,
        )
    return usage


def _counted(pairs: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Sum the numbers by name, the most frequent name first."""
    counter: Counter[str] = Counter()
    for name, times in pairs:
        counter[name] += times
    return dict(sorted(counter.items(), key=lambda item: (-item[1], item[0])))
