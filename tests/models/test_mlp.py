"""The plain perceptron and the settings of target networks."""

from __future__ import annotations

import re

import pytest
import torch
from torch import nn

from mnemon.errors import UsageError
from mnemon.models import NETWORKS, TargetConfig, build_network
from mnemon.models.mlp import ACTIVATIONS, MLP


def test_there_are_six_networks():
    assert list(NETWORKS) == ["mlp", "lenet", "zenkenet", "resnet32", "resnet18", "wrn-28-10"]


@pytest.mark.parametrize("hidden", [(), (5,), (5, 4)])
def test_an_mlp_is_linear_layers_with_an_activation_between_them(hidden):
    network, x = MLP((2, 3), hidden, 4, nn.ELU), torch.randn(7, 2, 3)
    h = x.reshape(7, 6)
    for i, layer in enumerate(network.layers):
        h = h @ layer.weight.T + layer.bias
        h = nn.functional.elu(h) if i < len(hidden) else h
    torch.testing.assert_close(network(x), h)
    assert network(x).shape == (7, 4)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_network_is_built_from_its_settings(activation):
    network = build_network(TargetConfig(hidden=(400, 400), activation=activation), (28, 28), 10)
    assert isinstance(network.activation, ACTIVATIONS[activation])
    assert sum(p.numel() for p in network.parameters()) == 478410


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"network": "mpl"}, "Unknown network 'mpl'. Did you mean 'mlp'? Choose one of: mlp, lenet, "),
        (
            {"activation": "rellu"},
            "Unknown activation 'rellu'. Did you mean 'relu'? Choose one of: "
            "relu, elu, leaky-relu, sigmoid, tanh, linear.",
        ),
        ({"hidden": (5, 0)}, "target.hidden must hold widths of at least 1, not [5, 0]."),
    ],
)
def test_wrong_settings_are_named(settings, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        TargetConfig(**settings)
