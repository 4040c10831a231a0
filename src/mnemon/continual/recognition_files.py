"""Read and write the sums for task recognition in a model's file."""

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
    """The header's entry for a task."""

    sharpness: float
    middle: tuple[float, float]
    spread: tuple[float, float]
    bound: float
    right: float
    rivals: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class RecognitionFacts:
    """The header's entry for the recogniser."""

    inputs: Signature
    """Form of the inputs of the first task."""
    layer: int
    """Numbers that a layer gives, if its outputs are the features; else 0."""
    tasks: tuple[TaskFacts, ...]


def tensors_of(sums: StatisticsRecogniser) -> dict[str, Tensor]:
    """Return the sums and the state of the features, by their names in a file."""
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
    """Load the sums of a file, for tasks with these numbers of classes; raises ValueError if they do not fit."""
    if facts is None:
        if tensors or n_classes:
            raise ValueError("it has tasks, but no sums to recognise them.")
        return
    if len(facts.tasks) != len(n_classes):
        raise ValueError(f"it has {len(n_classes)} tasks, but the sums of {len(facts.tasks)}.")
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
    """Restore the features, after checking their claimed size against the file."""
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
        raise ValueError("its features have another form.")
    features.load_state_dict(kept)
    features.rebuild()
    sums.features = features


LONGEST_LAYER = 4096
"""Maximum number of outputs of a layer that features use."""


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
        raise ValueError(f"the measurements of task {i} are not valid.")
    strangeness = Strangeness(facts.middle, facts.spread, facts.bound)
    return TaskSums(counts, sums, within, facts.sharpness, strangeness, facts.right, facts.rivals)
