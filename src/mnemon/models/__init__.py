"""Target networks: plain modules that know neither tasks nor hypernetworks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from mnemon.errors import UsageError, choose
from mnemon.models.mlp import ACTIVATIONS, MLP


@dataclass(frozen=True)
class TargetConfig:
    """The network whose weights are learned or generated."""

    network: str = "mlp"
    """Name of the network."""
    hidden: tuple[int, ...] = (400, 400)
    """Widths of the hidden layers."""
    activation: str = "relu"
    """Activation between the layers: relu, elu, sigmoid or tanh."""

    def __post_init__(self) -> None:
        choose("network", self.network, NETWORKS)
        choose("activation", self.activation, ACTIVATIONS)
        if any(width < 1 for width in self.hidden):
            raise UsageError(f"target.hidden must hold widths of at least 1, not {list(self.hidden)}.")


def _mlp(config: TargetConfig, input_shape: tuple[int, ...], outputs: int) -> nn.Module:
    return MLP(input_shape, config.hidden, outputs, ACTIVATIONS[config.activation])


NETWORKS: dict[str, Callable[[TargetConfig, tuple[int, ...], int], nn.Module]] = {"mlp": _mlp}


def build_network(config: TargetConfig, input_shape: tuple[int, ...], outputs: int) -> nn.Module:
    """Return a freshly initialised network for inputs of a shape and so many outputs."""
    return NETWORKS[config.network](config, input_shape, outputs)
