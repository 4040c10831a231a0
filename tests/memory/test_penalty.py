"""The output penalty: its draws, its workspace, its weights."""

from __future__ import annotations

import copy
import itertools
import math

import pytest
import torch
from torch import Tensor, nn

from mnemon.hypernet.chunked import ChunkedHypernet
from mnemon.memory import penalty as penalties
from mnemon.memory.penalty import Anchors, Draw, exact_penalty, gram_is_cheaper, plain_penalty


def exact(moved: ChunkedHypernet, anchors: Anchors, draw: Draw) -> tuple[Tensor, list[Tensor]]:
    value, gradients = exact_penalty(moved, anchors, draw)
    pairs = zip(moved.parameters(), gradients, strict=True)
    return value, [torch.zeros_like(p) if g is None else g for p, g in pairs]


def plain(moved: ChunkedHypernet, anchors: Anchors, draw: Draw) -> tuple[Tensor, list[Tensor]]:
    value = plain_penalty(moved, anchors, draw)
    return value.detach(), list(torch.autograd.grad(value, list(moved.parameters())))


PENALTIES = [exact, plain]


@pytest.fixture
def nets(double) -> tuple[ChunkedHypernet, ChunkedHypernet]:
    """A hypernetwork of two rows (chunks of 5 for 8 weights), and the same a little further on."""
    frozen = ChunkedHypernet(8, 3, [4], nn.Tanh, 5, 2)
    for parameter in frozen.parameters():
        nn.init.normal_(parameter)
    moved = copy.deepcopy(frozen)
    with torch.no_grad():
        for parameter in moved.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return frozen, moved


def all_permutations(monkeypatch, n: int):
    """Let each permutation come out of the hat once."""
    for permutation in itertools.permutations(range(n)):

        def drawn(count: int, order: tuple[int, ...] = permutation) -> Tensor:
            assert count == n
            return torch.tensor(order)

        monkeypatch.setattr(penalties.torch, "randperm", drawn)
        yield permutation


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize(("unit", "n_tasks", "of"), [("tasks", 4, 4), ("rows", 2, 4)])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_mean_over_all_draws_is_the_full_penalty(penalty, unit, n_tasks, of, count, nets, monkeypatch):
    frozen, moved = nets
    anchors = Anchors(frozen, torch.randn(n_tasks, 3))
    values, gradients = [], []
    for _ in all_permutations(monkeypatch, of):
        draw = anchors.draw_tasks(count) if unit == "tasks" else anchors.draw_rows(count)
        value, found = penalty(moved, anchors, draw)
        values.append(value)
        gradients.append(found)
    full, wanted_gradients = penalty(moved, anchors, anchors.everything())
    assert len({round(value.item(), 9) for value in values}) == math.comb(of, count)
    torch.testing.assert_close(torch.stack(values).mean(), full, rtol=1e-12, atol=0)
    for found, wanted in zip(zip(*gradients, strict=True), wanted_gradients, strict=True):
        torch.testing.assert_close(torch.stack(found).mean(0), wanted, rtol=1e-10, atol=1e-12)


def test_a_draw_has_no_row_twice_and_changes_from_step_to_step(nets):
    anchors = Anchors(nets[0], torch.randn(6, 3))
    draws = [anchors.draw_tasks(3).rows for _ in range(20)]
    assert all(len(rows.unique()) == 6 for rows in draws)  # three tasks of two rows
    assert len({tuple(rows.tolist()) for rows in draws}) > 5
    rows = anchors.draw_rows(7).rows
    assert len(rows.unique()) == 7


@pytest.mark.parametrize("count", [4, 5])
def test_a_draw_of_all_or_more_is_everything(count, nets):
    anchors = Anchors(nets[0], torch.randn(4, 3))
    assert anchors.draw_tasks(count) == anchors.everything() == Draw(None, 0.25)
    assert anchors.draw_rows(2 * count) == anchors.everything()


def test_nothing_of_the_frozen_side_gets_a_gradient(nets):
    frozen, moved = nets
    old = torch.randn(2, 3, requires_grad=True)
    anchors = Anchors(frozen, old)
    exact_penalty(moved, anchors, anchors.everything())
    plain_penalty(moved, anchors, anchors.everything()).backward()
    assert old.grad is None
    assert all(parameter.grad is None for parameter in frozen.parameters())
    assert all(parameter.grad is not None for parameter in moved.parameters())


def test_drawn_rows_of_which_nothing_counts_cost_nothing(nets):
    frozen, moved = nets
    anchors = Anchors(frozen, torch.randn(2, 3), kept=[[(0, 5)], [(0, 5)]])
    second_rows = Draw(torch.tensor([1, 3]), 1.0)
    for penalty in PENALTIES:
        value, gradients = penalty(moved, anchors, second_rows)
        assert value.item() == 0
        assert not any(gradient.any() for gradient in gradients)


@pytest.mark.parametrize("kept", [None, [[(0, 3), (6, 8)], [(2, 7)], []]])
@pytest.mark.parametrize("sampled", [False, True])
def test_the_weighted_penalty_weighs_each_weight_of_each_task(kept, sampled, nets):
    frozen, moved = nets
    old, importance = torch.randn(3, 3), torch.rand(3, 8)
    anchors = Anchors(frozen, old, kept, importance)
    draw = anchors.draw_tasks(2) if sampled else anchors.everything()
    tasks = range(3) if draw.rows is None else sorted({row // 2 for row in draw.rows.tolist()})
    wanted = torch.zeros(())
    for task in tasks:
        for i, drift in enumerate(moved(old[task]) - frozen(old[task])):
            if kept is None or any(a <= i < b for a, b in kept[task]):
                wanted = wanted + importance[task, i] * drift**2 / len(tasks)
    torch.testing.assert_close(plain_penalty(moved, anchors, draw), wanted, rtol=1e-12, atol=0)


def test_the_way_is_chosen_by_the_number_of_rows():
    assert gram_is_cheaper(n_rows=13, width=25)
    assert not gram_is_cheaper(n_rows=12, width=25)
    assert gram_is_cheaper(n_rows=350, width=350)
    assert not gram_is_cheaper(n_rows=300, width=350)
