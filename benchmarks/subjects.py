"""What is timed: learners in the middle of a stream of noise, their steps, and plain steps of the same networks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

import mnemon
from benchmarks.timing import Action
from mnemon.benchmarks.task import Examples, Task, TaskKind, TaskStream
from mnemon.continual.objective import goal_for
from mnemon.experiments.compute import Compute
from mnemon.experiments.preset import load_preset
from mnemon.experiments.run import build_learner, build_stream
from mnemon.experiments.run_config import RunConfig, resolve
from mnemon.learners.hypernet import HypernetLearner
from mnemon.memory import fisher
from mnemon.models import TargetConfig, build_network
from mnemon.problem import Batch
from mnemon.training.evaluator import evaluate
from mnemon.training.trainer import Trainer

FORMS: dict[str, tuple[tuple[int, ...], int]] = {
    "permuted-mnist": ((1024,), 10),
    "split-mnist": ((784,), 2),
    "split-digits": ((64,), 2),
    "split-cifar": ((3, 32, 32), 10),
    "toy-regression": ((1,), 1),
}
"""Shape of an input, and outputs per task."""


@dataclass
class Subject:
    """A learner in its newest task, and a batch of it."""

    config: RunConfig
    stream: TaskStream
    learner: HypernetLearner
    batch: Batch

    def step(self) -> object:
        """Take a training step."""
        return self.learner.train_step(self.batch)

    def plain_step(self) -> Action:
        """Return a training step of the same target as one would write it in PyTorch alone, with its fused Adam."""
        problem, batch = self.learner.problem, self.batch
        network = problem.network(problem.outputs.total)
        optimizer = torch.optim.Adam(network.parameters(), lr=problem.optimizer.lr, fused=True)

        def step() -> None:
            optimizer.zero_grad()
            problem.loss(network(batch.inputs)[:, : problem.outputs_per_task], batch.targets).backward()
            optimizer.step()

        return step


def noise(form: tuple[tuple[int, ...], int], n_tasks: int, n: int, n_test: int = 1) -> TaskStream:
    """Return tasks of one form that share their examples: the time does not depend on the data."""
    shape, outputs = form
    kind = TaskKind.CLASSIFICATION if outputs > 1 else TaskKind.REGRESSION
    train, test = (_examples(shape, outputs, size) for size in (n, n_test))
    tasks = tuple(Task(str(i), train, test) for i in range(n_tasks))
    return TaskStream("noise", kind, tasks, shape, outputs)


def _examples(shape: tuple[int, ...], outputs: int, n: int) -> Examples:
    if outputs == 1:
        return Examples(torch.rand(n, *shape), torch.rand(n, 1))
    return Examples(torch.randint(0, 256, (n, *shape), dtype=torch.uint8), torch.randint(0, outputs, (n,)))


def subject(
    preset: str, n_tasks: int, task: int, settings: Sequence[str] = (), trained: bool = False, n_test: int = 1
) -> Subject:
    """Return a learner in its so-many-th task; if trained, with a step in each task before it."""
    config = resolve(load_preset(preset), settings)
    stream = noise(FORMS[config.benchmark_name], n_tasks, config.training.batch_size, n_test)
    learner = build_learner(config, stream, seed=0)
    assert isinstance(learner, HypernetLearner)
    inputs, targets = stream.tasks[0].train.batch(slice(None))
    for task_id in range(task):
        learner.begin_task(task_id)
        if trained:
            learner.train_step(Batch(task_id, inputs, targets))
        if task_id < task - 1:
            learner.end_task(stream.tasks[task_id].train)
    return Subject(config, stream, learner, Batch(task - 1, inputs, targets))


def tests(made: Subject, at_once: int) -> tuple[Action, Action]:
    """Return the test of the newest task, and that of a plain network of the same form."""
    task, problem = made.stream.tasks[0], made.learner.problem
    network = problem.network(problem.outputs.total).eval()

    @torch.no_grad()
    def plain() -> None:
        for start in range(0, len(task.test), at_once):
            inputs, targets = task.test.batch(slice(start, start + at_once))
            (network(inputs)[:, : problem.outputs_per_task].argmax(1) == targets).sum().item()

    return lambda: evaluate(made.learner, task, made.batch.task_id), plain


def answers(preset: str, n_tasks: int, n: int = 10_000) -> tuple[Action, Action]:
    """Return the answers to inputs whose task is not told, and to the same of one that is."""
    learner, inputs = subject(preset, n_tasks, n_tasks).learner, torch.rand(n, 1024)
    return lambda: learner.answer(inputs), lambda: learner.predict(inputs, n_tasks - 1)


def runs(preset: str, steps: int) -> tuple[Action, Action]:
    """Return a run of few steps per task, from building it to its last test, and as many plain steps."""
    config = resolve(load_preset(preset), [f"steps={steps}"])
    stream = build_stream(config, 0, Compute())

    def run() -> None:
        Trainer(build_learner(config, stream, 0), stream, config.training, 0).run()

    plain = subject(preset, len(stream), 1).plain_step()
    return run, lambda: [plain() for _ in range(steps * len(stream))]


def fishers(n: int = 1000) -> tuple[Action, Action]:
    """Return the Fisher information of split MNIST's network from single examples, and from whole batches."""
    network = build_network(TargetConfig(), (784,), 10)
    inputs, targets = torch.rand(n, 784), torch.randint(0, 10, (n,))

    def likelihood(outputs: Tensor, classes: Tensor) -> Tensor:
        return -nn.functional.cross_entropy(outputs, classes, reduction="sum")

    of_all = network, likelihood, inputs, targets
    return lambda: fisher.one_by_one(*of_all), lambda: fisher.fisher_of_network(*of_all)


def continual_steps(n_tasks: int, batch_size: int = 64) -> tuple[Action, Action]:
    """Return a step of `ContinualModel` in its so-many-th task, and a plain step of the same module."""

    def module() -> nn.Module:
        return nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))

    model = mnemon.ContinualModel(module())
    inputs, labels = torch.rand(batch_size, 784), torch.arange(batch_size) % 10
    for i in range(n_tasks):
        model.learn((inputs, labels), task=str(i), steps=1, quiet=True)
    learner, goal = model.state.learner, goal_for(labels, "auto")
    learner.begin_again(n_tasks - 1)
    return lambda: learner.train_step((inputs,), labels, goal), _plain(module(), inputs, labels)


def _plain(network: nn.Module, inputs: Tensor, labels: Tensor) -> Action:
    optimizer = torch.optim.Adam(network.parameters(), fused=True)

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(inputs), labels).backward()
        optimizer.step()

    return step
