"""What the hypernetwork costs beside a plain step of ResNet-32, and what augmentation and reading cost.

Run with `python -m benchmarks.cifar [FOLDER]`; FOLDER holds CIFAR, otherwise reading is left out. As in `speed.py`,
every ratio is of CPU times that were taken in turns within one process, one thread: medians of rounds and quartiles.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import torch
from torch import nn

from benchmarks.speed import Action, Bars, cpu_seconds
from mnemon.benchmarks import sources
from mnemon.benchmarks.augment import FlipAndCrop, Standardise
from mnemon.benchmarks.split_cifar import CLASSES, MEAN, STD
from mnemon.benchmarks.task import Examples, Task, TaskKind, TaskStream
from mnemon.experiments.preset import load_preset
from mnemon.experiments.run import build_learner
from mnemon.experiments.run_config import resolve
from mnemon.learners.base import AbstractLearner
from mnemon.problem import Batch
from mnemon.training.batches import Batches


def noise(n_tasks: int, n: int = 2048) -> TaskStream:
    """Return tasks of the form of split CIFAR with random images: the time does not depend on the data."""
    images, labels = torch.randint(256, (n, 3, 32, 32), dtype=torch.uint8), torch.randint(0, CLASSES, (n,))
    examples = Examples(images, labels, Standardise(torch.tensor(MEAN), torch.tensor(STD)), FlipAndCrop())
    tasks = tuple(Task(str(i), examples, examples) for i in range(n_tasks))
    return TaskStream("noise", TaskKind.CLASSIFICATION, tasks, (3, 32, 32), CLASSES)


def learner_at(preset: str, task: int, batch_size: int, *words: str) -> tuple[AbstractLearner, Action]:
    """Return a learner of six tasks in its so-many-th, and its training step."""
    stream = noise(6)
    learner = build_learner(resolve(load_preset(preset), words), stream, seed=0)
    batches = Batches(stream.tasks, 0, batch_size, 0, False, 1000)
    for task_id in range(task):
        learner.begin_task(task_id)
        learner.train_step(Batch(task_id, batches[0].inputs, batches[0].targets))
        if task_id < task - 1:
            learner.end_task(stream.tasks[task_id].train)
    batch = Batch(task - 1, batches[1].inputs, batches[1].targets)
    return learner, lambda: learner.train_step(batch)


def plain_step(learner: AbstractLearner, batch_size: int) -> Action:
    """Return a training step of the same target with fused Adam and no hypernetwork."""
    problem = learner.problem
    network = problem.network(problem.outputs.total)
    optimizer = problem.optimizer.build(network.parameters())
    batch = Batches(noise(1).tasks, 0, batch_size, 0, False, 1000)[1]

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(batch.inputs)[:, :CLASSES], batch.targets).backward()
        optimizer.step()

    return step


def check_augmentation(bars: Bars, step: Action, batch_size: int) -> None:
    """Print the share of a step that goes into taking an augmented batch, and into augmenting it."""
    batches = Batches(noise(1).tasks, 0, batch_size, 0, False, 1000)
    augment, images = FlipAndCrop(), noise(1).tasks[0].train.inputs[:batch_size]
    whole = cpu_seconds(step, 5)
    taken = cpu_seconds(lambda: batches[7], 200)
    alone = cpu_seconds(lambda: augment(images, torch.Generator().manual_seed(0)), 200)
    bars.check(
        f"augmentation / step {alone / whole:.4f} ({1000 * alone:.2f} of {1000 * whole:.0f} ms); "
        f"a whole batch, taken, augmented and standardised, {1000 * taken:.2f} ms",
        alone / whole,
        at_most=0.05,
    )


def check_reading(bars: Bars, data: Path) -> None:
    """Print the CPU time in which both sets are read, verified and turned into tensors."""
    seconds = []
    for _ in range(3):
        start = time.process_time()
        for name in ("cifar-10", "cifar-100"):
            sources.load(name, data)
        seconds.append(time.process_time() - start)
    middle = sorted(seconds)[1]
    bars.check(f"CPU seconds to read and verify CIFAR-10 and CIFAR-100 {middle:.2f}", middle, at_most=3)


def main() -> int:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print(f"torch {torch.__version__}, one thread. Ratio of CPU times: median of rounds (quartiles); both; bar")
    bars = Bars()
    for preset, network, size in (("cifar-resnet32", "ResNet-32", 32), ("cifar-zenke", "ZenkeNet", 256)):
        learner, sixth = learner_at(preset, 6, size)
        _, second = learner_at(preset, 2, size)
        plain = plain_step(learner, size)
        bars.compare(f"{network}, batch {size}, task 6: step / plain step", sixth, plain, 9, 1, at_most=1.35)
        bars.compare(f"{network}, batch {size}: step at task 6 / at task 2", sixth, second, 9, 1, at_most=1.05)
    _, sixth = learner_at("cifar-resnet32", 6, 32)
    _, structured = learner_at("cifar-resnet32", 6, 32, "hypernet.form=structured")
    bars.compare("ResNet-32: structured / flat chunks, task 6", structured, sixth, 9, 1, at_most=1.05)
    _, generated = learner_at("cifar-resnet32", 6, 32, "statistics=generated")
    bars.compare("ResNet-32: generated / kept statistics, task 6", generated, sixth, 9, 1, at_most=1.05)
    check_augmentation(bars, sixth, 32)
    if len(sys.argv) > 1:
        check_reading(bars, Path(sys.argv[1]))
    return int(bars.missed)


if __name__ == "__main__":
    sys.exit(main())
