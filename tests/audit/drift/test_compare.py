"""The drift comparison on simulated behavior: unchanged behavior is not flagged, changed behavior is."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest

from graph_agent.audit.drift.compare import LATENCY_FLOOR_MS, Drift, compare, two_proportions
from graph_agent.audit.drift.profiles import Observation, Profile, build_profiles

MIX: Mapping[str, float] = {
    "CREATE_TASK": 35, "LIST_TASKS": 25, "COMPLETE_TASK": 15, "GENERAL_CHAT": 10, "AMBIGUOUS": 8, "DELETE_TASK": 7,
}  # fmt: skip
TOOLS = {"CREATE_TASK": "add_task", "LIST_TASKS": "list_tasks", "COMPLETE_TASK": "complete_task", "DELETE_TASK": "delete_task"}
RUNS = 100
"""With a true rate of 5 %, ten alarms or fewer of 100 are seen in 99 % of the cases; the seeds are fixed."""


def simulate(
    chance: random.Random,
    decisions: int,
    *,
    mix: Mapping[str, float] = MIX,
    errors: float = 0.03,
    median_ms: float = 800,
    model: str = "gemini",
    constitution: str = "c1",
) -> Profile:
    """Return the profile of independent decisions of one group with a known mix of intents."""

    def decide() -> Observation:
        (intent,) = chance.choices(list(mix), list(mix.values()))
        tool = TOOLS.get(intent)
        outcome = "SUCCESS:TASK_COMPLETED" if tool else "SUCCESS:RESPONSE_GIVEN"
        return Observation(
            model=model,
            constitution=constitution,
            intent=intent,
            decision_type="INVOKE_TOOL" if tool else "RESPOND_ONLY",
            outcome="ERROR:RESPONSE_GENERATION" if chance.random() < errors else outcome,
            duration_ms=round(median_ms * chance.lognormvariate(0, 0.5)),
            tools=frozenset({tool} if tool else ()),
        )

    (profile,) = build_profiles(decide() for _ in range(decisions))
    return profile


def compare_often(then: int, now: int, mix: Mapping[str, float] = MIX) -> list[Drift]:
    chance = random.Random(f"{then} {now}")
    return [compare([simulate(chance, then)], [simulate(chance, now, mix=mix)]) for _ in range(RUNS)]


# The first three are from the table of a standard normal distribution: z = 2, 1 and 0.
@pytest.mark.parametrize(
    ("then", "of_then", "now", "of_now", "p_value"),
    [(40, 100, 60, 100, 0.00468), (45, 100, 55, 100, 0.1573), (50, 100, 50, 100, 1), (0, 50, 4, 50, 1), (50, 50, 90, 90, 1)],
)
def test_the_z_test_of_two_proportions(then: int, of_then: int, now: int, of_now: int, p_value: float) -> None:
    assert two_proportions(then, of_then, now, of_now) == pytest.approx(p_value, abs=1e-4)


@pytest.mark.parametrize(
    ("then", "now"),
    [(30, 30), pytest.param(500, 500, marks=pytest.mark.nightly), pytest.param(30, 2_000, marks=pytest.mark.nightly)],
)
def test_unchanged_behavior_raises_at_most_five_percent_false_alarms(then: int, now: int) -> None:
    assert sum(drift.drift_detected for drift in compare_often(then, now)) <= 0.05 * RUNS


def test_a_shift_of_fifteen_points_between_two_intents_in_500_decisions_is_found() -> None:
    shifted = {**MIX, "CREATE_TASK": 20, "LIST_TASKS": 40}
    assert sum(drift.drift_detected for drift in compare_often(500, 500, shifted)) >= 90


def test_a_rise_of_the_error_rate_is_flagged_as_such() -> None:
    chance = random.Random(4)
    drift = compare([simulate(chance, 500)], [simulate(chance, 500, errors=0.2)])
    assert "error_rate" in {one.dimension for one in drift.groups[0].flagged}
    assert "intents" not in {one.dimension for one in drift.groups[0].flagged}


def test_slower_decisions_are_flagged_unless_the_difference_is_too_small_to_notice() -> None:
    chance = random.Random(5)
    slower = compare([simulate(chance, 500)], [simulate(chance, 500, median_ms=1200)])
    assert [(one.dimension, one.name) for one in slower.groups[0].flagged] == [("latency", "median_ms")]
    twice_of_little = compare([simulate(chance, 500, median_ms=5)], [simulate(chance, 500, median_ms=LATENCY_FLOOR_MS // 2)])
    assert not twice_of_little.drift_detected


def test_a_tool_that_more_decisions_call_is_flagged_by_its_name() -> None:
    chance = random.Random(6)
    then, now = simulate(chance, 500), simulate(chance, 500)
    more = now.replace(tools={**now.tools, "list_tasks": 300})
    assert [(one.dimension, one.name) for one in compare([then], [more]).groups[0].flagged] == [("tools", "list_tasks")]


def test_a_changed_constitution_or_model_is_listed_but_is_no_drift() -> None:
    chance = random.Random(7)
    other = {"AMBIGUOUS": 100.0}
    drift = compare(
        [simulate(chance, 500)],
        [simulate(chance, 500, mix=other, constitution="c2"), simulate(chance, 500, mix=other, model="embedded")],
    )
    assert not drift.drift_detected
    assert [(group.model, group.constitution, group.reason) for group in drift.uncompared] == [
        ("gemini", "c2", "not in the baseline: a new model or a changed constitution"),
        ("embedded", "c1", "not in the baseline: a new model or a changed constitution"),
        ("gemini", "c1", "only in the baseline"),
    ]


def test_a_few_decisions_are_not_compared() -> None:
    chance = random.Random(8)
    drift = compare([simulate(chance, 500)], [simulate(chance, 20, mix={"AMBIGUOUS": 1})])
    assert not drift.drift_detected
    assert drift.uncompared[0].reason == "fewer than 30 decisions"


def test_a_large_deviation_in_a_small_sample_and_a_small_one_in_a_large_sample_are_both_no_drift() -> None:
    chance = random.Random(9)
    slightly = {**MIX, "CREATE_TASK": 30, "LIST_TASKS": 30}
    assert not compare([simulate(chance, 20_000)], [simulate(chance, 20_000, mix=slightly)]).drift_detected
    noticeably = {**MIX, "CREATE_TASK": 23, "LIST_TASKS": 37}
    assert not compare([simulate(chance, 35)], [simulate(chance, 35, mix=noticeably)]).drift_detected


def test_a_silent_change_of_the_model_that_answers_is_reported() -> None:
    chance = random.Random(2)
    then = simulate(chance, 60).replace(response_models={"gemini-2.5-flash": 60})
    now = simulate(chance, 60).replace(response_models={"gemini-2.5-flash": 20, "gemini-3.5-flash-lite": 40})
    assert compare([then], [now]).groups[0].new_response_models == ["gemini-3.5-flash-lite"]
    assert compare([now], [then]).groups[0].new_response_models == []
    # No model of such a baseline has named itself.
    assert compare([then.replace(response_models={})], [now]).groups[0].new_response_models == []
