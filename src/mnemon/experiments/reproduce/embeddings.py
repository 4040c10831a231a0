"""How well tasks are solved from every place of a two-dimensional embedding space."""

from __future__ import annotations

from pathlib import Path

import torch

from mnemon.errors import UsageError
from mnemon.experiments.run import Place, load_run
from mnemon.learners.hypernet import HypernetLearner
from mnemon.results.figures import EmbeddingMap
from mnemon.training import checkpoint
from mnemon.training.evaluator import evaluate

MARGIN = 0.5
"""How far the map reaches beyond the embeddings, relative to their extent."""


@torch.no_grad()
def map_of(folder: Path, place: Place, side: int) -> EmbeddingMap:
    """Return the map of a run's embedding space for its first and last task, a grid of `side` by `side` places.

    Weights are generated for one place at a time, so memory does not grow with the grid.
    """
    if not (folder / checkpoint.FILE).exists():
        raise UsageError(
            f"There is no {checkpoint.FILE} in {folder}, without which no map of its embeddings can be made."
        )
    torch.set_num_threads(place.threads)
    _, stream, learner = load_run(folder, place)
    if not isinstance(learner, HypernetLearner) or learner.memory.hypernet.embedding_size != 2:
        raise UsageError(f"The run in {folder} has no task embeddings of two numbers, of which a map could be made.")
    embeddings = learner.memory.embeddings
    places = torch.stack([embedding.detach() for embedding in embeddings]).cpu()
    reach = MARGIN * float((places.amax(0) - places.amin(0)).max().clamp(min=1.0))
    xs, ys = (torch.linspace(float(c.min()) - reach, float(c.max()) + reach, side).tolist() for c in places.T)
    accuracy = {}
    for task_id in dict.fromkeys((0, len(stream) - 1)):
        task, own = stream.tasks[task_id], embeddings[task_id]
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
