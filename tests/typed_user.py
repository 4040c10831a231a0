"""A program as a user writes it, which mypy --strict accepts: what mnemon returns has types."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

import mnemon


def learn(module: nn.Module, days: dict[str, tuple[Tensor, Tensor]], path: Path) -> list[str]:
    """Learn days one after another, keep the model, and take it up again."""
    model = mnemon.ContinualModel(module, adapters=mnemon.LoRA(rank=2), hypernet=mnemon.HypernetConfig(), seed=1)
    learned: list[mnemon.LearnedTask] = [model.learn(data, task=day, quiet=True) for day, data in days.items()]
    model.save(path)
    again: mnemon.ContinualModel = mnemon.load(path, module)
    mnemon.export(again, learned[0].name, path.with_suffix(".safetensors"))
    return again.tasks


def most_confident(model: mnemon.ContinualModel, inputs: Tensor) -> tuple[str, float]:
    """Name the task of the input that the model is surest of."""
    prediction: mnemon.Prediction = model.predict(inputs)
    confidence: Tensor = prediction.confidence
    best = int(confidence.argmax())
    return prediction.task[best], float(confidence[best])


def final(folder: Path) -> float:
    """Return the mean accuracy at the end of a run."""
    record: mnemon.RunRecord = mnemon.RunRecord.read(folder)
    matrix: mnemon.AccuracyMatrix = record.accuracy
    return matrix.final.value


@dataclass(frozen=True)
class Signs:
    """A benchmark of one's own: is a number positive?"""

    n_tasks: int = 2

    def build(self, data: Path | None, seed: int) -> mnemon.TaskStream:
        """Return the tasks."""
        inputs = torch.linspace(-1, 1, 10)[:, None]
        examples = mnemon.Examples(inputs, (inputs[:, 0] > 0).long())
        tasks = tuple(mnemon.Task(f"signs {i}", examples, examples) for i in range(self.n_tasks))
        return mnemon.TaskStream("signs", mnemon.TaskKind.CLASSIFICATION, tasks, (1,), 2)


signs: mnemon.Benchmark = Signs()


class Guess(mnemon.AbstractLearner):
    """A method of one's own: it learns nothing."""

    @dataclass(frozen=True)
    class Config:
        """No settings."""

    def __init__(self, problem: mnemon.Problem, config: Config):
        super().__init__(problem)

    def train_step(self, batch: mnemon.Batch) -> dict[str, Tensor]:
        """Learn nothing."""
        return {"task_loss": torch.zeros(())}

    def predict(self, inputs: Tensor, task_id: int) -> Tensor:
        """Answer anything."""
        return torch.zeros(len(inputs), self.problem.outputs_per_task)

    def answer(self, inputs: Tensor) -> mnemon.Answer:
        """Answer the first output."""
        return mnemon.Answer(torch.zeros(len(inputs), dtype=torch.int64), None)

    def counts(self) -> mnemon.Counts:
        """Count nothing."""
        return mnemon.Counts(learned=0, per_task=0, target=1, n_tasks=self.problem.n_tasks)


def run(folder: Path) -> None:
    """Train the method on the benchmark, and refuse to go on if a user's mistake comes up."""
    try:
        stream = signs.build(None, 0)
    except mnemon.UsageError as error:
        raise SystemExit(str(error)) from error
    assert len(stream) == 2
