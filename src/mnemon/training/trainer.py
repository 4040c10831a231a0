"""The training loop: learn the tasks of a stream one after another, test after each, stop and resume at any step."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import torch

from mnemon.benchmarks.scenario import Scenario
from mnemon.benchmarks.task import TaskKind, TaskStream
from mnemon.config import build, convert, differences, first_of
from mnemon.errors import CheckpointError, TrainingError, UsageError
from mnemon.learners.base import AbstractLearner
from mnemon.lifecycle import task_modules_of
from mnemon.optimizer import scale_rates
from mnemon.seeding import derive, seed_all
from mnemon.training import checkpoint
from mnemon.training.batches import Batches
from mnemon.training.distributed import ALONE, Crew
from mnemon.training.evaluator import evaluate_all
from mnemon.whole_files import is_file

LOSSES = "losses"
BESIDE = {LOSSES, "steps", "metric"}
"""Fields of the progress that a checkpoint's header does not hold."""
HARDLY = 0.5
"""The share of a guess's success below which a task counts as hardly identified."""


class MatrixRows(str, Enum):
    """How much of the accuracy matrix is measured."""

    FULL = "full"
    """After every task, all tasks so far."""
    DIAGONAL = "diagonal"
    """After every task only that task, and all tasks at the end: cheaper for hundreds of tasks."""


@dataclass(frozen=True)
class TrainingConfig:
    """How long and on what a task is trained.

    Example:
        >>> mnemon.TrainingConfig(epochs=2, batch_size=50).steps_for(n_examples=1000)
        40
    """

    steps: int = 2000
    """Optimizer steps per task."""
    epochs: float | None = None
    """Passes over the training data of each task, in place of steps."""
    batch_size: int = 128
    """Examples per step."""
    scenario: Scenario = Scenario.CL1
    """What is known of the task at test time: cl1 (the task), cl2 (nothing, one head), cl3 (nothing, all classes)."""
    label_smoothing: float = 0.0
    """Probability taken from the true class and spread over the others that compete (the paper's 0.95 is 0.05)."""
    held_out: float = 0.0
    """Share of every task's training data that is not trained on, but tested on *instead of the test data*."""
    matrix: MatrixRows = MatrixRows.FULL
    """Tests after a task: full (all tasks so far) or diagonal (that task; all at the end)."""
    log_every: int = 50
    """Steps between two entries of the loss curves."""
    checkpoint_seconds: float = 60.0
    """Seconds between two checkpoints within a task; at the end of a task there is always one."""

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "log_every"):
            if getattr(self, name) < 1:
                raise UsageError(f"training.{name} must be at least 1, not {getattr(self, name)}.")
        if self.epochs is not None and not 0 < self.epochs < math.inf:
            raise UsageError(f"training.epochs must be a finite number above 0, not {self.epochs}.")
        if not 0 <= self.label_smoothing < 1:
            raise UsageError(f"training.label_smoothing must be at least 0 and below 1, not {self.label_smoothing}.")
        if not 0 <= self.held_out < 1:
            raise UsageError(f"training.held_out must be at least 0 and below 1, not {self.held_out}.")
        if not self.checkpoint_seconds >= 0:
            raise UsageError(f"training.checkpoint_seconds must not be negative, not {self.checkpoint_seconds}.")

    def steps_for(self, n_examples: int) -> int:
        """Return the steps of a task.

        Args:
            n_examples: The number of its training examples.
        """
        if self.epochs is None:
            return self.steps
        return max(1, math.ceil(self.epochs * n_examples / self.batch_size - 1e-9))


class Stopped(Exception):  # noqa: N818 (not an error: the run was asked to stop, and its state is saved)
    """Training was asked to stop; the checkpoint holds everything."""


@dataclass
class Progress:
    """The progress of a run: what a checkpoint holds besides the learner."""

    task_id: int = 0
    step: int = 0
    """Steps done in this task; 0 before it has begun."""
    matrix: list[list[float]] = field(default_factory=list)
    inferred: list[list[float]] = field(default_factory=list)
    """Task identification accuracy in percent, a row per task; NaN if the task is told."""
    untrained: list[float] = field(default_factory=list)
    """The score of the untrained learner on each task, if it is defined."""
    losses: list[dict[str, float]] = field(default_factory=list)
    """One entry every `log_every` steps."""
    seconds: dict[str, float] = field(default_factory=lambda: {"train": 0.0, "test": 0.0})
    peaks: dict[str, float] = field(default_factory=dict)
    """The largest size that each term of the loss had from the second task on."""
    steps: tuple[int, ...] = ()
    """Steps of each task; computed from the settings, not saved."""
    metric: str = "accuracy"
    """The kind of score; known from the tasks, not saved."""

    def see(self, terms: dict[str, float]) -> None:
        """Record the terms of a step."""
        if self.task_id > 0:
            for name, value in terms.items():
                self.peaks[name] = max(self.peaks.get(name, 0.0), abs(value))


class Watcher:
    """Watches the trainer; does nothing by default."""

    def on_step(self, progress: Progress, terms: dict[str, float]) -> None:
        """Called after every step."""

    def on_task_end(self, progress: Progress) -> None:
        """Called when a task was learned and tested."""


class Trainer:
    """Trains a learner on a stream of tasks; a run can be stopped and resumed.

    Example:
        >>> examples = mnemon.Examples(torch.rand(64, 4), torch.arange(64) % 2)
        >>> tasks = tuple(mnemon.Task(name, examples, examples) for name in ("one", "two"))
        >>> stream = mnemon.TaskStream("twice", mnemon.TaskKind.CLASSIFICATION, tasks, (4,), outputs_per_task=2)
        >>> problem = mnemon.Problem(
        ...     stream.kind, len(stream), stream.input_shape, stream.outputs_per_task,
        ...     mnemon.TargetConfig(hidden=(6,)), mnemon.OptimizerConfig(),
        ... )
        >>> learner = mnemon.HypernetLearner(mnemon.HypernetLearner.Config(), problem)
        >>> trainer = mnemon.Trainer(learner, stream, mnemon.TrainingConfig(steps=3), seed=0)
        >>> progress = trainer.run()
        >>> [len(row) for row in progress.matrix]
        [2, 2]
    """

    def __init__(
        self,
        learner: AbstractLearner,
        stream: TaskStream,
        config: TrainingConfig,
        seed: int,
        folder: Path | None = None,
        identity: dict[str, Any] | None = None,
        watcher: Watcher | None = None,
        should_stop: Callable[[], bool] = lambda: False,
        crew: Crew = ALONE,
    ):
        """Put a run together.

        Args:
            learner: The method.
            stream: The tasks.
            config: How long to train, and on what.
            seed: The seed of all random numbers of the training.
            folder: Where checkpoints are written. Default: nowhere.
            identity: What must be the same if the run is resumed: its settings.
            watcher: Is called after every step and every task.
            should_stop: Is asked after every step.
            crew: The processes that share the run.

        Raises:
            UsageError: The learner and the tasks do not fit together.
        """
        _check_fit(learner, stream, config)
        crew.check(learner, config.batch_size)
        self.crew = crew
        self.learner, self.stream, self.config, self.seed = learner, stream, config, seed
        self.folder, self.watcher, self.should_stop = folder, watcher or Watcher(), should_stop
        self.identity = identity or {}
        steps = tuple(config.steps_for(len(task.train)) for task in stream.tasks)
        self.progress = Progress(steps=steps, metric=stream.metric)
        self._last_save = time.monotonic()

    def run(self) -> Progress:
        """Learn all remaining tasks.

        Returns:
            The progress: accuracy matrix, losses, times.

        Raises:
            Stopped: `should_stop` said so; the checkpoint is written.
            TrainingError: A loss or a parameter became infinite or NaN.
        """
        progress = self.progress
        if not progress.untrained:
            progress.untrained = [score.value for score in evaluate_all(self.learner, self.stream)]
        while progress.task_id < len(self.stream):
            self._learn_task()
            self._test_task()
            progress.task_id, progress.step = progress.task_id + 1, 0
            self.save()
            self.watcher.on_task_end(progress)
        return progress

    def _learn_task(self) -> None:
        progress, task_id = self.progress, self.progress.task_id
        learner, config = self.learner, self.config
        steps = progress.steps[task_id]
        batches = Batches(self.stream.tasks, task_id, config.batch_size, self.seed, learner.sees_past, steps)
        if progress.step == 0:
            self._seed(task_id, 0)
            learner.begin_task(task_id)
        self.crew.average_gradients(learner)
        while progress.step < steps:
            started = time.perf_counter()
            self._seed(task_id, progress.step + 1)
            self._set_rates(progress.step, steps)
            found = learner.train_step(self.crew.part(batches[progress.step]))
            terms = self.crew.mean({name: float(value) for name, value in found.items()})
            self._check(terms)
            progress.see(terms)
            progress.step += 1
            progress.seconds["train"] += time.perf_counter() - started
            if progress.step % config.log_every == 0 or progress.step == steps:
                progress.losses.append({"task": task_id, "step": progress.step, **terms})
            self.watcher.on_step(progress, terms)
            self._pause()
        self._check_state()
        self._seed(task_id, steps + 1)
        learner.end_task(self.stream.tasks[task_id].train)

    def _test_task(self) -> None:
        started = time.perf_counter()
        task_id = self.progress.task_id
        every = self.config.matrix is MatrixRows.FULL or task_id == len(self.stream) - 1
        row = evaluate_all(self.learner, self.stream, None if every else task_id)
        self.progress.matrix.append([score.value for score in row])
        self.progress.inferred.append([score.inferred for score in row])
        self.progress.seconds["test"] += time.perf_counter() - started

    def _set_rates(self, step: int, steps: int) -> None:
        """Let the learning rates of all parts follow the schedule."""
        config = self.learner.problem.optimizer
        if config.changes_rate:
            for part in task_modules_of(self.learner).values():
                for optimizer in part.optimizers.values():
                    scale_rates(optimizer, config.factor(step, steps))

    def _seed(self, task_id: int, moment: int) -> None:
        """Seed all random numbers of a moment by seed, task and moment."""
        # A SeedSequence per task is enough: torch's generator spreads seeds that lie side by side by itself.
        seed_all((self._task_seed(task_id) + moment) % 2**63, self.learner.device)

    @functools.cache  # noqa: B019 (a trainer lives as long as its run)
    def _task_seed(self, task_id: int) -> int:
        return derive(self.seed, "step", task_id, 0)

    def _check(self, terms: dict[str, float]) -> None:
        for name, value in terms.items():
            if not math.isfinite(value):
                raise self._failure(f"{name} became {value}", self.progress.step + 1)

    def _check_state(self) -> None:
        """Stop before saving if a number is not finite."""
        for name, tensor in self.learner.tensors().items():
            if tensor.is_floating_point() and not torch.isfinite(tensor).all():
                raise self._failure(f"{name} became infinite or NaN", self.progress.step)

    def _failure(self, what: str, step: int) -> TrainingError:
        task = self.stream.tasks[self.progress.task_id].name
        kept = self.folder is not None and is_file(self.folder / checkpoint.FILE)
        return TrainingError(
            f"{what} in task {self.progress.task_id + 1} ('{task}'), step {step}; try a smaller optimizer.lr."
            + (f" The last checkpoint before that is kept in {self.folder}." if kept else "")
        )

    def _pause(self) -> None:
        """Between two steps: save from time to time, and stop if requested."""
        if self.crew.any(self.should_stop()):
            self._check_state()
            self.save()
            raise Stopped
        if time.monotonic() - self._last_save >= self.config.checkpoint_seconds:
            self._check_state()
            self.save()

    def save(self) -> None:
        """Write the checkpoint."""
        if self.folder is not None and self.crew.leads:
            p = self.progress
            facts = {
                "task_id": p.task_id,
                "step": p.step,
                "n_begun": self.learner.n_begun,
                "seed": self.seed,
                "identity": self.identity,
                "matrix": p.matrix,
                "inferred": p.inferred,
                "untrained": p.untrained,
                "seconds": p.seconds,
                "peaks": p.peaks,
            }
            # The loss curves grow with the run: too long for a header.
            tensors = {**self.learner.tensors(), LOSSES: checkpoint.as_bytes(p.losses)}
            checkpoint.save(self.folder, tensors, facts)
        self._last_save = time.monotonic()

    def resume(self) -> None:
        """Continue from the checkpoint in the folder. Without one, the run starts from the beginning.

        Raises:
            CheckpointError: The checkpoint is damaged, or of another run.
        """
        assert self.folder is not None
        if not (self.folder / checkpoint.FILE).exists():
            return
        tensors, facts = checkpoint.load(self.folder)
        needed = {*Progress.__dataclass_fields__, "seed", "identity", "n_begun"} - BESIDE
        if not needed <= facts.keys() or LOSSES not in tensors:
            raise CheckpointError(
                f"The checkpoint in {self.folder} does not belong to a run: its header is incomplete."
            )
        if facts["seed"] != self.seed:
            raise CheckpointError(f"The checkpoint in {self.folder} has seed {facts['seed']}, not {self.seed}.")
        losses = tensors.pop(LOSSES)
        try:
            different = differences(convert(dict[str, Any], facts["identity"], "identity"), self.identity)
            progress = self._read_progress(facts, checkpoint.from_bytes(losses))
        except (UsageError, ValueError) as error:
            raise CheckpointError(f"The checkpoint in {self.folder} is damaged: {error}") from error
        if different:
            raise CheckpointError(
                f"The checkpoint in {self.folder} was written with other settings: {first_of(different)} "
                "(then and now)."
            )
        begun, learning = progress.task_id + (progress.step > 0), progress.step > 0
        self.learner.restore(checkpoint.to_device(tensors, self.learner.device), begun, learning)
        self.progress = progress

    def _read_progress(self, facts: Mapping[str, Any], losses: Any) -> Progress:
        """Return the progress in a checkpoint, if it is possible for this run."""
        known = {name: facts[name] for name in Progress.__dataclass_fields__ if name not in BESIDE}
        progress: Progress = build(Progress, known, "checkpoint")
        convert(list[dict[str, float]], losses, "checkpoint.losses")
        progress.losses, progress.steps, progress.metric = losses, self.progress.steps, self.progress.metric
        n_tasks = len(self.stream)
        steps = progress.steps[progress.task_id] if 0 <= progress.task_id < n_tasks else 0
        rows = [*progress.matrix, *progress.inferred, *([progress.untrained] if progress.untrained else [])]
        if (
            not 0 <= progress.task_id <= n_tasks
            or not 0 <= progress.step <= steps
            or facts["n_begun"] != progress.task_id + (progress.step > 0)
            or len(progress.matrix) != progress.task_id
            or len(progress.inferred) != progress.task_id
            or any(len(row) != n_tasks for row in rows)
            or not {"train", "test"} <= progress.seconds.keys()
            or not all({"task", "step"} <= line.keys() for line in losses)
        ):
            raise ValueError(f"its progress does not fit a run of {n_tasks} tasks.")
        return progress


def idle_mechanisms(learner: AbstractLearner, progress: Progress) -> list[str]:
    """Report mechanisms of a method that never had an effect: it may be plain fine-tuning."""
    if progress.task_id < 2:
        return []
    mechanisms = {
        term: what for part in task_modules_of(learner).values() for term, what in part.mechanisms().items()
    }
    return [
        f"{what[0].upper()}{what[1:]} had no effect: '{term}' was 0 in every step from the second task on."
        for term, what in mechanisms.items()
        if not progress.peaks.get(term)
    ]


def task_alarms(stream: TaskStream, progress: Progress) -> list[str]:
    """Report tasks that failed from the start: not learned, or learned but hardly ever identified."""
    if stream.kind is not TaskKind.CLASSIFICATION:
        return []
    found = []
    for i, (task, row) in enumerate(zip(stream.tasks, progress.matrix, strict=False)):
        inferred, guessed = progress.inferred[i][i] if progress.inferred else math.nan, 100 / (i + 1)
        share = 1.0 if math.isnan(inferred) else inferred / 100
        commonest = 100 * task.test.targets.bincount().max().item() / len(task.test)
        if 100 * share < HARDLY * guessed:
            found.append(
                f"Task {i + 1} ('{task.name}') was hardly identified: after learning it, {inferred:.2f} % of its "
                f"inputs were assigned to it; guessing among the tasks so far gives {guessed:.2f} %."
            )
        elif stream.outputs_per_task > 1 and row[i] <= commonest * share + 1e-6:
            found.append(
                f"Task {i + 1} ('{task.name}') was not learned: {row[i]:.2f} after learning it; always answering "
                f"its most frequent class scores {commonest:.2f}. Try a smaller optimizer.lr, or more steps."
            )
    return found


def _check_fit(learner: AbstractLearner, stream: TaskStream, config: TrainingConfig) -> None:
    """Refuse a stream, or settings, that do not fit the learner."""
    problem = learner.problem
    for name in ("scenario", "label_smoothing"):
        made_for, asked = getattr(problem, name), getattr(config, name)
        if made_for != asked:
            has, wanted = (getattr(value, "value", value) for value in (made_for, asked))
            raise UsageError(f"The learner was built for {name} = {has}; training.{name} is {wanted}.")
    if stream.input_shape != problem.input_shape:
        raise UsageError(
            f"Inputs of '{stream.name}' have shape {stream.input_shape}; the target takes {problem.input_shape}."
        )
    made_for = (problem.n_tasks, problem.outputs_per_task)
    if (len(stream), stream.outputs_per_task) != made_for:
        raise UsageError(
            f"'{stream.name}' has {len(stream)} tasks of {stream.outputs_per_task} outputs; "
            f"the learner was built for {made_for[0]} of {made_for[1]}."
        )
