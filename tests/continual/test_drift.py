"""The meter of forgetting: how far the network of a task has moved, and the warning where that costs much."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from clouds import Net, clouds, make, two_days

import mnemon
from mnemon.continual.drift import AS_HARMFUL, LENGTHS, SUMS, Sketcher, expected_loss

pytestmark = pytest.mark.only_memory("generated")


@pytest.fixture
def moved(learned) -> mnemon.ContinualModel:
    """A model whose hypernetwork was moved by hand, as no penalty would allow."""
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in learned.state.learner.memory.hypernet.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    learned.state.learner.memory._cache.drop()
    return learned


def test_a_task_just_learned_has_not_moved(learned):
    newest = learned.drift()[-1]
    assert (newest.task, newest.moved, newest.lost, newest.unit) == ("tuesday", 0.0, 0.0, "points")


def test_the_length_of_a_move_is_found_from_the_sketch(moved):
    memory = moved.state.learner.memory
    sketcher = Sketcher(memory)
    fresh = two_days().state.learner.memory
    for index, drift in enumerate(moved.drift()):
        change = (memory.cached_weights(index) - fresh.cached_weights(index))[: sketcher.n_weights] / sketcher.unit
        true = float(change.square().mean().sqrt())
        if index == 1:  # learned last: what is measured is the move by hand alone
            assert drift.moved == pytest.approx(true, rel=0.5)
        assert drift.moved > 0


def test_lengths_are_right_on_average_over_many_moves(learned):
    sketcher = Sketcher(learned.state.learner.memory)
    before, ratios = sketcher.take(0), []
    weights = learned.state.learner.memory.cached_weights(0)
    for seed in range(200):
        noise = torch.randn(sketcher.n_weights, generator=torch.Generator().manual_seed(seed))
        sums = weights.new_zeros(SUMS).index_add(0, sketcher._sum_of, noise * sketcher.unit * sketcher._signed)
        ratios.append(float(sums.square().sum() / noise.square().sum()))
    assert sum(ratios) / len(ratios) == pytest.approx(1, abs=0.1)
    assert len(before) == SUMS


def test_what_a_move_costs_lies_between_the_calibrated_lengths():
    calibration = (0.0, 1.0, 5.0, 20.0, 30.0)
    assert [expected_loss(length, calibration) for length in (0, *LENGTHS)] == [0, *calibration]
    assert expected_loss(2.0, calibration) == pytest.approx(12.5)
    assert expected_loss(100.0, calibration) == 30.0


def test_the_expected_loss_is_that_of_a_random_move_of_twice_the_length(moved):
    for drift in moved.drift():
        calibration = moved.about(drift.task).calibration
        assert drift.lost == expected_loss(AS_HARMFUL * drift.moved, calibration)


def test_a_task_that_has_probably_lost_much_is_warned_of_once():
    model = make(beta=0.0)
    model.learn(clouds(0), task="one", steps=60, quiet=True)
    with pytest.warns(mnemon.ForgettingWarning, match=r"^Task 'one' may have lost up to \d+ points: see"):
        model.learn(clouds(1), task="two", steps=200, quiet=True)
    assert model.drift()[0].lost > 2
    count = len(model.state.warned)
    model.learn(clouds(2), task="three", steps=5, quiet=True)
    assert "one" in model.state.warned
    assert count >= 1


def test_after_saving_and_loading_the_drift_is_the_same(moved, tmp_path):
    assert mnemon.load(moved.save(tmp_path / "it"), Net()).drift() == moved.drift()


def test_of_a_task_of_an_earlier_version_nothing_is_known(learned):
    learned.state.tasks[0] = replace(learned.state.tasks[0], sketch=(), calibration=())
    drift = learned.drift()[0]
    assert math.isnan(drift.moved)
    assert str(drift) == "monday: not known (learned with an earlier version)"


def test_errors_of_numbers_are_counted_in_hundredths():
    model = make(recognise=None)
    x = torch.rand(80, 4)
    model.learn((x, x[:, :3]), task="numbers", steps=60, quiet=True)
    drift = model.drift()[0]
    assert drift.unit == "%"
    calibration = model.about("numbers").calibration
    assert list(calibration) == sorted(calibration)
    assert calibration[-1] > 0


def test_exact_networks_never_move():
    model = two_days(memory="exact")
    assert [(drift.moved, drift.lost) for drift in model.drift()] == [(0.0, 0.0), (0.0, 0.0)]
    assert model.about("monday").sketch == ()
