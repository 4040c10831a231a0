"""The present task's own inputs in place of earlier ones: learning without forgetting (LwF)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from mnemon.benchmarks.task import Examples
from mnemon.errors import UsageError
from mnemon.problem import Batch, Problem, Terms
from mnemon.replay.config import ReplayConfig
from mnemon.replay.source import AbstractReplay, Replayed


class PresentData(AbstractReplay):
    """Hands on the inputs of each batch, for all earlier tasks alike; it keeps nothing."""

    by_task = False

    @dataclass(frozen=True)
    class Config(ReplayConfig):
        """Settings of the source."""

        model: str = "present"
        """The name of the source."""

    def __init__(self, config: Config, problem: Problem):
        super().__init__()
        self._inputs: Tensor | None = None

    @property
    def n_ready(self) -> int:
        return 0 if self._inputs is None else self.n_begun - 1

    def train_step(self, batch: Batch) -> Terms:
        self._inputs = batch.inputs
        return {}

    def finish_learning(self, examples: Examples) -> None:
        self._inputs = None

    def draw(self, n: int, tasks: Sequence[int]) -> Replayed:
        assert self._inputs is not None
        if n > len(self._inputs):
            raise UsageError(f"A batch holds {len(self._inputs)} inputs; {n} are asked for.")
        return Replayed(self._inputs[:n], None)
