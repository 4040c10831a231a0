"""The optimizers are torch's own, without what torch's compiler needs of them."""

import copy
import subprocess
import sys

import pytest
import torch
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_post_hook

from mnemon.optimizer import OPTIMIZERS, Optimizer, OptimizerConfig

TORCHS = {
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "sgd": torch.optim.SGD,
    "rmsprop": torch.optim.RMSprop,
}


def pair(name: str) -> tuple[Optimizer, Optimizer]:
    """Return an optimizer and torch's own, with the same settings, on equal parameters."""
    parameters = [torch.randn(5, 3), torch.randn(7)]
    ours, theirs = ([p.clone().requires_grad_() for p in parameters] for _ in range(2))
    made = OptimizerConfig(name=name, lr=0.1, momentum=0.5, weight_decay=0.01).build(ours)
    options = {key: made.defaults[key] for key in made.defaults if key in ("lr", "betas", "momentum", "weight_decay")}
    fused = {} if name == "rmsprop" else {"fused": True}
    return made, TORCHS[name](theirs, **options, **fused)


def parameters_of(optimizer: Optimizer) -> list[Tensor]:
    return optimizer.param_groups[0]["params"]


def step(*optimizers: Optimizer) -> None:
    """Take a step from the same gradients."""
    gradients = [torch.randn_like(p) for p in parameters_of(optimizers[0])]
    for optimizer in optimizers:
        optimizer.zero_grad()
        for parameter, gradient in zip(parameters_of(optimizer), gradients, strict=True):
            assert parameter.grad is None
            parameter.grad = gradient.clone()
        optimizer.step()


def same(ours: Optimizer, theirs: Optimizer) -> bool:
    """Tell whether parameters and states are the same bit for bit."""
    states = [optimizer.state_dict()["state"] for optimizer in (ours, theirs)]
    tensors = [
        [*parameters_of(optimizer), *(v for values in state.values() for v in values.values() if v is not None)]
        for optimizer, state in zip((ours, theirs), states, strict=True)
    ]
    return len(tensors[0]) == len(tensors[1]) and all(map(torch.equal, *tensors))


def test_all_optimizers_are_compared():
    assert OPTIMIZERS.keys() == TORCHS.keys()


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_are_those_of_torch_bit_for_bit(name):
    ours, theirs = pair(name)
    before = [p.clone() for p in parameters_of(ours)]
    for _ in range(5):
        step(ours, theirs)
        assert same(ours, theirs)
    assert not any(map(torch.equal, before, parameters_of(ours)))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_state_goes_over_to_torchs_optimizer_and_back(name):
    ours, theirs = pair(name)
    step(ours, theirs)
    ours.load_state_dict(copy.deepcopy(theirs.state_dict()))
    theirs.load_state_dict(copy.deepcopy(ours.state_dict()))
    step(ours, theirs)
    assert same(ours, theirs)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_records_no_gradients_and_leaves_the_mode_as_it_was(name):
    ours, _ = pair(name)
    step(ours)
    assert torch.is_grad_enabled()
    assert all(p.grad_fn is None and p.requires_grad for p in parameters_of(ours))


def test_hooks_of_all_optimizers_are_called():
    seen = []
    ours, _ = pair("adam")
    handle = register_optimizer_step_post_hook(lambda optimizer, *_: seen.append(optimizer))
    try:
        step(ours)
    finally:
        handle.remove()
    assert seen == [ours]


def test_no_optimizer_imports_the_compiler():
    program = """
import sys, torch
from mnemon.optimizer import OPTIMIZERS, OptimizerConfig
for name in OPTIMIZERS:
    parameter = torch.zeros(2, requires_grad=True)
    optimizer = OptimizerConfig(name=name).build([parameter])
    parameter.grad = torch.ones(2)
    optimizer.step()
    optimizer.load_state_dict(optimizer.state_dict())
    optimizer.zero_grad()
    assert "torch._dynamo" not in sys.modules, name
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
