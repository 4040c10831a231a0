"""Initial values of networks that are trained as they are."""

from __future__ import annotations

import math
from enum import Enum

from torch import nn


class InitialValues(str, Enum):
    """What the weights of a plain network start with."""

    USUAL = "usual"
    """What the method does: Xavier-uniform where it replays, as the paper does; else as the network is built."""
    UNIFORM = "uniform"
    """Uniform within ±1/√fan-in, biases too: van de Ven & Tolias (2019)."""
    XAVIER = "xavier"
    """Xavier-uniform, and biases of 0."""


def give_values(module: nn.Module, values: InitialValues, usual: InitialValues = InitialValues.USUAL) -> nn.Module:
    """Give a plain network its initial values, in place, and return it; `usual` are those of the method."""
    values = usual if values is InitialValues.USUAL else values
    if values is InitialValues.UNIFORM:
        return uniform(module)
    return xavier(module) if values is InitialValues.XAVIER else module


def uniform(module: nn.Module) -> nn.Module:
    """Draw the weights and biases of linear and convolutional layers from within ±1/√fan-in; return the module."""
    for layer in module.modules():
        weight, bias = getattr(layer, "weight", None), getattr(layer, "bias", None)
        if isinstance(weight, nn.Parameter) and weight.ndim > 1:
            bound = 1 / math.sqrt(weight[0].numel())
            for parameter in (weight, bias):
                if isinstance(parameter, nn.Parameter):
                    nn.init.uniform_(parameter, -bound, bound)
    return module


def xavier(module: nn.Module) -> nn.Module:
    """Set matrices Xavier-uniform and biases to 0, as the paper's plain networks start; return the module."""
    for name, parameter in module.named_parameters():
        if parameter.ndim > 1:
            nn.init.xavier_uniform_(parameter)
        elif name.endswith("bias"):
            nn.init.zeros_(parameter)
    return module
