"""The correction for users: the estimated correlation is the simulated one, and few users count as few."""

from __future__ import annotations

import math
import random

import pytest

from graph_agent.audit.drift.clustering import (
    Figure,
    compares_users,
    degrees_of_freedom,
    design_effect,
    intraclass_correlation,
)
from graph_agent.audit.drift.profiles import Profile
from tests.audit.drift.simulated import simulate


def correlation_of_intents(profile: Profile) -> float:
    assert profile.users is not None
    users = profile.users
    return intraclass_correlation(
        Figure.of_share(profile, profile.intents[name], users.intents[name]) for name in profile.intents
    )


@pytest.mark.parametrize("correlation", [0.05, 0.25, 0.6])
def test_the_estimate_is_the_correlation_that_was_simulated(correlation: float) -> None:
    profile = simulate(random.Random(1), 8_000, users=400, correlation=correlation)
    assert correlation_of_intents(profile) == pytest.approx(correlation, abs=0.05)


def test_decisions_of_different_users_are_independent() -> None:
    profile = simulate(random.Random(2), 500)
    assert correlation_of_intents(profile) == 0.0
    assert design_effect(profile, 0.5) == 1.0
    assert degrees_of_freedom(profile) == 499


def test_decisions_of_identical_users_count_as_one_per_user() -> None:
    profile = simulate(random.Random(3), 1_000, users=20)
    assert profile.users is not None
    # With complete correlation the effective size is at most the number of users.
    assert profile.decisions / design_effect(profile, 1.0) <= 20
    assert degrees_of_freedom(profile) <= 19


def test_a_single_user_and_an_old_baseline_cannot_be_compared_by_users() -> None:
    single = simulate(random.Random(4), 100, users=1)
    several = simulate(random.Random(5), 100, users=10)
    old = several.replace(users=None)
    assert not compares_users(single, single)
    assert not compares_users(old, several)
    assert compares_users(single, several)
    assert degrees_of_freedom(old, several) == math.inf
    assert correlation_of_intents(single) == 0.0
