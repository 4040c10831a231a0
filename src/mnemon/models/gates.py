"""Gates on the hidden units of a chain of layers: which of them speak, and which weights hang on them."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import Tensor, nn

from mnemon.errors import UsageError

LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.GroupNorm, nn.InstanceNorm1d, nn.InstanceNorm2d)


class GatedChain:
    """A network of layers one after another; every hidden unit (or channel) can be gated.

    A gate multiplies what a unit hands on to the next layer, after normalisation and activation: a unit with gate 0
    is silent. Gates come as one flat vector over all hidden units, layer by layer.
    """

    def __init__(self, network: nn.Module, input_shape: tuple[int, ...], needed_by: str):
        self.network = network
        self._gates: list[Tensor] | None = None
        found = _order_of_use(network, torch.ones(2, *input_shape))
        self.layers: list[Any] = [module for module in found if isinstance(module, LAYERS)]
        self._check(found, needed_by)
        self.widths = [_units(layer)[1] for layer in self.layers[:-1]]
        for i, layer in enumerate(self.layers[1:]):
            layer.register_forward_pre_hook(self._gate(i))

    def _check(self, found: list[nn.Module], needed_by: str) -> None:
        owned = {id(p) for module in found for p in module.parameters(recurse=False)}
        widths = [_units(layer) for layer in self.layers]
        is_chain = all(after[0] % before[1] == 0 for before, after in itertools.pairwise(widths))
        if not is_chain or len(set(found)) < len(found) or any(id(p) not in owned for p in self.network.parameters()):
            raise UsageError(
                f"{needed_by} needs a chain of linear or convolutional layers, each used once; "
                f"{type(self.network).__name__} is another kind of network."
            )
        if len(self.layers) < 2:
            raise UsageError(f"{needed_by} needs hidden units: set target.hidden.")
        self._follows = {}
        last = -1
        for module in found:
            last += isinstance(module, LAYERS)
            self._follows[id(module)] = last

    @property
    def size(self) -> int:
        """Hidden units in all."""
        return sum(self.widths)

    def run(self, inputs: Tensor, gates: Tensor, buffers: dict[str, Tensor]) -> Tensor:
        """Return the network's outputs with its hidden units gated."""
        self._gates = list(gates.split(self.widths))
        try:
            return torch.func.functional_call(self.network, buffers, (inputs,))
        finally:
            self._gates = None

    def _gate(self, i: int) -> Any:
        def hook(layer: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
            if self._gates is None:
                return None
            x = args[0]
            gate = _spread(self._gates[i], _units(layer)[0])
            return (x * (gate if isinstance(layer, nn.Linear) else gate.view(-1, *[1] * (x.ndim - 2))), *args[1:])

        return hook

    def hold(self, used: Tensor) -> dict[str, Tensor]:
        """Return, for every parameter but those of the last layer, how much it matters to units used so much.

        A weight matters as much as the less used of the two units that it joins; biases and the parameters of a
        normalisation as much as their unit.
        """
        by_layer = list(used.split(self.widths))
        held = {}
        for path, module in self.network.named_modules():
            place = self._follows.get(id(module))
            if place is None or place == len(self.layers) - 1:
                continue
            out = by_layer[place]
            for name, parameter in module.named_parameters(recurse=False):
                value = out.view(-1, *[1] * (parameter.ndim - 1))
                if parameter.ndim > 1 and place > 0:
                    into = _spread(by_layer[place - 1], parameter.shape[1])
                    value = torch.minimum(value, into.view(1, -1, *[1] * (parameter.ndim - 2)))
                held[f"{path}.{name}" if path else name] = value.expand_as(parameter)
        return held


def _units(layer: Any) -> tuple[int, int]:
    """Return how many units a layer reads and how many it has."""
    if isinstance(layer, nn.Linear):
        return layer.in_features, layer.out_features
    return layer.in_channels, layer.out_channels


def _spread(gate: Tensor, width: int) -> Tensor:
    """Return a gate per input of a layer: a channel that was flattened has several."""
    return gate if len(gate) == width else gate.repeat_interleave(width // len(gate))


def _order_of_use(network: nn.Module, inputs: Tensor) -> list[nn.Module]:
    """Return the layers and normalisations of a network in the order in which an input meets them."""
    found: list[nn.Module] = []
    modules = [module for module in network.modules() if isinstance(module, (*LAYERS, *NORMS))]
    handles = [module.register_forward_pre_hook(lambda module, _: found.append(module)) for module in modules]
    was_training = network.training
    try:
        with torch.no_grad():
            network.eval()(inputs)
    finally:
        network.train(was_training)
        for handle in handles:
            handle.remove()
    return found
