"""One run: a config, a seed, a folder."""

from __future__ import annotations

import datetime
import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from mnemon.benchmarks.task import TaskStream, hold_out, names
from mnemon.errors import CheckpointError, UsageError
from mnemon.experiments.artifacts import event_files, predictions
from mnemon.experiments.artifacts import samples as replay_samples
from mnemon.experiments.compute import Compute, pick_device, threads_of_torch
from mnemon.experiments.job import Job, Reporter, RunContext
from mnemon.experiments.made_with import made_with
from mnemon.experiments.run_config import RunConfig, from_record
from mnemon.learners import METHODS
from mnemon.learners.base import AbstractLearner
from mnemon.problem import Problem
from mnemon.results import samples
from mnemon.results.comparison import is_comparison
from mnemon.results.record import RECORD, RunRecord
from mnemon.results.sweep import is_sweep
from mnemon.seeding import derive, random_numbers_kept, seed_all
from mnemon.training import checkpoint
from mnemon.training.trainer import Progress, Trainer, Watcher, idle_mechanisms, task_alarms
from mnemon.whole_files import is_there, remove_leftovers


class _Recorder(Watcher):
    """Keeps the run folder, if there is one, up to date and passes everything on."""

    def __init__(
        self, record: RunRecord, learner: AbstractLearner, stream: TaskStream, folder: Path | None, also: Watcher
    ):
        self.record, self.learner, self.stream, self.folder, self.also = record, learner, stream, folder, also

    def on_step(self, progress: Progress, terms: dict[str, float]) -> None:
        self.also.on_step(progress, terms)

    def on_task_end(self, progress: Progress) -> None:
        self.keep(progress)
        self.also.on_task_end(progress)

    def keep(self, progress: Progress) -> None:
        r = self.record
        r.matrix, r.inferred, r.untrained = progress.matrix, progress.inferred, progress.untrained
        r.losses, r.seconds = progress.losses, progress.seconds
        r.finished = progress.task_id == len(r.task_names)
        if self.folder is None:
            return
        if progress.task_id:
            replay_samples.keep_right_after(self.learner, self.folder, progress.task_id - 1)
        if progress.task_id and not progress.step:
            predictions.keep(self.learner, self.stream, self.folder, progress.task_id - 1)
        if r.finished:
            r.alarms = [*idle_mechanisms(self.learner, progress), *task_alarms(self.stream, progress)]
            r.drift = replay_samples.keep_at_the_end(self.learner, self.folder)
        r.write(self.folder)


def new_folder(folder: Path) -> Path:
    """Make a folder for what a command does; one that exists is never touched."""
    if is_there(folder):
        command = resuming(folder)
        remedy = f", or resume what is in it: {command}" if command else "."
        raise UsageError(f"{folder} exists already and is not changed. Choose another --out{remedy}")
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise UsageError(f"Could not make the folder {folder}: {error.strerror or error}.") from error
    return folder


def resuming(folder: Path) -> str:
    """Return what to type to resume what is in a folder; nothing where there is nothing to resume."""
    holds = {
        "sweep": is_sweep(folder),
        "compare": is_comparison(folder),
        "run": is_there(folder / RECORD) or any(folder.glob(f"seed-*/{RECORD}")),
    }
    command = next((command for command, there in holds.items() if there), "")
    return f"mnemon {command} --resume {shlex.quote(str(folder))}" if command else ""


class BuiltRun:
    """The tasks and the learner of a run, and its empty record; they are for one use."""

    def __init__(self, stream: TaskStream, learner: AbstractLearner, record: RunRecord):
        self.record = record
        self._parts: tuple[TaskStream, AbstractLearner] | None = (stream, learner)

    def take(self) -> tuple[TaskStream, AbstractLearner] | None:
        """Return tasks and learner; nothing if they were taken before, for a learner is changed by its use."""
        parts, self._parts = self._parts, None
        return parts


def build_run(config: RunConfig, seed: int, compute: Compute) -> BuiltRun:
    """Build everything, so that what is wrong shows before anything is written.

    The device in the record is a word: who runs it, perhaps on another machine, looks whether there is one.
    """
    with threads_of_torch(compute.threads), random_numbers_kept():
        stream = build_stream(config, seed, compute)
        try:
            learner = build_learner(config, stream, seed)
        except RuntimeError as error:
            if "can't allocate" not in str(error):
                raise
            raise UsageError(
                "A network of this size does not fit into memory: use smaller layers or chunks."
            ) from error
        return BuiltRun(stream, learner, _new_record(config, seed, stream, learner, compute.device))


def execute(job: Job, context: RunContext) -> RunRecord:
    """Run a job in its folder, from the start or from where it was left; return the finished record.

    Of processes that share the run, the first one writes.
    """
    crew, folder, compute = context.crew, job.folder, context.compute
    alone = alone_in(folder) if crew.leads else nullcontext()
    with alone, _out_of_memory_in_words(), threads_of_torch(compute.threads), random_numbers_kept():
        if crew.leads:
            remove_leftovers(folder, at_once=True)
        recorder, trainer = crew.together(lambda: _prepare(job, context))
        record, progress, given = recorder.record, trainer.progress, recorder.also
        _check_moments(crew.words((progress.task_id, progress.step)), folder)
        # All have read the folder; only now the first one writes to it.
        recorder.keep(progress)
        events = compute.tensorboard and crew.leads
        with event_files.written(folder, record, progress, given) if events else nullcontext(given) as also:
            recorder.also = also
            trainer.run()
        return record


@contextmanager
def _out_of_memory_in_words() -> Iterator[None]:
    """Say what to do where the device has too little memory."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise UsageError("The device is out of memory: use smaller batches, layers or chunks.") from error


def _prepare(job: Job, context: RunContext) -> tuple[_Recorder, Trainer]:
    """Build everything and go back to the folder's checkpoint, if there is one; nothing is written."""
    config, seed, folder, crew = job.config, job.seed, job.folder, context.crew
    device = pick_device(context.compute.device)
    stream, learner = _built(job, context.compute, device)
    record = _earlier_record(folder, stream) or _new_record(config, seed, stream, learner, str(device))
    samples.check(folder)
    if not (folder / checkpoint.FILE).exists():
        # The empty record may be of another machine, and of another seed, which draws other tasks.
        record.versions, record.task_names = made_with(str(device)), names(stream.tasks)
    watcher = Reporter(job.number, context.on_event)
    recorder = _Recorder(record, learner, stream, folder if crew.leads else None, watcher)
    trainer = Trainer(
        learner, stream, config.training, seed, folder, record.config, recorder, context.should_stop, crew
    )
    trainer.resume()
    return recorder, trainer


def _built(job: Job, compute: Compute, device: torch.device) -> tuple[TaskStream, AbstractLearner]:
    """Return the tasks and the learner of a job on its device: those that were built already, if there are some."""
    parts = job.built.take() if job.built is not None else None
    if parts is None:
        stream = build_stream(job.config, job.seed, compute)
        parts = stream, build_learner(job.config, stream, job.seed)
    return parts[0].to(device), parts[1].to(device)


def _earlier_record(folder: Path, stream: TaskStream) -> RunRecord | None:
    """Return the record that is in a folder, if it goes with the checkpoint there and with the tasks."""
    if not is_there(folder / RECORD):
        return None
    record = RunRecord.read(folder)
    if record.matrix and not (folder / checkpoint.FILE).exists():
        raise CheckpointError(
            f"There is no {checkpoint.FILE} in {folder}, though tasks were learned there: put it back, "
            "or start a new run in another folder."
        )
    _check_fit(record, stream, folder)
    return record


def _check_fit(record: RunRecord, stream: TaskStream, folder: Path) -> None:
    """Refuse a record that cannot be of the run that its settings make."""
    said, made = (len(record.task_names), record.metric), (len(stream), stream.metric)
    if said != made:
        raise CheckpointError(
            f"The record in {folder} does not fit its settings: it has {said[0]} tasks and {said[1]}, "
            f"they give {made[0]} tasks and {made[1]}. Start a new run in another folder."
        )


def _check_moments(moments: Sequence[tuple[int, int]], folder: Path) -> None:
    """Refuse to share a run between processes that have found it at different moments."""
    different = [f"task {task_id + 1}, step {step}" for task_id, step in dict.fromkeys(moments)]
    if len(different) > 1:
        raise CheckpointError(
            f"The processes do not see the same checkpoint in {folder}: they are at {' and '.join(different)}. "
            "Put the folder where all machines see it, or resume without torchrun."
        )


def load_run(folder: Path, compute: Compute) -> tuple[RunConfig, TaskStream, AbstractLearner]:
    """Return what a run was made of, and its learner as the checkpoint has it."""
    record = RunRecord.read(folder)
    config, device = from_record(record), pick_device(compute.device)
    stream = build_stream(config, record.seed, compute).to(device)
    _check_fit(record, stream, folder)
    learner = build_learner(config, stream, record.seed).to(device)
    Trainer(learner, stream, config.training, record.seed, folder, record.config).resume()
    return config, stream, learner


def build_stream(config: RunConfig, seed: int, compute: Compute) -> TaskStream:
    """Return the tasks of a run."""
    stream = config.benchmark.build(compute.data, seed)
    share = config.training.held_out
    return hold_out(stream, share, seed) if share else stream


def build_learner(config: RunConfig, stream: TaskStream, seed: int) -> AbstractLearner:
    """Return the freshly initialised learner of a run."""
    problem = Problem(
        stream.kind,
        len(stream),
        stream.input_shape,
        stream.outputs_per_task,
        config.target,
        config.optimizer,
        config.training.label_smoothing,
        config.training.scenario,
    )
    seed_all(derive(seed, "weights"), torch.device("cpu"))
    learner: Any = METHODS.find(config.method_name)
    return learner(config.method, problem)


def _new_record(config: RunConfig, seed: int, stream: TaskStream, learner: AbstractLearner, device: str) -> RunRecord:
    counts = learner.counts()
    return RunRecord(
        preset=config.preset,
        changes=list(config.changes),
        config=config.plain(),
        seed=seed,
        metric=stream.metric,
        task_names=names(stream.tasks),
        counts={**asdict(counts), "compression": counts.compression, "sees_past": learner.sees_past},
        versions=made_with(device),
        started=datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
        published=config.published,
        plugins=[plugin.module for plugin in config.plugins],
    )


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Hold a run folder: two processes at once would spoil each other's checkpoints."""
    try:
        import fcntl
    except ImportError:  # Windows has no such lock
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise UsageError(f"Another process is running in {folder}: wait for it, or stop it.") from error
    finally:
        os.close(handle)
