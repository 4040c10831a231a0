"""The real data of earlier tasks in place of samples: what replay could reach at best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from mnemon.benchmarks.task import Examples
from mnemon.errors import UsageError
from mnemon.problem import Batch, Problem, Terms
from mnemon.replay.config import ReplayConfig
from mnemon.replay.source import AbstractReplay, Replayed, spread


class RealData(AbstractReplay):
    """Hands on the earlier tasks' data that come with each batch; it keeps nothing."""

    sees_past = True

    @dataclass(frozen=True)
    class Config(ReplayConfig):
        """Settings of the source."""

        model: str = "real"
        """The name of the source."""

    def __init__(self, config: Config, problem: Problem):
        super().__init__()
        self._past: tuple[Batch, ...] = ()

    @property
    def n_ready(self) -> int:
        return len(self._past)

    def train_step(self, batch: Batch) -> Terms:
        self._past = batch.past
        return {}

    def finish_learning(self, examples: Examples) -> None:
        self._past = ()

    def draw(self, n: int, tasks: Sequence[int]) -> Replayed:
        inputs, names = [], []
        for task, count in spread(n, tasks):
            past = self._past[task]
            if len(past) < count:
                raise UsageError(f"A batch holds {len(past)} examples of task {task + 1}; {count} are asked for.")
            inputs.append(past.inputs[:count])
            names.append(torch.full((count,), task, device=past.inputs.device))
        return Replayed(torch.cat(inputs), torch.cat(names))
