"""A small network with batch norm, and tasks to tell clouds apart, which it learns in a blink."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
import torch
from torch import Tensor, nn

import mnemon

STEPS = 60


class Net(nn.Module):
    """A small network with batch norm."""

    def __init__(self, outputs: int = 3):
        super().__init__()
        self.first = nn.Linear(4, 16)
        self.norm = nn.BatchNorm1d(16)
        self.last = nn.Linear(16, outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.norm(self.first(x)).relu())


def clouds(axis: int, n: int = 120, labels: tuple[int, int] = (0, 1), seed: int = 0) -> tuple[Tensor, Tensor]:
    """Two clouds that lie apart along an axis, between 0 and 1."""
    random = torch.Generator().manual_seed(100 * seed + axis)
    targets = torch.arange(n) % 2
    inputs = 0.5 + 0.1 * torch.randn(n, 4, generator=random)
    inputs[:, axis] += 0.6 * (targets - 0.5)
    return inputs.clamp(0, 1), torch.tensor(labels)[targets]


def pictures(first: int, n: int = 200, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Four pixels, of which one of two is bright."""
    random = torch.Generator().manual_seed(seed)
    targets = torch.arange(n) % 2
    inputs = 0.1 * torch.rand(n, 4, generator=random)
    inputs[torch.arange(n), first + targets] += 0.9
    return inputs, targets


def make(**settings) -> mnemon.ContinualModel:
    """A model of the same network every time."""
    torch.manual_seed(1)
    return mnemon.ContinualModel(Net(), **{"lr": 0.01, **settings})


def two_days(steps: int = STEPS, **settings) -> mnemon.ContinualModel:
    """A model of two tasks, with labels of their own."""
    model = make(**settings)
    model.learn(clouds(0, labels=(4, 5)), task="monday", steps=steps, quiet=True)
    model.learn(clouds(1, labels=(7, 9)), task="tuesday", steps=steps, quiet=True)
    return model


def answers(model: mnemon.ContinualModel) -> dict[str, Tensor]:
    """What a model says of the same inputs for each task."""
    inputs, _ = clouds(2, seed=5)
    return {task: model.predict(inputs, task).outputs for task in model.tasks}


def assert_same(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> None:
    """Bit for bit, and in the same order."""
    assert list(one) == list(other)
    for name in one:
        assert torch.equal(one[name], other[name]), name


def refused(call: Callable[[], object]) -> str:
    """The one line by which something is refused."""
    with pytest.raises(mnemon.UsageError) as error:
        call()
    assert "\n" not in str(error.value)
    return str(error.value)
