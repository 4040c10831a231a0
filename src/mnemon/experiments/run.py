"""One run: a config, a seed, a folder."""

from __future__ import annotations

import datetime
import os
import shlex
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from mnemon.benchmarks.task import TaskStream, hold_out, names
from mnemon.errors import CheckpointError, UsageError, choose
from mnemon.experiments.artifacts import event_files, predictions
from mnemon.experiments.artifacts import samples as replay_samples
from mnemon.experiments.made_with import made_with
from mnemon.experiments.run_config import RunConfig, from_record
from mnemon.learners import METHODS
from mnemon.learners.base import AbstractLearner
from mnemon.problem import Problem
from mnemon.results import samples
from mnemon.results.comparison import is_comparison
from mnemon.results.record import RECORD, RunRecord
from mnemon.results.sweep import is_sweep
from mnemon.seeding import derive, seed_all
from mnemon.training import checkpoint
from mnemon.training.distributed import ALONE, Crew
from mnemon.training.trainer import Progress, Trainer, Watcher, idle_mechanisms, task_alarms
from mnemon.whole_files import is_there, remove_leftovers


def check_device_name(name: str) -> None:
    """Refuse a word that names no device, here or elsewhere."""
    choose("device", name.partition(":")[0], dict.fromkeys(("cpu", "cuda", "mps", "auto")))


def pick_device(name: str) -> torch.device:
    """Return a device by name; auto takes the best that is there."""
    check_device_name(name)
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        return torch.device(next(d for d in ("cuda", "mps", "cpu") if there[d]))
    kind, _, index = name.partition(":")
    count = torch.cuda.device_count() if kind == "cuda" else 1
    if not there.get(kind) or (index and (not index.isdigit() or int(index) >= count)):
        raise UsageError(
            f"Device '{name}' is not available here. Choose one of: auto, {', '.join(d for d in there if there[d])}."
        )
    return torch.device(name)


@dataclass(frozen=True)
class Compute:
    """Where a run computes and reads."""

    device: str = "auto"
    data: Path | None = None
    threads: int = 1
    tensorboard: bool = False
    """Whether event files for TensorBoard are written beside the record."""


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
        remedy = f", or go on with what is in it: {command}" if command else "."
        raise UsageError(f"{folder} exists already and is left as it is. Choose another --out{remedy}")
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise UsageError(f"Could not make the folder {folder}: {error.strerror or error}.") from error
    return folder


def resuming(folder: Path) -> str:
    """Return what to type to go on with what is in a folder; nothing where there is nothing to go on with."""
    holds = {
        "sweep": is_sweep(folder),
        "compare": is_comparison(folder),
        "run": is_there(folder / RECORD) or any(folder.glob(f"seed-*/{RECORD}")),
    }
    command = next((command for command, there in holds.items() if there), "")
    return f"mnemon {command} --resume {shlex.quote(str(folder))}" if command else ""


def begin(config: RunConfig, seed: int, compute: Compute) -> RunRecord:
    """Build everything once, so that what is wrong shows before anything is written; return an empty record.

    Its device is a word: who runs it, perhaps on another machine, looks whether there is one.
    """
    stream = build_stream(config, seed, compute)
    try:
        learner = build_learner(config, stream, seed)
    except RuntimeError as error:
        if "can't allocate" not in str(error):
            raise
        raise UsageError("A network of this size does not fit into memory: take smaller layers or chunks.") from error
    return _new_record(config, seed, stream, learner, compute.device)


def execute(
    config: RunConfig,
    seed: int,
    folder: Path,
    compute: Compute,
    watcher: Watcher | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    crew: Crew = ALONE,
) -> RunRecord:
    """Run in a folder, from the start or from where it was left; return the finished record.

    Of processes that share the run, the first one writes.
    """
    given = watcher or Watcher()
    with alone_in(folder) if crew.leads else nullcontext(), _out_of_memory_in_words():
        torch.set_num_threads(compute.threads)
        if crew.leads:
            remove_leftovers(folder, at_once=True)
        record, recorder, trainer = crew.together(
            lambda: _prepare(config, seed, folder, compute, given, should_stop, crew)
        )
        _check_moments(crew.words((trainer.progress.task_id, trainer.progress.step)), folder)
        # All have read the folder; only now the first one writes to it.
        recorder.keep(trainer.progress)
        with (
            event_files.written(folder, record, trainer.progress, given)
            if compute.tensorboard and crew.leads
            else nullcontext(given) as also
        ):
            recorder.also = also
            trainer.run()
        recorder.keep(trainer.progress)
        return record


@contextmanager
def _out_of_memory_in_words() -> Iterator[None]:
    """Say what to do where the device has too little memory."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise UsageError("The device is out of memory: take smaller batches, layers or chunks.") from error


def _prepare(
    config: RunConfig,
    seed: int,
    folder: Path,
    compute: Compute,
    watcher: Watcher,
    should_stop: Callable[[], bool],
    crew: Crew,
) -> tuple[RunRecord, _Recorder, Trainer]:
    """Build everything and go back to the folder's checkpoint, if there is one; nothing is written."""
    device = pick_device(compute.device)
    stream = build_stream(config, seed, compute).to(device)
    learner = build_learner(config, stream, seed).to(device)
    earlier = RunRecord.read(folder) if is_there(folder / RECORD) else None
    if earlier and earlier.matrix and not (folder / checkpoint.FILE).exists():
        raise CheckpointError(
            f"There is no {checkpoint.FILE} in {folder}, though tasks were learned there: put it back, "
            "or start a new run in another folder."
        )
    if earlier:
        _check_fit(earlier, stream, folder)
    samples.check(folder)
    record = earlier or _new_record(config, seed, stream, learner, str(device))
    if not (folder / checkpoint.FILE).exists():
        # The empty record may be of another machine, and of another seed, which draws other tasks.
        record.versions, record.task_names = made_with(str(device)), names(stream.tasks)
    recorder = _Recorder(record, learner, stream, folder if crew.leads else None, watcher)
    trainer = Trainer(learner, stream, config.training, seed, folder, record.config, recorder, should_stop, crew)
    trainer.resume()
    return record, recorder, trainer


def _check_fit(record: RunRecord, stream: TaskStream, folder: Path) -> None:
    """Refuse a record that cannot be of the run that its settings make."""
    said, made = (len(record.task_names), record.metric), (len(stream), stream.metric)
    if said != made:
        raise CheckpointError(
            f"The record in {folder} does not fit its settings: it is of {said[0]} tasks and {said[1]}, "
            f"they make {made[0]} tasks and {made[1]}. Start a new run in another folder."
        )


def _check_moments(moments: Sequence[tuple[int, int]], folder: Path) -> None:
    """Refuse to share a run between processes that have found it at different moments."""
    different = [f"task {task_id + 1}, step {step}" for task_id, step in dict.fromkeys(moments)]
    if len(different) > 1:
        raise CheckpointError(
            f"The processes do not see the same checkpoint in {folder}: they are at {' and '.join(different)}. "
            "Put the folder where all machines see it, or go on without torchrun."
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


@contextmanager
def stop_on_signal() -> Iterator[Callable[[], bool]]:
    """Turn the first Ctrl-C (or SIGTERM) into a request to stop; a second one stops at once."""
    asked = False

    def handler(number: int, frame: Any) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True

    before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: asked
    finally:
        for number, old in before.items():
            signal.signal(number, old)
