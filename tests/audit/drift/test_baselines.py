"""Baselines: creating, finding and comparing them."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import pytest

from graph_agent.audit.drift.baselines import BaselineService
from graph_agent.audit.drift.compare import MIN_DECISIONS
from graph_agent.audit.filters import DecisionFilter
from graph_agent.clock import ManualClock
from graph_agent.db import Database
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.models.decision import DecisionType, IntentType, OutcomeCategory
from graph_agent.models.record import DecisionRecord
from tests.audit.builders import NOON, make_record, store_records, stored_reports

WEEK = timedelta(days=7)
CHAT: dict[str, Any] = {
    "decision_type": DecisionType.RESPOND_ONLY,
    "outcome": OutcomeCategory.RESPONSE_GIVEN,
    "intent": IntentType.GENERAL_CHAT,
}


def week(first: int, at: datetime, n: int, *, chats: float, **more: Any) -> list[DecisionRecord]:
    """Return `n` decisions from `at` on, of which a share of `chats` calls no tool."""
    chance = random.Random(first)
    found = []
    for number in range(first, first + n):
        kind = CHAT if chance.random() < chats else {"calls": ({},)}
        found.append(
            make_record(number, at=at + timedelta(minutes=number - first), ms=chance.randrange(200, 400), **kind, **more)
        )
    return found


@pytest.fixture
def service(log: Database) -> BaselineService:
    store_records(log, *week(1, NOON, 200, chats=0.3))
    return BaselineService(log, clock=ManualClock(NOON + 5 * WEEK))


async def test_a_baseline_is_the_profile_of_its_decisions(service: BaselineService) -> None:
    baseline = await service.create_baseline("march", NOON, NOON + WEEK, description="before the change")
    records = week(1, NOON, 200, chats=0.3)
    (profile,) = baseline.profiles
    assert (profile.decisions, profile.durations) == (200, Counter(record.duration_ms for record in records))
    assert profile.decision_types == Counter(record.decision.decision_type for record in records)
    assert profile.tools == {"add_task": sum(bool(record.invocations) for record in records)}
    assert await service.get_baseline("march") == baseline
    assert await service.get_baseline(baseline.baseline_id) == baseline
    assert await service.list_baselines() == [baseline]


async def test_pages_of_baselines_join_without_gaps_at_equal_times(log: Database, service: BaselineService) -> None:
    # The clock does not advance, so three of them have the same time.
    for name in ("one", "three", "two"):
        await service.create_baseline(name, NOON, NOON + WEEK)
    later = BaselineService(log, clock=ManualClock(NOON + 6 * WEEK))
    newest = await later.create_baseline("newest", NOON, NOON + WEEK)
    assert await service.list_baselines(1) == [newest]
    pages, before = [], None
    while page := await service.list_baselines(1, before):
        pages += [baseline.name for baseline in page]
        before = page[-1].baseline_id
    assert pages == ["newest", "one", "three", "two"]
    with pytest.raises(ServiceError) as refused:
        await service.list_baselines(1, "march")
    assert refused.value.code is ServiceErrorCode.BASELINE_NOT_FOUND


async def test_unchanged_behaviour_is_no_drift_and_changed_behaviour_is(log: Database, service: BaselineService) -> None:
    await service.create_baseline("march", NOON, NOON + WEEK)
    store_records(log, *week(1000, NOON + WEEK, 200, chats=0.3), *week(2000, NOON + 2 * WEEK, 200, chats=0.6))
    same = await service.compare_to_baseline("march", NOON + WEEK, NOON + 2 * WEEK)
    assert (same.drift_detected, same.decisions) == (False, 200)
    moved = await service.compare_to_baseline("march", NOON + 2 * WEEK)
    assert moved.drift_detected
    flagged = {(one.dimension, one.name) for one in moved.groups[0].flagged}
    assert {("intents", "GENERAL_CHAT"), ("tools", "add_task"), ("decision_types", "RESPOND_ONLY")} <= flagged
    assert not [one for one in moved.groups[0].flagged if one.dimension in ("error_rate", "latency")]
    stored = await stored_reports(log, "drift")
    assert {report["report_id"] for report in stored} == {same.report_id, moved.report_id}


async def test_without_a_start_a_comparison_starts_at_the_end_of_the_baseline(log: Database, service: BaselineService) -> None:
    await service.create_baseline("march", NOON, NOON + WEEK)
    store_records(log, *week(1000, NOON + WEEK, 50, chats=0.3))
    report = await service.compare_to_baseline("march")
    assert (report.since, report.decisions) == (NOON + WEEK, 50)


async def test_decisions_under_another_constitution_are_listed_separately(log: Database, service: BaselineService) -> None:
    await service.create_baseline("march", NOON, NOON + WEEK)
    store_records(log, *week(1000, NOON + WEEK, 100, chats=1.0, constitution="a stricter one"))
    report = await service.compare_to_baseline("march")
    assert not report.drift_detected
    assert "changed constitution" in report.uncompared[0].reason


async def test_invalid_requests_have_an_error_code(service: BaselineService) -> None:
    await service.create_baseline("march", NOON, NOON + WEEK)
    for refused, code in (
        (service.create_baseline("march", NOON, NOON + WEEK), ServiceErrorCode.DUPLICATE_NAME),
        (service.create_baseline("june", NOON + WEEK), ServiceErrorCode.INSUFFICIENT_DATA),
        (service.create_baseline("  ", NOON), ServiceErrorCode.VALIDATION_ERROR),
        (service.create_baseline("x", NOON, NOON - WEEK), ServiceErrorCode.VALIDATION_ERROR),
        (service.compare_to_baseline("april"), ServiceErrorCode.BASELINE_NOT_FOUND),
        (service.compare_to_baseline("march"), ServiceErrorCode.INSUFFICIENT_DATA),
        (service.compare_to_baseline("march", threshold=0), ServiceErrorCode.VALIDATION_ERROR),
    ):
        with pytest.raises(ServiceError) as failed:
            await refused
        assert failed.value.code is code
    assert f"at least {MIN_DECISIONS}" in str(failed.value) or failed.value.code is ServiceErrorCode.VALIDATION_ERROR


async def test_of_two_concurrent_baselines_with_the_same_name_one_is_created(service: BaselineService) -> None:
    results = await asyncio.gather(*(service.create_baseline("march", NOON) for _ in range(2)), return_exceptions=True)
    refused = [one for one in results if isinstance(one, ServiceError)]
    assert [one.code for one in refused] == [ServiceErrorCode.DUPLICATE_NAME]
    assert len(await service.list_baselines()) == 1


async def test_a_baseline_can_cover_the_decisions_of_a_filter(log: Database, service: BaselineService) -> None:
    store_records(log, *week(1000, NOON, 40, chats=0.5, user="bob"))
    baseline = await service.create_baseline("bob", filters=DecisionFilter(user_id="bob"))
    assert (baseline.decisions, baseline.until) == (40, NOON + 5 * WEEK)
