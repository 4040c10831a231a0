"""Batches: pass after pass without replacement, and a function of seed, task and step alone."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemon.benchmarks.task import Examples, Task
from mnemon.training.batches import Batches, Shuffled


def numbered(n: int) -> Examples:
    """Examples whose target is their place."""
    return Examples(torch.arange(n, dtype=torch.float32).unsqueeze(1), torch.arange(n))


def tasks(*sizes: int) -> tuple[Task, ...]:
    return tuple(Task(str(i), numbered(n), numbered(1)) for i, n in enumerate(sizes))


def places(n: int, batch_size: int, steps: int, seed: int = 0) -> list[int]:
    """Return which examples the steps take, one after the other."""
    batches = Batches(tasks(n), 0, batch_size, seed, with_past=False, steps=10)
    return [output_index for step in range(steps) for output_index in batches[step].targets.tolist()]


@given(n=st.integers(1, 30), batch_size=st.integers(1, 70), seed=st.integers(0, 2**40))
@settings(max_examples=60)
def test_each_pass_takes_every_example_once(n, batch_size, seed):
    steps = -(-4 * n // batch_size)
    taken = places(n, batch_size, steps, seed)
    for turn in range(4):
        assert sorted(taken[turn * n : (turn + 1) * n]) == list(range(n))


@given(n=st.integers(1, 30), batch_size=st.integers(1, 70), step=st.integers(0, 200))
@settings(max_examples=60)
def test_a_batch_is_always_full_and_does_not_depend_on_those_before(n, batch_size, step):
    fresh = Batches(tasks(n), 0, batch_size, 3, with_past=False, steps=10)
    used = Batches(tasks(n), 0, batch_size, 3, with_past=False, steps=10)
    for earlier in (0, step // 2, step + 5):
        _ = used[earlier]
    assert len(fresh[step].targets) == batch_size
    assert torch.equal(fresh[step].targets, used[step].targets)
    assert torch.equal(fresh[step].inputs, used[step].inputs)


def test_inputs_and_targets_stay_together():
    batch = Batches(tasks(50), 0, 16, 0, with_past=False, steps=10)[2]
    assert torch.equal(batch.inputs[:, 0].long(), batch.targets)


def test_a_batch_may_reach_over_the_end_of_a_pass():
    taken = places(10, 4, 5)
    assert sorted(taken[:10]) == sorted(taken[10:]) == list(range(10))


def test_a_batch_may_be_larger_than_the_set():
    batch = Batches(tasks(3), 0, 10, 0, with_past=False, steps=10)[0]
    counts = torch.bincount(batch.targets, minlength=3)
    assert counts.tolist() in ([3, 3, 4], [3, 4, 3], [4, 3, 3])


def test_passes_have_different_orders():
    taken = places(40, 40, 3)
    assert len({tuple(taken[i : i + 40]) for i in (0, 40, 80)}) == 3


def test_seeds_and_tasks_have_different_orders():
    both = tasks(40, 40)
    orders = {
        tuple(Batches(both, task_id, 40, seed, with_past=False, steps=10)[0].targets.tolist())
        for task_id in (0, 1)
        for seed in (0, 1, 2)
    }
    assert len(orders) == 6


def test_only_two_passes_are_held_in_memory():
    stream = Shuffled(numbered(5), 0, "batches", 0)
    for start in range(0, 100, 3):
        stream.take(start, 3)
    assert len(stream._orders) <= 2


@pytest.mark.parametrize(("task_id", "share"), [(1, 12), (2, 6), (3, 4)])
def test_each_earlier_task_has_an_even_share_of_a_second_batch(task_id, share):
    batch = Batches(tasks(30, 30, 30, 30), task_id, 12, 0, with_past=True, steps=10)[4]
    assert [past.task_id for past in batch.past] == list(range(task_id))
    assert [len(past.targets) for past in batch.past] == [share] * task_id
    assert batch.task_id == task_id
    assert len(batch.targets) == 12


def test_with_more_tasks_than_examples_each_has_one():
    batch = Batches(tasks(*[5] * 9), 8, 4, 0, with_past=True, steps=10)[0]
    assert [len(past.targets) for past in batch.past] == [1] * 8


def test_earlier_tasks_are_seen_without_replacement_too():
    batches = Batches(tasks(12, 12), 1, 4, 0, with_past=True, steps=10)
    seen = [output_index for step in range(3) for output_index in batches[step].past[0].targets.tolist()]
    assert sorted(seen) == list(range(12))


def test_learners_that_must_not_see_the_past_get_none():
    assert Batches(tasks(5, 5), 1, 4, 0, with_past=False, steps=10)[0].past == ()


def test_seeing_the_past_does_not_change_the_present():
    one, other = (Batches(tasks(9, 9), 1, 4, 0, with_past, steps=10)[3].targets for with_past in (True, False))
    assert torch.equal(one, other)


def test_a_batch_knows_how_far_its_task_is():
    batches = Batches(tasks(5), 0, 4, 0, with_past=False, steps=8)
    assert [batches[step].progress for step in (0, 2, 7)] == [0, 0.25, 0.875]


def test_shares_that_do_not_divide_evenly_are_rounded_up_so_that_a_whole_batch_is_there():
    batch = Batches(tasks(9, 9, 9, 9), 3, 10, 0, with_past=True, steps=1)[0]
    assert [len(past) for past in batch.past] == [4, 4, 4]
