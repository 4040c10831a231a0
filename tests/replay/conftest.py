"""Replay models that learn alone, a few steps of three tiny tasks."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from mnemon.hypernet import HypernetConfig
from mnemon.learners.base import AbstractLearner, Answer, Counts
from mnemon.problem import Batch, Problem, Terms
from mnemon.replay import REPLAYS, ReplayConfig, build_replay
from mnemon.replay.source import AbstractReplay

HYPERNET = HypernetConfig(hidden=(8,), embedding_size=4, chunk=23, chunk_embedding_size=3)
TINY = {"encoder": (7,), "decoder": (8,), "latent": 3, "condition_size": 2, "hypernet": HYPERNET}


class Alone(AbstractLearner):
    """Learns to replay, and nothing else."""

    def __init__(self, config: ReplayConfig, problem: Problem):
        super().__init__(problem)
        self._replay = build_replay(config, problem)

    @property
    def replay(self) -> AbstractReplay:
        return self._replay

    def train_step(self, batch: Batch) -> Terms:
        return self._replay.train_step(batch)

    def predict(self, inputs: Tensor, task_id: int) -> Tensor:
        raise NotImplementedError

    def answer(self, inputs: Tensor) -> Answer:
        raise NotImplementedError

    def counts(self) -> Counts:
        raise NotImplementedError


@pytest.fixture
def alone(problem) -> Callable[..., Alone]:
    """Make a replay model that learns alone."""

    def make(optimizer: dict | None = None, n_tasks: int = 3, model: str = "vae", **settings) -> Alone:
        made = problem(n_tasks=n_tasks, shape=(9,), **(optimizer or {"lr": 0.02}))
        config = REPLAYS[model].Config
        known = {field.name for field in dataclasses.fields(config)}
        tiny = {name: value for name, value in TINY.items() if name in known}
        return Alone(config(**{**tiny, **settings}), made)

    return make


@pytest.fixture
def learn(picture_batch, pictures) -> Callable[..., Alone]:
    """Let it learn from one moment (task, step) to another; (t, 0) is before task t begins."""

    def go(learner: Alone, start: tuple[int, int], stop: tuple[int, int], steps: int = 4) -> Alone:
        task, step = start
        while (task, step) != stop:
            if step == 0:
                learner.begin_task(task)
            torch.default_generator.manual_seed(100 * task + step)
            learner.train_step(picture_batch(task, step))
            step += 1
            if step == steps:
                learner.end_task(pictures.tasks[task].train)
                task, step = task + 1, 0
        return learner

    return go
