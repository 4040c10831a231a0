"""A network per task, each kept in a few bits per weight: the checkpoints that a memory has to beat."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import torch
from torch import Tensor, nn

from mnemon.benchmarks.task import Examples
from mnemon.errors import UsageError
from mnemon.learners.base import Counts
from mnemon.learners.bounds import AbstractFromScratch
from mnemon.problem import Problem

BITS = (32, 16, 8, 4, 2)
"""In how many bits a weight can be kept."""
FEWEST_OF_VECTORS = 16
"""Biases and scales are few, and kept in so many bits at least."""
BYTES_PER_SCALE = 4
_SHRINKINGS = 24
"""How many scales of a tensor are tried; the one with the smallest squared error is taken."""


class Start(str, Enum):
    """What the network of a task starts from."""

    INITIAL = "initial"
    """The same initial network for every task."""
    PREVIOUS = "previous"
    """The network of the task before, as it is kept."""


class Rounded(NamedTuple):
    """A tensor as whole numbers times a scale."""

    numbers: Tensor
    scale: Tensor

    @property
    def values(self) -> Tensor:
        """The tensor that they stand for."""
        return self.numbers * self.scale


def rounded(values: Tensor, bits: int) -> Rounded:
    """Round a tensor to whole numbers of so many bits, with the scale that has the smallest squared error.

    The numbers reach from `-(2^(bits-1) - 1)` to `2^(bits-1) - 1`; what is beyond is cut.
    """
    levels = 2 ** (bits - 1) - 1
    largest = values.abs().max() if values.numel() else values.new_zeros(())
    if not largest:
        return Rounded(torch.zeros_like(values), values.new_ones(()))
    tried = [_rounded(values, largest * share / levels, levels) for share in _shares(bits)]
    return min(tried, key=lambda one: float((one.values - values).square().sum()))


def _shares(bits: int) -> list[float]:
    """Return which shares of the largest value the range of the numbers may cover; with many bits, all of it."""
    return [1.0] if bits >= FEWEST_OF_VECTORS else [i / _SHRINKINGS for i in range(2, _SHRINKINGS + 1)]


def _rounded(values: Tensor, scale: Tensor, levels: int) -> Rounded:
    return Rounded((values / scale).round().clamp(-levels, levels), scale)


class SeparateNetworks(AbstractFromScratch):
    """A network for every task; its difference to the network that it started from is kept in a few bits per weight.

    With 32 bits the network is kept as it is. Buffers, such as the statistics of batch norm, always are. The initial
    network is kept, too: later tasks start from it, and differences are added to it.
    """

    @dataclass(frozen=True)
    class Config:
        """Settings of the method."""

        bits: int = 32
        """Bits in which a weight is kept: 32, 16, 8, 4 or 2; biases and scales take at least 16."""
        start: Start = Start.INITIAL
        """Where a task's network starts: initial (the same for all tasks) or previous (that of the task before)."""

        def __post_init__(self) -> None:
            if self.bits not in BITS:
                raise UsageError(f"method.bits must be one of {', '.join(map(str, BITS))}, not {self.bits}.")

    shares_batches = False

    def __init__(self, config: Config, problem: Problem):
        super().__init__(problem)
        self.config = config
        self.initial = problem.network(problem.outputs_per_task)

    def new_network(self) -> nn.Module:
        return copy.deepcopy(self._start_of(len(self.networks)))

    def _start_of(self, task_id: int) -> nn.Module:
        previous = task_id > 0 and self.config.start is Start.PREVIOUS
        return self.networks[task_id - 1] if previous else self.initial

    @torch.no_grad()
    def finish_learning(self, examples: Examples) -> None:
        task_id = self.n_begun - 1
        start = dict(self._start_of(task_id).named_parameters())
        for name, weights in self.networks[task_id].named_parameters():
            if (bits := self._bits(weights)) < 32:
                difference = rounded(weights - start[name], bits)
                weights.copy_(start[name] + difference.values)

    def _bits(self, weights: Tensor) -> int:
        return self.config.bits if weights.ndim > 1 else max(self.config.bits, FEWEST_OF_VECTORS)

    def counts(self) -> Counts:
        parameters, buffers = list(self.initial.parameters()), list(self.initial.buffers())
        size, numbers = sum(p.numel() for p in parameters), sum(t.numel() for t in (*parameters, *buffers))
        n_bytes = sum(self._bytes(p) for p in parameters) + sum(b.nbytes for b in buffers)
        return Counts(numbers, numbers, size, self.problem.n_tasks, bytes_per_task=n_bytes)

    def _bytes(self, weights: Tensor) -> int:
        bits = self._bits(weights)
        return weights.nbytes if bits == 32 else math.ceil(weights.numel() * bits / 8) + BYTES_PER_SCALE
