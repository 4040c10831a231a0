"""Keep what a regression run predicts for each of its curves: right after it was learned, and at the end."""

from __future__ import annotations

from pathlib import Path

import torch

from mnemon.benchmarks.task import TaskKind, TaskStream
from mnemon.errors import UsageError
from mnemon.learners.base import AbstractLearner
from mnemon.results.figures import PredictedCurve, read_curves, write_curves
from mnemon.results.figures.predictions import FILE


def keep(learner: AbstractLearner, stream: TaskStream, folder: Path, task_id: int) -> None:
    """Note the predictions for a task that has just been learned and, if it was the last, for all tasks."""
    if stream.kind is not TaskKind.REGRESSION or stream.input_shape != (1,) or stream.outputs_per_task != 1:
        return
    curves = _curves(stream, folder)
    now = _predicted(learner, stream, task_id)
    curves[task_id].right_after = curves[task_id].right_after or now
    if task_id == len(curves) - 1:
        for i, curve in enumerate(curves):
            curve.at_the_end = now if i == task_id else _predicted(learner, stream, i)
    write_curves(folder, curves)


def _curves(stream: TaskStream, folder: Path) -> list[PredictedCurve]:
    """Return what was predicted so far: nothing, in a new folder."""
    begun = [
        PredictedCurve(t.name, t.test.inputs.flatten().tolist(), t.test.targets.flatten().tolist())
        for t in stream.tasks
    ]
    found = read_curves(folder)
    if found and [(curve.name, len(curve.x)) for curve in found] != [(curve.name, len(curve.x)) for curve in begun]:
        raise UsageError(
            f"{folder / FILE} holds predictions for other tasks than the run has: delete it, then resume."
        )
    return found or begun


@torch.no_grad()
def _predicted(learner: AbstractLearner, stream: TaskStream, task_id: int) -> list[float]:
    inputs, _ = stream.tasks[task_id].test.batch(slice(None))
    return [float(value) for value in learner.predict(inputs, task_id).flatten().cpu()]
