"""A gate multiplies what a hidden unit hands on, and says which weights hang on the unit."""

from __future__ import annotations

import re

import pytest
import torch
from torch import Tensor, nn

from mnemon.errors import UsageError
from mnemon.models.gates import GatedChain
from mnemon.models.mlp import MLP

pytestmark = pytest.mark.usefixtures("double")


def mlp() -> nn.Module:
    return MLP((6,), (5, 4), 3, nn.Tanh)


def no_bias() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 5, bias=False), nn.ELU(), nn.Linear(5, 4, bias=False), nn.Linear(4, 3))


def convolutional() -> nn.Module:
    """2 channels of 4 x 4 after the first layer, 3 of 2 x 2 after the second, flattened into 12 inputs."""
    return nn.Sequential(
        nn.Unflatten(1, (1, 6, 6)), nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Conv2d(2, 3, 3), nn.ReLU(),
        nn.Flatten(), nn.Linear(12, 5), nn.ReLU(), nn.Linear(5, 3),
    )  # fmt: skip


def normalized() -> nn.Module:
    return nn.Sequential(
        nn.Linear(6, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Sigmoid(),
        nn.Linear(4, 3),
    )  # fmt: skip


def normalized_convolutional() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, 6, 6)), nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Conv2d(2, 3, 3),
        nn.InstanceNorm2d(3, affine=True), nn.ReLU(), nn.Flatten(), nn.Linear(12, 3),
    )  # fmt: skip


NETWORKS = {
    "mlp": (mlp, (6,), [5, 4]),
    "no bias": (no_bias, (6,), [5, 4]),
    "convolutional": (convolutional, (36,), [2, 3, 5]),
    "normalized": (normalized, (6,), [5, 4]),
    "normalized convolutional": (normalized_convolutional, (36,), [2, 3]),
}


@pytest.fixture(params=NETWORKS)
def chain(request) -> GatedChain:
    make, shape, _ = NETWORKS[request.param]
    return GatedChain(make(), shape, "Somebody")


@pytest.fixture
def inputs(request, chain) -> Tensor:
    _, shape, _ = NETWORKS[request.node.callspec.params["chain"]]
    return torch.randn(7, *shape)


@pytest.mark.parametrize("name", NETWORKS)
def test_there_is_a_gate_for_every_hidden_unit_or_channel(name):
    make, shape, widths = NETWORKS[name]
    chain = GatedChain(make(), shape, "Somebody")
    assert chain.widths == widths
    assert chain.size == sum(widths)


# What a gate does


def test_gates_of_ones_change_nothing(chain, inputs):
    plain = chain.network.eval()(inputs)
    assert torch.equal(chain.run(inputs, torch.ones(chain.size), {}), plain)


def test_without_gates_the_network_is_as_it_was(chain, inputs):
    before = chain.network.eval()(inputs)
    chain.run(inputs, torch.rand(chain.size), {})
    assert torch.equal(chain.network(inputs), before)
    with pytest.raises(RuntimeError):
        chain.run(inputs[:, 1:], torch.rand(chain.size), {})
    assert torch.equal(chain.network(inputs), before)


def places(network: nn.Module, widths: list[int]) -> list[tuple[list[tuple[nn.Module, int]], int]]:
    """For each hidden unit: the layer, and any normalisation behind it, that has it, and its number there."""
    found: list[list[nn.Module]] = []
    for module in network.modules():
        if isinstance(module, (nn.Linear, nn.Conv2d)):
            found.append([module])
        elif isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d, nn.InstanceNorm2d)):
            found[-1].append(module)
    return [(modules, unit) for modules, width in zip(found, widths, strict=False) for unit in range(width)]


def test_a_silent_unit_has_no_influence_whatever_its_weights(chain, inputs):
    chain.network.eval()
    for place, (modules, unit) in enumerate(places(chain.network, chain.widths)):
        gates = torch.ones(chain.size)
        before = chain.run(inputs, gates, {})
        silenced = torch.where(torch.arange(chain.size) == place, 0.0, gates)
        silent = chain.run(inputs, silenced, {})
        with torch.no_grad():
            for module in modules:
                for parameter in module.parameters():
                    parameter[unit] += 3
        assert torch.equal(chain.run(inputs, silenced, {}), silent), place
        assert not torch.equal(chain.run(inputs, gates, {}), before), "and one that speaks has"


def test_a_silent_unit_lets_no_gradient_through(chain, inputs):
    chain.network.eval()
    for place, (modules, unit) in enumerate(places(chain.network, chain.widths)):
        gates = torch.where(torch.arange(chain.size) == place, 0.0, torch.ones(chain.size))
        chain.network.zero_grad()
        chain.run(inputs, gates, {}).square().sum().backward()
        for module in modules:
            assert not any(parameter.grad[unit].any() for parameter in module.parameters())


def test_gates_multiply_what_the_layers_hand_on():
    network, x, gates = mlp(), torch.randn(7, 6), torch.rand(9)
    first, second, last = network.layers
    wanted = last(second(first(x).tanh() * gates[:5]).tanh() * gates[5:])
    torch.testing.assert_close(GatedChain(network, (6,), "Somebody").run(x, gates, {}), wanted)


def test_a_channel_is_gated_at_all_its_places_before_and_after_it_is_flattened():
    network, x, gates = convolutional(), torch.randn(7, 36), torch.rand(10)
    _, one, _, two, _, _, three, _, last = network
    h = one(x.view(7, 1, 6, 6)).relu() * gates[:2].view(2, 1, 1)
    h = (two(h).relu() * gates[2:5].view(3, 1, 1)).flatten(1)
    wanted = last(three(h).relu() * gates[5:])
    torch.testing.assert_close(GatedChain(network, (36,), "Somebody").run(x, gates, {}), wanted)


def test_gradients_reach_the_gates():
    network, x = mlp(), torch.randn(3, 6)
    chain = GatedChain(network, (6,), "Somebody")
    assert torch.autograd.gradcheck(lambda gates: chain.run(x, gates, {}), torch.rand(9, requires_grad=True))


def test_statistics_are_read_from_and_written_to_the_given_buffers():
    network = normalized()
    chain, own = GatedChain(network, (6,), "Somebody"), dict(network.named_buffers())
    before = {name: buffer.clone() for name, buffer in own.items()}
    given = {name: buffer.clone() for name, buffer in own.items()}
    network.train()
    chain.run(torch.randn(7, 6) + 3, torch.ones(9), given)
    assert all(torch.equal(own[name], before[name]) for name in own)
    assert all(not torch.equal(given[name], before[name]) for name in own)


def test_looking_for_the_layers_leaves_the_network_in_its_mode():
    for training in (True, False):
        network = normalized().train(training)
        before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
        GatedChain(network, (6,), "Somebody")
        assert all(module.training == training for module in network.modules())
        assert all(torch.equal(before[name], tensor) for name, tensor in network.state_dict().items())


# What hangs on a unit


def hold_twin(network: nn.Module, used: list[list[float]]) -> dict[str, Tensor]:
    """Weight by weight: as much as the less used of its two units, of which inputs count as used for good."""
    held: dict[str, Tensor] = {}
    names = {id(module): name for name, module in network.named_modules()}
    layer = -1
    for module in network.modules():
        is_layer = isinstance(module, (nn.Linear, nn.Conv2d))
        layer += is_layer
        if not list(module.parameters(recurse=False)) or layer == len(used):
            continue
        for name, parameter in module.named_parameters(recurse=False):
            value = torch.zeros_like(parameter)
            for i in range(len(parameter)):
                value[i] = used[layer][i]
                if parameter.ndim > 1 and layer > 0:
                    per_unit = parameter.shape[1] // len(used[layer - 1])
                    for j in range(parameter.shape[1]):
                        value[i, j] = min(used[layer][i], used[layer - 1][j // per_unit])
            held[f"{names[id(module)]}.{name}"] = value
    return held


def test_a_weight_is_held_as_much_as_the_less_used_of_its_two_units(chain):
    used = torch.rand(chain.size)
    found = chain.hold(used)
    wanted = hold_twin(chain.network, [part.tolist() for part in used.split(chain.widths)])
    assert found.keys() == wanted.keys()
    for name, value in found.items():
        assert torch.equal(value, wanted[name]), name


def test_the_last_layer_is_not_held(chain):
    held = chain.hold(torch.ones(chain.size))
    layers = {name for name, _ in chain.network.named_parameters()}
    last = [name for name, module in chain.network.named_modules() if isinstance(module, nn.Linear)][-1]
    assert layers - held.keys() == {f"{last}.weight", f"{last}.bias"}
    assert all((value == 1).all() for value in held.values())


def test_nothing_is_held_by_units_that_nobody_uses(chain):
    assert not any(value.any() for value in chain.hold(torch.zeros(chain.size)).values())


# What is no chain


class SideBySide(nn.Module):
    """Two layers that read the same inputs."""

    def __init__(self):
        super().__init__()
        self.one, self.two, self.last = nn.Linear(6, 4), nn.Linear(6, 5), nn.Linear(9, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.cat([self.one(x), self.two(x)], dim=1))


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.same, self.last = nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.same(self.same(x)))


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.scale, self.last = nn.Linear(6, 4), nn.Parameter(torch.ones(4)), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.scale * self.one(x))


class Spare(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.spare, self.last = nn.Linear(6, 4), nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.one(x))


@pytest.mark.parametrize("network", [SideBySide, Twice, Scaled, Spare])
def test_a_network_of_another_kind_is_refused(network):
    message = (
        "Somebody needs a chain of linear or convolutional layers, each used once; "
        f"{network.__name__} is another kind of network."
    )
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        GatedChain(network(), (6,), "Somebody")


def test_a_network_without_hidden_units_is_refused():
    with pytest.raises(UsageError, match=r"^Somebody needs hidden units: set target\.hidden\.$"):
        GatedChain(MLP((6,), (), 3, nn.ReLU), (6,), "Somebody")


class Residual(nn.Module):
    """A layer that is added to what came into it: a unit that is silent in one is heard through the other."""

    def __init__(self):
        super().__init__()
        self.one, self.two, self.last = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = self.one(x).relu()
        return self.last(h + self.two(h).relu())


LEAKING = {
    "residual": Residual,
    "group norm": lambda: nn.Sequential(nn.Linear(6, 4), nn.GroupNorm(2, 4), nn.ReLU(), nn.Linear(4, 3)),
    "inputs normalised": lambda: nn.Sequential(nn.BatchNorm1d(6), nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 3)),
    "grouped convolution": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 6)), nn.Conv1d(1, 4, 3), nn.Conv1d(4, 4, 3, groups=2), nn.Flatten(), nn.Linear(8, 3)
    ),
}


@pytest.mark.parametrize("name", LEAKING)
def test_a_network_whose_units_cannot_be_silenced_or_held_one_by_one_is_refused(name):
    with pytest.raises(UsageError, match="is another kind of network"):
        GatedChain(LEAKING[name](), (6,), "Somebody")
