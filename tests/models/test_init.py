"""What a plain network starts with."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from mnemon.models import TargetConfig, build_network
from mnemon.models.init import InitialValues, give_values
from mnemon.problem import Problem

SHAPES = {"mlp": (400,), "lenet": (1, 28, 28)}


@pytest.mark.parametrize("network", SHAPES)
def test_uniform_values_lie_within_the_inverse_root_of_the_fan_in_and_fill_that_range(network):
    config = TargetConfig(network, hidden=(300,), initial_values=InitialValues.UNIFORM)
    made = build_network(config, SHAPES[network], 10)
    layers = [module for module in made.modules() if isinstance(module, nn.Linear | nn.Conv2d)]
    assert len(layers) >= 2
    for layer in layers:
        bound = 1 / math.sqrt(layer.weight[0].numel())
        assert layer.weight.abs().max() <= bound
        assert layer.weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.1)
        assert layer.bias.any()
        assert layer.bias.abs().max() <= bound


def test_xavier_values_are_wider_and_biases_are_0():
    made = build_network(TargetConfig(hidden=(300,), initial_values=InitialValues.XAVIER), (400,), 10)
    for layer in made.layers:
        bound = math.sqrt(6 / sum(layer.weight.shape))
        assert 0.95 * bound < layer.weight.abs().max() <= bound
        assert not layer.bias.any()


def test_layers_of_batch_norm_are_left_as_they_are(normalized_net):
    made = give_values(normalized_net(4, 2), InitialValues.UNIFORM)
    assert torch.equal(made.norm.weight, torch.ones(8))
    assert not made.norm.bias.any()


@pytest.mark.parametrize("replays", [True, False])
def test_the_usual_values_are_xavier_where_it_is_replayed_and_those_of_the_network_elsewhere(replays, problem):
    made: Problem = problem()
    torch.manual_seed(1)
    before = build_network(TargetConfig(hidden=(6,)), (4,), 2)
    torch.manual_seed(1)
    network = made.network(2)
    if replays:
        assert made.initialise(network) is network
    same = all(torch.equal(a, b) for a, b in zip(before.parameters(), network.parameters(), strict=True))
    assert same is not replays
    assert bool(network.layers[0].bias.any()) is not replays


def test_other_values_that_are_set_win_over_those_of_replay(problem):
    made: Problem = problem(target=TargetConfig(hidden=(6,), initial_values=InitialValues.UNIFORM))
    assert made.initialise(nn.Linear(4, 3)).bias.any()
