"""Held-out data: a share of the training data in place of the test data, which stay unseen."""

from __future__ import annotations

import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mnemon.benchmarks.permuted import permuted
from mnemon.benchmarks.task import Examples, Task, TaskKind, TaskStream, hold_out
from mnemon.errors import UsageError

EVERY = slice(None)


def numbered(*sizes: int) -> TaskStream:
    """Tasks whose training inputs are 0, 1, 2, ...; of those that are to be tested on, no number is one."""
    tasks = []
    for i, n in enumerate(sizes):
        numbers = torch.arange(n, dtype=torch.float32)[:, None]
        train = Examples(numbers, numbers[:, 0].long() % 3)
        tasks.append(Task(f"task {i}", train, Examples(torch.full((4, 1), torch.nan), torch.zeros(4).long())))
    return TaskStream("numbers", TaskKind.CLASSIFICATION, tuple(tasks), (1,), 3)


def of(examples: Examples) -> list[int]:
    return examples.batch(EVERY)[0][:, 0].int().tolist()


@given(st.integers(2, 60), st.integers(2, 60), st.floats(0.05, 0.95), st.integers(0, 2**40))
def test_every_training_example_is_either_trained_on_or_tested_on(n, m, share, seed):
    stream = numbered(n, m)
    if not all(0 < round(share * size) < size for size in (n, m)):
        return
    for task, size in zip(hold_out(stream, share, seed).tasks, (n, m), strict=True):
        assert sorted(of(task.train) + of(task.test)) == list(range(size))
        assert len(task.test) == round(share * size)


def test_inputs_keep_their_targets():
    for task in hold_out(numbered(50), 0.3, seed=0).tasks:
        for examples in (task.train, task.test):
            inputs, targets = examples.batch(EVERY)
            assert torch.equal(targets, inputs[:, 0].long() % 3)


def test_the_test_data_are_not_used():
    (task,) = hold_out(numbered(50), 0.3, seed=0).tasks
    assert task.test.inputs.isfinite().all()
    assert task.train.inputs.isfinite().all()


def test_examples_are_drawn_by_the_seed_and_not_in_order():
    one, again, other = (of(hold_out(numbered(50), 0.3, seed).tasks[0].test) for seed in (1, 1, 2))
    assert one == again
    assert sorted(one) != sorted(other)
    assert sorted(one) != list(range(15))


def test_what_is_held_out_does_not_depend_on_random_numbers_drawn_before():
    before = torch.get_rng_state()
    one = of(hold_out(numbered(50), 0.3, 0).tasks[0].test)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(123)
    assert of(hold_out(numbered(50), 0.3, 0).tasks[0].test) == one


def test_tasks_of_the_same_inputs_hold_out_the_same_and_go_on_sharing_them(digits):
    whole = permuted(digits, 4)
    stream = hold_out(whole, 0.2, seed=0)
    for name in ("train", "test"):
        parts = [getattr(task, name) for task in stream.tasks]
        assert len({id(part.inputs) for part in parts}) == 1
        assert len({id(part.targets) for part in parts}) == 1
        plain = parts[0].batch(EVERY)[0]
        for task, part in zip(whole.tasks[1:], parts[1:], strict=True):
            assert part.transform is task.train.transform
            assert torch.equal(part.batch(EVERY)[0], task.train.transform(plain))


def test_the_rest_of_the_stream_stays():
    whole = numbered(20, 30)
    stream = hold_out(whole, 0.5, 0)
    assert [task.name for task in stream.tasks] == ["task 0", "task 1"]
    assert (stream.name, stream.kind, stream.input_shape, stream.outputs_per_task) == (
        whole.name, whole.kind, whole.input_shape, whole.outputs_per_task,
    )  # fmt: skip
    assert of(whole.tasks[0].train) == list(range(20)), "and the stream that it was taken from"


@pytest.mark.parametrize(("share", "n"), [(0.01, 0), (0.04, 0), (0.96, 10), (0.99, 10)])
def test_a_share_that_leaves_nothing_to_one_of_both_is_refused(share, n):
    message = f"A share of {share} holds out {n} of the 10 training examples of task 'task 1'."
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        hold_out(numbered(1000, 10), share, seed=0)
