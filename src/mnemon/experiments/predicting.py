"""Keep what a regression run predicts for each of its curves: right after it was learned, and at the end."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch

from mnemon.benchmarks.task import Kind, TaskStream
from mnemon.errors import UsageError
from mnemon.learners.base import AbstractLearner
from mnemon.results.record import write_text

FILE = "predictions.json"


@dataclass
class Curve:
    """A task of one number for another: inputs, what is true, and what was predicted."""

    name: str
    x: list[float]
    truth: list[float]
    right_after: list[float] = field(default_factory=list)
    at_the_end: list[float] = field(default_factory=list)


def keep(learner: AbstractLearner, stream: TaskStream, folder: Path, task_id: int) -> None:
    """Note the predictions for a task that has just been learned and, if it was the last, for all tasks."""
    if stream.kind is not Kind.REGRESSION or stream.input_shape != (1,) or stream.outputs_per_task != 1:
        return
    curves = read(folder) or [
        Curve(t.name, t.test.inputs.flatten().tolist(), t.test.targets.flatten().tolist()) for t in stream.tasks
    ]
    if not curves[task_id].right_after:
        curves[task_id].right_after = _predicted(learner, stream, task_id)
    if task_id == len(curves) - 1:
        for i, curve in enumerate(curves):
            curve.at_the_end = _predicted(learner, stream, i)
    write_text(folder / FILE, json.dumps([asdict(curve) for curve in curves]))


def read(folder: Path) -> list[Curve]:
    """Return the predictions in a run folder; none, if none were kept."""
    try:
        return [Curve(**facts) for facts in json.loads((folder / FILE).read_text(encoding="utf-8"))]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(f"{folder / FILE} holds no predictions ({error}): delete it.") from error


@torch.no_grad()
def _predicted(learner: AbstractLearner, stream: TaskStream, task_id: int) -> list[float]:
    inputs, _ = stream.tasks[task_id].test.batch(slice(None))
    return [float(value) for value in learner.predict(inputs, task_id).flatten().cpu()]
