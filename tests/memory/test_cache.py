"""Generated networks are kept at hand until something moves, and never more than there is room for."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from mnemon.memory import cache
from mnemon.memory.cache import WeightCache


class Source:
    """Generates [value, task] and counts how often it is asked."""

    def __init__(self) -> None:
        self.value = nn.Parameter(torch.ones(()))
        self.cache, self.asked = WeightCache(), 0

    def get(self, task_id: int) -> Tensor:
        return self.cache.get(task_id, [self.value], lambda: self.generate(task_id))

    def generate(self, task_id: int) -> Tensor:
        self.asked += 1
        return torch.stack([self.value, self.value.new_tensor(task_id)])


@pytest.fixture
def source() -> Source:
    return Source()


def test_what_was_generated_once_is_at_hand_without_a_graph(source):
    assert source.get(3).tolist() == source.get(3).tolist() == [1.0, 3.0]
    assert source.asked == 1
    assert not source.get(3).requires_grad


def test_when_something_moves_all_is_generated_anew(source):
    source.get(0), source.get(1)
    with torch.no_grad():
        source.value.mul_(2)
    assert source.get(0).tolist() == [2.0, 0.0]
    assert source.get(1).tolist() == [2.0, 1.0]


def test_other_numbers_are_a_move(source):
    source.get(0)
    source.value.data = source.value.data.double()
    assert source.get(0).dtype == torch.float64


def test_what_moves_unseen_can_be_dropped(source):
    source.get(0)
    source.value.data += 1  # no version is counted up
    assert source.get(0).tolist() == [1.0, 0.0]
    source.cache.drop()
    assert source.get(0).tolist() == [2.0, 0.0]


def test_what_does_not_fit_is_generated_for_each_question(source, monkeypatch):
    monkeypatch.setattr(cache, "ROOM", 2 * 4)  # one network of two numbers
    for _ in range(3):
        assert source.get(0).tolist() == [1.0, 0.0]
        assert source.get(1).tolist() == [1.0, 1.0]
    assert source.asked == 1 + 3
