"""Low-rank adapters on the linear layers of a module that is otherwise left alone (LoRA; Hu et al., 2022)."""

from __future__ import annotations

import fnmatch
import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from mnemon.errors import UsageError


@dataclass(frozen=True)
class LoRA:
    """Which linear layers get an adapter, and how large it is."""

    layers: str = "*"
    """Pattern over the names of linear layers."""
    rank: int = 4
    """Rank of what an adapter adds to a layer's matrix."""

    def __post_init__(self) -> None:
        if self.rank < 1:
            raise UsageError(f"The rank of an adapter must be at least 1, not {self.rank}.")


class AdaptedLinear(nn.Module):
    """A linear layer, plus the product of two small matrices, the second of which starts at 0."""

    def __init__(self, linear: nn.Linear, rank: int):
        super().__init__()
        self.linear = linear
        like = linear.weight
        down = torch.empty(rank, linear.in_features, device=like.device, dtype=like.dtype)
        self.lora_down = nn.Parameter(nn.init.kaiming_uniform_(down, a=math.sqrt(5)))
        self.lora_up = nn.Parameter(torch.zeros(linear.out_features, rank, device=like.device, dtype=like.dtype))

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer and its adapter."""
        return self.linear(x) + x @ self.lora_down.T @ self.lora_up.T


def adapt(module: nn.Module, lora: LoRA) -> list[str]:
    """Put adapters into a module, in place; return the names of their parameters."""
    found = {
        name: layer
        for name, layer in module.named_modules()
        # A subclass may use its weights in its own way, as the output layer of nn.MultiheadAttention does.
        if type(layer) is nn.Linear and fnmatch.fnmatchcase(name, lora.layers)
    }
    if not found:
        raise UsageError(f"No linear layer of {type(module).__name__} is called like '{lora.layers}'.")
    if "" in found:
        raise UsageError("An adapter needs a module around its linear layer: wrap it in nn.Sequential.")
    for name, layer in found.items():
        parent, _, last = name.rpartition(".")
        setattr(module.get_submodule(parent), last, AdaptedLinear(layer, lora.rank))
    return [f"{name}.lora_{end}" for name in found for end in ("down", "up")]
