"""Only a part of a module differs from task to task; the rest stays exactly as it came."""

from __future__ import annotations

import fnmatch

import pytest
import torch
from clouds import Net, assert_same, clouds
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import mnemon
from mnemon.continual.objective import goal_for

INPUTS, TARGETS = clouds(0)


class Deep(nn.Module):
    """Two blocks with a normalisation each, attention, and a head."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 8), nn.LayerNorm(8))
        self.attention = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.attention(self.blocks(x)[:, None]).squeeze(1))


def learn_two(module: nn.Module, **settings) -> mnemon.ContinualModel:
    model = mnemon.ContinualModel(module, lr=0.01, **settings)
    model.learn(clouds(0), task="one", steps=4, quiet=True)
    model.learn(clouds(1), task="two", steps=4, quiet=True)
    return model


PARTS = {
    "head": (["head.*"], {"head.weight", "head.bias"}),
    "norms": (
        ["*norm*", "blocks.1.*", "blocks.4.*"],
        {f"{name}.{kind}" for name in ("blocks.1", "blocks.4", "attention.norm1", "attention.norm2") for kind in
         ("weight", "bias")},
    ),
    "biases": ("*bias", {name for name, _ in Deep().named_parameters() if name.endswith("bias")}),
}  # fmt: skip


@pytest.mark.parametrize("part", PARTS)
def test_what_no_pattern_names_stays_bit_for_bit(part):
    patterns, meant = PARTS[part]
    module = Deep()
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    model = learn_two(module, generate=patterns)
    # Statistics follow the tasks where a normalisation is generated, and rest where it is not.
    free = meant | ({name for name in before if "running" in name or "batches" in name} if part != "head" else set())
    for task in model.tasks:
        found = model.network(task).state_dict()
        changed = {name for name in before if not torch.equal(found[name], before[name])}
        assert changed <= free
        assert meant <= changed
    assert {name for name, p in model.network("one").named_parameters() if p.requires_grad} == meant


@given(st.lists(st.sampled_from(["first.*", "*.bias", "last.weight", "norm.*", "*"]), min_size=1, max_size=3))
@settings(max_examples=15)
def test_patterns_choose_what_they_match(patterns):
    model = mnemon.ContinualModel(Net(), generate=patterns)
    names = [name for name, _ in Net().named_parameters()]
    wanted = [name for name in names if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)]
    assert [slot.name for slot in model.state.learner.memory.target.slots] == wanted


def test_a_tied_parameter_is_meant_by_any_of_its_names():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.again, self.last = nn.Linear(4, 4), nn.Linear(4, 4, bias=False), nn.Linear(4, 3)
            self.again.weight = self.first.weight

        def forward(self, x):
            return self.last(self.again(self.first(x).tanh()))

    model = learn_two(Tied(), generate="again.*")
    network = model.network("one")
    assert network.again.weight is network.first.weight
    assert torch.equal(network(INPUTS)[:, :2], model.predict(INPUTS, "one").outputs)
    assert "16 of them generated" in repr(model)


def test_the_frozen_parts_of_a_module_stay_frozen():
    module = Deep()
    module.blocks.requires_grad_(False)
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    found = learn_two(module).network("two").state_dict()
    for name, tensor in before.items():
        assert torch.equal(found[name], tensor) == name.startswith("blocks"), name


@pytest.mark.parametrize(
    ("layers", "n"), [("*", 6), ("head", 1), ("blocks.*", 2), ("attention.linear?", 2), ("*out_proj", 1)]
)
def test_adapters_alone_differ_and_the_rest_stays_bit_for_bit(layers, n):
    module = Deep()
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    model = learn_two(module, adapters=mnemon.LoRA(layers, rank=2))
    assert len(model.state.learner.memory.target.slots) == 2 * n
    for task in model.tasks:
        network = model.network(task)  # adapters are added to the matrices of their layers
        differ = [name for name, tensor in network.state_dict().items() if not torch.equal(tensor, before[name])]
        assert len(differ) == n
        assert all(fnmatch.fnmatchcase(name.removesuffix(".weight"), layers) for name in differ)
        with torch.no_grad():  # attention has another way to compute when gradients are wanted
            torch.testing.assert_close(network(INPUTS)[:, :2], model.predict(INPUTS, task).outputs)
            assert not torch.equal(network(INPUTS), module.eval()(INPUTS))
    assert_same(before, module.state_dict())


@pytest.mark.parametrize(
    "part", [{}, {"generate": "head.*"}, {"adapters": mnemon.LoRA(rank=2)}], ids=["all", "head", "adapters"]
)
def test_the_untouched_module_is_the_start_of_every_task(part):
    module = Deep()
    wanted = module.eval()(INPUTS)
    model = mnemon.ContinualModel(module.train(), start="given", **part)
    learner, goal = model.state.learner, goal_for(TARGETS, "auto")
    for task in range(3):
        learner.begin_task(task)
        assert torch.equal(learner.outputs((INPUTS,), task), wanted)
        for _ in range(3):
            learner.train_step((INPUTS,), TARGETS, goal)
        assert not torch.equal(learner.outputs((INPUTS,), task), wanted)
        learner.end_task(None)


def test_a_layer_that_is_used_twice_has_one_adapter():
    shared = nn.Linear(4, 4)
    module = nn.Sequential(shared, nn.Tanh(), shared, nn.Linear(4, 3))
    model = learn_two(module, adapters=mnemon.LoRA(rank=1))
    network = model.network("one")
    assert network[0] is network[2]
    torch.testing.assert_close(network(INPUTS)[:, :2], model.predict(INPUTS, "one").outputs)
    assert f"{2 * (4 + 4) + 4 + 3 - 8} of them generated" in repr(model)
