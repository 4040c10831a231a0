"""How well tasks are solved from every place of a two-dimensional embedding space."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import torch

from mnemon.benchmarks.task import Task
from mnemon.errors import UsageError
from mnemon.experiments.compute import Compute
from mnemon.experiments.older_records import complete
from mnemon.experiments.run import load_run
from mnemon.learners import METHODS
from mnemon.results.figures import EmbeddingMap
from mnemon.results.groups import Reportable, gather, method_of
from mnemon.results.record import RunRecord
from mnemon.training import checkpoint
from mnemon.training.evaluator import evaluate

MARGIN = 0.5
"""How far the map reaches beyond the embeddings, relative to their extent."""
SIDE, EXAMPLES = 21, 1000
"""Places along each side of the map that a run ends with, and test examples at each place: seconds to minutes."""


def without_map(item: Reportable) -> list[Path]:
    """Return the runs of which a map is still to be made: the first seed of each experiment."""
    experiments = [experiment for group in gather([item], complete) for experiment in group.experiments]
    found = (next(((path, r) for path, r in e.runs.items() if r.finished), None) for e in experiments)
    return [
        path
        for path, record in (run for run in found if run is not None)
        if _can_be_mapped(record) and (path / checkpoint.FILE).exists() and EmbeddingMap.read(path) is None
    ]


def keep_maps(folders: Iterable[Path], compute: Compute) -> None:
    """Make the maps of runs and keep them in their folders."""
    for folder in folders:
        map_of(folder, compute, SIDE, EXAMPLES).write(folder)


def _can_be_mapped(record: RunRecord) -> bool:
    """Say whether a run classifies with weights that are generated from embeddings of two numbers."""
    learner = METHODS.table.get(method_of(record))
    size = record.config.get("method", {}).get("hypernet", {}).get("embedding_size")
    return record.metric == "accuracy" and size == 2 and learner is not None and learner.maps_embeddings


@torch.no_grad()
def map_of(folder: Path, compute: Compute, side: int, most_examples: int | None = None) -> EmbeddingMap:
    """Return the map of a run's embedding space for its first and last task, a grid of `side` by `side` places.

    Weights are generated for one place at a time, so memory does not grow with the grid. Without `most_examples`
    every place is tested on the whole test sets.
    """
    if not (folder / checkpoint.FILE).exists():
        raise UsageError(f"There is no {checkpoint.FILE} in {folder}, which is needed to map its embeddings.")
    torch.set_num_threads(compute.threads)
    _, stream, learner = load_run(folder, compute)
    embeddings = learner.task_embeddings
    if not learner.maps_embeddings or any(len(embedding) != 2 for embedding in embeddings):
        raise UsageError(f"The run in {folder} has no task embeddings of two numbers, to draw a map of.")
    places = torch.stack([embedding.detach() for embedding in embeddings]).cpu()
    reach = MARGIN * float((places.amax(0) - places.amin(0)).max().clamp(min=1.0))
    xs, ys = (torch.linspace(float(c.min()) - reach, float(c.max()) + reach, side).tolist() for c in places.T)
    accuracy = {}
    for task_id in dict.fromkeys((0, len(stream) - 1)):
        task, own = _some_of(stream.tasks[task_id], most_examples), embeddings[task_id]
        grid: list[list[float]] = []
        for y in ys:
            grid.append([])
            for x in xs:
                own.copy_(own.new_tensor([x, y]))
                grid[-1].append(evaluate(learner, task, task_id).value)
        own.copy_(places[task_id])
        accuracy[task.name] = grid
    named = {task.name: (float(x), float(y)) for task, (x, y) in zip(stream.tasks, places, strict=True)}
    return EmbeddingMap(xs, ys, accuracy, named)


def _some_of(task: Task, most_examples: int | None) -> Task:
    """Return a task with at most so many test examples, spread evenly: they may be in the order of their classes."""
    test = task.test
    if most_examples is None or len(test) <= most_examples:
        return task
    index = torch.linspace(0, len(test) - 1, most_examples).round().long().to(test.device)
    return replace(task, test=replace(test, inputs=test.inputs[index], targets=test.targets[index]))
