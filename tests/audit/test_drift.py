"""Drift against known truth: what did not change is not flagged, what did is, and by how much is right."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from graph_agent.audit.drift.compare import (
    LATENCY_FLOOR_MS,
    chi_squared_tail,
    compare,
    holm,
    homogeneity,
    mann_whitney,
    two_proportions,
)
from graph_agent.audit.drift.profiles import Profile, Seen, profiles_of

MIX = {"CREATE_TASK": 35, "LIST_TASKS": 25, "COMPLETE_TASK": 15, "GENERAL_CHAT": 10, "AMBIGUOUS": 8, "DELETE_TASK": 7}
TOOLS = {"CREATE_TASK": "add_task", "LIST_TASKS": "list_tasks", "COMPLETE_TASK": "complete_task", "DELETE_TASK": "delete_task"}


def week(chance: random.Random, n: int, mix: dict[str, int] = MIX, **changed: Any) -> Profile:
    """`n` decisions of one group drawn from `mix`; `errors` is the share that fails, `median_ms` how long they take."""
    errors, median_ms = changed.pop("errors", 0.03), changed.pop("median_ms", 800)
    intents = chance.choices(list(mix), list(mix.values()), k=n)
    seen = []
    for intent in intents:
        failed = chance.random() < errors
        tool = TOOLS.get(intent)
        outcome = "SUCCESS:TASK_COMPLETED" if tool else "SUCCESS:RESPONSE_GIVEN"
        seen.append(
            Seen.model_construct(
                model=changed.get("model", "gemini"),
                constitution=changed.get("constitution", "c1"),
                intent=intent,
                decision_type="INVOKE_TOOL" if tool else "RESPOND_ONLY",
                outcome="ERROR:RESPONSE_GENERATION" if failed else outcome,
                duration_ms=round(median_ms * chance.lognormvariate(0, 0.5)),
                tools={tool: 1} if tool else {},
            )
        )
    (profile,) = profiles_of(seen)
    return profile


def test_two_hundred_weeks_without_change_raise_at_most_five_percent_false_alarms() -> None:
    chance = random.Random(1)
    baseline = week(chance, 2000)
    alarms = sum(compare([baseline], [week(chance, 500)]).drift_detected for _ in range(200))
    assert alarms <= 10


def test_significance_alone_keeps_false_alarms_below_five_percent() -> None:
    # Without a threshold every significant comparison is an alarm: this is what the correction for many of them is for.
    chance = random.Random(2)
    alarms = sum(compare([week(chance, 500)], [week(chance, 500)], threshold=1e-9).drift_detected for _ in range(200))
    assert alarms <= 10


@pytest.mark.parametrize(
    "moved",
    [
        pytest.param({"CREATE_TASK": -15, "LIST_TASKS": +15}, id="from one intent to another"),
        pytest.param({"CREATE_TASK": -15, "AMBIGUOUS": +8, "GENERAL_CHAT": +7}, id="from one to two"),
        pytest.param({"CREATE_TASK": -10, "LIST_TASKS": -5, "DELETE_TASK": +9, "COMPLETE_TASK": +6}, id="among four"),
    ],
)
def test_a_shift_of_fifteen_points_in_the_intent_mix_is_found_in_95_percent(moved: dict[str, int]) -> None:
    chance = random.Random(3)
    shifted = {intent: weight + moved.get(intent, 0) for intent, weight in MIX.items()}
    found = 0
    for _ in range(100):
        drift = compare([week(chance, 500)], [week(chance, 500, shifted)])
        found += any(one.flagged for group in drift.groups for one in group.comparisons if one.dimension == "intents")
    assert found >= 95


def test_a_rise_of_the_error_rate_is_flagged_as_such() -> None:
    chance = random.Random(4)
    drift = compare([week(chance, 500)], [week(chance, 500, errors=0.2)])
    assert "error_rate" in {one.dimension for one in drift.groups[0].flagged}
    assert "intents" not in {one.dimension for one in drift.groups[0].flagged}


def test_slower_decisions_are_flagged_and_a_difference_nobody_notices_is_not() -> None:
    chance = random.Random(5)
    slower = compare([week(chance, 500)], [week(chance, 500, median_ms=1200)])
    assert [(one.dimension, one.name) for one in slower.groups[0].flagged] == [("latency", "median_ms")]
    twice_of_little = compare([week(chance, 500, median_ms=5)], [week(chance, 500, median_ms=LATENCY_FLOOR_MS // 2)])
    assert not twice_of_little.drift_detected


def test_a_tool_that_is_called_more_often_is_flagged_by_its_name() -> None:
    chance = random.Random(6)
    then, now = week(chance, 500), week(chance, 500)
    again = now.replace(tools={**now.tools, "list_tasks": {"total": 400, "squares": 900}})
    assert ("tool_frequency", "list_tasks") in {(one.dimension, one.name) for one in compare([then], [again]).groups[0].flagged}


def test_a_changed_constitution_or_model_is_named_and_not_called_drift() -> None:
    chance = random.Random(7)
    other = {"AMBIGUOUS": 100}
    drift = compare([week(chance, 500)], [week(chance, 500, other, constitution="c2"), week(chance, 500, other, model="rules")])
    assert not drift.drift_detected
    assert [(group.model, group.constitution, group.reason) for group in drift.uncompared] == [
        ("gemini", "c2", "not in the baseline: a new model or a changed constitution"),
        ("rules", "c1", "not in the baseline: a new model or a changed constitution"),
        ("gemini", "c1", "only in the baseline"),
    ]


def test_a_few_decisions_are_not_compared() -> None:
    chance = random.Random(8)
    drift = compare([week(chance, 500)], [week(chance, 20, {"AMBIGUOUS": 1})])
    assert not drift.drift_detected
    assert drift.uncompared[0].reason == "fewer than 30 decisions"


def test_a_large_deviation_in_a_small_sample_and_a_small_one_in_a_large_sample_are_both_no_drift() -> None:
    chance = random.Random(9)
    slightly = {**MIX, "CREATE_TASK": 30, "LIST_TASKS": 30}
    assert not compare([week(chance, 20_000)], [week(chance, 20_000, slightly)]).drift_detected
    noticeably = {**MIX, "CREATE_TASK": 23, "LIST_TASKS": 37}
    assert not compare([week(chance, 35)], [week(chance, 35, noticeably)]).drift_detected


def test_the_tests_agree_with_published_figures() -> None:
    assert two_proportions(40, 100, 55, 100) == pytest.approx(0.0337, abs=5e-4)
    assert chi_squared_tail(3.841, 1) == pytest.approx(0.05, abs=4e-3)
    assert chi_squared_tail(18.307, 10) == pytest.approx(0.05, abs=1e-3)
    assert homogeneity([10, 20, 30], [10, 20, 30]) > 0.9
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    one, other = Counter([1, 2, 3, 4, 5] * 20), Counter([2, 3, 4, 5, 6] * 20)
    assert mann_whitney(one, other) < 0.001
    assert mann_whitney(one, one) == 1.0
