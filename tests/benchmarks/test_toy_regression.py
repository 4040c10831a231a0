"""The three polynomials: where they are drawn, how noisy, and as a function of what."""

from __future__ import annotations

import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemon.benchmarks.task import TaskKind, names
from mnemon.benchmarks.toy_regression import ToyRegression, toy_regression
from mnemon.errors import DataError, UsageError

TRUTH = [
    (lambda x: x + 3, -4, -2),
    (lambda x: 2 * x**2 - 1, -1, 1),
    (lambda x: (x - 3) ** 3, 2, 4),
]


def test_there_are_three_tasks_with_one_number_in_and_one_out():
    stream = ToyRegression().build(None, seed=0)
    assert names(stream.tasks) == ["x+3", "2x^2-1", "(x-3)^3"]
    assert (stream.name, stream.kind) == ("toy-regression", TaskKind.REGRESSION)
    assert (stream.input_shape, stream.outputs_per_task) == ((1,), 1)
    for task in stream.tasks:
        assert task.train.inputs.shape == task.train.targets.shape == (100, 1)
        assert task.test.inputs.shape == task.test.targets.shape == (100, 1)


@pytest.mark.parametrize("place", range(3))
def test_test_points_are_even_and_on_the_curve(place):
    function, low, high = TRUTH[place]
    test = toy_regression(seed=0, n_test=41).tasks[place].test
    torch.testing.assert_close(test.inputs[:, 0], torch.linspace(low, high, 41))
    torch.testing.assert_close(test.targets, function(test.inputs), atol=1e-5, rtol=0)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**63), place=st.integers(0, 2))
def test_training_inputs_lie_on_the_task_s_stretch_and_noise_is_added(seed, place):
    function, low, high = TRUTH[place]
    train = toy_regression(seed).tasks[place].train
    assert low <= float(train.inputs.min()) < float(train.inputs.max()) <= high
    assert 0.03 < float((train.targets - function(train.inputs)).std()) < 0.075


def test_noise_has_the_given_deviation():
    for noise in (0.0, 0.05, 2.0):
        for task, (function, _, _) in zip(toy_regression(3, 20_000, noise=noise).tasks, TRUTH, strict=True):
            found = float((task.train.targets - function(task.train.inputs)).std())
            assert found == pytest.approx(noise, rel=0.05, abs=1e-5)


def test_data_are_a_function_of_the_seed():
    one, again, other = toy_regression(1), toy_regression(1), toy_regression(2)
    for i in range(3):
        assert torch.equal(one.tasks[i].train.targets, again.tasks[i].train.targets)
        assert not torch.equal(one.tasks[i].train.inputs, other.tasks[i].train.inputs)
        assert torch.equal(one.tasks[i].test.inputs, other.tasks[i].test.inputs)


def test_double_precision_gives_the_same_data():
    single = toy_regression(1).tasks[2].train.inputs
    torch.set_default_dtype(torch.float64)
    try:
        double = toy_regression(1).tasks[2].train.inputs
    finally:
        torch.set_default_dtype(torch.float32)
    assert double.dtype == torch.float64
    assert torch.equal(double.float(), single)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_train": 0}, "n_train is 0; it must be at least 1."),
        ({"n_test": -1}, "n_test is -1; it must be at least 1."),
        ({"noise": -0.1}, "noise is -0.1; it must be a finite number of at least 0."),
        ({"noise": float("nan")}, "noise is nan; it must be a finite number of at least 0."),
        ({"noise": float("inf")}, "noise is inf; it must be a finite number of at least 0."),
    ],
)
def test_settings_that_make_no_data_are_refused(settings, message):
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        ToyRegression(**settings)
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        toy_regression(0, **settings)


def test_a_data_folder_that_does_not_exist_is_refused_here_too(tmp_path):
    with pytest.raises(DataError, match=r"nowhere' \(--data\) does not exist"):
        ToyRegression().build(tmp_path / "nowhere", seed=0)
