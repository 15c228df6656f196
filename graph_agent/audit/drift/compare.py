"""Drift: has the agent's behaviour moved away from a baseline, and is that more than chance?

A deviation is flagged when it is beyond the threshold **and** significant for its sample. Per group of decisions (one model
under one constitution) these are compared:

    dimension        deviation                                            test (two-sided)
    intents          share of decisions that would have to change places  chi-squared test of homogeneity
    decision_types   the same                                             the same
    outcomes         the same                                             the same
    tool frequency   calls per decision, each tool                        z-test of two means
    error rate       share of decisions                                   z-test of two proportions
    latency          relative change of the median                        Mann-Whitney U

and for every single share of a mix a z-test of two proportions, which says what moved; a mix is flagged too when one of its
shares is. The p-values of all comparisons of a report are corrected together by Holm's method, so that the chance of any false
alarm in it is at most `ALPHA`, whatever depends on what. The normal approximations need some numbers: groups of fewer than
`MIN_DECISIONS` are named but not compared. A median that moves by less than `LATENCY_FLOOR_MS` is nothing anybody notices and
is not flagged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import NormalDist

from graph_agent.audit.metrics import percentile
from graph_agent.audit.drift.profiles import Profile, ToolFrequency
from graph_agent.models.base import Frozen

ALPHA = 0.05
MIN_DECISIONS = 30
LATENCY_FLOOR_MS = 50
DEFAULT_THRESHOLD = 0.10

TEST = (
    "two-sided; mixes: chi-squared test of homogeneity, shares and error rate: z-test of two proportions, "
    "tool frequency: z-test of two means, latency: Mann-Whitney U; p-values corrected by Holm over all comparisons"
)

_NORMAL = NormalDist()
_NEVER = ToolFrequency()
_RARE = 5.0
"""Categories expected fewer times than this are tested together."""


class Comparison(Frozen):
    """One figure then and now. `p_value` is corrected for all comparisons of the report."""

    dimension: str
    name: str
    """Within the dimension; `*` is the whole mix, its `current` the share that moved."""
    baseline: float
    current: float
    deviation: float
    p_value: float
    flagged: bool


class GroupDrift(Frozen):
    """One model under one constitution, then and now."""

    model: str
    constitution: str
    baseline_decisions: int
    decisions: int
    comparisons: list[Comparison]

    @property
    def flagged(self) -> list[Comparison]:
        return [comparison for comparison in self.comparisons if comparison.flagged]


class UncomparedGroup(Frozen):
    """Decisions of a model and constitution that cannot be compared, and why: a change of policy is not drift."""

    model: str
    constitution: str
    decisions: int
    reason: str


class Drift(Frozen):
    """What `compare` found."""

    threshold: float
    alpha: float = ALPHA
    test: str = TEST
    tests: int
    """How many comparisons the p-values are corrected for."""
    drift_detected: bool
    groups: list[GroupDrift]
    uncompared: list[UncomparedGroup]


def compare(baseline: Sequence[Profile], current: Sequence[Profile], threshold: float = DEFAULT_THRESHOLD) -> Drift:
    """Compare each group of `current` with the same one in `baseline`."""
    before = {profile.group: profile for profile in baseline}
    found: list[tuple[Profile, Profile, list[_Tested]]] = []
    uncompared = []
    for now in current:
        then = before.get(now.group)
        reason = _why_not(then, now)
        if then is None or reason is not None:
            uncompared.append(_uncompared(now, reason or _NEW))
            continue
        found.append((then, now, _tests(then, now)))
    seen = {profile.group for profile in current}
    uncompared += [_uncompared(then, "only in the baseline") for then in baseline if then.group not in seen]
    tested = [test for _, _, tests in found for test in tests]
    corrected = iter(holm([test.p_value for test in tested]))
    groups = [
        GroupDrift(
            model=now.model,
            constitution=now.constitution,
            baseline_decisions=then.decisions,
            decisions=now.decisions,
            comparisons=[test.judged(next(corrected), threshold) for test in tests],
        )
        for then, now, tests in found
    ]
    return Drift(
        threshold=threshold,
        tests=len(tested),
        drift_detected=any(group.flagged for group in groups),
        groups=groups,
        uncompared=uncompared,
    )


_NEW = "not in the baseline: a new model or a changed constitution"


def _why_not(then: Profile | None, now: Profile) -> str | None:
    if then is None:
        return _NEW
    if min(then.decisions, now.decisions) < MIN_DECISIONS:
        return f"fewer than {MIN_DECISIONS} decisions"
    return None


def _uncompared(profile: Profile, reason: str) -> UncomparedGroup:
    return UncomparedGroup(model=profile.model, constitution=profile.constitution, decisions=profile.decisions, reason=reason)


class _Tested(Frozen):
    """A comparison whose p-value is not corrected yet."""

    dimension: str
    name: str
    baseline: float
    current: float
    deviation: float
    p_value: float
    counts: bool = True
    """Whether the deviation is worth a flag at all, however significant."""

    def judged(self, p_value: float, threshold: float) -> Comparison:
        # A tenth of a millionth is no deviation: 0.4 - 0.3 is a little more than 0.1.
        beyond = abs(self.deviation) > threshold + 1e-9
        return Comparison(
            **{name: value for name, value in dict(self).items() if name not in ("p_value", "counts")},
            p_value=p_value,
            flagged=beyond and self.counts and p_value < ALPHA,
        )


def _tests(then: Profile, now: Profile) -> list[_Tested]:
    tests = []
    for dimension in ("intents", "decision_types", "outcomes"):
        tests += _mix(dimension, getattr(then, dimension), getattr(now, dimension))
    tests += [_frequency(name, then, now) for name in sorted(then.tools.keys() | now.tools.keys())]
    tests.append(_share("error_rate", "ERROR", then.errors, then.decisions, now.errors, now.decisions))
    tests.append(_latency(then.durations, now.durations))
    return tests


def _mix(dimension: str, then: Mapping[str, int], now: Mapping[str, int]) -> list[_Tested]:
    n_then, n_now = sum(then.values()), sum(now.values())
    names = sorted(then.keys() | now.keys())
    shares = [_share(dimension, name, then.get(name, 0), n_then, now.get(name, 0), n_now) for name in names]
    moved = sum(abs(share.deviation) for share in shares) / 2
    p_value = homogeneity([then.get(name, 0) for name in names], [now.get(name, 0) for name in names])
    whole = _Tested(dimension=dimension, name="*", baseline=0.0, current=moved, deviation=moved, p_value=p_value)
    return [whole, *shares]


def _share(dimension: str, name: str, then: int, n_then: int, now: int, n_now: int) -> _Tested:
    before, after = then / n_then, now / n_now
    return _Tested(
        dimension=dimension,
        name=name,
        baseline=before,
        current=after,
        deviation=after - before,
        p_value=two_proportions(then, n_then, now, n_now),
    )


def _frequency(name: str, then: Profile, now: Profile) -> _Tested:
    one, other = then.tools.get(name, _NEVER), now.tools.get(name, _NEVER)
    before, after = one.total / then.decisions, other.total / now.decisions
    variance = _variance(one, then.decisions) / then.decisions + _variance(other, now.decisions) / now.decisions
    return _Tested(
        dimension="tool_frequency",
        name=name,
        baseline=before,
        current=after,
        deviation=after - before,
        p_value=_two_sided(after - before, variance),
    )


def _variance(frequency: ToolFrequency, n: int) -> float:
    return max(0.0, frequency.squares - frequency.total**2 / n) / max(1, n - 1)


def _latency(then: Mapping[int, int], now: Mapping[int, int]) -> _Tested:
    before, after = percentile(then, 0.5), percentile(now, 0.5)
    return _Tested(
        dimension="latency",
        name="median_ms",
        baseline=before,
        current=after,
        deviation=(after - before) / max(1, before),
        p_value=mann_whitney(then, now),
        counts=abs(after - before) >= LATENCY_FLOOR_MS,
    )


def two_proportions(one: int, of_one: int, other: int, of_other: int) -> float:
    """The p-value of the pooled z-test: do the two samples come from one share?"""
    pooled = (one + other) / (of_one + of_other)
    return _two_sided(one / of_one - other / of_other, pooled * (1 - pooled) * (1 / of_one + 1 / of_other))


def homogeneity(one: Sequence[int], other: Sequence[int]) -> float:
    """The p-value of the chi-squared test: do the two rows of counts come from one mix? Rare categories count as one."""
    n_one, n_other = sum(one), sum(other)
    smaller = min(n_one, n_other) / (n_one + n_other)
    common = [(a, b) for a, b in zip(one, other, strict=True) if (a + b) * smaller >= _RARE]
    rare = [(a, b) for a, b in zip(one, other, strict=True) if (a + b) * smaller < _RARE]
    cells = [*common, (sum(a for a, _ in rare), sum(b for _, b in rare))] if rare else common
    cells = [(a, b) for a, b in cells if a + b]
    statistic = 0.0
    for a, b in cells:
        for count, n in ((a, n_one), (b, n_other)):
            expected = (a + b) * n / (n_one + n_other)
            statistic += (count - expected) ** 2 / expected
    return chi_squared_tail(statistic, len(cells) - 1)


def chi_squared_tail(statistic: float, degrees: int) -> float:
    """How likely a chi-squared variable is to exceed `statistic`: Wilson and Hilferty's approximation by the normal."""
    if degrees < 1:
        return 1.0
    spread = 2 / (9 * degrees)
    return 1 - _NORMAL.cdf(((statistic / degrees) ** (1 / 3) - (1 - spread)) / math.sqrt(spread))


def mann_whitney(one: Mapping[int, int], other: Mapping[int, int]) -> float:
    """The p-value of the rank test on two histograms, corrected for ties: does one lie above the other?"""
    n_one, n_other = sum(one.values()), sum(other.values())
    total = n_one + n_other
    if not n_one or not n_other or total < 2:
        return 1.0
    ranks, below, ties = 0.0, 0, 0.0
    for value in sorted(one.keys() | other.keys()):
        here = one.get(value, 0) + other.get(value, 0)
        ranks += one.get(value, 0) * (below + (here + 1) / 2)
        ties += here**3 - here
        below += here
    u = ranks - n_one * (n_one + 1) / 2
    variance = n_one * n_other / 12 * (total + 1 - ties / (total * (total - 1)))
    return _two_sided(u - n_one * n_other / 2, variance)


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values, corrected by Holm's step-down method, in the order they were given."""
    corrected = [1.0] * len(p_values)
    highest = 0.0
    for place, index in enumerate(sorted(range(len(p_values)), key=lambda index: p_values[index])):
        highest = max(highest, min(1.0, p_values[index] * (len(p_values) - place)))
        corrected[index] = highest
    return corrected


def _two_sided(difference: float, variance: float) -> float:
    if not difference:
        return 1.0
    if variance <= 0:
        return 0.0
    return 2 * _NORMAL.cdf(-abs(difference) / math.sqrt(variance))
