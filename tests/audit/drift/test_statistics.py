"""The statistical tests, compared with textbook examples and with values computed by an independent library."""

from __future__ import annotations

import math
from collections import Counter
from statistics import NormalDist

import pytest

from graph_agent.audit.drift.statistics import (
    Sample,
    chi_squared_tail,
    f_tail,
    fisher_exact,
    holm,
    homogeneity,
    ranks,
    two_means,
)


def share(count: float, size: float) -> Sample:
    return Sample(size, count, count)


@pytest.mark.parametrize(
    ("statistic", "degrees", "tail"),
    [
        (3.841459, 1, 0.05),
        (6.634897, 1, 0.01),
        (5.991465, 2, 0.05),
        (7.814728, 3, 0.05),
        (18.307038, 10, 0.05),
        (29.588298, 10, 0.001),
    ],
)
def test_the_chi_squared_tail_agrees_with_the_printed_tables(statistic: float, degrees: int, tail: float) -> None:
    assert chi_squared_tail(statistic, degrees) == pytest.approx(tail, rel=1e-6)


@pytest.mark.parametrize(
    ("statistic", "freedom", "tail"),
    [(12.706205, 1, 0.05), (2.228139, 10, 0.05), (3.169273, 10, 0.01), (2.042272, 30, 0.05), (1.959964, math.inf, 0.05)],
)
def test_the_student_tail_agrees_with_the_printed_tables(statistic: float, freedom: float, tail: float) -> None:
    # The square of Student's t has an F distribution with one degree of freedom in the numerator.
    assert f_tail(statistic**2, 1, freedom) == pytest.approx(tail, rel=1e-6)


@pytest.mark.parametrize(
    ("statistic", "degrees", "freedom", "tail"), [(4.102821, 2, 10, 0.05), (2.710890, 5, 20, 0.05), (3.837853, 1, 5000, 0.0502)]
)
def test_the_f_tail_agrees_with_the_printed_tables(statistic: float, degrees: int, freedom: float, tail: float) -> None:
    assert f_tail(statistic, degrees, freedom) == pytest.approx(tail, rel=5e-3)


def test_the_f_tail_is_the_chi_squared_tail_for_many_users() -> None:
    assert f_tail(3.0, 4, 1e7) == pytest.approx(chi_squared_tail(12.0, 4), rel=1e-5)


def test_fishers_exact_test_agrees_with_published_examples() -> None:
    # The lady tasting tea (Fisher 1935): three of four cups right, two-sided.
    assert fisher_exact(3, 4, 1, 4) == pytest.approx(34 / 70)
    assert fisher_exact(4, 4, 0, 4) == pytest.approx(2 / 70)
    # The men and women who study, in the article on the test in Wikipedia: 1 of 12 and 9 of 12.
    assert fisher_exact(1, 12, 9, 12) == pytest.approx(0.002759456, rel=1e-6)
    assert fisher_exact(0, 30, 0, 20_000) == pytest.approx(1.0)


def test_two_shares_use_the_pooled_variance_or_fishers_test_for_small_counts() -> None:
    assert two_means(share(40, 100), share(55, 100)) == pytest.approx(0.0336720688, rel=1e-8)
    assert two_means(share(1, 12), share(8, 12)) == fisher_exact(1, 12, 8, 12)
    assert two_means(share(499, 500), share(495, 500)) == fisher_exact(499, 500, 495, 500)
    assert two_means(share(0, 500), share(0, 500)) == 1.0


def test_homogeneity_agrees_with_an_independent_computation_and_merges_rare_categories() -> None:
    assert homogeneity([20, 30, 50], [35, 30, 35]) == pytest.approx(0.0344245964, rel=1e-8)
    assert homogeneity([10, 20, 30], [10, 20, 30]) == 1.0
    assert homogeneity([50, 50, 1, 0], [60, 40, 0, 1]) == homogeneity([50, 51], [60, 41])
    assert homogeneity([100], [40]) == 1.0


def test_the_test_of_ranks_agrees_with_an_independent_computation() -> None:
    one, other = Counter([1, 2, 3, 4, 5, 5, 6] * 5), Counter([2, 3, 4, 5, 6, 6, 7] * 5)
    # The value of the Mann-Whitney test, whose variance is that of a sample of the 70 ranks: larger by 70 / 69.
    z = NormalDist().inv_cdf(0.0171261716 / 2) * math.sqrt(70 / 69)
    assert two_means(*ranks(one, other)) == pytest.approx(2 * NormalDist().cdf(z), rel=1e-7)
    assert two_means(*ranks(one, other)) == two_means(*ranks(other, one))
    # A design effect of 4 halves the statistic.
    first, second = (Sample(each.size / 4, each.total / 4, each.squares / 4) for each in ranks(one, other))
    assert two_means(first, second) == pytest.approx(2 * NormalDist().cdf(z / 2), rel=1e-7)
    assert two_means(*ranks(one, one)) == 1.0
    assert two_means(*ranks(Counter({7: 30}), Counter({7: 40}))) == 1.0


def test_two_means_agree_with_a_computation_by_hand() -> None:
    # The difference is 0.5, its standard error sqrt(4 * (1/50 + 1/50)) = 0.4.
    assert two_means(Sample(50, 125, 500), Sample(50, 100, 406.25)) == pytest.approx(math.erfc(1.25 / math.sqrt(2)))
    assert two_means(Sample(50, 100, 200), Sample(50, 100, 200)) == 1.0


def test_the_mean_of_a_rare_figure_is_tested_by_its_occurrences() -> None:
    # Two decisions of 30 with two calls each, and none of 2,000.
    assert two_means(Sample(30, 4, 8), Sample(2_000, 0, 0)) == fisher_exact(2, 30, 0, 2_000)
    # A tool that every decision calls twice, and then once, is not rare.
    assert two_means(Sample(40, 80, 160), Sample(40, 40, 40)) < 1e-9


def test_holms_correction_agrees_with_a_computation_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
