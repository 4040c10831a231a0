"""Metrics of the accuracy matrix: by hand, against their formulas written out, and where there is nothing to say."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemon.results.metrics import METRICS, AccuracyMatrix, mean_and_sem

NAN = math.nan

# Three tasks; a learner that answers for tasks before they are begun.
R = [[90.0, 40.0, 30.0], [85.0, 80.0, 35.0], [70.0, 75.0, 95.0]]
B = [50.0, 45.0, 20.0]
BY_HAND = {
    "final": (70 + 75 + 95) / 3,
    "during": (90 + 80 + 95) / 3,
    "bwt_gem": ((70 - 90) + (75 - 80)) / 2,
    "fwt_gem": ((40 - 45) + (35 - 20)) / 2,
    "forgetting_chaudhry": ((90 - 70) + (80 - 75)) / 2,
    "forgetting_avalanche": ((90 - 70) + (80 - 75)) / 2,
}


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_is_what_was_computed_by_hand(name):
    metric = AccuracyMatrix(R, B, 3).metrics[name]
    assert metric.value == pytest.approx(BY_HAND[name])
    assert metric.reason == ""


def test_there_is_a_value_by_hand_for_every_metric():
    assert set(BY_HAND) == set(METRICS)


def test_chaudhry_takes_the_best_row_and_avalanche_the_first():
    rows = [[60.0, 0.0, 0.0], [80.0, 90.0, 0.0], [50.0, 90.0, 90.0]]
    matrix = AccuracyMatrix(rows, (), 3)
    assert matrix.forgetting_chaudhry.value == pytest.approx(((80 - 50) + 0) / 2)
    assert matrix.forgetting_avalanche.value == pytest.approx(((60 - 50) + 0) / 2)


def test_chaudhry_also_looks_at_rows_before_the_task_was_learned():
    # max over all l < T-1, as in the paper: a task may be answered best before its turn.
    assert AccuracyMatrix([[50.0, 99.0, 0.0], [50.0, 70.0, 0.0], [50.0, 60.0, 90.0]], (), 3).forgetting_chaudhry[
        0
    ] == (pytest.approx((0 + (99 - 60)) / 2))


@st.composite
def matrices(draw) -> AccuracyMatrix:
    n = draw(st.integers(2, 6))
    value = st.floats(0, 100)
    rows = draw(st.lists(st.lists(value, min_size=n, max_size=n), min_size=n, max_size=n))
    return AccuracyMatrix(rows, draw(st.lists(value, min_size=n, max_size=n)), n)


@given(matrices())
def test_metrics_follow_their_formulas(matrix):
    r, b, last = matrix.rows, matrix.untrained, matrix.n_tasks - 1
    n = matrix.n_tasks
    slow = {
        "final": sum(r[last][j] for j in range(n)) / n,
        "during": sum(r[j][j] for j in range(n)) / n,
        "bwt_gem": sum(r[last][j] - r[j][j] for j in range(last)) / last,
        "fwt_gem": sum(r[j - 1][j] - b[j] for j in range(1, n)) / last,
        "forgetting_chaudhry": sum(max(r[i][j] for i in range(last)) - r[last][j] for j in range(last)) / last,
        "forgetting_avalanche": sum(r[j][j] - r[last][j] for j in range(last)) / last,
    }
    for name, value in slow.items():
        assert matrix.metrics[name].value == pytest.approx(value, abs=1e-9), name


@given(matrices())
def test_avalanche_is_backward_transfer_turned_round_and_never_above_chaudhry(matrix):
    assert matrix.forgetting_avalanche.value == -matrix.bwt_gem.value
    assert matrix.forgetting_avalanche.value <= matrix.forgetting_chaudhry.value + 1e-9


@given(matrices(), st.data())
def test_a_metric_that_misses_a_value_is_nan_with_a_reason(matrix, data):
    n_rows = data.draw(st.integers(0, matrix.n_tasks - 1))
    for name, metric in AccuracyMatrix(matrix.rows[:n_rows], (), matrix.n_tasks).metrics.items():
        assert math.isnan(metric.value), name
        assert metric.reason, name


@given(matrices())
def test_a_metric_is_a_number_or_has_a_reason_but_never_both(matrix):
    for broken in (matrix, AccuracyMatrix(matrix.rows[:-1], matrix.untrained, matrix.n_tasks)):
        for name, metric in broken.metrics.items():
            assert math.isnan(metric.value) == bool(metric.reason), name


def test_a_learner_without_answers_for_tasks_to_come_has_no_forward_transfer():
    matrix = AccuracyMatrix([[90.0, NAN], [80.0, 95.0]], [NAN, NAN], 2)
    assert matrix.fwt_gem.reason == "the learner has no answer for a task before it is begun"
    assert math.isnan(matrix.fwt_gem.value)
    assert matrix.final.value == pytest.approx(87.5)


def test_without_the_rows_between_there_is_no_chaudhry_but_the_rest():
    rows = [[90.0, NAN, NAN], [NAN, 80.0, NAN], [70.0, 75.0, 95.0]]
    matrix = AccuracyMatrix(rows, [NAN] * 3, 3)
    assert matrix.forgetting_chaudhry.reason == "not every row of R was measured"
    assert math.isnan(matrix.forgetting_chaudhry.value)
    assert matrix.bwt_gem.value == pytest.approx(BY_HAND["bwt_gem"])


@pytest.mark.parametrize("n_tasks", [0, 1])
def test_transfer_needs_two_tasks(n_tasks):
    metrics = AccuracyMatrix([[90.0]] * n_tasks, [50.0] * n_tasks, n_tasks).metrics
    for name in ("bwt_gem", "fwt_gem", "forgetting_chaudhry", "forgetting_avalanche"):
        assert math.isnan(metrics[name].value)
        assert metrics[name].reason == "it needs two tasks"
    assert math.isnan(metrics["final"].value) == (n_tasks == 0)


def test_errors_have_a_mean_but_neither_transfer_nor_forgetting():
    metrics = AccuracyMatrix([[0.1, 0.2], [0.3, 0.4]], [], 2, of_errors=True).metrics
    assert metrics["final"].value == pytest.approx(0.35)
    assert metrics["during"].value == pytest.approx(0.25)
    for name in ("bwt_gem", "fwt_gem", "forgetting_chaudhry", "forgetting_avalanche"):
        assert metrics[name].reason == "it is defined for accuracies, not for errors"


def test_values_are_square_whatever_was_measured():
    values = AccuracyMatrix([[90.0, NAN, NAN]], (), 3).values
    assert values.shape == (3, 3)
    assert np.isnan(values).sum() == 8


def test_mean_and_standard_error_by_hand():
    mean, sem = mean_and_sem([1.0, 2.0, 6.0])
    assert mean == pytest.approx(3)
    # Variance with n - 1 is (4 + 1 + 9) / 2 = 7; the error is sqrt(7 / 3).
    assert sem == pytest.approx(math.sqrt(7 / 3))


def test_a_single_value_has_no_error():
    mean, sem = mean_and_sem([5.0])
    assert mean == 5
    assert math.isnan(sem)
