"""Let a learner's replay model draw samples for the run folder: always from the same noise, to see it drift."""

from __future__ import annotations

import math
from pathlib import Path

import torch

from mnemon.learners.base import AbstractLearner
from mnemon.replay.source import AbstractDrawing
from mnemon.results import samples
from mnemon.results.samples import Moment
from mnemon.seeding import generator


def keep_right_after(learner: AbstractLearner, folder: Path, task_id: int) -> None:
    """Draw a task that has just been learned, unless that was done already."""
    if not samples.path_of(folder, task_id, Moment.RIGHT_AFTER).exists():
        _draw(learner, folder, task_id, Moment.RIGHT_AFTER)


def keep_at_the_end(learner: AbstractLearner, folder: Path) -> list[float]:
    """Draw all tasks again after the last; return how far each one's samples have drifted, where that can be told."""
    replay = learner.replay
    if not isinstance(replay, AbstractDrawing):
        return []
    for task_id in range(replay.n_ready):
        _draw(learner, folder, task_id, Moment.AT_THE_END)
    samples.write_sheet(folder)
    if not replay.by_task:
        return []
    there = samples.tasks_at_both_moments(folder)
    return [samples.drift(folder, task_id) if task_id in there else math.nan for task_id in range(replay.n_ready)]


def _draw(learner: AbstractLearner, folder: Path, task_id: int, moment: Moment) -> None:
    replay = learner.replay
    if not isinstance(replay, AbstractDrawing) or task_id >= replay.n_ready:
        return
    noise = torch.randn(samples.N_SAMPLES, replay.latent, generator=generator(0, "samples", task_id))
    images = replay.decode(task_id, noise.to(learner.device))
    samples.write(folder, task_id, moment, images.cpu().numpy())
