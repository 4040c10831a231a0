"""Networks for images: their sizes, what they accept, and that they run on weights from outside."""

from __future__ import annotations

import copy
import re

import pytest
import torch

from mnemon.errors import UsageError
from mnemon.hypernet.target import Target
from mnemon.models import NETWORKS, TargetConfig, build_network
from mnemon.models.precision import Precision
from mnemon.models.resnet import ResNet
from mnemon.models.resnet18 import ResNet18
from mnemon.models.wide_resnet import WideResNet

CIFAR, MNIST = (3, 32, 32), (1, 28, 28)
SIZES = [
    ("lenet", MNIST, 10, 431_080),
    ("zenkenet", CIFAR, 60, 1_276_508),
    ("resnet32", CIFAR, 60, 468_540),
    ("resnet32", CIFAR, 10, 465_290),
    ("resnet18", CIFAR, 10, 11_173_962),
    ("wrn-28-10", CIFAR, 10, 36_479_194),
    ("wrn-28-10", CIFAR, 100, 36_536_884),
]
SMALL = {
    "lenet": lambda: NETWORKS["lenet"](TargetConfig(), (1, 16, 16), 4),
    "zenkenet": lambda: NETWORKS["zenkenet"](TargetConfig(), (1, 16, 16), 4),
    "resnet": lambda: ResNet((1, 16, 16), 4, blocks_per_stage=1),
    "resnet18": lambda: ResNet18((1, 16, 16), 4, width=4),
    "wide": lambda: WideResNet((1, 16, 16), 4, depth=10, widen=1),
}
"""One of each kind, small enough to run in a blink."""


@pytest.mark.parametrize(("name", "shape", "outputs", "size"), SIZES)
def test_networks_have_the_published_number_of_weights(name, shape, outputs, size):
    with torch.device("meta"):
        network = build_network(TargetConfig(name), shape, outputs)
    assert sum(p.numel() for p in network.parameters()) == size


def test_a_resnet32_without_biases_of_convolutions_lacks_one_per_channel():
    with torch.device("meta"):
        network = build_network(TargetConfig("resnet32", conv_bias=False), CIFAR, 60)
    assert sum(p.numel() for p in network.parameters()) == 468_540 - (11 * 16 + 10 * 32 + 10 * 64)


def test_a_resnet32_has_31_convolutions_and_halves_the_image_twice():
    with torch.device("meta"):
        network = build_network(TargetConfig("resnet32"), CIFAR, 60)
    convolutions = [m for m in network.modules() if isinstance(m, torch.nn.Conv2d)]
    assert len(convolutions) == 31
    assert sum(m.stride == (2, 2) for m in convolutions) == 2


@pytest.mark.parametrize("kind", SMALL)
def test_a_network_runs_on_weights_from_outside_as_on_its_own(kind):
    torch.manual_seed(1)
    network, images = SMALL[kind](), torch.rand(6, 1, 16, 16)
    wanted = copy.deepcopy(network).eval()(images)
    target = Target(network).eval()
    weights = target.own_weights().requires_grad_()
    found = target(weights, images, buffers=target.fresh_buffers())
    torch.testing.assert_close(found, wanted)
    assert found.shape == (6, 4)
    assert target.can_cut_outputs(torch.ones(2, 1, 16, 16))
    target.train()(weights, images, buffers=target.fresh_buffers()).square().sum().backward()
    assert all(part.any() for part in target.cut(weights.grad).values())


@pytest.mark.parametrize("kind", SMALL)
def test_a_network_takes_square_images_as_vectors_too(kind):
    network, images = SMALL[kind]().eval(), torch.rand(3, 1, 16, 16)
    torch.testing.assert_close(network(images.flatten(1)), network(images))


def test_shortcuts_of_a_resnet_add_channels_of_zeros():
    block = ResNet((1, 16, 16), 4, blocks_per_stage=1).blocks[1].eval()
    for parameter in block.parameters():
        parameter.data.zero_()
    x = torch.rand(2, 16, 8, 8)
    y = block(x)
    assert torch.equal(y[:, :16], x[:, :, ::2, ::2])
    assert not y[:, 16:].any()


@pytest.mark.parametrize("shape", [(10,), (4, 4), (1,)])
def test_inputs_that_are_no_images_are_refused(shape):
    message = (
        f"The network 'lenet' takes images (channels, height, width); inputs of this benchmark have shape {shape}: "
        "take target.network=mlp."
    )
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        build_network(TargetConfig("lenet"), shape, 2)


@pytest.mark.parametrize(("network", "title", "least"), [("lenet", "LeNet", 16), ("zenkenet", "ZenkeNet", 10)])
def test_images_too_small_for_a_network_are_refused(network, title, least):
    smallest = build_network(TargetConfig(network), (1, least, least), 2)
    assert smallest(torch.rand(3, 1, least, least)).shape == (3, 2)
    for height, width in ((least - 1, 28), (28, least - 1)):
        message = (
            f"{title} takes images of at least {least} x {least} pixels; these have {height} x {width}: take "
            "target.network=mlp or resnet32, or a larger benchmark.padding where the benchmark has one."
        )
        with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
            build_network(TargetConfig(network), (1, height, width), 2)


def test_an_unknown_network_is_answered_with_the_nearest_name():
    with pytest.raises(UsageError, match=r"Unknown network 'resnet23'\. Did you mean 'resnet32'\?"):
        TargetConfig("resnet23")


def test_mixed_precision_answers_in_float32_nearly_the_same_and_goes_along_with_copies():
    torch.manual_seed(2)
    config = TargetConfig("mlp", hidden=(8,), precision=Precision.BFLOAT16)
    mixed = build_network(config, (4,), 3)
    inputs = torch.rand(5, 4)
    found = mixed(inputs)
    plain = build_network(TargetConfig("mlp", hidden=(8,)), (4,), 3)
    plain.load_state_dict(mixed.state_dict())
    assert found.dtype == torch.float32
    assert not torch.equal(found, plain(inputs))
    torch.testing.assert_close(found, plain(inputs), rtol=0.02, atol=0.02)
    other = copy.deepcopy(mixed)
    for parameter in other.parameters():
        parameter.data.zero_()
    assert not other(inputs).any()
    assert torch.equal(mixed(inputs), found)
    weights = torch.zeros(sum(p.numel() for p in mixed.parameters()))
    assert not Target(mixed)(weights, inputs).any()


def test_a_compiled_network_is_compiled_only_when_it_runs_in_earnest(monkeypatch):
    asked = []
    monkeypatch.setattr(
        torch, "compile", lambda call, *args, **kwargs: lambda *inputs: asked.append(1) or call(*inputs)
    )
    network = build_network(TargetConfig("mlp", hidden=(8,), compiled=True), (4,), 3)
    target = Target(network)
    assert target.can_cut_outputs(torch.ones(2, 4))
    assert not asked
    target(target.own_weights(), torch.ones(2, 4))
    assert asked
