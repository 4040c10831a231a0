"""Sums over features: the order of tasks does not matter, and what was subtracted was never there."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from mnemon.inference.gaussian import SharedGaussian
from mnemon.inference.sums import BYTES, ClassSums, packed, packed_size, side_by_side, unpacked, width_within

seeds = st.integers(0, 10_000)
widths = st.integers(1, 12)
ROUNDING = {"rtol": 1e-12, "atol": 1e-9}


def tasks_of(seed: int, width: int, n_tasks: int) -> list[ClassSums]:
    random = torch.Generator().manual_seed(seed)
    found = []
    for task in range(n_tasks):
        n, n_classes = 4 + (seed + task) % 30, 1 + (seed + task) % 3
        features = 3 * torch.randn(n, width, generator=random) + task
        found.append(ClassSums.of(features, torch.arange(n) % n_classes, n_classes))
    return found


def log_probability(tasks: list[ClassSums], inputs: Tensor) -> list[Tensor]:
    """Of each task, in the order in which they are given."""
    gaussian = SharedGaussian(side_by_side(tasks), [len(task.counts) for task in tasks])
    return list(gaussian.by_task(gaussian.log_probability(gaussian.distances(inputs), 0.5)).T)


@settings(max_examples=30, deadline=None)
@given(seeds, widths, st.permutations(range(4)))
def test_the_order_of_tasks_does_not_matter(seed, width, order):
    tasks, inputs = tasks_of(seed, width, 4), torch.randn(5, width)
    torch.testing.assert_close(side_by_side([tasks[i] for i in order]).gram, side_by_side(tasks).gram, **ROUNDING)
    straight, turned = log_probability(tasks, inputs), log_probability([tasks[i] for i in order], inputs)
    for place, task in enumerate(order):
        torch.testing.assert_close(turned[place], straight[task], rtol=1e-5, atol=1e-5)


@settings(max_examples=30, deadline=None)
@given(seeds, widths)
def test_a_task_without_its_sums_was_never_added(seed, width):
    first, *others = tasks_of(seed, width, 3)
    whole = side_by_side([first, *others])
    without = ClassSums(whole.counts[len(first.counts) :], whole.sums[len(first.sums) :], whole.gram - first.gram)
    never = side_by_side(others)
    for name in ("counts", "sums", "gram"):
        torch.testing.assert_close(getattr(without, name), getattr(never, name), **ROUNDING)


@settings(max_examples=30, deadline=None)
@given(seeds, widths)
def test_more_examples_of_a_task_are_added_and_subtracted_again(seed, width):
    n_classes = 2
    one, more = (ClassSums.of(torch.randn(9, width), torch.arange(9) % n_classes, n_classes) for _ in range(2))
    back = one + more - more
    for name in ("counts", "sums", "gram"):
        torch.testing.assert_close(getattr(back, name), getattr(one, name), **ROUNDING)


@settings(max_examples=30, deadline=None)
@given(seeds, widths, widths)
def test_the_first_features_have_the_sums_that_they_would_have_alone(seed, width, fewer):
    features, classes = torch.randn(9, width, generator=torch.Generator().manual_seed(seed)), torch.arange(9) % 2
    narrow = ClassSums.of(features, classes, 2).narrowed(fewer)
    alone = ClassSums.of(features[:, :fewer], classes, 2)
    assert narrow.width == min(width, fewer)
    torch.testing.assert_close(narrow.square(), alone.square(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(narrow.sums, alone.sums)


@given(widths)
def test_a_symmetric_matrix_comes_back_from_its_lower_triangle(width):
    square = torch.randn(width, width)
    square = square + square.T
    assert len(packed(square)) == packed_size(width)
    torch.testing.assert_close(unpacked(packed(square), width), square)


@given(st.integers(0, 10**8), st.integers(1, 3000), st.integers(0, 5000), st.integers(1, 1000))
def test_sums_stay_within_their_room(room, wanted, n_classes, n_grams):
    width = width_within(room, wanted, n_classes, n_grams)
    assert 1 <= width <= wanted
    if width > 16:
        assert BYTES * (n_grams * packed_size(width) + n_classes * width) <= room


@settings(max_examples=30, deadline=None)
@given(seeds, st.integers(1, 5), st.floats(1e-3, 1.0))
def test_an_input_left_out_is_as_far_as_if_it_had_not_been_added(seed, width, ridge):
    random = torch.Generator().manual_seed(seed)
    features, classes = torch.randn(14, width, generator=random).double(), torch.arange(14) % 3
    sums = ClassSums.of(features, classes, 3)
    gaussian = SharedGaussian(sums, [2, 1], ridge)
    found = gaussian.distances_left_out(features, classes)
    raised = ridge * sums.scatter_total().diagonal().mean() / 14 * torch.eye(width)
    for i in (0, 7, 13):
        kept = torch.arange(14) != i
        without = ClassSums.of(features[kept], classes[kept], 3)
        away = features[i] - without.means()
        covariance = without.scatter_within() / 14 + raised
        expected = (away @ torch.linalg.inv(covariance) * away).sum(1)
        torch.testing.assert_close(found[i], expected, rtol=1e-6, atol=1e-8)


def test_nothing_is_no_sum():
    from mnemon.errors import UsageError

    with pytest.raises(UsageError, match=r"^There are no examples to add up\.$"):
        ClassSums.over([], 2)
