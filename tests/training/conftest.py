"""Small streams and a learner that is quick to train."""

from __future__ import annotations

from pathlib import Path

import pytest
import tiny
import torch

from mnemon.benchmarks.task import Examples, Task, TaskKind, TaskStream
from mnemon.experiments.preset import load_preset
from mnemon.experiments.run import build_learner
from mnemon.experiments.run_config import RunConfig, resolve
from mnemon.training.trainer import Trainer

SMALL = ("steps=12", "target.hidden=[6]", "batch_size=8", "log_every=5")


@pytest.fixture(scope="session")
def stream() -> TaskStream:
    """Three tasks to tell apart which of two coordinates is larger, with a sign of their own."""
    random = torch.Generator().manual_seed(0)

    def examples(n: int, sign: float) -> Examples:
        inputs = torch.rand(n, 4, generator=random)
        return Examples(inputs, (sign * (inputs[:, 0] - inputs[:, 1]) > 0).long())

    tasks = tuple(Task(f"sign {sign}", examples(20, sign), examples(10, sign)) for sign in (1.0, -1.0, 1.0))
    return TaskStream("signs", TaskKind.CLASSIFICATION, tasks, (4,), 2)


@pytest.fixture
def make_trainer(stream):
    """Return a trainer with a fresh learner."""

    def make(*words: str, method="hypernet", seed: int = 0, folder: Path | None = None, **more) -> Trainer:
        infers = ("hypernet-tir", "hypernet-lik", "hypernet-stat")  # these have nothing to do in cl1
        told = "cl3" if method in infers else "cl1"
        own = (*tiny.words_of(method), f"scenario={told}")
        config: RunConfig = resolve(load_preset("split-digits"), (f"method={method}", *own, *SMALL, *words))
        learner = build_learner(config, stream, seed)
        return Trainer(learner, stream, config.training, seed, folder, config.plain(), **more)

    return make
