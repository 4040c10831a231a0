"""The lookahead takes the very step that the optimizer would take, and leaves no trace."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW, Optimizer, RMSprop

from mnemon.memory import lookahead
from mnemon.memory.lookahead import (
    LOOKAHEADS,
    CompiledLookahead,
    ConstantLookahead,
    DifferentiatedLookahead,
    LookaheadMode,
    NoLookahead,
    by_autograd,
)
from mnemon.optimizer import OPTIMIZERS, OptimizerConfig

Make = Callable[..., Optimizer]

STEPPERS: dict[str, Make] = {
    "sgd": lambda p: SGD(p, 0.1),
    "sgd momentum": lambda p: SGD(p, 0.1, momentum=0.9),
    "sgd dampened": lambda p: SGD(p, 0.1, momentum=0.9, dampening=0.3),
    "sgd nesterov": lambda p: SGD(p, 0.1, momentum=0.9, nesterov=True),
    "sgd weight decay": lambda p: SGD(p, 0.1, momentum=0.5, weight_decay=0.1),
    "sgd fused": lambda p: SGD(p, 0.1, momentum=0.9, fused=True),
    "adam": lambda p: Adam(p, 0.01),
    "adam weight decay": lambda p: Adam(p, 0.01, weight_decay=0.1),
    "adam amsgrad": lambda p: Adam(p, 0.01, amsgrad=True),
    "adam fused": lambda p: Adam(p, 0.01, betas=(0.5, 0.9), fused=True),
    "adam foreach": lambda p: Adam(p, 0.01, foreach=True),
    "adamw": lambda p: AdamW(p, 0.01, weight_decay=0.2),
    "rmsprop": lambda p: RMSprop(p, 0.01),
    "rmsprop momentum": lambda p: RMSprop(p, 0.01, momentum=0.9),
    "rmsprop centered": lambda p: RMSprop(p, 0.01, centered=True, momentum=0.5),
    **{f"config {name}": lambda p, name=name: OptimizerConfig(name=name, lr=0.01).build(p) for name in OPTIMIZERS},
}


def values(module: nn.Module) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in module.parameters()]


def memory(optimizer: Optimizer) -> list[Tensor]:
    """All that the optimizer has kept so far."""
    state = copy.deepcopy(optimizer.state_dict()["state"])
    return [torch.as_tensor(v) for of_one in state.values() for v in of_one.values() if v is not None]


def put_gradients(module: nn.Module) -> None:
    for parameter in module.parameters():
        parameter.grad = torch.randn_like(parameter)


def assert_same(found: list[Tensor], wanted: list[Tensor]) -> None:
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("name", STEPPERS)
def test_the_copy_moves_to_where_the_real_step_leads_bit_for_bit(name):
    module = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
    optimizer = STEPPERS[name](module.parameters())
    lookahead = ConstantLookahead(module, optimizer)
    for step in range(6):
        optimizer.param_groups[0]["lr"] *= 0.7 if step % 2 else 1.5
        put_gradients(module)
        before, gradients, kept = values(module), [p.grad.clone() for p in module.parameters()], memory(optimizer)
        for _ in range(2):  # looking twice must not matter
            moved = values(lookahead.step())
        assert_same(values(module), before)
        assert_same([p.grad for p in module.parameters()], gradients)
        assert_same(memory(optimizer), kept)
        for parameter in module.parameters():  # the real step has the penalty's gradient on top: another one
            parameter.grad = 2 * parameter.grad
        shadow, shadow_optimizer = copy.deepcopy((module, optimizer))
        for parameter, gradient in zip(shadow.parameters(), gradients, strict=True):
            parameter.grad = gradient
        shadow_optimizer.step()
        assert_same(moved, values(shadow))
        optimizer.step()


@pytest.mark.parametrize("name", ["sgd momentum", "adam fused", "rmsprop centered"])
def test_a_lookahead_made_in_the_middle_takes_the_state_over(name):
    module = nn.Linear(4, 3)
    optimizer = STEPPERS[name](module.parameters())
    for _ in range(3):
        put_gradients(module)
        optimizer.step()
    put_gradients(module)
    moved = values(ConstantLookahead(module, optimizer).step())
    optimizer.step()
    assert_same(moved, values(module))


def test_groups_with_rates_of_their_own_are_followed():
    module = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
    optimizer = Adam([{"params": module[1].parameters(), "lr": 0.5}, {"params": module[0].parameters()}], lr=0.01)
    lookahead = ConstantLookahead(module, optimizer)
    for rate in (0.5, 0.1):
        optimizer.param_groups[0]["lr"] = rate
        put_gradients(module)
        moved = values(lookahead.step())
        optimizer.step()
        assert_same(moved, values(module))


class Point(nn.Module):
    """Two vectors to be moved about, as one."""

    def __init__(self, at: Tensor):
        super().__init__()
        self.a, self.b = nn.Parameter(at[:2].clone()), nn.Parameter(at[2:].clone())

    @property
    def whole(self) -> Tensor:
        return torch.cat([self.a, self.b])


def descend(point: Point, loss: Callable[[Tensor], Tensor]) -> list[Tensor]:
    """Put the gradient of the loss into `.grad` and return it with its graph."""
    gradients = torch.autograd.grad(loss(point.whole), list(point.parameters()), create_graph=True)
    for parameter, gradient in zip(point.parameters(), gradients, strict=True):
        parameter.grad = gradient.detach().clone()
    return list(gradients)


def added(lookahead, point: Point, task_gradients: list[Tensor], penalty: Callable) -> Tensor:
    """What the lookahead adds to the task gradient."""
    lookahead.add_gradient(by_autograd(penalty), task_gradients)
    return torch.cat([p.grad - g.detach() for p, g in zip(point.parameters(), task_gradients, strict=True)])


@pytest.fixture
def quadratic(double) -> tuple[Tensor, Tensor]:
    """A loss t'Ht/2 - b't, by H and b."""
    root = torch.randn(5, 5)
    return root @ root.T + torch.eye(5), torch.randn(5)


@pytest.mark.parametrize("mode", LookaheadMode)
def test_on_a_quadratic_each_lookahead_adds_the_gradient_that_the_algebra_gives(mode, quadratic):
    h, b = quadratic
    start, centre, lr = torch.randn(5), torch.randn(5), 0.05
    point = Point(start)
    optimizer = SGD(point.parameters(), lr)
    task_gradients = descend(point, lambda t: t @ h @ t / 2 - b @ t)
    after = start - lr * (h @ start - b)
    wanted = {
        LookaheadMode.OFF: 2 * (start - centre),
        LookaheadMode.CONSTANT: 2 * (after - centre),
        LookaheadMode.COMPILED: 2 * (after - centre),
        LookaheadMode.DIFFERENTIATED: (torch.eye(5) - lr * h) @ (2 * (after - centre)),
    }
    lookahead = LOOKAHEADS[mode](point, optimizer)
    found = added(lookahead, point, task_gradients, lambda p: (p.whole - centre).square().sum())
    torch.testing.assert_close(found, wanted[mode], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(point.whole.detach(), start, rtol=0, atol=0)


SMOOTH: dict[str, Make] = {
    "sgd": lambda p: SGD(p, 0.05, weight_decay=0.1),
    "sgd momentum": lambda p: SGD(p, 0.05, momentum=0.9, weight_decay=0.1),
    "adam": lambda p: Adam(p, 0.05),
    "adam fused": lambda p: Adam(p, 0.05, fused=True),
    "adamw": lambda p: AdamW(p, 0.05, weight_decay=0.3),
    "rmsprop": lambda p: RMSprop(p, 0.05, momentum=0.5),
}


@pytest.mark.parametrize(
    ("name", "earlier"),
    # Torch itself detaches the first gradient that it takes into a momentum.
    [(name, earlier) for name in SMOOTH for earlier in (0, 3) if (name, earlier) != ("sgd momentum", 0)],
)
def test_the_differentiated_lookahead_is_the_derivative_of_the_penalty_after_the_step(name, earlier, quadratic):
    h, b = quadratic

    def loss(t: Tensor) -> Tensor:
        return t @ h @ t / 2 - b @ t + t.pow(4).sum() / 10

    point = Point(torch.randn(5))
    optimizer = SMOOTH[name](point.parameters())
    for _ in range(earlier):
        descend(point, loss)
        optimizer.step()
    kept = memory(optimizer)

    def penalty_after_the_step(start: Tensor) -> float:
        p, o = copy.deepcopy((point, optimizer))
        with torch.no_grad():
            p.a.copy_(start[:2])
            p.b.copy_(start[2:])
        descend(p, loss)
        o.step()
        return p.whole.detach().square().sum().item()

    start, tiny = point.whole.detach(), 1e-6
    ahead, behind = ([penalty_after_the_step(start + s * e) for e in torch.eye(5)] for s in (tiny, -tiny))
    wanted = (torch.tensor(ahead) - torch.tensor(behind)) / (2 * tiny)
    lookahead = DifferentiatedLookahead(point, optimizer)
    found = added(lookahead, point, descend(point, loss), lambda p: p.whole.square().sum())
    # A fused Adam counts its steps in float32, and so the twin corrects its bias in float32.
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
    assert_same(memory(optimizer), kept)


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("smallness", [0.0, 1e-38, 1e-25, 1e-22, 1e-19, 1e-15])
def test_gradients_that_vanish_leave_the_differentiated_lookahead_finite(name, smallness):
    point = Point(torch.tensor([1.0, -2.0, 3.0, 1.0, 1.0]))
    optimizer = SMOOTH[name](point.parameters())
    steepness = torch.tensor([smallness, 1.0, smallness, smallness, 1.0])
    task_gradients = descend(point, lambda t: (steepness * t.square()).sum() / 2)
    lookahead = DifferentiatedLookahead(point, optimizer)
    found = added(lookahead, point, task_gradients, lambda p: p.whole.square().sum())
    assert found.isfinite().all()
    assert (found.abs() > 0.1).all(), "the penalty itself still pulls"


@pytest.mark.parametrize("lookahead", [NoLookahead, ConstantLookahead, DifferentiatedLookahead])
def test_gradients_of_others_are_set_and_the_value_is_the_penalty_where_it_was_measured(lookahead, double):
    point, other = Point(torch.ones(5)), torch.full((5,), 3.0, requires_grad=True)
    task_gradients = descend(point, lambda t: t.sum())
    optimizer = SGD(point.parameters(), 0.1)
    penalty = by_autograd(lambda p: ((p.whole - other) ** 2).sum(), [other])
    measured = lookahead(point, optimizer).add_gradient(penalty, task_gradients, [other])
    at = 1.0 if lookahead is NoLookahead else 0.9
    torch.testing.assert_close(measured, torch.tensor(5 * (at - 3.0) ** 2))
    torch.testing.assert_close(other.grad, torch.full((5,), 2 * (3.0 - at)))
    assert not measured.requires_grad


def test_every_mode_has_a_lookahead_and_only_one_needs_second_derivatives():
    assert set(LOOKAHEADS) == set(LookaheadMode)
    assert [mode for mode, cls in LOOKAHEADS.items() if cls.second_order] == [LookaheadMode.DIFFERENTIATED]


@pytest.fixture
def compiled_is_eager(monkeypatch):
    """Nothing is compiled, but what would be is run."""
    monkeypatch.setattr(lookahead, "_compile_step", lambda: lookahead._adam_step)


@pytest.mark.parametrize("name", ["adam fused", "adam weight decay", "adamw", "config adam", "config adamw"])
def test_what_is_compiled_takes_the_step_of_adam(name, compiled_is_eager):
    module = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2)).double()
    optimizer = STEPPERS[name](module.parameters())
    one, other = CompiledLookahead(module, optimizer), ConstantLookahead(module, optimizer)
    for step in range(4):
        optimizer.param_groups[0]["lr"] *= 0.7 if step % 2 else 1.5
        put_gradients(module)
        kept = memory(optimizer)
        for found, wanted in zip(values(one.step()), values(other.step()), strict=True):
            torch.testing.assert_close(found, wanted, rtol=1e-6 if step else 0, atol=0)
        assert_same(memory(optimizer), kept)
        optimizer.step()


def test_a_lookahead_that_cannot_be_compiled_is_taken_as_without(monkeypatch):
    def fails(*_: object) -> None:
        raise RuntimeError("No C++ compiler.\nSee the manual.")

    monkeypatch.setattr(lookahead, "_compile_step", lambda: fails)
    module = nn.Linear(4, 3)
    optimizer = STEPPERS["adam fused"](module.parameters())
    one, other = CompiledLookahead(module, optimizer), ConstantLookahead(module, optimizer)
    put_gradients(module)
    optimizer.step()
    put_gradients(module)
    with pytest.warns(UserWarning, match="The lookahead runs uncompiled, at its usual speed: RuntimeError: No C"):
        first = values(one.step())
    assert_same(first, values(other.step()))
    assert_same(values(one.step()), first)  # and without another warning


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's compiler uses what torch deprecates
def test_the_compiled_lookahead_takes_the_step_of_adam():
    module = nn.Linear(30, 20)
    optimizer = STEPPERS["adam fused"](module.parameters())
    put_gradients(module)
    optimizer.step()
    put_gradients(module)
    found, wanted = (values(cls(module, optimizer).step()) for cls in (CompiledLookahead, ConstantLookahead))
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-7)
