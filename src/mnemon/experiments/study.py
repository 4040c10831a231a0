"""Several runs, such as seeds of one experiment, each in a process of its own."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from mnemon.errors import TrainingError, UsageError
from mnemon.experiments.compute import Compute
from mnemon.experiments.engines import Engine, WorkerLost, open_engine
from mnemon.experiments.job import Event, Job, RunContext
from mnemon.experiments.preset import Preset
from mnemon.experiments.run import build_run, execute, new_folder, resuming
from mnemon.experiments.run_config import RunConfig, resume_config
from mnemon.results.comparison import ComparisonTable, is_comparison
from mnemon.results.record import RunRecord, find_runs
from mnemon.results.study import Study
from mnemon.results.sweep import is_sweep
from mnemon.results.terminal.tables import check_same_experiment
from mnemon.training.trainer import Stopped
from mnemon.whole_files import is_there, remove_leftovers


class StudyError(TrainingError):
    """Runs that failed, while the others did not."""

    def __init__(self, failures: Failures, n_jobs: int, folder: Path):
        self.failures = failures
        self.result: Study | ComparisonTable | None = None
        """What came of the others."""
        job, error = failures[0]
        what = "runs" if job.label else "seeds"
        more = f" {len(failures)} of {n_jobs} {what} failed." if len(failures) > 1 else ""
        super().__init__(f"{job.title}: {error}{more} All {what} are saved to {folder}.")


Failures = list[tuple[Job, UsageError]]


def new_jobs(config: RunConfig, seeds: Sequence[int], out: Path | None, compute: Compute) -> tuple[Path, list[Job]]:
    """Make the folder of a run, or of several seeds with a folder for each; return it and the jobs."""
    # What can be wrong with settings, data and network shows before a folder is made.
    built = build_run(config, seeds[0], compute)
    folder = new_folder(out or dated_folder(config.folder_name))
    if len(seeds) == 1:
        jobs = [Job(0, config, seeds[0], folder, built=built)]
    else:
        jobs = [Job(i, config, seed, new_folder(folder / f"seed-{seed}")) for i, seed in enumerate(seeds)]
    for job in jobs:
        keep_begun(job, built.record)
    return folder, jobs


def keep_begun(job: Job, record: RunRecord) -> None:
    """Write the empty record of a job: with it a run can be resumed even if it was stopped before its turn came."""
    replace(record, seed=job.seed).write(job.folder)


def resumed_jobs(
    folder: Path, preset: Preset | None = None, overrides: Sequence[str] = (), label: str = ""
) -> list[Job]:
    """Return the jobs of a folder's unfinished runs; settings given beside it must be the same."""
    if is_comparison(folder) or is_sweep(folder):
        what = "comparison of methods" if is_comparison(folder) else "sweep"
        raise UsageError(f"{folder} holds a {what}. Resume it with: {resuming(folder)}")
    records = {path: RunRecord.read(path) for path in find_runs(folder)}
    for path in records:  # finished ones, too, which are not begun again: they may have been killed at their end
        remove_leftovers(path)
    check_same_experiment(list(records.values()))
    configs = {path: resume_config(record, preset, overrides) for path, record in records.items()}
    left = [path for path, record in records.items() if not record.finished]
    return [Job(i, configs[path], records[path].seed, path, label) for i, path in enumerate(left)]


def dated_folder(name: str) -> Path:
    """Return a folder for what is begun now, named after it and the time, that does not exist yet."""
    folder = Path("runs") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    names = (folder.with_name(f"{folder.name}-{i}") for i in range(2, 1000))
    return next(name for name in (folder, *names) if not is_there(name))


def run_jobs(jobs: Sequence[Job], context: RunContext) -> None:
    """Run all jobs, in this process or where the context says; raises `Stopped` when asked to stop.

    A run that fails does not stop the others; the error comes when they are done.
    """
    here = context.on is None and (len(jobs) <= 1 or context.workers == 1)
    failures = _run_here(jobs, context) if here else _run_in(open_engine(context, len(jobs)), jobs, context)
    if not failures:
        return
    job, error = failures[0]
    if len(jobs) == 1 and not job.label:
        raise error
    folder = Path(os.path.commonpath([job.folder.parent for job in jobs]))
    raise StudyError(failures, len(jobs), folder) from error


def _failed(job: Job, error: UsageError) -> Event:
    return Event(job.number, 0, 0, 0, {}, None, str(error))


def _run_here(jobs: Sequence[Job], context: RunContext) -> Failures:
    failures: Failures = []
    for job in jobs:
        try:
            execute(job, context)
        except UsageError as error:
            failures.append((job, error))
            context.on_event(_failed(job, error))
    return failures


def _run_in(engine: Engine, jobs: Sequence[Job], context: RunContext) -> Failures:
    waiting, n_running = [job._replace(built=None) for job in jobs], 0
    failures: Failures = []
    others: list[BaseException] = []
    with engine:
        while waiting or n_running:
            if context.should_stop() or others:
                engine.stop()
                others += [Stopped()] if waiting else []
                waiting.clear()
            while waiting and engine.room():
                engine.start(waiting.pop(0))
                n_running += 1
            events, ended = engine.poll(0.05)
            for event in events:
                context.on_event(event)
            for job, error in ended:
                n_running -= 1
                if isinstance(error, UsageError):
                    failures.append((job, error))
                    context.on_event(_failed(job, error))
                elif error is not None:
                    others.append(error)
    for event in engine.poll(0.0)[0]:
        context.on_event(event)
    _raise_first(others, context)
    return failures


def _raise_first(errors: list[BaseException], context: RunContext) -> None:
    """Raise what ended the workers: a bug of ours, a lost process, or a wish to stop."""
    for error in errors:
        if not isinstance(error, Stopped | WorkerLost):
            raise error
    if not errors:
        return
    if context.should_stop() or not any(isinstance(error, WorkerLost) for error in errors):
        raise Stopped
    raise TrainingError(
        "A worker process was killed, perhaps because memory ran out. Resume from the last checkpoints, "
        f"with fewer workers if memory is short: {context.resume}"
    )
