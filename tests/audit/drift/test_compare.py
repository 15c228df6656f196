"""The drift comparison on simulated behaviour: unchanged behaviour is not flagged, changed behaviour is."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest

from graph_agent.audit.drift.compare import ALPHA, LATENCY_FLOOR_MS, Drift, compare
from graph_agent.audit.drift.profiles import Observation, Profile, build_profiles
from tests.audit.drift.simulated import MIX, SPREAD_SHIFT, shifted, simulate

# (decisions of the baseline, current decisions, users of each; None: every decision has another user)
SAMPLES = [
    pytest.param(30, 30, None, id="30 and 30"),
    pytest.param(500, 500, None, id="500 and 500", marks=pytest.mark.slow),
    pytest.param(30, 2_000, None, id="30 and 2,000", marks=pytest.mark.slow),
    pytest.param(2_000, 30, None, id="2,000 and 30", marks=pytest.mark.slow),
    pytest.param(500, 500, 100, id="500 and 500 of 100 users", marks=pytest.mark.slow),
    pytest.param(500, 500, 20, id="500 and 500 of 20 users", marks=pytest.mark.slow),
    pytest.param(2_000, 500, 20, id="2,000 and 500 of 20 users", marks=pytest.mark.slow),
]
RUNS = 100
"""With a true rate of 5 %, ten alarms or fewer of 100 are seen in 99 % of the cases; the seeds are fixed."""


def compare_often(then: int, now: int, users: int | None, mix: Mapping[str, float] = MIX) -> list[Drift]:
    chance = random.Random(f"{then} {now} {users}")
    return [compare([simulate(chance, then, users=users)], [simulate(chance, now, users=users, mix=mix)]) for _ in range(RUNS)]


@pytest.mark.parametrize(("then", "now", "users"), SAMPLES)
def test_unchanged_behaviour_raises_at_most_five_percent_false_alarms(then: int, now: int, users: int | None) -> None:
    drifts = compare_often(then, now, users)
    assert sum(drift.drift_detected for drift in drifts) <= 0.05 * RUNS
    # Without the threshold every significant comparison is an alarm: the correction for many comparisons prevents those too.
    significant = [any(one.p_value < ALPHA for group in drift.groups for one in group.comparisons) for drift in drifts]
    assert sum(significant) <= 0.05 * RUNS


def test_a_rare_tool_that_is_not_used_by_chance_is_no_alarm() -> None:
    # The variance of the sample without a call is zero; the test must not be based on it.
    chance = random.Random(1)
    rare = {**MIX, "DELETE_TASK": 0.5}
    drift = compare([simulate(chance, 2_000, mix=rare)], [simulate(chance, 100, mix={**rare, "DELETE_TASK": 0})])
    assert not any(one.p_value < ALPHA for one in drift.groups[0].comparisons)


@pytest.mark.parametrize(
    ("shift", "found"),
    [
        pytest.param({"CREATE_TASK": -15, "LIST_TASKS": +15}, 95, id="from one intent to another", marks=pytest.mark.slow),
        pytest.param(
            {"CREATE_TASK": -15, "AMBIGUOUS": +8, "GENERAL_CHAT": +7}, 95, id="from one to two", marks=pytest.mark.slow
        ),
        pytest.param(SPREAD_SHIFT, 90, id="spread over five"),
    ],
)
def test_a_shift_of_fifteen_points_in_500_decisions_is_found(shift: dict[str, float], found: int) -> None:
    assert sum(drift.drift_detected for drift in compare_often(500, 500, None, shifted(shift))) >= found


def test_the_report_says_whether_it_tests_by_users() -> None:
    chance = random.Random(2)
    several, single = simulate(chance, 100, users=10), simulate(chance, 100, users=1)
    (by_users,) = compare([several], [several]).groups
    assert several.users is not None
    assert (by_users.by_users, by_users.baseline_users, by_users.users) == (True, several.users.count, several.users.count)
    (independent,) = compare([single], [single]).groups
    assert (independent.by_users, independent.users) == (False, 1)
    (old_baseline,) = compare([several.replace(users=None)], [several]).groups
    assert (old_baseline.by_users, old_baseline.baseline_users) == (False, None)


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


def test_slower_decisions_of_a_few_similar_users_are_flagged() -> None:
    def decisions(users: int, each: int, median_ms: int) -> Profile:
        chance = random.Random(users)
        (profile,) = build_profiles(
            Observation(
                model="gemini", constitution="c1", user_id=str(user), intent="UNKNOWN", decision_type="RESPOND_ONLY",
                outcome="SUCCESS:RESPONSE_GIVEN", duration_ms=habit + chance.randint(-10, 10), tools={},
            )
            for user in range(users)
            for habit in [median_ms + chance.randint(-500, 500)]
            for _ in range(each)
        )  # fmt: skip
        return profile

    # The current ones have the information of hardly more than four independent decisions.
    slower = compare([decisions(100, 10, 1_000)], [decisions(4, 25, 2_500)])
    assert {one.dimension for one in slower.groups[0].flagged} == {"latency"}


def test_a_tool_that_is_called_more_often_is_flagged_by_its_name() -> None:
    chance = random.Random(6)
    then, now = simulate(chance, 500), simulate(chance, 500)
    again = now.replace(tools={**now.tools, "list_tasks": {"total": 400, "squares": 900}})
    assert ("tool_frequency", "list_tasks") in {(one.dimension, one.name) for one in compare([then], [again]).groups[0].flagged}


def test_a_changed_constitution_or_model_is_listed_but_is_no_drift() -> None:
    chance = random.Random(7)
    other = {"AMBIGUOUS": 100.0}
    drift = compare(
        [simulate(chance, 500)],
        [simulate(chance, 500, mix=other, constitution="c2"), simulate(chance, 500, mix=other, model="rules")],
    )
    assert not drift.drift_detected
    assert [(group.model, group.constitution, group.reason) for group in drift.uncompared] == [
        ("gemini", "c2", "not in the baseline: a new model or a changed constitution"),
        ("rules", "c1", "not in the baseline: a new model or a changed constitution"),
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
    # A baseline from before these counts does not say which models answered.
    assert compare([then.replace(response_models={})], [now]).groups[0].new_response_models == []
