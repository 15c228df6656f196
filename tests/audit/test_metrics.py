"""Metrics, compared with values computed by hand."""

from __future__ import annotations

from datetime import timedelta

import pytest

from graph_agent.audit.filters import DecisionFilter
from graph_agent.audit.metrics import Durations, MetricsSummary, TokenTotals, ToolUsage, percentile
from graph_agent.audit.queries import LogQueryService
from graph_agent.db import Database
from graph_agent.models.decision import DecisionType, IntentType, OutcomeCategory
from graph_agent.models.record import CallDisposition, DecisionOpening, RecordStatus
from graph_agent.record.writer import DatabaseAuditWriter
from tests.audit.builders import NOON, make_record, store_records


async def test_a_summary_aggregates_all_decisions(log: Database) -> None:
    refused = {"success": False, "error_code": "TOOL_NOT_FOUND", "tool_name": "nope"} | {
        "disposition": CallDisposition.REFUSED,
        "gate": "listed",
    }
    not_found = {"success": False, "error_code": "NOT_FOUND", "duration_ms": 30}
    records = [
        make_record(1, ms=100, tokens=10, calls=({"duration_ms": 10},)),
        make_record(2, ms=300, tokens=20, calls=({"duration_ms": 20}, not_found)),
        make_record(3, ms=200, calls=(refused,), outcome=OutcomeCategory.TOOL_INVOCATION, intent=None),
        make_record(
            4,
            ms=5000,
            outcome=OutcomeCategory.RESPONSE_GENERATION,
            decision_type=DecisionType.RESPOND_ONLY,
            intent=IntentType.GENERAL_CHAT,
            status=RecordStatus.INTERRUPTED,
            model="embedded",
        ),
    ]
    store_records(log, *records)
    opened = make_record(5)
    await DatabaseAuditWriter(log).write_opening(DecisionOpening.of(opened.header, {}))

    summary = await LogQueryService(log).get_metrics_summary(NOON, NOON + timedelta(hours=1))

    assert summary == MetricsSummary(
        since=NOON,
        until=NOON + timedelta(hours=1),
        total=5,
        open=1,
        interrupted=1,
        success_rate=0.5,
        categories={"ERROR": 2, "SUCCESS": 2},
        outcomes={"SUCCESS:TASK_COMPLETED": 2, "ERROR:RESPONSE_GENERATION": 1, "ERROR:TOOL_INVOCATION": 1},
        decision_types={"INVOKE_TOOL": 3, "RESPOND_ONLY": 1},
        intents={"CREATE_TASK": 2, "GENERAL_CHAT": 1},
        response_models={},
        models={"gemini": 3, "embedded": 1},
        constitutions={records[0].header.constitution: 4},
        durations=Durations(count=4, average=1400.0, p50=200, p95=5000, p99=5000, maximum=5000),
        tool_calls=4,
        tool_durations=Durations(count=3, average=20.0, p50=20, p95=30, p99=30, maximum=30),
        tools={
            "add_task": ToolUsage(
                calls=3,
                executed=3,
                refused=0,
                succeeded=2,
                success_rate=0.6667,
                unknown=0,
                errors={"NOT_FOUND": 1},
                durations=Durations(count=3, average=20.0, p50=20, p95=30, p99=30, maximum=30),
            ),
            "nope": ToolUsage(
                calls=1,
                executed=0,
                refused=1,
                succeeded=0,
                success_rate=None,
                unknown=0,
                errors={"TOOL_NOT_FOUND": 1},
                durations=Durations(),
            ),
        },
        gates={"listed": 1},
        shadow={},
        tokens=TokenTotals(decisions=2, prompt_tokens=30, completion_tokens=2, total_tokens=32),
    )


async def test_a_summary_covers_the_decisions_that_match_the_filter(log: Database) -> None:
    store_records(
        log,
        make_record(1, user="ann", calls=({},)),
        make_record(2, user="bob", calls=({}, {})),
        make_record(3, user="bob", at=NOON - timedelta(days=2), calls=({},)),
    )
    service = LogQueryService(log)
    of_bob = await service.get_metrics_summary(NOON, filters=DecisionFilter(user_id="bob"))
    assert (of_bob.total, of_bob.tool_calls) == (1, 2)
    ever = await service.get_metrics_summary()
    assert (ever.total, ever.tool_calls) == (3, 4)
    before = await service.get_metrics_summary(until=NOON)
    assert (before.total, before.tool_calls) == (1, 1)


async def test_a_summary_of_an_empty_log_has_no_rates(log: Database) -> None:
    summary = await LogQueryService(log).get_metrics_summary()
    assert (summary.total, summary.success_rate, summary.durations, summary.tools) == (0, None, Durations(), {})


@pytest.mark.parametrize(("share", "value"), [(0.5, 50), (0.95, 95), (0.99, 99), (1.0, 100), (0.001, 1)])
def test_percentiles_use_the_nearest_rank(share: float, value: int) -> None:
    assert percentile(dict.fromkeys(range(1, 101), 1), share) == value
    assert percentile(dict.fromkeys(range(1, 101), 7), share) == value
