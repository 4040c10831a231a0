"""Epochs and learning rates: how many steps a task has, and the rate in each of them."""

from __future__ import annotations

import re

import pytest
import torch

from mnemon.errors import UsageError
from mnemon.learners.bounds import FinetunedTarget
from mnemon.optimizer import OptimizerConfig, Schedule
from mnemon.problem import Batch
from mnemon.training.trainer import Stopped, Trainer, TrainingConfig


@pytest.mark.parametrize(
    ("epochs", "batch_size", "n", "steps"),
    [
        (None, 32, 100, 7),
        (1, 32, 100, 4),
        (2, 50, 100, 4),
        (200, 32, 50_000, 312_500),
        (0.01, 64, 100, 1),
        (3, 1, 5, 15),
    ],
)
def test_epochs_are_passes_over_the_data_of_a_task(epochs, batch_size, n, steps):
    assert TrainingConfig(steps=7, epochs=epochs, batch_size=batch_size).steps_for(n) == steps


def test_the_paper_s_schedule_falls_after_80_120_160_and_180_of_200_epochs():
    config = OptimizerConfig(schedule=Schedule.STEPS)
    epochs = [0, 79, 80, 119, 120, 159, 160, 179, 180, 199]
    factors = [1, 1, 0.1, 0.1, 0.01, 0.01, 1e-3, 1e-3, 5e-4, 5e-4]
    assert [config.factor(epoch * 10, 2000) for epoch in epochs] == factors


def test_a_cosine_falls_from_1_to_nearly_0():
    config = OptimizerConfig(schedule=Schedule.COSINE)
    values = [config.factor(step, 100) for step in range(100)]
    assert values[0] == 1
    assert values[50] == pytest.approx(0.5)
    assert 0 < values[99] < 1e-3
    assert values == sorted(values, reverse=True)


@pytest.mark.parametrize("schedule", Schedule)
def test_a_warm_up_rises_evenly_and_then_follows_the_schedule(schedule):
    config = OptimizerConfig(schedule=schedule, warmup=0.1)
    values = [config.factor(step, 100) for step in range(100)]
    assert values[:10] == pytest.approx([0.1 * (step + 1) for step in range(10)])
    assert max(values) == values[10] == 1
    assert values[99] == {"constant": 1, "steps": 5e-4, "cosine": values[99]}[schedule.value]


def test_the_trainer_sets_the_rate_of_every_step_and_of_every_task_anew(blobs, problem):
    seen: list[float] = []

    class Watched(FinetunedTarget):
        def train_step(self, batch: Batch):
            seen.append(self.optimizers["target"].param_groups[0]["lr"])
            return super().train_step(batch)

    learner = Watched(
        FinetunedTarget.Config(), problem(lr=0.4, schedule=Schedule.STEPS, milestones=(0.5,), factors=(0.25,))
    )
    progress = Trainer(learner, blobs, TrainingConfig(epochs=1, batch_size=16), seed=0).run()
    assert progress.steps == (4, 4, 4)
    assert seen == pytest.approx([0.4, 0.4, 0.1, 0.1] * 3)


def test_a_run_with_epochs_and_a_schedule_resumes_as_if_it_had_not_stopped(blobs, problem, tmp_path):
    config = TrainingConfig(epochs=1.5, batch_size=16)

    def learner() -> FinetunedTarget:
        torch.manual_seed(5)
        return FinetunedTarget(FinetunedTarget.Config(), problem(lr=0.05, schedule=Schedule.COSINE, warmup=0.3))

    whole = learner()
    Trainer(whole, blobs, config, seed=0).run()
    for stops in (4, 9, 10**6):
        calls = iter(range(10**7))
        part = learner()
        trainer = Trainer(part, blobs, config, 0, tmp_path, should_stop=lambda: next(calls) >= stops)  # noqa: B023
        trainer.resume()
        try:
            trainer.run()
        except Stopped:
            assert trainer.progress.task_id < 3
    assert trainer.progress.task_id == 3
    for name, tensor in whole.tensors().items():
        assert torch.equal(tensor, part.tensors()[name]), name


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TrainingConfig(epochs=0.0), "training.epochs must be a finite number above 0, not 0.0."),
        (
            lambda: OptimizerConfig(milestones=(0.5,)),
            "optimizer.milestones and optimizer.factors must have the same length, not 1 and 4.",
        ),
        (
            lambda: OptimizerConfig(milestones=(0.5, 0.2), factors=(0.1, 0.1)),
            "optimizer.milestones must be increasing shares from 0 to 1, not [0.5, 0.2].",
        ),
        (
            lambda: OptimizerConfig(milestones=(80.0,), factors=(0.1,)),
            "optimizer.milestones must be increasing shares from 0 to 1, not [80.0].",
        ),
        (lambda: OptimizerConfig(warmup=1.0), "optimizer.warmup must be at least 0 and below 1, not 1.0."),
    ],
)
def test_wrong_settings_are_named(make, message):
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        make()
