"""What a preset would take, found out by a few steps of it: sizes, memory, time."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from mnemon.benchmarks.scenario import Scenario
from mnemon.benchmarks.task import Examples, TaskStream
from mnemon.experiments.compute import Compute, pick_device
from mnemon.experiments.cost import in_words
from mnemon.experiments.run import build_learner, build_stream
from mnemon.experiments.run_config import RunConfig
from mnemon.learners.base import AbstractLearner, Counts
from mnemon.results.naming import describe_changes
from mnemon.training.batches import Batches
from mnemon.training.trainer import MatrixRows

if TYPE_CHECKING:
    from rich.table import Table

Clock = Callable[[], float]
TIMED = 3
"""Steps that are timed, in each of some tasks, after one that is not."""
ASKED = 250
"""Test inputs that are asked, for the time of a test."""


@dataclass(frozen=True)
class RunEstimate:
    """What a run would take."""

    counts: Counts
    steps: tuple[int, ...]
    """Of each task."""
    batch_size: int
    step: Mapping[int, float]
    """Seconds of a step, by the tasks in which some were timed."""
    test: float
    """Seconds of all tests."""
    n_tested: int
    """Inputs that are asked in all tests."""
    memory: int | None
    """Bytes of memory in use at most, on the device if it has memory of its own; None where it is not known."""
    device: str
    clock: str
    """What the seconds are of."""

    @property
    def training(self) -> float:
        """Seconds of all steps, if their time grows evenly between the tasks in which it was taken."""
        each = np.interp(range(len(self.steps)), list(self.step), list(self.step.values()))
        return float(np.dot(each, self.steps))


def estimate(config: RunConfig, seed: int, compute: Compute) -> RunEstimate:
    """Build everything, take a few steps in some tasks, and ask a few questions."""
    torch.set_num_threads(compute.threads)
    device = pick_device(compute.device)
    # On one core the time of the processor, which does not grow when others use it, too.
    alone = device.type == "cpu" and compute.threads == 1
    clock, of = (time.process_time, "of one core") if alone else (time.perf_counter, "as the clock goes")
    stream = build_stream(config, seed, compute).to(device)
    learner = build_learner(config, stream, seed).to(device)
    steps = tuple(config.training.steps_for(len(task.train)) for task in stream.tasks)
    # The first task has nothing to keep, and the last nothing that a replay model would have to learn.
    timed = {0, 1, len(stream) - 2, len(stream) - 1}
    step = {}
    for task_id in range(len(stream)):
        learner.begin_task(task_id)
        if task_id in timed:
            step[task_id] = _step_seconds(learner, stream, config, seed, steps, clock)
        if task_id < len(stream) - 1:
            learner.end_task(_few(stream.tasks[task_id].train))
    n_tested = _n_tested(learner, stream, config)
    return RunEstimate(
        learner.counts(),
        steps,
        config.training.batch_size,
        step,
        n_tested * _answer_seconds(learner, stream, clock),
        n_tested,
        _memory(device),
        str(device),
        of,
    )


def _few(examples: Examples) -> Examples:
    """Return a few of the examples: what a task leaves behind matters to the result, and hardly to the time."""
    return replace(examples, inputs=examples.inputs[:ASKED], targets=examples.targets[:ASKED])


def _step_seconds(
    learner: AbstractLearner, stream: TaskStream, config: RunConfig, seed: int, steps: tuple[int, ...], clock: Clock
) -> float:
    task_id = learner.n_begun - 1
    size, n = config.training.batch_size, steps[task_id]
    batches = Batches(stream.tasks, task_id, size, seed, learner.sees_past, n)
    started = 0.0
    for step in range(TIMED + 1):
        if step == 1:
            started = clock()
        # As the trainer does, which waits for every term.
        _ = {name: float(value) for name, value in learner.train_step(batches[min(step, n - 1)]).items()}
    return (clock() - started) / TIMED


@torch.no_grad()
def _answer_seconds(learner: AbstractLearner, stream: TaskStream, clock: Clock) -> float:
    """Return the seconds of a question."""
    inputs, _ = stream.tasks[-1].test.batch(slice(ASKED))
    told = learner.problem.scenario is Scenario.CL1
    ask = (lambda: learner.predict(inputs, len(stream) - 1)) if told else lambda: learner.answer(inputs).output_index
    ask().max().item()
    started = clock()
    ask().max().item()
    return (clock() - started) / len(inputs)


def _n_tested(learner: AbstractLearner, stream: TaskStream, config: RunConfig) -> int:
    sizes = [len(task.test) for task in stream.tasks]
    told = learner.problem.scenario is Scenario.CL1
    all_at_once = sum(sizes)
    before = all_at_once if learner.answers_unseen and told else 0
    if config.training.matrix is MatrixRows.DIAGONAL:
        return before + sum(sizes[:-1]) + all_at_once
    if learner.answers_unseen and told:
        return before + len(sizes) * all_at_once
    return sum(size * (len(sizes) - task_id) for task_id, size in enumerate(sizes))


def _memory(device: torch.device) -> int | None:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def shown(found: RunEstimate, config: RunConfig) -> Table:
    """Return an estimate as a table."""
    from rich.table import Table

    table = Table(
        box=None, padding=(0, 2, 0, 0), show_header=False, title=f"{config.name}, not run", title_justify="left"
    )
    c, steps = found.counts, sorted(set(found.steps))
    span = f"{steps[0]:,}" if len(steps) == 1 else f"{steps[0]:,} to {steps[-1]:,}"
    rows = [
        ("tasks", f"{len(found.steps)}, each {span} steps of {found.batch_size} examples"),
        ("target network", f"{c.target:,} weights"),
        ("learned for all tasks", f"{c.learned:,} parameters"),
        ("kept for each task", f"{c.per_task:,} numbers, {c.bytes_per_task:,} bytes"),
        ("compression", f"{c.compression:.3f} of one target network, after all tasks"),
        ("a step", ", ".join(f"{1000 * s:.1f} ms in task {task_id + 1}" for task_id, s in found.step.items())),
        ("estimated time", f"{in_words(found.training)} of training, {in_words(found.test)} of tests, {found.clock}"),
    ]
    if config.changes:
        rows.insert(0, ("settings", describe_changes(config.preset, config.changes)))
    if found.memory is not None:
        rows.append(("memory so far", f"{found.memory / 2**20:,.0f} MB at most, on {found.device}"))
    for row in rows:
        table.add_row(*row)
    return table
