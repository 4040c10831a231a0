"""How many of a run's samples a classifier trained on real data takes for the class they were drawn for.

python -m benchmarks.recognise RUN      a run with a replay model and one class per task
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import nn

from mnemon.benchmarks.task import TaskStream
from mnemon.experiments.compute import Compute
from mnemon.experiments.run import load_run
from mnemon.models.mlp import MLP
from mnemon.replay.source import AbstractDrawing

SAMPLES, STEPS, BATCH = 1000, 4000, 128


def trained_classifier(stream: TaskStream) -> nn.Module:
    """Return a plain network that tells all classes apart, trained on the real data of all tasks."""
    inputs = torch.cat([task.train.batch(slice(None))[0] for task in stream.tasks])
    labels = torch.cat([torch.full((len(task.train),), i) for i, task in enumerate(stream.tasks)])
    network = MLP(stream.input_shape, (400, 400), len(stream), nn.ReLU)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, fused=True)
    for _ in range(STEPS):
        chosen = torch.randint(len(inputs), (BATCH,))
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(inputs[chosen]), labels[chosen]).backward()
        optimizer.step()
    return network.eval()


@torch.no_grad()
def main(folder: Path) -> int:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    _, stream, learner = load_run(folder, Compute("cpu"))
    replay = learner.replay
    if stream.outputs_per_task != 1 or not isinstance(replay, AbstractDrawing) or not replay.by_task:
        sys.exit("This needs a run of one class per task, each drawn by itself, such as class-incremental-vae.")
    with torch.enable_grad():
        classifier = trained_classifier(stream)
    for task_id, task in enumerate(stream.tasks):
        real = classifier(task.test.batch(slice(None))[0]).argmax(1) == task_id
        if task_id >= replay.n_ready:
            continue
        drawn = classifier(replay.sample(SAMPLES, [task_id]).inputs).argmax(1) == task_id
        shares = f"{drawn.double().mean():7.2%} of samples, {real.double().mean():7.2%} of real test images"
        print(f"class {task.name}: {shares}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
