"""Drift: the comparison of the agent's behavior with a baseline.

A difference is flagged if it is beyond the threshold **and** more than chance explains. For each group of decisions (one model
under one constitution) these figures are compared:

    dimension                            figure                            deviation         tested share
    intents, decision_types, outcomes    share of decisions                difference        the same
    tools                                share of decisions that call it   difference        the same
    error_rate                           share of decisions                difference        the same
    latency                              median duration                   relative change   slower than the baseline's median

The test is the two-sided z test of two proportions, with the pooled share; its significance level is `ALPHA` divided by the
number of comparisons in the report (Bonferroni). It takes decisions as independent: it does not allow for users who repeat
themselves. Groups of fewer than `MIN_DECISIONS` are listed but not compared. A median that moves by less than
`LATENCY_FLOOR_MS` is not flagged, because users do not notice it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import NormalDist

from pydantic import Field

from graph_agent.audit.drift.profiles import Profile
from graph_agent.audit.metrics import percentile
from graph_agent.models.base import Frozen

ALPHA = 0.05
"""The significance level of a whole report."""

MIN_EXPECTED = 5
MIN_DECISIONS = 30
LATENCY_FLOOR_MS = 50
DEFAULT_THRESHOLD = 0.10

_LATENCY = "latency"
_NEW_GROUP = "not in the baseline: a new model or a changed constitution"


class Comparison(Frozen):
    """One figure in both samples, with the p-value of its test."""

    dimension: str
    name: str
    """The name within the dimension."""
    baseline: float
    current: float
    deviation: float
    p_value: float
    flagged: bool


class GroupDrift(Frozen):
    """The comparisons of one group: one model under one constitution."""

    model: str
    constitution: str
    baseline_decisions: int
    decisions: int
    new_response_models: list[str] = Field(default_factory=list)
    """Models that answered now and not in the baseline: the provider has routed the same request to another model.

    Empty if no model of the baseline named itself.
    """
    comparisons: list[Comparison]

    @property
    def flagged(self) -> list[Comparison]:
        return [comparison for comparison in self.comparisons if comparison.flagged]


class UncomparedGroup(Frozen):
    """A group that cannot be compared, and why. A change of policy is not drift."""

    model: str
    constitution: str
    decisions: int
    reason: str


class Drift(Frozen):
    """The result of `compare`."""

    threshold: float
    alpha: float = ALPHA
    tests: int
    """The number of comparisons, among which `alpha` is divided."""
    drift_detected: bool
    groups: list[GroupDrift]
    uncompared: list[UncomparedGroup]


def compare(baseline: Sequence[Profile], current: Sequence[Profile], threshold: float = DEFAULT_THRESHOLD) -> Drift:
    """Compare each group of `current` with the same group of `baseline`."""
    before = {profile.group: profile for profile in baseline}
    pairs: list[tuple[Profile, Profile]] = []
    uncompared = []
    for now in current:
        then = before.pop(now.group, None)
        if then is None:
            uncompared.append(_uncompared(now, _NEW_GROUP))
        elif min(then.decisions, now.decisions) < MIN_DECISIONS:
            uncompared.append(_uncompared(now, f"fewer than {MIN_DECISIONS} decisions"))
        else:
            pairs.append((then, now))
    uncompared += [_uncompared(then, "only in the baseline") for then in before.values()]
    compared = [list(_compare_all(then, now)) for then, now in pairs]
    tests = sum(map(len, compared))
    groups = [
        GroupDrift(
            model=now.model,
            constitution=now.constitution,
            baseline_decisions=then.decisions,
            decisions=now.decisions,
            new_response_models=_new_models(then, now),
            comparisons=[one.replace(flagged=_is_drift(one, threshold, tests)) for one in comparisons],
        )
        for (then, now), comparisons in zip(pairs, compared, strict=True)
    ]
    return Drift(
        threshold=threshold,
        tests=tests,
        drift_detected=any(group.flagged for group in groups),
        groups=groups,
        uncompared=uncompared,
    )


def two_proportions(then: int, of_then: int, now: int, of_now: int) -> float:
    """Return the p-value of the two-sided z test that `then` of `of_then` and `now` of `of_now` are the same share.

    It is 1 where the test is not valid: if fewer than `MIN_EXPECTED` of the smaller sample are expected in it or outside it.
    """
    pooled = (then + now) / (of_then + of_now)
    if min(pooled, 1 - pooled) * min(of_then, of_now) < MIN_EXPECTED:
        return 1.0
    error = math.sqrt(pooled * (1 - pooled) * (1 / of_then + 1 / of_now))
    return 2 * NormalDist().cdf(-abs(now / of_now - then / of_then) / error)


def _new_models(then: Profile, now: Profile) -> list[str]:
    return sorted(now.response_models.keys() - then.response_models.keys()) if then.response_models else []


def _uncompared(profile: Profile, reason: str) -> UncomparedGroup:
    return UncomparedGroup(model=profile.model, constitution=profile.constitution, decisions=profile.decisions, reason=reason)


def _is_drift(one: Comparison, threshold: float, tests: int) -> bool:
    # The tolerance is for rounding: 0.4 - 0.3 is a little more than 0.1.
    beyond = abs(one.deviation) > threshold + 1e-9
    noticeable = one.dimension != _LATENCY or abs(one.current - one.baseline) >= LATENCY_FLOOR_MS
    return beyond and noticeable and one.p_value < ALPHA / tests


def _compare_all(then: Profile, now: Profile) -> Iterator[Comparison]:
    """Compare every figure of two profiles. Nothing is flagged yet."""
    for dimension in ("intents", "decision_types", "outcomes", "tools"):
        before: Mapping[str, int] = getattr(then, dimension)
        after: Mapping[str, int] = getattr(now, dimension)
        for name in sorted(before.keys() | after.keys()):
            yield _compare_shares(dimension, name, before.get(name, 0), then, after.get(name, 0), now)
    yield _compare_shares("error_rate", "ERROR", then.errors, then, now.errors, now)
    median, current = percentile(then.durations, 0.5), percentile(now.durations, 0.5)
    slower = (sum(times for ms, times in one.durations.items() if ms > median) for one in (then, now))
    tested = _compare_shares(_LATENCY, "median_ms", next(slower), then, next(slower), now)
    yield tested.replace(baseline=median, current=current, deviation=(current - median) / max(1, median))


def _compare_shares(dimension: str, name: str, count: int, then: Profile, count_now: int, now: Profile) -> Comparison:
    before, after = count / then.decisions, count_now / now.decisions
    return Comparison(
        dimension=dimension,
        name=name,
        baseline=before,
        current=after,
        deviation=after - before,
        p_value=two_proportions(count, then.decisions, count_now, now.decisions),
        flagged=False,
    )
