"""Gates on the hidden units of a chain of layers: which of them speak, and which weights hang on them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from mnemon.errors import UsageError

LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)


class GatedChain:
    """A network of layers one after another; every hidden unit (or channel) can be gated.

    A gate multiplies what a unit hands on to the next layer, after normalisation and activation: a unit with gate 0
    is silent. Gates come as one flat vector over all hidden units, layer by layer.
    """

    def __init__(self, network: nn.Module, input_shape: tuple[int, ...], needed_by: str):
        self.network = network
        found = _order_of_use(network, torch.ones(2, *input_shape))
        self.layers: list[Any] = [module for module in found if isinstance(module, LAYERS)]
        if len(self.layers) < 2:
            raise UsageError(f"{needed_by} needs hidden units: set target.hidden.")
        self.widths = [_units(layer)[1] for layer in self.layers[:-1]]
        self._follows = {}
        """By module, the number of the layer that it is or follows."""
        last = -1
        for module in found:
            last += isinstance(module, LAYERS)
            self._follows[id(module)] = last
        if len(set(found)) < len(found) or not self._holds(torch.rand(2, *input_shape)):
            raise UsageError(
                f"{needed_by} needs a chain of linear or convolutional layers, each used once; "
                f"{type(network).__name__} is another kind of network."
            )

    def _holds(self, inputs: Tensor) -> bool:
        """Try whether answers with some units silent depend only on weights that these gates hold."""
        random = torch.Generator().manual_seed(0)
        gates = torch.cat([_half(width, random) for width in self.widths])
        buffers = dict(self.network.named_buffers())
        was_training = self.network.training
        self.network.eval()
        try:
            held = self.hold(gates)
            wanted = self.run(inputs, gates, buffers)
            own = dict(self.network.named_parameters())
            last = {id(p) for p in self.layers[-1].parameters()}
            if any(name not in held and id(p) not in last for name, p in own.items()):
                return False
            moved = {
                name: p + (1 - held[name]) * torch.randn(p.shape, generator=random, dtype=p.dtype)
                for name, p in own.items()
                if name in held
            }
            return torch.allclose(self.run(inputs, gates, {**buffers, **moved}), wanted, rtol=1e-3, atol=1e-5)
        except RuntimeError:  # shapes that do not follow one another
            return False
        finally:
            self.network.train(was_training)

    @property
    def size(self) -> int:
        """Hidden units in all."""
        return sum(self.widths)

    def run(self, inputs: Tensor, gates: Tensor, tensors: dict[str, Tensor]) -> Tensor:
        """Return the network's outputs with its hidden units gated, and with some of its tensors replaced."""
        pairs = zip(self.layers[1:], gates.split(self.widths), strict=True)
        handles = [layer.register_forward_pre_hook(_multiply(gate)) for layer, gate in pairs]
        try:
            return torch.func.functional_call(self.network, tensors, (inputs,))
        finally:
            for handle in handles:
                handle.remove()

    def hold(self, used: Tensor) -> dict[str, Tensor]:
        """Return, for every parameter but those of the last layer, how much it matters to units used so much.

        A weight matters as much as the less used of the two units that it joins; biases and the parameters of a
        normalisation as much as their unit.
        """
        by_layer = list(used.split(self.widths))
        held = {}
        for path, module in self.network.named_modules():
            layer = self._follows.get(id(module))
            if layer is None or layer == len(self.layers) - 1:
                continue
            out = by_layer[layer]
            for name, parameter in module.named_parameters(recurse=False):
                value = out.view(-1, *[1] * (parameter.ndim - 1))
                if parameter.ndim > 1 and layer > 0:
                    into = _spread_blocks(by_layer[layer - 1], parameter.shape[1])
                    value = torch.minimum(value, into.view(1, -1, *[1] * (parameter.ndim - 2)))
                held[f"{path}.{name}" if path else name] = value.expand_as(parameter)
        return held


def _multiply(gate: Tensor) -> Any:
    def hook(layer: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        x = args[0]
        each = _spread_blocks(gate, _units(layer)[0])
        return (x * (each if isinstance(layer, nn.Linear) else each.view(-1, *[1] * (x.ndim - 2))), *args[1:])

    return hook


def _half(width: int, random: torch.Generator) -> Tensor:
    """Return gates of which about half are 1, the others 0."""
    return (torch.randperm(width, generator=random) % 2).to(torch.get_default_dtype())


def _units(layer: Any) -> tuple[int, int]:
    """Return how many units a layer reads and how many it has."""
    if isinstance(layer, nn.Linear):
        return layer.in_features, layer.out_features
    return layer.in_channels, layer.out_channels


def _spread_blocks(gate: Tensor, width: int) -> Tensor:
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
