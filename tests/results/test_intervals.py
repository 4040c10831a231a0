"""Intervals of means and of differences, beside SciPy's own and beside chance itself."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from mnemon.results.intervals import Estimate, half_width, student

levels = st.floats(0.5, 0.999)
deviations = st.floats(0.001, 10)


@given(levels, st.integers(1, 500))
def test_the_quantile_is_that_of_scipy_stats(level, freedom):
    assert student(level, freedom) == pytest.approx(stats.t.interval(level, freedom)[1])


@given(levels)
def test_without_a_limit_of_freedom_it_is_that_of_the_normal_distribution(level):
    assert student(level, math.inf) == pytest.approx(stats.norm.interval(level)[1])
    assert student(level, math.inf) < student(level, 30)


def test_two_standard_errors_of_five_seeds_are_not_enough():
    assert student(0.95, 4) == pytest.approx(2.776, abs=1e-3)
    assert student(0.884, 4) == pytest.approx(2, abs=1e-2)


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=20), levels)
def test_the_interval_of_a_mean_is_that_of_scipy_stats(values, level):
    own = Estimate.of(values)
    assert own.mean == pytest.approx(np.mean(values))
    if own.deviation > 1e-6:
        low, high = stats.t.interval(level, len(values) - 1, np.mean(values), stats.sem(values))
        assert own.half_width(level) == pytest.approx((high - low) / 2)


def test_a_single_value_tells_no_spread():
    one = Estimate.of([97.5])
    assert math.isnan(one.deviation)
    assert math.isnan(one.half_width(0.95))
    assert Estimate.of([97.5, 97.5]).half_width(0.95) == 0


@given(deviations, st.integers(2, 30), deviations, st.integers(2, 30), levels)
def test_the_interval_of_a_difference_is_symmetric_and_wider_than_of_either(a, n, b, m, level):
    one, other = Estimate(1.0, a, n, n - 1), Estimate(2.0, b, m, m - 1)
    both = half_width(one, other, level)
    assert both == half_width(other, one, level)
    assert max(one.half_width(level), other.half_width(level)) <= both


@given(deviations, st.integers(2, 50), st.integers(1, 50), deviations, st.integers(2, 30), levels)
def test_more_seeds_never_widen_the_interval_of_a_difference(a, n, more, b, m, level):
    other = Estimate(0.0, b, m, m - 1)
    few, many = (Estimate(0.0, a).with_seeds(seeds) for seeds in (n, n + more))
    assert half_width(many, other, level) <= half_width(few, other, level)


@pytest.mark.parametrize(
    ("n", "m", "ratio"), [(5, 20, 1), (5, 20, 4), (5, 20, 0.25), (3, 20, 1), (10, 20, 2), (2, 5, 1)]
)
def test_it_covers_the_true_difference_as_often_as_it_says(n, m, ratio):
    """Of samples whose true means are equal, at least nearly 95 % have zero in the interval of their difference."""
    rng = np.random.default_rng(0)
    first, second = ratio * rng.standard_normal((20_000, n)), rng.standard_normal((20_000, m))
    half = np.hypot(*(
        student(0.95, values.shape[1] - 1) * values.std(axis=1, ddof=1) / math.sqrt(values.shape[1])
        for values in (first, second)
    ))  # fmt: skip
    one, other = Estimate.of(first[0]), Estimate.of(second[0])
    assert half_width(one, other, 0.95) == pytest.approx(half[0])
    covered = float((np.abs(first.mean(axis=1) - second.mean(axis=1)) <= half).mean())
    assert 0.945 <= covered <= 0.99
