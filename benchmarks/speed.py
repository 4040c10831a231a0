"""What a step of the hypernetwork learner costs beside a plain training step, and what the exact penalty saves.

Run with `make bench`. Every number is a ratio of CPU times taken in turns within one process, so that a busy machine
slows both sides alike; shown are the median of the rounds and their quartiles. Memory is the peak of a fresh process.
"""

from __future__ import annotations

import copy
import math
import multiprocessing
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from mnemon.benchmarks.task import Examples, Kind, Task, TaskStream
from mnemon.experiments.preset import load_preset
from mnemon.experiments.run import build_learner
from mnemon.experiments.run_config import resolve
from mnemon.hypernet import build_hypernet
from mnemon.hypernet.chunked import ChunkedHypernet
from mnemon.hypernet.target import Target
from mnemon.learners.hypernet import HypernetLearner
from mnemon.models import TargetConfig, build_network
from mnemon.problem import Batch
from mnemon.regularizers import fisher, output
from mnemon.regularizers.output import Anchors, exact_penalty, plain_penalty
from mnemon.training.evaluator import BATCH

Action = Callable[[], object]


def cpu_seconds(action: Action, repeats: int) -> float:
    start = time.process_time()
    for _ in range(repeats):
        action()
    return (time.process_time() - start) / repeats


class Bars:
    """Prints ratios beside their bars, and remembers whether one was missed."""

    missed = False

    def check(self, text: str, ratio: float, at_most: float = math.inf, at_least: float = -math.inf) -> None:
        met = at_least <= ratio <= at_most
        self.missed |= not met
        bar = f"at most {at_most}" if at_most < math.inf else f"at least {at_least}"
        print(f"{text}   {bar}: {'met' if met else 'MISSED'}", flush=True)

    def compare(self, name: str, slow: Action, fast: Action, rounds: int, repeats: int, **bar: float) -> None:
        """Take both in turns and print the ratio of their CPU times."""
        for action in (slow, fast):
            action()
        pairs = [(cpu_seconds(slow, repeats), cpu_seconds(fast, repeats)) for _ in range(rounds)]
        low, middle, high = statistics.quantiles([a / b for a, b in pairs], n=4)
        first, second = (1000 * statistics.median(column) for column in zip(*pairs, strict=True))
        times = f"{first:8.2f} / {second:7.2f} ms"
        self.check(f"{name:56} {middle:6.2f} ({low:.2f} to {high:.2f})  {times}", middle, **bar)


def random_stream(n_tasks: int) -> TaskStream:
    """Return tasks of the form of permuted MNIST, with one batch of noise: the time does not depend on the data."""
    examples = Examples(torch.rand(128, 1024), torch.randint(0, 10, (128,)))
    tasks = tuple(Task(str(i), examples, examples) for i in range(n_tasks))
    return TaskStream("noise", Kind.CLASSIFICATION, tasks, (1024,), 10)


def learner_at(preset: str, n_tasks: int, task: int) -> tuple[HypernetLearner, Action]:
    """Return a learner in its so-many-th task, and its training step."""
    stream = random_stream(n_tasks)
    learner = build_learner(resolve(load_preset(preset)), stream, seed=0)
    assert isinstance(learner, HypernetLearner)
    inputs, targets = stream.tasks[0].train.batch(slice(None))
    for task_id in range(task):
        learner.begin_task(task_id)
        learner.train_step(Batch(task_id, inputs, targets))
        if task_id < task - 1:
            learner.end_task(stream.tasks[task_id].train)
    batch = Batch(task - 1, inputs, targets)
    return learner, lambda: learner.train_step(batch)


def plain_step(learner: HypernetLearner) -> Action:
    """Return a training step of the same target with fused Adam and no hypernetwork."""
    problem = learner.problem
    network = problem.network(problem.outputs.total)
    optimizer = problem.optimizer.build(network.parameters())
    examples = random_stream(1).tasks[0].train
    inputs, targets = examples.batch(slice(None))

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(inputs)[:, :10], targets).backward()
        optimizer.step()

    return step


def penalty_pair(preset: str, n_tasks: int, old: int) -> tuple[Action, Action]:
    """Return plain and exact penalty, with gradients, of a preset's hypernetwork after so many old tasks."""
    config = resolve(load_preset(preset))
    target = Target(build_network(config.target, (1024,), 10 * n_tasks))
    frozen = build_hypernet(config.method.hypernet, target).requires_grad_(False)
    anchors = Anchors(frozen, torch.randn(old, frozen.embedding_size))
    moved = copy.deepcopy(frozen).requires_grad_(True)
    with torch.no_grad():
        for parameter in moved.parameters():
            parameter.add_(1e-3 * torch.randn_like(parameter))
    parameters = list(moved.parameters())
    draw = anchors.everything()
    return (
        lambda: torch.autograd.grad(plain_penalty(moved, anchors, draw), parameters),
        lambda: torch.autograd.grad(exact_penalty(moved, anchors, draw), parameters),
    )


def check_choice(bars: Bars, width: int, chunk: int, rounds: int) -> None:
    """Print how much the chosen way of the exact penalty costs beside the better one, over numbers of rows."""
    chooser = output.gram_is_cheaper
    for rows in (width // 4, width // 2, width, 2 * width, 4 * width):
        hypernet = ChunkedHypernet(rows * chunk - chunk // 3, 8, (width,), nn.ReLU, chunk, 8)
        for parameter in hypernet.parameters():
            nn.init.normal_(parameter, std=0.1)
        anchors = Anchors(hypernet, torch.randn(1, 8))
        draw, parameters = anchors.everything(), list(hypernet.parameters())

        def seconds(by_gram: bool) -> float:
            output.gram_is_cheaper = lambda n_rows, width: by_gram
            action = lambda: torch.autograd.grad(exact_penalty(hypernet, anchors, draw), parameters)  # noqa: B023, E731
            return cpu_seconds(action, 3)

        seconds(True), seconds(False)
        pairs = [(seconds(True), seconds(False)) for _ in range(rounds)]
        gram, direct = (1000 * statistics.median(column) for column in zip(*pairs, strict=True))
        chosen = gram if chooser(rows, width) else direct
        text = f"  {rows:4} rows, width {width:3}, chunk {chunk}: by Gram {gram:7.2f} ms, directly {direct:7.2f} ms, "
        ratio = chosen / min(gram, direct)
        bars.check(f"{text}chosen / better {ratio:.2f}", ratio, at_most=1.1)
    output.gram_is_cheaper = chooser


def fisher_pair(n: int = 1000) -> tuple[Action, Action]:
    """Return the Fisher information of split MNIST's network from single examples, and from whole batches."""
    network = build_network(TargetConfig(), (784,), 10)
    inputs, targets = torch.rand(n, 784), torch.randint(0, 10, (n,))

    def likelihood(outputs: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        return -nn.functional.cross_entropy(outputs, classes, reduction="sum")

    of_all = network, likelihood, inputs, targets
    return lambda: fisher.one_by_one(*of_all), lambda: fisher.fisher_of_network(*of_all)


def peak_memory(task: int, results: Any) -> None:
    """Report the peak memory, in MB, of a fresh process that trains in a task."""
    torch.set_num_threads(1)
    _, step = learner_at("permuted-10", 10, task)
    for _ in range(20):
        step()
    # Not getrusage: its peak is handed down from the parent process.
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    results.put(int(status["VmHWM"].split()[0]) / 1024)


def measured_memory(task: int) -> float:
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    process = context.Process(target=peak_memory, args=(task, results))
    process.start()
    megabytes: float = results.get(timeout=300)
    process.join()
    return megabytes


def entropy_seconds(n: int = 10_000) -> float:
    """Return the CPU time in which tasks are inferred for so many inputs of permuted-10, all ten tasks begun."""
    learner, _ = learner_at("permuted-10-cl3-hnet-ent", 10, 10)
    parts = torch.rand(n, 1024).split(BATCH)
    return cpu_seconds(lambda: [learner.answer(part) for part in parts], 1)


def main() -> int:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print(f"torch {torch.__version__}, one thread. Ratio of CPU times: median of rounds (quartiles); both; bar")
    bars = Bars()
    learner, tenth = learner_at("permuted-10", 10, 10)
    _, second = learner_at("permuted-10", 10, 2)
    bars.compare(
        "permuted-10, task 10: step / plain step of the target", tenth, plain_step(learner), 25, 5, at_most=2.5
    )
    bars.compare("permuted-10: step at task 10 / step at task 2", tenth, second, 15, 5, at_most=1.15)
    plain, exact = penalty_pair("permuted-10", 10, 9)
    bars.compare("permuted-10, task 10: plain / exact penalty", plain, exact, 7, 2, at_least=15)
    plain, exact = penalty_pair("permuted-100", 100, 49)
    bars.compare("permuted-100, task 50: plain / exact penalty", plain, exact, 3, 1, at_least=5)
    print("exact penalty: the way chosen by counting, beside the better one")
    check_choice(bars, 25, 78000, 9)
    check_choice(bars, 350, 7500, 5)
    slow, fast = fisher_pair()
    bars.compare("784-400-400-10: Fisher of single examples / of batches", slow, fast, 5, 1, at_least=20)
    seconds = entropy_seconds()
    text = f"permuted-10, 10 tasks: CPU seconds to infer the tasks of 10,000 inputs by entropy {seconds:.1f}"
    bars.check(text, seconds, at_most=20)
    two, ten = measured_memory(2), measured_memory(10)
    text = f"permuted-10: peak memory at task 10 / task 2 {ten / two:.3f} ({ten:.0f} / {two:.0f} MB)"
    bars.check(text, ten / two, at_most=1.05)
    return int(bars.missed)


if __name__ == "__main__":
    sys.exit(main())
