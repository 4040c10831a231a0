"""Any module runs on weights given from outside, and its own stay as they are."""

from __future__ import annotations

import copy
import re

import pytest
import torch
from torch import Tensor, nn

from mnemon.errors import UsageError
from mnemon.hypernet.target import Target
from mnemon.models.mlp import MLP

pytestmark = pytest.mark.usefixtures("double")


class Convolutional(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 3, 3, padding=1)
        self.norm = nn.BatchNorm2d(3)
        self.last = nn.Linear(3, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.norm(self.conv(x)).relu().mean((2, 3)))


class Tied(nn.Module):
    """Encodes and decodes with the one matrix."""

    def __init__(self):
        super().__init__()
        self.encode, self.decode = nn.Linear(4, 4), nn.Linear(4, 4)
        self.decode.weight = self.encode.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.decode(self.encode(x).tanh())


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.last = nn.LSTM(3, 5, num_layers=2, batch_first=True), nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.lstm(x)[0][:, -1])


MODULES = {
    "mlp": (lambda: MLP((6,), (5, 4), 3, nn.ELU), (7, 6)),
    "convolutional": (Convolutional, (7, 2, 5, 5)),
    "recurrent": (Recurrent, (7, 4, 3)),
    "attention": (lambda: nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True), (7, 3, 4)),
    "tied": (Tied, (7, 4)),
}


def loaded(module: nn.Module, weights: Tensor) -> nn.Module:
    """A trainable copy of the module with these weights as its own, in the order of its parameters."""
    twin = copy.deepcopy(module).requires_grad_(True)
    nn.utils.vector_to_parameters(weights.detach().clone(), twin.parameters())
    return twin


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("training", [True, False])
def test_a_module_on_given_weights_is_the_module_with_those_weights(name, training):
    make, shape = MODULES[name]
    target, x = Target(make()), torch.randn(shape)
    target.train(training)
    weights = (0.5 * torch.randn(target.size)).requires_grad_()
    twin = loaded(target.module, weights).train(training)
    found, wanted = target(weights, x, buffers=target.fresh_buffers()), twin(x)
    torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-12)
    cotangent = torch.randn_like(found)
    (gradient,) = torch.autograd.grad(found, weights, cotangent)
    theirs = torch.autograd.grad(wanted, list(twin.parameters()), cotangent)
    torch.testing.assert_close(gradient, torch.cat([g.flatten() for g in theirs]), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", MODULES)
def test_its_own_parameters_neither_train_nor_change(name):
    make, shape = MODULES[name]
    target = Target(make())
    before = copy.deepcopy(target.state_dict())
    target.train()
    target(torch.randn(target.size), torch.randn(shape), buffers=target.fresh_buffers())
    assert not any(parameter.requires_grad for parameter in target.parameters())
    assert all(torch.equal(value, before[key]) for key, value in target.state_dict().items())
    assert target.size == sum(parameter.numel() for parameter in target.module.parameters())


@pytest.mark.parametrize("name", MODULES)
def test_on_its_own_weights_a_target_answers_as_the_module_did(name):
    make, shape = MODULES[name]
    module, x = make(), torch.randn(shape)
    wanted = copy.deepcopy(module).eval()(x).detach()
    target = Target(module).eval()
    torch.testing.assert_close(target(target.own_weights(), x), wanted, rtol=1e-12, atol=1e-12)


def test_training_moves_the_given_statistics_and_no_others():
    target = Target(Convolutional()).train()
    monday, tuesday = target.fresh_buffers(), target.fresh_buffers()
    for shift in (0.0, 3.0):
        target(torch.randn(target.size), torch.randn(8, 2, 5, 5) + shift, buffers=monday)
    assert monday["norm.num_batches_tracked"] == 2
    assert not torch.equal(monday["norm.running_mean"], tuesday["norm.running_mean"])
    assert all(torch.equal(tuesday[name], buffer) for name, buffer in target.module.named_buffers())
    assert target.module.norm.num_batches_tracked == 0
    before = {name: buffer.clone() for name, buffer in monday.items()}
    target.eval()(torch.randn(target.size), torch.randn(8, 2, 5, 5), buffers=monday)
    assert all(torch.equal(before[name], monday[name]) for name in before)


def test_tied_parameters_are_generated_once_and_used_twice():
    target = Target(Tied())
    assert [slot.name for slot in target.slots] == ["encode.weight", "encode.bias", "decode.bias"]
    assert target.size == 16 + 4 + 4


def test_only_what_the_patterns_match_is_generated_and_the_rest_stays_as_it_came():
    module = Convolutional()
    came, x = copy.deepcopy(module), torch.randn(7, 2, 5, 5)
    target = Target(module, ["last.*", "norm.weight"]).eval()
    assert [slot.name for slot in target.slots] == ["norm.weight", "last.weight", "last.bias"]
    assert target.size == 3 + 12 + 4
    weights = torch.randn(target.size, requires_grad=True)
    twin = copy.deepcopy(came).eval()
    with torch.no_grad():
        twin.norm.weight.copy_(weights[:3])
        twin.last.weight.copy_(weights[3:15].view(4, 3))
        twin.last.bias.copy_(weights[15:])
    found = target(weights, x)
    torch.testing.assert_close(found, twin(x), rtol=1e-12, atol=1e-12)
    found.sum().backward()
    assert weights.grad.any()
    assert all(parameter.grad is None for parameter in module.parameters())
    assert all(torch.equal(p, q) for p, q in zip(module.parameters(), came.parameters(), strict=True))


@pytest.mark.parametrize(
    ("patterns", "message"),
    [
        (
            ["*.bias", "lats.weight"],
            "Convolutional matches 'lats.weight'. Did you mean 'last.weight'? It has: conv.weight, ",
        ),
        (["adapter.*"], "Convolutional matches 'adapter.*'. It has: conv.weight, conv.bias, norm.weight, "),
        ([], "Convolutional matches ''. It has: conv.weight, "),
    ],
)
def test_a_pattern_that_matches_nothing_is_named_with_the_choices(patterns, message):
    with pytest.raises(UsageError, match=f"^generate: no parameter of {re.escape(message)}"):
        Target(Convolutional(), patterns)


def test_of_many_parameters_an_error_lists_the_first():
    names = ", ".join(f"{i}.{kind}" for i in range(4) for kind in ("weight", "bias"))
    with pytest.raises(UsageError, match=f"It has: {re.escape(names)}, …\\.$"):
        Target(nn.Sequential(*(nn.Linear(1, 1) for _ in range(5))), ["q"])


def test_what_is_not_generated_is_frozen_under_all_its_names():
    assert Target(Tied()).frozen == set()
    assert Target(Tied(), ["*.bias"]).frozen == {"encode.weight", "decode.weight"}
    assert Target(Tied(), ["encode.weight"]).frozen == {"encode.bias", "decode.bias"}


def test_fresh_buffers_are_copies():
    target = Target(Convolutional())
    target.fresh_buffers()["norm.running_mean"].add_(5)
    assert not target.module.norm.running_mean.any()
    assert not target.fresh_buffers()["norm.running_mean"].any()


def test_the_head_is_the_last_layer():
    target = Target(MLP((6,), (4,), 4, nn.ReLU))
    assert [slot.name for slot in target.head_slots()] == ["layers.1.weight", "layers.1.bias"]


@pytest.mark.parametrize("name", ["mlp", "convolutional", "recurrent"])
@pytest.mark.parametrize("outputs", [(0, 1), (1, 2), (0, 2)])
def test_some_outputs_are_those_columns_of_all_outputs_with_the_same_gradients(name, outputs):
    make, shape = MODULES[name]
    target, x = Target(make()).eval(), torch.randn(shape)
    assert target.can_cut_outputs(x)
    weights = torch.randn(target.size, requires_grad=True)
    some, whole = target(weights, x, outputs=outputs), target(weights, x)[:, slice(*outputs)]
    torch.testing.assert_close(some, whole, rtol=1e-10, atol=1e-12)
    cotangent = torch.randn_like(whole)
    mine, theirs = (torch.autograd.grad(y, weights, cotangent)[0] for y in (some, whole))
    torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-12)


class Mixing(nn.Module):
    """Its outputs depend on each other, as after a softmax."""

    def __init__(self):
        super().__init__()
        self.last = nn.Linear(4, 6)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(x).softmax(-1)


class HeadFirst(nn.Module):
    """Its last layer is not the one that was made last."""

    def __init__(self):
        super().__init__()
        self.head, self.first = nn.Linear(4, 6), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.first(x))


@pytest.mark.parametrize("module", [Mixing, HeadFirst])
def test_outputs_are_not_cut_where_that_would_change_them(module):
    target = Target(module()).train()
    before = copy.deepcopy(target.state_dict())
    assert not target.can_cut_outputs(torch.randn(2, 4))
    assert target.module.training
    assert all(torch.equal(value, before[key]) for key, value in target.state_dict().items())


def test_trying_to_cut_outputs_leaves_statistics_alone():
    target = Target(Convolutional()).train()
    before = copy.deepcopy(target.state_dict())
    target.can_cut_outputs(torch.randn(2, 2, 5, 5))
    assert target.module.training
    assert all(torch.equal(value, before[key]) for key, value in target.state_dict().items())


def test_a_module_whose_dictionaries_are_replaced_still_takes_the_weights():
    module = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    target = Target(module)
    weights, inputs = torch.randn(target.size), torch.randn(5, 3)
    wanted = target(weights, inputs, buffers=target.fresh_buffers())
    for part in target.modules():
        part._parameters, part._buffers = dict(part._parameters), dict(part._buffers)
    assert torch.equal(target(weights, inputs, buffers=target.fresh_buffers()), wanted)
    own = module[0].weight
    assert own.eq(target.module[0].weight).all()
    assert isinstance(own, nn.Parameter)  # and its own are back afterwards


def test_tied_parameters_are_given_together():
    first, second = nn.Linear(3, 3), nn.Linear(3, 3)
    second.weight = first.weight
    target = Target(nn.Sequential(first, second))
    weights, x = torch.randn(target.size), torch.randn(4, 3)
    cut = target.cut(weights)
    wanted = nn.functional.linear(x @ cut["0.weight"].T + cut["0.bias"], cut["0.weight"], cut["1.bias"])
    torch.testing.assert_close(target(weights, x), wanted)
