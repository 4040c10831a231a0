"""Low-rank adapters on the linear layers of a module that is otherwise left alone (LoRA; Hu et al., 2022)."""

from __future__ import annotations

import fnmatch
import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.modules.linear import NonDynamicallyQuantizableLinear

from mnemon.errors import UsageError

LINEAR = (nn.Linear, NonDynamicallyQuantizableLinear)
"""Layers that an adapter fits: a subclass may use its weights in its own way. The second is an attention's output."""


@dataclass(frozen=True)
class LoRA:
    """Low-rank adapters: which linear layers get one, and its rank (Hu et al., 2022).

    Example:
        >>> module = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
        >>> model = mnemon.ContinualModel(module, adapters=mnemon.LoRA("0", rank=2))
    """

    layers: str = "*"
    """Pattern over the names of linear layers, such as '*' or 'encoder.*.linear1'."""
    rank: int = 4
    """Rank of what an adapter adds to a layer's matrix."""

    def __post_init__(self) -> None:
        if not isinstance(self.layers, str):
            raise UsageError(f"The layers of LoRA must be a pattern of layer names, not {self.layers!r}.")
        if not isinstance(self.rank, int) or self.rank < 1:
            raise UsageError(f"The rank of an adapter must be a whole number of at least 1, not {self.rank!r}.")


class AdaptedLinear(nn.Module):
    """A linear layer, plus the product of two small matrices, the second of which starts at 0."""

    def __init__(self, linear: nn.Linear, rank: int):
        super().__init__()
        self.linear = linear
        self.in_features, self.out_features = linear.in_features, linear.out_features
        like = linear.weight
        down = torch.empty(rank, linear.in_features, device=like.device, dtype=like.dtype)
        self.lora_down = nn.Parameter(nn.init.kaiming_uniform_(down, a=math.sqrt(5)))
        self.lora_up = nn.Parameter(torch.zeros(linear.out_features, rank, device=like.device, dtype=like.dtype))

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer and its adapter."""
        return self.linear(x) + x @ self.lora_down.T @ self.lora_up.T

    @property
    def weight(self) -> Tensor:
        """The matrix with what the adapter adds: attention takes it without calling the layer."""
        return self.linear.weight + self.lora_up @ self.lora_down

    @property
    def bias(self) -> Tensor | None:
        """The layer's own bias."""
        return self.linear.bias


def adapt(module: nn.Module, lora: LoRA) -> list[str]:
    """Put adapters into a module, in place; return the names of their parameters."""
    every = _linear_layers(module)
    found = {name: layer for name, layer in every.items() if _is_meant(name, lora)}
    if not found:
        there = f"it has: {', '.join(list(every)[:8])}{', …' if len(every) > 8 else ''}" if every else "it has none"
        raise UsageError(f"No linear layer of {type(module).__name__} matches '{lora.layers}'; {there}.")
    if "" in found:
        raise UsageError(
            "The module itself is a linear layer, which cannot get an adapter: wrap it in nn.Sequential."
        )
    # A layer that is used in two places has two names, and one adapter.
    adapted = {id(layer): AdaptedLinear(layer, lora.rank) for layer in found.values()}
    for name, layer in every.items():
        if id(layer) in adapted:
            parent, _, last = name.rpartition(".")
            setattr(module.get_submodule(parent), last, adapted[id(layer)])
    ours = {id(parameter) for layer in adapted.values() for parameter in (layer.lora_down, layer.lora_up)}
    return [name for name, parameter in module.named_parameters() if id(parameter) in ours]


def count_added(module: nn.Module, lora: LoRA) -> int:
    """Return how many numbers the adapters of a module have, without making them."""
    layers = {id(layer): layer for name, layer in _linear_layers(module).items() if _is_meant(name, lora)}
    return lora.rank * sum(layer.in_features + layer.out_features for layer in layers.values())


def _linear_layers(module: nn.Module) -> dict[str, nn.Linear]:
    """Return the linear layers by their names; one that is used in two places has two names."""
    every = module.named_modules(remove_duplicate=False)
    return {name: layer for name, layer in every if isinstance(layer, nn.Linear) and type(layer) in LINEAR}


def _is_meant(name: str, lora: LoRA) -> bool:
    return fnmatch.fnmatchcase(name, lora.layers)


@torch.no_grad()
def without_adapters(module: nn.Module) -> nn.Module:
    """Add each adapter to its linear layer, in place: the module has the form again in which it came."""
    added = set()
    for name, layer in list(module.named_modules(remove_duplicate=False)):
        if isinstance(layer, AdaptedLinear):
            if id(layer) not in added:
                layer.linear.weight += layer.lora_up @ layer.lora_down
                added.add(id(layer))
            parent, _, last = name.rpartition(".")
            setattr(module.get_submodule(parent), last, layer.linear)
    return module
