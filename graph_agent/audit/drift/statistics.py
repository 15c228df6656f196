"""Statistical tests for the comparison of two samples. All are two-sided and return a p-value.

Counts and sizes may be fractions: effective numbers, reduced because decisions of one user resemble each other (`clustering`).
`degrees_of_freedom` are those of that reduction; if they are infinite, the tests are the usual ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

FEW = 5.0
"""Below this expected count the normal and chi-squared approximations are not used."""

_EPSILON = 1e-15
_NEARLY_EQUAL = 1 + 1e-7
"""Tables whose probabilities differ only by rounding are equally likely."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A figure of one sample: the number of decisions, and the sums over them of its value and of the value's square.

    For a share a decision counts 0 or 1, so both sums are the number of decisions that have it.
    """

    size: float
    total: float
    squares: float

    @property
    def mean(self) -> float:
        return self.total / self.size

    @property
    def variance(self) -> float:
        return max(0.0, self.squares / self.size - self.mean**2)

    @property
    def occurrences(self) -> float:
        """The number of decisions with a value above 0, if all of these had the same one."""
        return self.total**2 / self.squares if self.squares else 0.0


def two_means(one: Sample, other: Sample, degrees_of_freedom: float = math.inf, *, are_ranks: bool = False) -> float:
    """Test whether two samples come from the same mean or share.

    t-test with the pooled variance, or Fisher's exact test of the occurrences if too few are expected. Ranks have none: every
    decision has a rank above 0.
    """
    both = Sample(one.size + other.size, one.total + other.total, one.squares + other.squares)
    occurring = (one.occurrences + other.occurrences) / both.size
    # A share may be close to 1 too. A figure with other values than 0 and 1 is rare only if it is close to 0.
    rare = min(occurring, 1 - occurring) if both.squares == both.total else occurring
    if not are_ranks and rare * min(one.size, other.size) < FEW:
        # A rounding error may make the occurrences more than the size.
        (hits, size), (other_hits, other_size) = ((round(of.occurrences), round(of.size)) for of in (one, other))
        return fisher_exact(min(hits, size), size, min(other_hits, other_size), other_size)
    if both.variance <= 0:
        return 1.0
    squared = (one.mean - other.mean) ** 2 / (both.variance * (1 / one.size + 1 / other.size))
    return f_tail(squared, 1, degrees_of_freedom)


def fisher_exact(one: int, of_one: int, other: int, of_other: int) -> float:
    """Return the p-value of Fisher's exact test: the probability of all tables that are at most as likely as the given one."""
    hits, total = one + other, of_one + of_other
    lowest, highest = max(0, hits - of_other), min(hits, of_one)

    def log_probability(count: int) -> float:
        return _log_choose(of_one, count) + _log_choose(of_other, hits - count) - _log_choose(total, hits)

    observed = math.exp(log_probability(one)) * _NEARLY_EQUAL
    probabilities = (math.exp(log_probability(count)) for count in range(lowest, highest + 1))
    return min(1.0, math.fsum(probability for probability in probabilities if probability <= observed))


def homogeneity(one: Sequence[float], other: Sequence[float], degrees_of_freedom: float = math.inf) -> float:
    """Test whether two rows of counts come from the same mix: the chi-squared test. Rare categories are merged."""
    cells = _merge_rare(one, other)
    if len(cells) < 2:
        return 1.0
    size_one, size_other = sum(a for a, _ in cells), sum(b for _, b in cells)
    if len(cells) == 2:
        a, b = cells[0]
        return two_means(Sample(size_one, a, a), Sample(size_other, b, b), degrees_of_freedom)
    statistic = 0.0
    for a, b in cells:
        for count, size in ((a, size_one), (b, size_other)):
            expected = (a + b) * size / (size_one + size_other)
            statistic += (count - expected) ** 2 / expected
    return f_tail(statistic / (len(cells) - 1), len(cells) - 1, degrees_of_freedom)


def ranks(one: Mapping[int, int], other: Mapping[int, int]) -> tuple[Sample, Sample]:
    """Replace the values of two histograms by their ranks among all of them; equal values share their mean rank.

    The t-test of two means is then the Mann-Whitney test: it compares all values, and long ones count no more than others.
    """
    sizes, totals, squares = (0, 0), (0.0, 0.0), (0.0, 0.0)
    for value in sorted(one.keys() | other.keys()):
        times = one.get(value, 0), other.get(value, 0)
        rank = sum(sizes) + (sum(times) + 1) / 2
        sizes = sizes[0] + times[0], sizes[1] + times[1]
        totals = totals[0] + times[0] * rank, totals[1] + times[1] * rank
        squares = squares[0] + times[0] * rank**2, squares[1] + times[1] * rank**2
    return Sample(sizes[0], totals[0], squares[0]), Sample(sizes[1], totals[1], squares[1])


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


def f_tail(statistic: float, numerator: int, degrees_of_freedom: float) -> float:
    """Return the probability that an F variable exceeds `statistic`.

    Its degrees of freedom are `numerator` and `degrees_of_freedom`. With one in the numerator it is the square of Student's t.
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
