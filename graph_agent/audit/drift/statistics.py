"""Statistical tests for the comparison of two samples. All are two-sided and return a p-value.

Counts and sizes may be fractions: effective numbers, reduced because decisions of one user resemble each other (`clustering`).
`degrees_of_freedom` are those of that reduction; if they are infinite, the tests are the usual ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

FEW = 5.0
"""Below this expected count the normal and chi-squared approximations are not used."""

_EPSILON = 1e-15
_NEARLY_EQUAL = 1 + 1e-7
"""Tables whose probabilities differ only by rounding are equally likely."""


def two_proportions(one: float, of_one: float, other: float, of_other: float, degrees_of_freedom: float = math.inf) -> float:
    """Test whether `one` of `of_one` and `other` of `of_other` come from the same proportion.

    z-test with the pooled variance, or Fisher's exact test if an expected count is small.
    """
    pooled = (one + other) / (of_one + of_other)
    smallest_expected = min(pooled, 1 - pooled) * min(of_one, of_other)
    if smallest_expected < FEW:
        return fisher_exact(round(one), round(of_one), round(other), round(of_other))
    variance = pooled * (1 - pooled) * (1 / of_one + 1 / of_other)
    return student_tail((one / of_one - other / of_other) / math.sqrt(variance), degrees_of_freedom)


def fisher_exact(one: int, of_one: int, other: int, of_other: int) -> float:
    """Return the p-value of Fisher's exact test: the probability of all tables that are at most as likely as the given one."""
    hits, total = one + other, of_one + of_other
    lowest, highest = max(0, hits - of_other), min(hits, of_one)

    def log_probability(count: int) -> float:
        return _log_choose(of_one, count) + _log_choose(of_other, hits - count) - _log_choose(total, hits)

    observed = math.exp(log_probability(one)) * _NEARLY_EQUAL
    probabilities = (math.exp(log_probability(count)) for count in range(lowest, highest + 1))
    return min(1.0, math.fsum(probability for probability in probabilities if probability <= observed))


def two_means(
    one: float, of_one: float, other: float, of_other: float, variance: float, degrees_of_freedom: float = math.inf
) -> float:
    """Test whether two samples with the means `one` and `other` and a pooled `variance` come from the same mean."""
    if one == other:
        return 1.0
    if variance <= 0:
        return 0.0
    return student_tail((one - other) / math.sqrt(variance * (1 / of_one + 1 / of_other)), degrees_of_freedom)


def homogeneity(one: Sequence[float], other: Sequence[float], degrees_of_freedom: float = math.inf) -> float:
    """Test whether two rows of counts come from the same mix: the chi-squared test. Rare categories are merged."""
    cells = _merge_rare(one, other)
    if len(cells) < 2:
        return 1.0
    size_one, size_other = sum(a for a, _ in cells), sum(b for _, b in cells)
    if len(cells) == 2:
        return two_proportions(cells[0][0], size_one, cells[0][1], size_other, degrees_of_freedom)
    statistic = 0.0
    for a, b in cells:
        for count, size in ((a, size_one), (b, size_other)):
            expected = (a + b) * size / (size_one + size_other)
            statistic += (count - expected) ** 2 / expected
    return f_tail(statistic / (len(cells) - 1), len(cells) - 1, degrees_of_freedom)


def mann_whitney(
    one: Mapping[int, int], other: Mapping[int, int], *, inflation: float = 1.0, degrees_of_freedom: float = math.inf
) -> float:
    """Test whether the values of one histogram tend to be larger than those of the other: the rank test, corrected for ties.

    `inflation` is the factor by which the variance is larger than that of independent values.
    """
    size_one, size_other = sum(one.values()), sum(other.values())
    total = size_one + size_other
    if not size_one or not size_other or total < 2:
        return 1.0
    ranks, below, ties = 0.0, 0, 0.0
    for value in sorted(one.keys() | other.keys()):
        here = one.get(value, 0) + other.get(value, 0)
        ranks += one.get(value, 0) * (below + (here + 1) / 2)
        ties += here**3 - here
        below += here
    u = ranks - size_one * (size_one + 1) / 2
    variance = size_one * size_other / 12 * (total + 1 - ties / (total * (total - 1)))
    if variance <= 0:
        return 1.0
    return student_tail((u - size_one * size_other / 2) / math.sqrt(variance * inflation), degrees_of_freedom)


def holm(p_values: Sequence[float]) -> list[float]:
    """Correct the p-values of several tests by Holm's step-down method, in the given order."""
    corrected = [1.0] * len(p_values)
    highest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda index: p_values[index])):
        highest = max(highest, min(1.0, p_values[index] * (len(p_values) - rank)))
        corrected[index] = highest
    return corrected


def chi_squared_tail(statistic: float, degrees: int) -> float:
    """Return the probability that a chi-squared variable exceeds `statistic`, by its finite series."""
    if statistic <= 0 or degrees < 1:
        return 1.0
    half = statistic / 2
    # The recurrence Q(a + 1, x) = Q(a, x) + x^a e^-x / Gamma(a + 1) starts at Q(1, x) = e^-x or Q(1/2, x) = erfc(sqrt(x)).
    order = 1.0 if degrees % 2 == 0 else 0.5
    tail = math.exp(-half) if degrees % 2 == 0 else math.erfc(math.sqrt(half))
    while order < degrees / 2:
        tail += math.exp(order * math.log(half) - half - math.lgamma(order + 1))
        order += 1
    return min(1.0, tail)


def student_tail(statistic: float, degrees_of_freedom: float = math.inf) -> float:
    """Return the probability that the absolute value of a Student t variable exceeds that of `statistic`."""
    if math.isinf(degrees_of_freedom):
        return math.erfc(abs(statistic) / math.sqrt(2))
    return regularized_beta(degrees_of_freedom / (degrees_of_freedom + statistic**2), degrees_of_freedom / 2, 0.5)


def f_tail(statistic: float, numerator: int, degrees_of_freedom: float) -> float:
    """Return the probability that an F variable exceeds `statistic`.

    Its degrees of freedom are `numerator` and `degrees_of_freedom`.
    """
    if math.isinf(degrees_of_freedom):
        return chi_squared_tail(statistic * numerator, numerator)
    return regularized_beta(
        degrees_of_freedom / (degrees_of_freedom + numerator * statistic), degrees_of_freedom / 2, numerator / 2
    )


def regularized_beta(x: float, a: float, b: float) -> float:
    """Return the regularized incomplete beta function, by its continued fraction (DLMF 8.17.22)."""
    if x <= 0 or x >= 1:
        return min(1.0, max(0.0, x))
    if x > (a + 1) / (a + b + 2):
        # The fraction converges fast only on this side of the mean.
        return 1 - regularized_beta(1 - x, b, a)
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    # Evaluated by the modified method of Lentz.
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    fraction = d
    for m in range(1, 10_000):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / (1 + numerator * d)
            c = 1 + numerator / c
            fraction *= c * d
        if abs(c * d - 1) < _EPSILON:
            break
    return math.exp(log_front) * fraction / a


def _merge_rare(one: Sequence[float], other: Sequence[float]) -> list[tuple[float, float]]:
    """Merge the smallest categories until none has a small expected count in either sample."""
    smaller_share = min(sum(one), sum(other)) / (sum(one) + sum(other))
    cells = sorted(((a, b) for a, b in zip(one, other, strict=True) if a + b), key=sum)
    while len(cells) > 2 and sum(cells[0]) * smaller_share < FEW:
        (a, b), (c, d), *rest = cells
        cells = sorted([(a + c, b + d), *rest], key=sum)
    return cells


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
