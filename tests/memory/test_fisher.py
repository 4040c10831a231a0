"""The Fisher information squares the gradient of each example, not that of a batch."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from mnemon.hypernet.target import Target
from mnemon.memory import fisher
from mnemon.memory.fisher import diagonal_fisher, fisher_of_network
from mnemon.models.mlp import MLP

pytestmark = pytest.mark.usefixtures("double")


@pytest.fixture
def target() -> Target:
    return Target(MLP((3,), (4,), 3, nn.Tanh))


def log_likelihood_of(target: Target):
    def log_likelihood(weights: Tensor, x: Tensor, y: Tensor) -> Tensor:
        return target(weights, x).log_softmax(1).gather(1, y[:, None]).sum()

    return log_likelihood


def gradient(function, weights: Tensor, x: Tensor, y: Tensor) -> Tensor:
    w = weights.clone().requires_grad_()
    return torch.autograd.grad(function(w, x, y), w)[0]


@pytest.mark.parametrize("batch_size", [1, 4, 11, 50])
def test_fisher_equals_the_loop_over_examples(batch_size, target):
    x, y, weights = torch.randn(11, 3), torch.randint(3, (11,)), torch.randn(target.size)
    function = log_likelihood_of(target)
    one_by_one = [gradient(function, weights, x[i : i + 1], y[i : i + 1]).square() for i in range(11)]
    found = diagonal_fisher(function, weights, x, y, batch_size)
    torch.testing.assert_close(found, torch.stack(one_by_one).mean(0), rtol=1e-12, atol=1e-14)
    assert not found.requires_grad


def test_fisher_is_not_the_square_of_the_mean_gradient(target):
    x, weights = torch.randn(2, 3), torch.randn(target.size)
    # The same input twice with each of two labels in turn: the gradients of the examples partly cancel.
    x, y = torch.cat([x, x]), torch.tensor([0, 0, 1, 1])
    function = log_likelihood_of(target)
    squared_mean = (gradient(function, weights, x, y) / 4).square()
    found = diagonal_fisher(function, weights, x, y)
    assert (found >= squared_mean - 1e-15).all()
    assert found.sum() > 1.5 * squared_mean.sum()


def test_fisher_of_a_linear_gaussian_model_is_the_mean_squared_residual_times_input():
    x, y, weights = torch.randn(30, 2), torch.randn(30), torch.randn(2)
    found = diagonal_fisher(lambda w, a, b: -0.5 * (a @ w - b).square().sum(), weights, x, y)
    torch.testing.assert_close(found, ((x @ weights - y)[:, None] * x).square().mean(0), rtol=1e-12, atol=0)


# Of a network


class Twice(nn.Module):
    """A linear layer that is met twice."""

    def __init__(self):
        super().__init__()
        self.same, self.last = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.same(self.same(x).tanh()).tanh())


class Tied(nn.Module):
    """Two layers that have the same weight."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.last = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 3)
        self.second.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.second(self.first(x).tanh()).tanh())


class Scaled(nn.Module):
    """A parameter that is of no layer."""

    def __init__(self):
        super().__init__()
        self.first, self.scale, self.last = nn.Linear(3, 4), nn.Parameter(torch.rand(4)), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last((self.scale * self.first(x)).tanh())


class Places(nn.Module):
    """A linear layer that meets every example at several places."""

    def __init__(self):
        super().__init__()
        self.each, self.last = nn.Linear(1, 2), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.each(x[:, :, None]).tanh().flatten(1))


class Spare(nn.Module):
    """A layer that is never met."""

    def __init__(self):
        super().__init__()
        self.used, self.spare = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.used(x)


LINEAR = {
    "no hidden layer": lambda: MLP((3,), (), 3, nn.Tanh),
    "one hidden layer": lambda: MLP((3,), (4,), 3, nn.ReLU),
    "two hidden layers": lambda: MLP((3,), (5, 4), 3, nn.Tanh),
    "no bias": lambda: nn.Sequential(nn.Linear(3, 4, bias=False), nn.Tanh(), nn.Linear(4, 3, bias=False)),
    "bias here and there": lambda: nn.Sequential(nn.Linear(3, 4), nn.ELU(), nn.Linear(4, 3, bias=False)),
    "dropout": lambda: nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 3)),
}
OTHERS = {
    "batch norm": lambda: nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 3)),
    "convolution": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 3)), nn.Conv1d(1, 2, 2), nn.Tanh(), nn.Flatten(), nn.Linear(4, 3)
    ),
    "twice": Twice,
    "tied": Tied,
    "scaled": Scaled,
    "places": Places,
    "spare": Spare,
}


@pytest.fixture(params=[*LINEAR, *OTHERS])
def network(request) -> nn.Module:
    """A network in the middle of learning: in training mode, and with statistics where it has any."""
    network = {**LINEAR, **OTHERS}[request.param]().train()
    network(2 * torch.randn(20, 3) + 1)
    return network


def of_outputs(outputs: Tensor, targets: Tensor) -> Tensor:
    return outputs.log_softmax(1).gather(1, targets[:, None]).sum()


def by_hand(network: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """The loop over examples, with plain autograd on the network as it answers."""
    network = copy.deepcopy(network).eval()
    parameters = list(network.parameters())
    total = [torch.zeros_like(p) for p in parameters]
    for i in range(len(x)):
        value = of_outputs(network(x[i : i + 1]), y[i : i + 1])
        for place, g in zip(total, torch.autograd.grad(value, parameters, allow_unused=True), strict=True):
            place += 0 if g is None else g.square() / len(x)
    return torch.cat([part.flatten() for part in total])


def test_fisher_of_any_network_equals_the_loop_by_hand(network):
    x, y = torch.randn(11, 3), torch.randint(3, (11,))
    found = fisher_of_network(network, of_outputs, x, y)
    torch.testing.assert_close(found, by_hand(network, x, y), rtol=1e-12, atol=1e-15)
    assert found.any()
    assert not found.requires_grad


@pytest.mark.parametrize("at_once", [1, 4, 11, 50])
def test_batches_need_not_divide_the_examples(at_once, monkeypatch):
    monkeypatch.setattr(fisher, "AT_ONCE", at_once)
    network, x, y = LINEAR["one hidden layer"](), torch.randn(11, 3), torch.randint(3, (11,))
    found = fisher_of_network(network, of_outputs, x, y)
    torch.testing.assert_close(found, by_hand(network, x, y), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", [*LINEAR, *OTHERS])
def test_only_linear_layers_that_are_met_once_go_in_batches(name, monkeypatch):
    asked, slow = [], fisher.one_by_one
    monkeypatch.setattr(fisher, "one_by_one", lambda *args: asked.append(1) or slow(*args))
    fisher_of_network({**LINEAR, **OTHERS}[name](), of_outputs, torch.randn(4, 3), torch.randint(3, (4,)))
    assert bool(asked) == (name in OTHERS)


def test_the_network_is_left_as_it_was(network):
    next(network.parameters()).requires_grad_(False)
    for parameter in network.parameters():
        parameter.grad = torch.ones_like(parameter)
    modes = [module.training for module in network.modules()]
    learned = [parameter.requires_grad for parameter in network.parameters()]
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    fisher_of_network(network, of_outputs, torch.randn(6, 3), torch.randint(3, (6,)))
    assert [module.training for module in network.modules()] == modes
    assert [parameter.requires_grad for parameter in network.parameters()] == learned
    assert all(torch.equal(before[name], tensor) for name, tensor in network.state_dict().items())
    assert all((parameter.grad == 1).all() for parameter in network.parameters())
    assert not any(module._forward_hooks for module in network.modules())


IN_PLACE = {
    "after the first layer": lambda: nn.Sequential(nn.Linear(3, 4), nn.ReLU(inplace=True), nn.Linear(4, 3)),
    "after the second layer": lambda: nn.Sequential(
        nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Linear(4, 3)
    ),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_an_activation_in_place_does_not_hide_a_layers_output(name):
    network, x, y = IN_PLACE[name](), torch.randn(11, 3), torch.randint(3, (11,))
    found = fisher_of_network(network, of_outputs, x, y)
    torch.testing.assert_close(found, by_hand(network, x, y), rtol=1e-12, atol=1e-15)


class Aside(nn.Module):
    """A layer that is met but has no say in the outputs."""

    def __init__(self):
        super().__init__()
        self.last, self.aside = nn.Linear(3, 3), nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        self.seen = self.aside(x).detach()
        return self.last(x)


def test_a_layer_without_a_say_has_no_importance():
    network, x, y = Aside(), torch.randn(11, 3), torch.randint(3, (11,))
    found = fisher_of_network(network, of_outputs, x, y)
    torch.testing.assert_close(found, by_hand(network, x, y), rtol=1e-12, atol=1e-15)
