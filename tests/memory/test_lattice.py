"""Networks in whole numbers: steps, predictions on other lattices, and what comes back from a code."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemon.memory.lattice import (
    FARTHEST,
    LEAST_STEP,
    MOST_STEP,
    Layout,
    Network,
    decode_network,
    encode_network,
    nearest_points,
    nearest_step,
    nothing,
    rescaled,
    step_size,
)

LAYOUT = Layout((300, 5, 40), 1, 3, 20)
STEPS = st.integers(LEAST_STEP, MOST_STEP)


@given(st.floats(2.0**-39, 2.0**30))
def test_the_nearest_step_is_the_largest_that_is_not_larger(size):
    index = nearest_step(size)
    assert step_size(index) <= size < step_size(index + 1)


@given(STEPS, st.integers(-FARTHEST, FARTHEST), st.integers(-5000, 5000))
@settings(max_examples=200)
def test_points_on_another_lattice_are_the_nearest_ones(before, apart, point):
    after = before + apart
    wanted = Fraction(float(step_size(before))) * point / Fraction(float(step_size(after)))
    found = int(rescaled(np.array([point]), np.array([before]), np.array([after]))[0])
    assert abs(found - wanted) <= Fraction(1, 2)


def some_network(seed: int, spread: float = 2.0) -> Network:
    chance = np.random.default_rng(seed)
    points = np.rint(chance.normal(0, spread, sum(LAYOUT.sizes))).astype(np.int64)
    steps, moved = chance.integers(-9, 9, 3), chance.integers(0, 2, 1)
    variances, means, others = (chance.integers(*each) for each in ((1900, 2100, 3), (-40, 40, 3), (-128, 128, 20)))
    return Network(steps, points, moved, variances, means, others)


@given(st.integers(0, 50), st.one_of(st.none(), st.integers(0, 50)))
@settings(max_examples=30)
def test_a_network_comes_back_whatever_it_is_predicted_from(seed, other):
    network, prediction = some_network(seed), nothing(LAYOUT) if other is None else some_network(other, 9.0)
    found = decode_network(encode_network(network, prediction, LAYOUT), prediction, LAYOUT)
    for name, value in vars(network).items():
        assert np.array_equal(getattr(found, name), value), name


def test_a_good_prediction_makes_a_code_shorter():
    network = some_network(0)
    codes = [encode_network(network, each, LAYOUT) for each in (network, nothing(LAYOUT))]
    assert 3 * len(codes[0]) < len(codes[1])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_weights_are_at_most_half_a_step_from_their_points(dtype):
    chance = np.random.default_rng(2)
    start, weights = (chance.normal(0, 1, sum(LAYOUT.sizes)).astype(dtype) for _ in range(2))
    steps = np.array([-20, -3, 1])
    points = nearest_points(weights, start, steps, LAYOUT)
    network = replace(nothing(LAYOUT), steps=steps, points=points)
    apart = np.abs(network.weights(start, LAYOUT).astype(np.float64) - weights)
    assert (apart <= LAYOUT.expanded(step_size(steps)) / 2 + 1e-6).all()
