"""The result of a comparison of behaviour with a baseline."""

from __future__ import annotations

from pydantic import Field

from graph_agent.models.base import Frozen

ALPHA = 0.05
"""The significance level: a comparison with a smaller corrected p-value may be flagged."""

TEST = (
    "two-sided, by users; mixes: chi-squared test of homogeneity, shares, error rate and tool frequency: t-test of two means "
    "with pooled variance, Fisher's exact test where an expected count is below 5, latency: Mann-Whitney U; p-values corrected "
    "by Holm over all comparisons"
)


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
