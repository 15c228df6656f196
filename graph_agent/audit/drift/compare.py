"""Drift: the comparison of the agent's behaviour with a baseline.

A deviation is flagged if it is beyond the threshold **and** significant. For each group of decisions (one model under one
constitution) these figures are compared:

    dimension        deviation                                            test (two-sided)
    intents          share of decisions that would have to change places  chi-squared test of homogeneity
    decision_types   the same                                             the same
    outcomes         the same                                             the same
    tool frequency   calls per decision, each tool                        t-test of two means
    error rate       share of decisions                                   z-test of two proportions
    latency          relative change of the median                        Mann-Whitney U

In addition every single share of a mix is compared by a z-test of two proportions, which says what moved. Where an expected
count is below 5, Fisher's exact test replaces both. All tests allow for users whose decisions resemble each other
(`clustering`).

The p-values of all comparisons of a report are corrected together by Holm's method, so that the chance of any false alarm in it
is at most `ALPHA`, however the figures depend on each other. Groups of fewer than `MIN_DECISIONS` are listed but not compared.
A median that moves by less than `LATENCY_FLOOR_MS` is not flagged, because users do not notice it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from graph_agent.audit.drift.clustering import Figure, compares_users, degrees_of_freedom, design_effect, intraclass_correlation
from graph_agent.audit.drift.profiles import Profile, ToolFrequency, UserSums
from graph_agent.audit.drift.result import ALPHA, Comparison, Drift, GroupDrift, UncomparedGroup
from graph_agent.audit.drift.statistics import FEW, fisher_exact, holm, homogeneity, mann_whitney, two_means, two_proportions
from graph_agent.audit.metrics import percentile

MIN_DECISIONS = 30
LATENCY_FLOOR_MS = 50
DEFAULT_THRESHOLD = 0.10

_NO_CALLS = ToolFrequency()
_NO_SUMS = UserSums()
_NEW_GROUP = "not in the baseline: a new model or a changed constitution"


def compare(baseline: Sequence[Profile], current: Sequence[Profile], threshold: float = DEFAULT_THRESHOLD) -> Drift:
    """Compare each group of `current` with the same group of `baseline`."""
    before = {profile.group: profile for profile in baseline}
    compared: list[tuple[_Pair, list[_Tested]]] = []
    uncompared = []
    for now in current:
        then = before.get(now.group)
        if then is None:
            uncompared.append(_uncompared(now, _NEW_GROUP))
        elif min(then.decisions, now.decisions) < MIN_DECISIONS:
            uncompared.append(_uncompared(now, f"fewer than {MIN_DECISIONS} decisions"))
        else:
            pair = _Pair(then, now)
            compared.append((pair, _test_all(pair)))
    current_groups = {profile.group for profile in current}
    uncompared += [_uncompared(then, "only in the baseline") for then in baseline if then.group not in current_groups]
    p_values = [test.p_value for _, tests in compared for test in tests]
    corrected = iter(holm(p_values))
    groups = [
        GroupDrift(
            model=pair.now.model,
            constitution=pair.now.constitution,
            baseline_decisions=pair.then.decisions,
            decisions=pair.now.decisions,
            new_response_models=pair.new_response_models,
            baseline_users=pair.then.users.count if pair.then.users else None,
            users=pair.now.users.count if pair.now.users else None,
            by_users=pair.by_users,
            comparisons=[test.flag(next(corrected), threshold) for test in tests],
        )
        for pair, tests in compared
    ]
    return Drift(
        threshold=threshold,
        tests=len(p_values),
        drift_detected=any(group.flagged for group in groups),
        groups=groups,
        uncompared=uncompared,
    )


def _uncompared(profile: Profile, reason: str) -> UncomparedGroup:
    return UncomparedGroup(model=profile.model, constitution=profile.constitution, decisions=profile.decisions, reason=reason)


class _Tested(Comparison):
    """A comparison whose p-value is not corrected yet."""

    flagged: bool = False
    noticeable: bool = True
    """False if the deviation is too small to be flagged, whatever its p-value."""

    def flag(self, p_value: float, threshold: float) -> Comparison:
        """Return the comparison with the corrected p-value."""
        # The tolerance is for rounding: 0.4 - 0.3 is a little more than 0.1.
        beyond = abs(self.deviation) > threshold + 1e-9
        flagged = beyond and self.noticeable and p_value < ALPHA
        values = {**dict(self), "p_value": p_value, "flagged": flagged}
        return Comparison(**{name: values[name] for name in Comparison.model_fields})


@dataclass(frozen=True, slots=True)
class _Pair:
    """The two profiles of one group: `then` is the baseline, `now` is compared with it."""

    then: Profile
    now: Profile

    @property
    def new_response_models(self) -> list[str]:
        return sorted(set(self.now.response_models) - set(self.then.response_models)) if self.then.response_models else []

    @property
    def by_users(self) -> bool:
        return compares_users(self.then, self.now)

    @property
    def degrees_of_freedom(self) -> float:
        """The degrees of freedom of Student's t-distribution; infinite if the comparison does not take users into account."""
        return degrees_of_freedom(self.then, self.now) if self.by_users else math.inf

    def design_effects(self, correlation: float) -> tuple[float, float]:
        if not self.by_users:
            return 1.0, 1.0
        return design_effect(self.then, correlation), design_effect(self.now, correlation)


def _test_all(pair: _Pair) -> list[_Tested]:
    """Return the comparison of every dimension of the two profiles."""
    tests = []
    for dimension in ("intents", "decision_types", "outcomes"):
        tests += _test_mix(pair, dimension)
    tests += [_test_frequency(pair, name) for name in sorted(pair.then.tools.keys() | pair.now.tools.keys())]
    figures = [
        Figure.of_share(profile, profile.errors, profile.users.errors if profile.users else _NO_SUMS)
        for profile in (pair.then, pair.now)
    ]
    correlation = intraclass_correlation(figures)
    tests.append(_test_share(pair, "error_rate", "ERROR", pair.then.errors, pair.now.errors, correlation))
    tests.append(_test_latency(pair))
    return tests


def _test_mix(pair: _Pair, dimension: str) -> list[_Tested]:
    """Compare the shares of a dimension such as the outcomes, each by itself and then the whole mix."""
    then: Mapping[str, int] = getattr(pair.then, dimension)
    now: Mapping[str, int] = getattr(pair.now, dimension)
    names = sorted(then.keys() | now.keys())
    figures = {name: [_share_figure(profile, dimension, name) for profile in (pair.then, pair.now)] for name in names}
    common = intraclass_correlation(figure for pair_of in figures.values() for figure in pair_of)
    shares = [
        # A rare category has too few users for its own estimate, and a common one may hide a strongly clustered category.
        _test_share(
            pair, dimension, name, then.get(name, 0), now.get(name, 0), max(common, intraclass_correlation(figures[name]))
        )
        for name in names
    ]
    moved = sum(abs(share.deviation) for share in shares) / 2
    effect_then, effect_now = pair.design_effects(common)
    p_value = homogeneity(
        [then.get(name, 0) / effect_then for name in names],
        [now.get(name, 0) / effect_now for name in names],
        pair.degrees_of_freedom,
    )
    whole = _Tested(dimension=dimension, name="*", baseline=0.0, current=moved, deviation=moved, p_value=p_value)
    return [whole, *shares]


def _share_figure(profile: Profile, dimension: str, name: str) -> Figure:
    sums = getattr(profile.users, dimension).get(name, _NO_SUMS) if profile.users else _NO_SUMS
    return Figure.of_share(profile, getattr(profile, dimension).get(name, 0), sums)


def _test_share(pair: _Pair, dimension: str, name: str, then: int, now: int, correlation: float) -> _Tested:
    """Compare a share of the decisions: of this kind are `then` decisions of the baseline and `now` current decisions."""
    effect_then, effect_now = pair.design_effects(correlation)
    before, after = then / pair.then.decisions, now / pair.now.decisions
    return _Tested(
        dimension=dimension,
        name=name,
        baseline=before,
        current=after,
        deviation=after - before,
        p_value=two_proportions(
            then / effect_then,
            pair.then.decisions / effect_then,
            now / effect_now,
            pair.now.decisions / effect_now,
            pair.degrees_of_freedom,
        ),
    )


def _test_frequency(pair: _Pair, name: str) -> _Tested:
    """Compare the mean number of calls of the tool `name` in a decision."""
    frequencies = [profile.tools.get(name, _NO_CALLS) for profile in (pair.then, pair.now)]
    profiles = (pair.then, pair.now)
    total = sum(frequency.total for frequency in frequencies)
    decisions = pair.then.decisions + pair.now.decisions
    pooled_mean = total / decisions
    variance = max(0.0, sum(frequency.squares for frequency in frequencies) / decisions - pooled_mean**2)
    figures = [
        Figure(
            profile,
            frequency.total / profile.decisions,
            max(0.0, frequency.squares / profile.decisions - (frequency.total / profile.decisions) ** 2),
            profile.users.tools.get(name, _NO_SUMS) if profile.users else _NO_SUMS,
        )
        for profile, frequency in zip(profiles, frequencies, strict=True)
    ]
    effects = pair.design_effects(intraclass_correlation(figures))
    sizes = [profile.decisions / effect for profile, effect in zip(profiles, effects, strict=True)]
    # The number of decisions with a call, if each of them had the same number of calls.
    callers = [frequency.total**2 / frequency.squares if frequency.squares else 0.0 for frequency in frequencies]
    before, after = (frequency.total / profile.decisions for profile, frequency in zip(profiles, frequencies, strict=True))
    if sum(callers) / decisions * min(sizes) < FEW:
        then, now = (count / effect for count, effect in zip(callers, effects, strict=True))
        p_value = fisher_exact(round(then), max(round(sizes[0]), round(then)), round(now), max(round(sizes[1]), round(now)))
    else:
        p_value = two_means(before, sizes[0], after, sizes[1], variance, pair.degrees_of_freedom)
    return _Tested(
        dimension="tool_frequency", name=name, baseline=before, current=after, deviation=after - before, p_value=p_value
    )


def _test_latency(pair: _Pair) -> _Tested:
    """Compare the median duration of the decisions."""
    before, after = percentile(pair.then.durations, 0.5), percentile(pair.now.durations, 0.5)
    figures = [
        Figure.of_share(profile, profile.users.slow, profile.users.slow_sums)
        for profile in (pair.then, pair.now)
        if profile.users is not None
    ]
    effect_then, effect_now = pair.design_effects(intraclass_correlation(figures))
    of_then, of_now = 1 / pair.then.decisions, 1 / pair.now.decisions
    return _Tested(
        dimension="latency",
        name="median_ms",
        baseline=before,
        current=after,
        deviation=(after - before) / max(1, before),
        p_value=mann_whitney(
            pair.then.durations,
            pair.now.durations,
            inflation=(effect_then * of_then + effect_now * of_now) / (of_then + of_now),
            degrees_of_freedom=pair.degrees_of_freedom,
        ),
        noticeable=abs(after - before) >= LATENCY_FLOOR_MS,
    )
