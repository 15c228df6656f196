"""The correction for users: decisions of one user resemble each other, so they carry less information than independent ones.

For each figure (a share, a mean) the intraclass correlation of decisions of the same user is estimated from sums over users.
The size of a sample is then divided by its design effect (Kish 1965; Rao and Scott 1992): the tests use effective sizes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from graph_agent.audit.drift.profiles import Profile, UserSums
from graph_agent.audit.drift.statistics import Sample


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of one profile, with its sums over users if the profile counts users."""

    profile: Profile
    sample: Sample
    sums: UserSums | None

    @classmethod
    def of_share(cls, profile: Profile, count: int, sums: UserSums | None) -> Figure:
        return cls(profile, Sample(profile.decisions, count, count), sums)

    def effective(self, correlation: float) -> Sample:
        """Return the sample with as many independent decisions as have the information of its similar ones."""
        effect = design_effect(self.profile, correlation)
        return Sample(self.sample.size / effect, self.sample.total / effect, self.sample.squares / effect)


def compares_users(one: Profile, other: Profile) -> bool:
    """True if the tests can allow for users: both profiles count users, and at least one has several."""
    return one.users is not None and other.users is not None and max(one.users.count, other.users.count) > 1


def intraclass_correlation(figures: Iterable[Figure]) -> float:
    """Estimate the correlation of two decisions of the same user, from 0 to 1, by the method of moments.

    Several figures, such as all shares of a mix in both samples, give one common estimate.
    """
    excess, pairs = 0.0, 0.0
    for figure in figures:
        users, sums, n = figure.profile.users, figure.sums, figure.profile.decisions
        mean, variance = figure.sample.mean, figure.sample.variance
        if users is None or sums is None or variance <= 0 or users.decisions_squared >= n * n:
            continue
        between = sums.squares - 2 * mean * sums.products + mean**2 * users.decisions_squared
        # The mean is estimated from the same users: without the correction their deviations from it would be too small.
        corrected = between / (1 - users.decisions_squared / n**2)
        excess += corrected - n * variance
        pairs += (users.decisions_squared - n) * variance
    return min(1.0, max(0.0, excess / pairs)) if pairs > 0 else 0.0


def design_effect(profile: Profile, correlation: float) -> float:
    """Return the factor by which the variance of a mean is larger than with independent decisions."""
    if profile.users is None:
        return 1.0
    return 1 + correlation * (profile.users.decisions_squared / profile.decisions - 1)


def degrees_of_freedom(*profiles: Profile) -> float:
    """Return the effective number of users of all samples, minus one for each sample."""
    freedom = 0.0
    for profile in profiles:
        if profile.users is None:
            return math.inf
        freedom += profile.decisions**2 / profile.users.decisions_squared - 1
    return freedom
