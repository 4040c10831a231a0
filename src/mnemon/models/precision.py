"""In which numbers a network computes."""

from __future__ import annotations

import types
from enum import Enum

import torch
from torch import Tensor, nn


class Precision(str, Enum):
    """Numbers in which a network computes; its weights, and all that is learned, are in full precision."""

    FULL = "full"
    """As the weights are: float32."""
    BFLOAT16 = "bfloat16"
    """Convolutions and products in bfloat16, as autocast has it: faster on a GPU, far slower on many CPUs."""


def in_bfloat16(network: nn.Module) -> nn.Module:
    """Let a network compute in mixed precision, on whatever device its inputs are; return it."""
    # A bound method, which goes along when the network is copied; a closure would go on calling this one.
    network.forward = types.MethodType(_forward, network)
    return network


def _forward(network: nn.Module, *inputs: Tensor) -> Tensor:
    with torch.autocast(inputs[0].device.type, torch.bfloat16):
        return type(network).forward(network, *inputs).float()
