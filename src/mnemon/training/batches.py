"""Batches as a function of seed, task and step: a resumed run sees the same batches."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mnemon.benchmarks.task import Task
from mnemon.problem import Batch
from mnemon.seeding import generator


class Shuffled:
    """An endless stream of examples: pass after pass over a set, each in a new order.

    A set has a length, a `device`, and a `batch(index)` of inputs and targets.
    """

    def __init__(self, examples: Any, seed: int, purpose: str, task_id: int):
        self.examples, self._where = examples, (seed, purpose, task_id)
        self._orders: dict[int, Tensor] = {}

    def take(self, start: int, count: int) -> tuple[Any, Tensor]:
        """Return the examples at positions start to start + count of the stream."""
        n, first = len(self.examples), start
        parts = []
        while count:
            turn, offset = divmod(start, n)
            part = self._order(turn)[offset : offset + count]
            parts.append(part)
            start, count = start + len(part), count - len(part)
        index = torch.cat(parts) if len(parts) > 1 else parts[0]
        if getattr(self.examples, "augment", None) is None:
            return self.examples.batch(index)
        return self.examples.batch(index, generator(*self._where, first, 1))  # the 1 tells it from those of orders

    def _order(self, turn: int) -> Tensor:
        if turn not in self._orders:
            order = torch.randperm(len(self.examples), generator=generator(*self._where, turn))
            # A batch may reach over the end of a pass, so the pass before is still needed.
            self._orders = {t: o for t, o in self._orders.items() if t == turn - 1}
            self._orders[turn] = order.to(self.examples.device)
        return self._orders[turn]


def past_share(batch_size: int, n_past: int) -> int:
    """Return how many examples of each earlier task a step has, rounded up: enough for a whole batch."""
    return -(-batch_size // max(1, n_past))


class Batches:
    """The batches of one task."""

    def __init__(
        self, tasks: tuple[Task, ...], task_id: int, batch_size: int, seed: int, with_past: bool, steps: int
    ):
        self.task_id, self.batch_size, self.steps = task_id, batch_size, steps
        self.present = Shuffled(tasks[task_id].train, seed, "batches", task_id)
        past = range(task_id) if with_past else ()
        self.past = [Shuffled(tasks[t].train, seed, "replay", task_id * len(tasks) + t) for t in past]

    def __getitem__(self, step: int) -> Batch:
        """Return the batch of a step; each earlier task has an even share of a second batch."""
        inputs, targets = self.present.take(step * self.batch_size, self.batch_size)
        share = past_share(self.batch_size, len(self.past))
        past = tuple(Batch(t, *s.take(step * share, share)) for t, s in enumerate(self.past))
        return Batch(self.task_id, inputs, targets, past, step / self.steps)
