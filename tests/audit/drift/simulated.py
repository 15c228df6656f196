"""Simulated behaviour of an agent whose true mix of intents is known, with users who resemble themselves."""

from __future__ import annotations

import random
from collections.abc import Mapping

from graph_agent.audit.drift.profiles import Observation, Profile, build_profiles

MIX: Mapping[str, float] = {
    "CREATE_TASK": 35, "LIST_TASKS": 25, "COMPLETE_TASK": 15, "GENERAL_CHAT": 10, "AMBIGUOUS": 8, "DELETE_TASK": 7,
}  # fmt: skip
TOOLS = {"CREATE_TASK": "add_task", "LIST_TASKS": "list_tasks", "COMPLETE_TASK": "complete_task", "DELETE_TASK": "delete_task"}

SPREAD_SHIFT = {"CREATE_TASK": -8, "LIST_TASKS": -7, "DELETE_TASK": +5, "COMPLETE_TASK": +5, "AMBIGUOUS": +5}
"""A shift of 15 points that is spread over five intents, so that no single share moves by more than 8."""


def shifted(shift: Mapping[str, float]) -> dict[str, float]:
    """Return the mix after a shift, in percentage points."""
    return {intent: weight + shift.get(intent, 0) for intent, weight in MIX.items()}


def simulate(
    chance: random.Random,
    decisions: int,
    *,
    mix: Mapping[str, float] = MIX,
    users: int | None = None,
    correlation: float = 0.25,
    errors: float = 0.03,
    median_ms: float = 800,
    model: str = "gemini",
    constitution: str = "c1",
) -> Profile:
    """Return the profile of simulated decisions of one group.

    Each of `users` has a mix, a speed and an error rate of their own; `correlation` is the intraclass correlation of their
    intents. Some users are much more active than others. Without `users` every decision has another user.
    """
    people = [_User(chance, mix, correlation, errors) for _ in range(users or 0)]
    activity = [chance.expovariate(1) for _ in people]
    whole = _User(chance, mix, 0, errors)
    (profile,) = build_profiles(
        (chance.choices(people, activity)[0] if people else whole).decide(
            chance, median_ms, model, constitution, None if people else str(number)
        )
        for number in range(decisions)
    )
    return profile


class _User:
    """A user with habits: a mix from a Dirichlet distribution around the common one, a speed and an error rate."""

    def __init__(self, chance: random.Random, mix: Mapping[str, float], correlation: float, errors: float) -> None:
        self.user_id = str(chance.getrandbits(64))
        self.intents = list(mix)
        self.weights = list(mix.values())
        self.errors = errors
        self.speed = 1.0
        if correlation:
            # The sum of the parameters of a Dirichlet distribution with this intraclass correlation.
            concentration = (1 / correlation - 1) / sum(mix.values())
            self.weights = [chance.gammavariate(max(weight, 1e-9) * concentration, 1) for weight in mix.values()]
            self.errors = chance.betavariate(errors * 10, (1 - errors) * 10)
            self.speed = chance.lognormvariate(0, 0.2)

    def decide(
        self, chance: random.Random, median_ms: float, model: str, constitution: str, user_id: str | None
    ) -> Observation:
        intent = chance.choices(self.intents, self.weights)[0]
        tool = TOOLS.get(intent)
        outcome = "SUCCESS:TASK_COMPLETED" if tool else "SUCCESS:RESPONSE_GIVEN"
        return Observation(
            model=model,
            constitution=constitution,
            user_id=user_id or self.user_id,
            intent=intent,
            decision_type="INVOKE_TOOL" if tool else "RESPOND_ONLY",
            outcome="ERROR:RESPONSE_GENERATION" if chance.random() < self.errors else outcome,
            duration_ms=round(median_ms * self.speed * chance.lognormvariate(0, 0.5)),
            tools={tool: 1} if tool else {},
        )
