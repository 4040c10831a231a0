"""A plain multi-layer perceptron."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from torch import Tensor, nn

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "elu": nn.ELU,
    "leaky-relu": nn.LeakyReLU,
    "sigmoid": nn.Sigmoid,
    "tanh": nn.Tanh,
    "linear": nn.Identity,
}


class MLP(nn.Module):
    """Linear layers with an activation between them; inputs of any shape are flattened."""

    def __init__(self, input_shape: Sequence[int], hidden: Sequence[int], outputs: int, activation: type[nn.Module]):
        super().__init__()
        widths = [math.prod(input_shape), *hidden, outputs]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(widths))
        self.activation = activation()

    def forward(self, x: Tensor) -> Tensor:
        """Map inputs [n, ...] to outputs [n, outputs]."""
        x = x.flatten(1)
        *hidden, last = self.layers  # not a slice: that would build a new module list in every call
        for layer in hidden:
            x = self.activation(layer(x))
        return last(x)
