"""Target networks: plain modules that know neither tasks nor hypernetworks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from torch import nn

from mnemon.errors import UsageError, choose
from mnemon.models.images import image_shape
from mnemon.models.init import InitialValues, give_values
from mnemon.models.lenet import LeNet
from mnemon.models.mlp import ACTIVATIONS, MLP
from mnemon.models.precision import Precision, in_bfloat16
from mnemon.models.resnet import ResNet
from mnemon.models.resnet18 import ResNet18
from mnemon.models.wide_resnet import WideResNet
from mnemon.models.zenkenet import ZenkeNet
from mnemon.registry import Registry


@dataclass(frozen=True)
class TargetConfig:
    """The network whose weights are learned or generated.

    Example:
        >>> mnemon.TargetConfig(hidden=(100, 100)).network
        'mlp'
    """

    network: str = "mlp"
    """mlp, or for images lenet, zenkenet, resnet32, resnet18 or wrn-28-10."""
    hidden: tuple[int, ...] = (400, 400)
    """Widths of the hidden layers (mlp only)."""
    activation: str = "relu"
    """Activation between the layers: relu, elu, leaky-relu, sigmoid, tanh or linear, which is none (mlp only)."""
    initial_values: InitialValues = InitialValues.USUAL
    """Initial values of plain networks: usual (what the method does), uniform (within 1/√fan-in) or xavier."""
    conv_bias: bool = True
    """Whether convolutions have biases beside batch norm (resnet32 only; the paper's has)."""
    precision: Precision = Precision.FULL
    """Numbers in which the network computes: full, or bfloat16 (mixed, by autocast; for GPUs)."""
    compiled: bool = False
    """Whether the network is compiled (torch.compile): slow to start, often faster then."""

    def __post_init__(self) -> None:
        REGISTRY.find(self.network)
        choose("activation", self.activation, ACTIVATIONS)
        if any(width < 1 for width in self.hidden):
            raise UsageError(f"target.hidden must hold widths of at least 1, not {list(self.hidden)}.")


def _mlp(config: TargetConfig, input_shape: tuple[int, ...], outputs: int) -> nn.Module:
    return MLP(input_shape, config.hidden, outputs, ACTIVATIONS[config.activation])


def _lenet(config: TargetConfig, input_shape: tuple[int, ...], outputs: int) -> nn.Module:
    return LeNet(image_shape(input_shape, "lenet"), outputs)


def _zenkenet(config: TargetConfig, input_shape: tuple[int, ...], outputs: int) -> nn.Module:
    return ZenkeNet(image_shape(input_shape, "zenkenet"), outputs)


def _resnet32(config: TargetConfig, input_shape: tuple[int, ...], outputs: int) -> nn.Module:
    return ResNet(image_shape(input_shape, "resnet32"), outputs, bias=config.conv_bias)


def _resnet18(config: TargetConfig, input_shape: tuple[int, ...], outputs: int) -> nn.Module:
    return ResNet18(image_shape(input_shape, "resnet18"), outputs)


def _wrn_28_10(config: TargetConfig, input_shape: tuple[int, ...], outputs: int) -> nn.Module:
    return WideResNet(image_shape(input_shape, "wrn-28-10"), outputs)


MakeNetwork = Callable[[TargetConfig, tuple[int, ...], int], nn.Module]
"""Makes a network, given the settings, the shape of an input, and the number of outputs."""
Make = TypeVar("Make", bound=MakeNetwork)

NETWORKS: dict[str, MakeNetwork] = {
    "mlp": _mlp,
    "lenet": _lenet,
    "zenkenet": _zenkenet,
    "resnet32": _resnet32,
    "resnet18": _resnet18,
    "wrn-28-10": _wrn_28_10,
}
REGISTRY = Registry("network", NETWORKS, "target.network")
"""The same table, open to plugins."""


def register_network(name: str) -> Callable[[Make], Make]:
    """Make a target network of your own known by a name, beside those that come with mnemon.

    Args:
        name: Letters, digits, - and _; the word that `--set network=` takes.

    Returns:
        A decorator for a function of (config, input_shape, outputs) that returns an `nn.Module`. The config is a
        `TargetConfig`, of which it may use what it likes.

    Raises:
        UsageError: If the name is taken.

    Example:
        >>> @mnemon.register_network("one-layer")
        ... def one_layer(config, input_shape, outputs):
        ...     return nn.Linear(input_shape[0], outputs)
    """

    def add(make: Make) -> Make:
        REGISTRY.add(name, _check_network(make))
        return make

    return add


def _check_network(make: MakeNetwork) -> MakeNetwork:
    if not callable(make):
        raise UsageError(f"A network is a function of (config, input_shape, outputs), not {make!r}.")
    return make


def build_network(config: TargetConfig, input_shape: tuple[int, ...], outputs: int) -> nn.Module:
    """Return a freshly initialised network for inputs of a shape and so many outputs."""
    network = give_values(NETWORKS[config.network](config, input_shape, outputs), config.initial_values)
    if config.precision is Precision.BFLOAT16:
        in_bfloat16(network)
    if config.compiled:
        network.compile()
    return network
