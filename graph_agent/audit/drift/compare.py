"""Drift: the comparison of the agent's behavior with a baseline.

A deviation is flagged if it is beyond the threshold **and** significant. For each group of decisions (one model under one
constitution) these figures are compared:

    dimension        deviation                                            test (two-sided)
    intents          share of decisions that would have to change places  chi-squared test of homogeneity
    decision_types   the same                                             the same
    outcomes         the same                                             the same
    tool frequency   calls per decision, each tool                        t-test of two means
    error rate       share of decisions                                   t-test of two shares
    latency          relative change of the median                        Mann-Whitney: t-test of the ranks

In addition every single share of a mix is compared by a t-test of two shares, which says what moved. Where an expected count is
below 5, Fisher's exact test replaces these tests. All tests allow for users whose decisions resemble each other (`clustering`).

The p-values of all comparisons of a report are corrected together by Holm's method, so that the chance of any false alarm in it
is at most `ALPHA`, however the figures depend on each other. Groups of fewer than `MIN_DECISIONS` are listed but not compared.
A median that moves by less than `LATENCY_FLOOR_MS` is not flagged, because users do not notice it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from pydantic import Field

from graph_agent.audit.drift.clustering import Figure, compares_users, degrees_of_freedom, intraclass_correlation
from graph_agent.audit.drift.profiles import Profile, ToolFrequency
from graph_agent.audit.drift.statistics import Sample, holm, homogeneity, ranks, two_means
from graph_agent.audit.metrics import percentile
from graph_agent.models.base import Frozen

ALPHA = 0.05
"""The significance level: a comparison with a smaller corrected p-value may be flagged."""

TEST = (
    "two-sided, by users; mixes: chi-squared test of homogeneity, shares, error rate and tool frequency: t-test of two means "
    "with pooled variance, Fisher's exact test where an expected count is below 5, latency: Mann-Whitney U; p-values corrected "
    "by Holm over all comparisons"
)
MIN_DECISIONS = 30
LATENCY_FLOOR_MS = 50
DEFAULT_THRESHOLD = 0.10

_LATENCY = "latency"
_NEW_GROUP = "not in the baseline: a new model or a changed constitution"


class Comparison(Frozen):
    """One figure in both samples. `p_value` is corrected for all comparisons of the report."""

    dimension: str
    name: str
    """The name within the dimension; `*` is the whole mix, whose `current` is the share that moved."""
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

    Empty if the baseline was created before profiles counted them.
    """
    baseline_users: int | None = None
    users: int | None = None
    by_users: bool = False
    """True if the tests allow for similar decisions of the same user; False if they treat all decisions as independent.

    They do so for a single user, and for a baseline that was created before profiles counted users.
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
    test: str = TEST
    tests: int
    """The number of comparisons that the p-values are corrected for."""
    drift_detected: bool
    groups: list[GroupDrift]
    uncompared: list[UncomparedGroup]


def compare(baseline: Sequence[Profile], current: Sequence[Profile], threshold: float = DEFAULT_THRESHOLD) -> Drift:
    """Compare each group of `current` with the same group of `baseline`."""
    before = {profile.group: profile for profile in baseline}
    pairs: list[_Pair] = []
    uncompared = []
    for now in current:
        then = before.pop(now.group, None)
        if then is None:
            uncompared.append(_uncompared(now, _NEW_GROUP))
        elif min(then.decisions, now.decisions) < MIN_DECISIONS:
            uncompared.append(_uncompared(now, f"fewer than {MIN_DECISIONS} decisions"))
        else:
            pairs.append(_Pair(then, now))
    uncompared += [_uncompared(then, "only in the baseline") for then in before.values()]
    tests = [list(_compare_all(pair)) for pair in pairs]
    corrected = iter(holm([one.p_value for of_group in tests for one in of_group]))
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
            comparisons=[_judge(one, next(corrected), threshold) for one in of_group],
        )
        for pair, of_group in zip(pairs, tests, strict=True)
    ]
    return Drift(
        threshold=threshold,
        tests=sum(map(len, tests)),
        drift_detected=any(group.flagged for group in groups),
        groups=groups,
        uncompared=uncompared,
    )


def _uncompared(profile: Profile, reason: str) -> UncomparedGroup:
    return UncomparedGroup(model=profile.model, constitution=profile.constitution, decisions=profile.decisions, reason=reason)


def _judge(one: Comparison, p_value: float, threshold: float) -> Comparison:
    """Return a comparison with its corrected p-value, and flag it if it is drift."""
    # The tolerance is for rounding: 0.4 - 0.3 is a little more than 0.1.
    beyond = abs(one.deviation) > threshold + 1e-9
    noticeable = one.dimension != _LATENCY or abs(one.current - one.baseline) >= LATENCY_FLOOR_MS
    return one.replace(p_value=p_value, flagged=beyond and noticeable and p_value < ALPHA)


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

    def correlation(self, figures: Iterable[Figure]) -> float:
        """Estimate the correlation of two decisions of the same user; 0 if the comparison does not take users into account."""
        return intraclass_correlation(figures) if self.by_users else 0.0

    def figures(self, dimension: str) -> dict[str, tuple[Figure, Figure]]:
        """Return the shares of all kinds of decisions, or the calls of all tools, in both profiles."""
        names = sorted(getattr(self.then, dimension).keys() | getattr(self.now, dimension).keys())
        return {name: (_figure(self.then, dimension, name), _figure(self.now, dimension, name)) for name in names}


def _figure(profile: Profile, dimension: str, name: str) -> Figure:
    counted: int | ToolFrequency = getattr(profile, dimension).get(name, 0)
    sums = None if profile.users is None else getattr(profile.users, dimension).get(name)
    if isinstance(counted, int):
        return Figure.of_share(profile, counted, sums)
    return Figure(profile, Sample(profile.decisions, counted.total, counted.squares), sums)


def _compare_all(pair: _Pair) -> Iterator[Comparison]:
    """Compare every dimension of the two profiles. The p-values are not corrected yet, and nothing is flagged."""
    for dimension in ("intents", "decision_types", "outcomes"):
        yield from _compare_mix(pair, dimension)
    yield from _compare_each(pair, "tool_frequency", pair.figures("tools"))
    profiles = (pair.then, pair.now)
    errors = [Figure.of_share(one, one.errors, one.users.errors if one.users else None) for one in profiles]
    yield _compare_means(pair, "error_rate", "ERROR", errors)
    yield _compare_latency(pair)


def _compare_mix(pair: _Pair, dimension: str) -> Iterator[Comparison]:
    """Compare a dimension such as the outcomes: the whole mix, and each share by itself."""
    figures = pair.figures(dimension)
    shares = _compare_each(pair, dimension, figures)
    correlation = pair.correlation(chain(*figures.values()))
    then, now = ([figure.effective(correlation).total for figure in side] for side in zip(*figures.values(), strict=True))
    p_value = homogeneity(then, now, pair.degrees_of_freedom)
    moved = sum(abs(share.deviation) for share in shares) / 2
    yield Comparison(
        dimension=dimension, name="*", baseline=0.0, current=moved, deviation=moved, p_value=p_value, flagged=False
    )
    yield from shares


def _compare_each(pair: _Pair, dimension: str, figures: Mapping[str, tuple[Figure, Figure]]) -> list[Comparison]:
    """Compare each figure of a dimension by itself."""
    # A rare kind has too few users for its own estimate, and the common estimate may hide a strongly clustered kind.
    common = pair.correlation(chain(*figures.values()))
    return [_compare_means(pair, dimension, name, both, common) for name, both in figures.items()]


def _compare_latency(pair: _Pair) -> Comparison:
    """Compare the median duration of the decisions."""
    profiles = (pair.then, pair.now)
    before, after = (percentile(profile.durations, 0.5) for profile in profiles)
    ranked = ranks(pair.then.durations, pair.now.durations)
    figures = [Figure(profile, sample, None) for profile, sample in zip(profiles, ranked, strict=True)]
    habits = [Figure.of_share(one, one.users.slow, one.users.slow_sums) for one in profiles if one.users is not None]
    by_rank = _compare_means(pair, _LATENCY, "median_ms", figures, pair.correlation(habits))
    return by_rank.replace(baseline=before, current=after, deviation=(after - before) / max(1, before))


def _compare_means(pair: _Pair, dimension: str, name: str, figures: Sequence[Figure], correlation: float = 0.0) -> Comparison:
    """Compare a share or mean. Decisions of one user are taken to have at least this correlation."""
    correlation = max(correlation, pair.correlation(figures))
    before, after = (figure.sample.mean for figure in figures)
    then, now = (figure.effective(correlation) for figure in figures)
    return Comparison(
        dimension=dimension,
        name=name,
        baseline=before,
        current=after,
        deviation=after - before,
        p_value=two_means(then, now, pair.degrees_of_freedom, are_ranks=dimension == _LATENCY),
        flagged=False,
    )
