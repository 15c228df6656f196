"""Metrics over many decisions: exact counts and percentiles, aggregated by the database.

Durations are counted by millisecond value (`MetricCounts`). Percentiles are therefore exact, and the memory does not grow with
the number of decisions. The counts of a range are the sums of those of its parts, so full hours are counted once and stored.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping

from sqlalchemy import Connection, select

from graph_agent.audit.filters import DecisionFilter
from graph_agent.audit.metric_counts import CallKind, MetricCounts, unknown_outcomes
from graph_agent.models.base import Frozen, UtcDatetime
from graph_agent.models.record import CallDisposition, RecordStatus
from graph_agent.record.metrics_hours import HOUR
from graph_agent.record.tables import metrics_hours

_SUCCESS = "SUCCESS"


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
    unknown: int
    """The changes of which it is not known to this day whether they were made."""
    errors: dict[str, int]
    durations: Durations


class ShadowCounts(Frozen):
    """The decisions that a rule in the shadow would have changed."""

    asked: int = 0
    """The calls about which it would have asked the user."""
    waited: int = 0
    """The calls that would have waited for the approval of other people."""
    refused: int = 0


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
    """Closed decisions by intent; those without one, as the calls of tools that are not the shipped ones, are not counted."""
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
    gates: dict[str, int]
    """The calls that were not sent, by the gate that stopped them."""
    shadow: dict[str, ShadowCounts]
    """The rules in the shadow that would have changed the decision on a call, by name."""
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
    """Compute the metrics of the decisions that match `filters`.

    If only the time range is restricted, the stored counts of its full hours are used; the rest is counted now.
    """
    counts = MetricCounts()
    rest = filters
    if filters.restricts_only_time:
        hours = select(metrics_hours).order_by(metrics_hours.c.hour)
        if filters.since is not None:
            hours = hours.where(metrics_hours.c.hour >= filters.since)
        if filters.until is not None:
            hours = hours.where(metrics_hours.c.hour <= filters.until - HOUR)
        for hour, stored in connection.execute(hours):
            if rest.since != hour:
                counts.count(connection, rest.replace(until=hour))
            counts.add(stored)
            rest = rest.replace(since=hour + HOUR, until=None)
    if rest.since is None or rest.since != filters.until:
        counts.count(connection, rest.replace(until=filters.until))
    return _summary(filters, counts, unknown_outcomes(connection, filters))


def _summary(filters: DecisionFilter, counts: MetricCounts, unknown: Mapping[str, int]) -> MetricsSummary:
    times = {kind: histogram.total() for kind, histogram in counts.decisions.items()}
    closed = {kind: n for kind, n in times.items() if kind.status != RecordStatus.PENDING}
    outcomes = _counted((kind.outcome_category, n) for kind, n in closed.items())
    categories = _counted((outcome.partition(":")[0], n) for outcome, n in outcomes.items())
    total, ended = sum(times.values()), sum(closed.values())
    tools: dict[str, dict[CallKind, Counter[int]]] = {}
    for kind, histogram in counts.calls.items():
        tools.setdefault(kind.tool_name, {})[kind] = histogram
    usage = {name: _tool_usage(kinds, unknown.get(name, 0)) for name, kinds in tools.items()}
    return MetricsSummary(
        since=filters.since,
        until=filters.until,
        total=total,
        open=total - ended,
        interrupted=sum(n for kind, n in closed.items() if kind.status == RecordStatus.INTERRUPTED),
        success_rate=round(categories.get(_SUCCESS, 0) / ended, 4) if ended else None,
        categories=categories,
        outcomes=outcomes,
        decision_types=_counted((kind.decision_type, n) for kind, n in closed.items()),
        intents=_counted((kind.intent_type, n) for kind, n in closed.items() if kind.intent_type),
        models=_counted((kind.model or "UNKNOWN", n) for kind, n in closed.items()),
        response_models=_counted((kind.response_model, n) for kind, n in closed.items() if kind.response_model),
        constitutions=_counted((kind.constitution or "UNKNOWN", n) for kind, n in closed.items()),
        durations=Durations.of(_sum(counts.decisions[kind] for kind in closed)),
        tool_calls=sum(tool.calls for tool in usage.values()),
        tool_durations=Durations.of(_sum(_sent(counts.calls).values())),
        tools=dict(sorted(usage.items(), key=lambda item: (-item[1].calls, item[0]))),
        gates=_counted((kind.gate, histogram.total()) for kind, histogram in counts.calls.items() if kind.gate),
        shadow=_shadow(counts.calls),
        tokens=TokenTotals(**counts.tokens),
    )


def _shadow(calls: Mapping[CallKind, Counter[int]]) -> dict[str, ShadowCounts]:
    found: dict[str, Counter[str]] = {}
    for kind, histogram in calls.items():
        for verdict in json.loads(kind.shadow or "[]"):
            found.setdefault(verdict["rule"], Counter())[verdict["decision"]] += histogram.total()
    return {
        rule: ShadowCounts(asked=one["asks"], waited=one["waits"], refused=one["refused"])
        for rule, one in sorted(found.items())
    }


def _tool_usage(kinds: Mapping[CallKind, Counter[int]], unknown: int) -> ToolUsage:
    times = {kind: histogram.total() for kind, histogram in kinds.items()}
    sent = _sent(kinds)
    executed = sum(times[kind] for kind in sent)
    succeeded = sum(times[kind] for kind in sent if kind.success)
    return ToolUsage(
        calls=sum(times.values()),
        executed=executed,
        refused=sum(n for kind, n in times.items() if kind.disposition == CallDisposition.REFUSED),
        succeeded=succeeded,
        success_rate=round(succeeded / executed, 4) if executed else None,
        unknown=unknown,
        errors=_counted((kind.error_code, n) for kind, n in times.items() if kind.error_code is not None),
        durations=Durations.of(_sum(sent.values())),
    )


def _sent(kinds: Mapping[CallKind, Counter[int]]) -> dict[CallKind, Counter[int]]:
    return {kind: histogram for kind, histogram in kinds.items() if kind.disposition == CallDisposition.EXECUTED}


def _sum(histograms: Iterable[Counter[int]]) -> Counter[int]:
    total: Counter[int] = Counter()
    for histogram in histograms:
        total.update(histogram)
    return total


def _counted(pairs: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Sum the numbers by name, the most frequent name first."""
    counter: Counter[str] = Counter()
    for name, times in pairs:
        counter[name] += times
    return dict(sorted(counter.items(), key=lambda item: (-item[1], item[0])))
