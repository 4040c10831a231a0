"""The sums by which tasks are recognised, as tensors and facts of a model's file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mnemon.continual.learned_task import Signature
from mnemon.continual.recognition import StatisticsRecogniser, Strangeness, TaskSums
from mnemon.inference.features import LayerFeatures, is_image
from mnemon.inference.sums import packed_size

PREFIX = "recognition/"
FEATURES = f"{PREFIX}features/"
SUMS = ("counts", "sums", "within")


@dataclass(frozen=True)
class TaskFacts:
    """What the header says of a task's sums."""

    sharpness: float
    middle: tuple[float, float]
    spread: tuple[float, float]
    bound: float
    right: float
    rivals: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class RecognitionFacts:
    """What the header says of the sums."""

    inputs: Signature
    """Form of the inputs of the first task."""
    layer: int
    """Numbers that a layer gives, if its outputs are the features; else 0."""
    tasks: tuple[TaskFacts, ...]


def tensors_of(sums: StatisticsRecogniser) -> dict[str, Tensor]:
    """Return the sums and what the features keep, by their names in a file."""
    found = {f"{PREFIX}{i}/{name}": getattr(task, name) for i, task in enumerate(sums.tasks) for name in SUMS}
    features = sums.features.state_dict() if sums.features is not None else {}
    return {**found, **{f"{FEATURES}{name}": value for name, value in features.items()}}


def facts_of(sums: StatisticsRecogniser) -> dict[str, Any] | None:
    """Return the facts for a header; none before the first task."""
    if sums.features is None:
        return None
    layer = sums.features.n_numbers if isinstance(sums.features, LayerFeatures) else 0
    tasks = [
        {
            "sharpness": task.sharpness,
            "middle": task.strangeness.middle,
            "spread": task.strangeness.spread,
            "bound": task.strangeness.bound,
            "right": task.right,
            "rivals": task.rivals,
        }
        for task in sums.tasks
    ]
    return {"inputs": sums.inputs, "layer": layer, "tasks": tasks}


def take_up(
    sums: StatisticsRecogniser, facts: RecognitionFacts | None, tensors: dict[str, Tensor], n_classes: Sequence[int]
) -> None:
    """Take over the sums of a file, of tasks with so many classes; raises ValueError where they do not fit."""
    if facts is None:
        if tensors or n_classes:
            raise ValueError("it has tasks, and no sums by which they are recognised.")
        return
    if len(facts.tasks) != len(n_classes):
        raise ValueError(f"it has sums of {len(facts.tasks)} tasks, and {len(n_classes)} tasks.")
    _make_features(sums, facts, {n.removeprefix(FEATURES): t for n, t in tensors.items() if n.startswith(FEATURES)})
    tasks = [_task(i, said, tensors, n) for i, (said, n) in enumerate(zip(facts.tasks, n_classes, strict=True))]
    assert sums.features is not None
    known = {f"{PREFIX}{i}/{name}" for i in range(len(tasks)) for name in SUMS}
    if foreign := [name for name in tensors if name not in known and not name.startswith(FEATURES)]:
        raise ValueError(f"'{foreign[0]}' is not known.")
    if len({task.sums.shape[1] for task in tasks}) > 1 or any(t.sums.shape[1] > sums.features.width for t in tasks):
        raise ValueError("its sums are not over the same features.")
    sums.tasks = tasks


def _make_features(sums: StatisticsRecogniser, facts: RecognitionFacts, kept: dict[str, Tensor]) -> None:
    """Make the features as they were, after comparing what is claimed of their size with what is there."""
    sums.inputs = facts.inputs
    n_kept = sum(tensor.numel() for tensor in kept.values())
    for shape, _ in facts.inputs:
        if any(side < 0 for side in shape) or (is_image(shape) and sums.run is None and shape[0] > n_kept):
            raise ValueError(f"inputs of shape {list(shape)} do not fit its features.")
    if (facts.layer > 0) != (sums.run is not None) or not facts.inputs:
        raise ValueError("its features are of another kind.")
    features = sums.form_of_features()
    if isinstance(features, LayerFeatures):
        features.turn_for(min(facts.layer, LONGEST_LAYER))
    own = {name: (tensor.shape, tensor.dtype) for name, tensor in features.state_dict().items()}
    if own != {name: (tensor.shape, tensor.dtype) for name, tensor in kept.items()}:
        raise ValueError("what its features keep is of another form.")
    features.load_state_dict(kept)
    features.rebuild()
    sums.features = features


LONGEST_LAYER = 4096
"""Numbers of a layer that features look at, at most."""


def _task(i: int, facts: TaskFacts, tensors: dict[str, Tensor], n_classes: int) -> TaskSums:
    try:
        counts, sums, within = (tensors[f"{PREFIX}{i}/{name}"] for name in SUMS)
    except KeyError as error:
        raise ValueError(f"{error} is missing.") from error
    wide = sums.shape[-1] if sums.ndim == 2 else -1
    if (
        counts.dtype != torch.float64
        or sums.dtype != torch.float64
        or within.dtype != torch.float32
        or counts.shape not in ((n_classes,), (1,))
        or sums.shape != (len(counts), wide)
        or within.shape != (packed_size(wide),)
    ):
        raise ValueError(f"the sums of task {i} have other shapes than those of {n_classes} classes.")
    numbers = (facts.sharpness, *facts.middle, *facts.spread, facts.bound, facts.right)
    if not all(math.isfinite(number) for number in numbers) or not (facts.sharpness > 0 and min(facts.spread) > 0):
        raise ValueError(f"what was measured of task {i} are no such numbers.")
    strangeness = Strangeness(facts.middle, facts.spread, facts.bound)
    return TaskSums(counts, sums, within, facts.sharpness, strangeness, facts.right, facts.rivals)
