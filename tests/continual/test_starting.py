"""A task starts from a known one if that is clearly better, and otherwise from the module as it came."""

from __future__ import annotations

import pytest
import torch
from clouds import make
from torch import Tensor

from mnemon.continual import starting

pytestmark = pytest.mark.only_memory("exact")


def stripes(n: int = 2000, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Two classes that no line parts: the sign of a product."""
    random = torch.Generator().manual_seed(seed)
    inputs = torch.randn(n, 4, generator=random)
    return inputs, (inputs[:, 0] * inputs[:, 1] > 0).long()


def origin_of_second(second: tuple[Tensor, Tensor], monkeypatch, steps: int = 300) -> int:
    """What the second of two tasks started from."""
    model, origins = make(), []
    model.learn(stripes(), task="one", steps=300, quiet=True)
    memory = model.state.learner.memory
    usual = memory.finish_learning

    def finish(examples):
        origins.append(memory._origin)
        usual(examples)

    monkeypatch.setattr(memory, "finish_learning", finish)
    model.learn(second, task="two", steps=steps, quiet=True)
    return origins[-1]


def test_a_task_like_a_known_one_starts_from_it(monkeypatch):
    assert origin_of_second(stripes(seed=1), monkeypatch) == 0


def test_a_task_like_none_starts_from_the_module(monkeypatch):
    inputs, _ = stripes(seed=1)
    assert origin_of_second((inputs, (inputs[:, 2] > inputs[:, 3]).long()), monkeypatch) == -1


@pytest.mark.parametrize(("n", "steps"), [(100, 300), (2000, 100)])
def test_without_evidence_a_task_starts_from_the_module(n, steps, monkeypatch):
    assert origin_of_second(stripes(n, seed=1), monkeypatch, steps) == -1


def test_the_known_task_that_explains_most_is_tried():
    model = make()
    model.learn(stripes(), task="one", steps=300, quiet=True)
    inputs, _ = stripes(seed=3)
    other = (inputs, (inputs[:, 2] > 0).long())
    model.learn(other, task="two", steps=300, quiet=True)
    data = starting.Data((stripes(seed=4)[0],), stripes(seed=4)[1])
    assert starting._best_known(model.state, data, model.about("one").goal) == 0
    data = starting.Data((inputs,), other[1])
    assert starting._best_known(model.state, data, model.about("one").goal) == 1
