"""A network per task, each kept in a few bits per weight."""

from __future__ import annotations

import math

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given
from torch import nn

from mnemon.errors import UsageError
from mnemon.learners.separate import BITS, SeparateNetworks, Start, rounded


@pytest.fixture
def learn(problem, batch_of):
    """Learn tasks with a few steps each."""

    def learn(config: SeparateNetworks.Config, n_tasks: int = 2) -> SeparateNetworks:
        torch.manual_seed(0)
        learner = SeparateNetworks(config, problem())
        for task in range(n_tasks):
            learner.begin_task(task)
            for step in range(5):
                learner.train_step(batch_of(task, step))
            learner.end_task(None)
        return learner

    return learn


def differences(learner: SeparateNetworks, task: int, start: nn.Module) -> list[torch.Tensor]:
    return [(a - b).detach() for a, b in zip(learner.networks[task].parameters(), start.parameters(), strict=True)]


@given(
    values=st.lists(st.floats(-1e3, 1e3, width=32), min_size=1, max_size=40),
    bits=st.sampled_from([b for b in BITS if b < 32]),
)
def test_a_rounded_tensor_holds_whole_numbers_that_fit_the_bits(values, bits):
    numbers, scale = rounded(torch.tensor(values), bits)
    assert torch.equal(numbers, numbers.round())
    assert numbers.abs().max() <= 2 ** (bits - 1) - 1
    assert torch.isfinite(scale)


@pytest.mark.parametrize("bits", [16, 8, 4, 2])
def test_no_scale_of_a_fine_grid_is_much_better_than_the_one_taken(bits):
    values = torch.randn(500, generator=torch.Generator().manual_seed(1))
    levels = 2 ** (bits - 1) - 1
    found = (rounded(values, bits).values - values).square().mean()
    scales = [float(values.abs().max()) / levels * share for share in torch.linspace(0.05, 1, 400).tolist()]
    errors = [((values / s).round().clamp(-levels, levels) * s - values).square().mean() for s in scales]
    assert found <= 1.05 * min(errors)


def test_a_network_of_32_bits_is_kept_as_it_was_learned(learn, problem, batch_of):
    torch.manual_seed(0)
    learner = SeparateNetworks(SeparateNetworks.Config(), problem())
    learner.begin_task(0)
    learner.train_step(batch_of(0, 0))
    inputs = batch_of(0, 0).inputs
    before = learner.predict(inputs, 0)
    learner.end_task(None)
    assert torch.equal(learner.predict(inputs, 0), before)


@pytest.mark.parametrize("start", Start)
def test_what_is_kept_is_the_difference_to_the_start_in_few_values(learn, start):
    learner = learn(SeparateNetworks.Config(bits=4, start=start))
    begun_from = learner.initial if start is Start.INITIAL else learner.networks[0]
    matrices = [d for d in differences(learner, 1, begun_from) if d.ndim > 1]
    assert matrices
    for difference in matrices:
        scale = difference.abs()[difference.abs() > 1e-6].min()
        levels = torch.unique((difference / scale).round())
        assert len(levels) <= 15


def test_fewer_bits_are_farther_from_what_was_learned(learn):
    exact = learn(SeparateNetworks.Config(bits=32), n_tasks=1)
    errors = []
    for bits in BITS:
        learner = learn(SeparateNetworks.Config(bits=bits), n_tasks=1)
        errors.append(sum(float(d.square().sum()) for d in differences(learner, 0, exact.networks[0])))
    assert errors == sorted(errors)
    assert errors[0] == 0 < errors[-1]


@pytest.mark.parametrize("bits", BITS)
def test_bytes_are_those_of_the_bits_with_a_scale_for_each_tensor(problem, bits):
    learner = SeparateNetworks(SeparateNetworks.Config(bits=bits), problem())
    expected = 0
    for p in learner.initial.parameters():
        kept = bits if p.ndim > 1 else max(bits, 16)
        expected += math.ceil(p.numel() * kept / 8) + (4 if kept < 32 else 0)
    assert learner.counts().bytes_per_task == expected
    assert learner.counts().learned == sum(p.numel() for p in learner.initial.parameters())


def test_a_number_of_bits_that_is_not_offered_is_refused():
    with pytest.raises(UsageError, match=r"^method\.bits must be one of 32, 16, 8, 4, 2, not 3\.$"):
        SeparateNetworks.Config(bits=3)
