"""The commands that train: run and compare."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from mnemon.cli.app import console, say
from mnemon.cli.options import DEFAULT_OPTIONS, RunOptions, check_alone
from mnemon.cli.running import run_with_progress
from mnemon.cli.showing import finish
from mnemon.errors import UsageError

if TYPE_CHECKING:
    from mnemon.experiments.study import Job
    from mnemon.experiments.upload import Upload
    from mnemon.training.distributed import Crew


def run(
    preset: str | None = None,
    /,
    *,
    out: str | None = None,
    resume: Path | None = None,
    dry_run: Annotated[bool, Parameter(negative="")] = False,
    options: RunOptions = DEFAULT_OPTIONS,
) -> int:
    """Learn the tasks of a preset one after another, and show what was remembered.

    Ctrl-C saves and says how to go on; nothing is lost. `torchrun --nproc-per-node 2 -m mnemon run …` lets several
    processes share one big run.

    Parameters
    ----------
    preset
        Name of a preset (see `mnemon presets`) or path of a TOML file like one. Default: split-digits.
    out
        New folder for the run, or a URL such as s3://BUCKET/NAME to which everything is copied at the end (needs
        fsspec); the URL also beside --resume. Default: runs/NAME-TIME; the name says
        what is run, such as split-digits+steps=500.
    resume
        Folder of a run (or of several seeds) to go on with.
    dry_run
        Do not run it: say how large everything is and how long it would take, from a few timed steps.
    """
    options.check(out, resume)

    from mnemon.training.distributed import crew, leads

    if dry_run:
        return _dry_run(preset, resume, options) if leads() else 0
    with crew(options.computing.device) as processes:
        if processes.leads:
            return _run(preset, out, resume, options, processes)
        with contextlib.redirect_stdout(io.StringIO()):  # the first one speaks for all
            try:
                return _run(preset, out, resume, options.silent(), processes)
            except UsageError:
                return 2


def _dry_run(preset: str | None, resume: Path | None, options: RunOptions) -> int:
    if resume is not None:
        raise UsageError("--dry-run says what a preset would take: leave out --resume.")

    from mnemon.experiments.dry_run import estimate, shown
    from mnemon.experiments.preset import DEFAULT, load_preset
    from mnemon.experiments.run_config import resolve

    config = resolve(load_preset(preset or DEFAULT), options.overrides)
    console().print(shown(estimate(config, options.seed, options.compute()), config))
    return 0


def _run(preset: str | None, out: str | None, resume: Path | None, options: RunOptions, crew: Crew) -> int:
    from mnemon.experiments.preset import DEFAULT, load_preset
    from mnemon.experiments.run_config import resolve
    from mnemon.experiments.study import StudyError, new_jobs, resumed_jobs
    from mnemon.experiments.upload import Upload

    def begin() -> tuple[Path, list[Job], Upload]:
        upload = Upload(out)
        if resume is not None:
            given = load_preset(preset) if preset else None
            return resume, resumed_jobs(resume, given, options.overrides), upload
        config = resolve(load_preset(preset or DEFAULT), options.overrides)
        return *new_jobs(config, options.all_seeds, upload.folder, compute), upload

    if crew.size > 1 and (options.seeds > 1 or options.computing.on):
        raise UsageError("torchrun shares one run between processes: leave out --seeds and --on.")
    compute = options.compute()
    folder, jobs, upload = crew.share(begin)
    go_on = options.go_on("run", folder, upload.url)
    if crew.size > 1 and len(jobs) > 1:
        raise UsageError(
            f"torchrun shares one run between processes, and {len(jobs)} in {folder} are not finished. "
            f"Name the folder of one of them, or go on without torchrun: {go_on}"
        )
    if not jobs:
        say(f"The run in {folder} is finished; there is nothing to go on with.")
    try:
        if run_with_progress(jobs, compute, go_on, options.computing, crew):
            return 130
    except StudyError:  # the other seeds are finished
        _deliver(folder, options, upload)
        raise
    if crew.leads:
        _deliver(folder, options, upload)
    return 0


def _deliver(folder: Path, options: RunOptions, upload: Upload) -> None:
    finish(folder, options)
    upload.send(folder, say)


def compare(
    *method: Annotated[str, Parameter(name="METHOD")],
    benchmark: str | None = None,
    scenario: str | None = None,
    out: str | None = None,
    resume: Path | None = None,
    options: RunOptions = DEFAULT_OPTIONS,
) -> int:
    """Learn the same tasks with several methods, on all cores at a time, and show them in one table.

    `mnemon compare hypernet joint --seeds 3` compares two methods;
    `mnemon compare hypernet:beta=0.01 hypernet:beta=0.1` two variants of one.
    Ctrl-C saves and says how to go on; nothing is lost.

    Parameters
    ----------
    method
        What to compare, as many as you like: the end of a preset's name (hnet-r is split-mnist-cl3-hnet-r for that
        benchmark and scenario), a whole preset or TOML file, or a method, which is put into the benchmark's preset.
        METHOD:name=value,name=value changes settings of this one alone.
    benchmark
        Preset whose tasks are learned. Default: split-digits.
    scenario
        cl1 (the task is told), cl2 (it is not, all tasks share one head) or cl3 (it is not, all classes compete).
        Default: cl1.
    out
        New folder for the runs, or a URL such as s3://BUCKET/NAME to which everything is copied at the end (needs
        fsspec); the URL also beside --resume. Default: runs/compare-BENCHMARK-SCENARIO-TIME.
    resume
        Folder of a comparison to go on with.
    """
    check_alone("compare")
    options.check(out, resume)
    if resume is not None and (method or benchmark or scenario or options.set_):
        raise UsageError(
            "--resume goes on with the methods and settings of its folder: leave out METHOD, --benchmark, "
            "--scenario and --set."
        )

    from mnemon.experiments.compare import begin_runs, keep_failures, make_plan, resumed_runs
    from mnemon.experiments.study import StudyError
    from mnemon.experiments.upload import Upload

    compute, upload = options.compute(), Upload(out)
    if resume is not None:
        folder, jobs = resume, resumed_runs(resume)
    else:
        plan = make_plan(method, benchmark, scenario, options.overrides)
        folder, jobs = begin_runs(plan, options.all_seeds, upload.folder, compute)
    if not jobs:
        say(f"The comparison in {folder} is finished; there is nothing to go on with.")
    try:
        if run_with_progress(jobs, compute, options.go_on("compare", folder, upload.url), options.computing):
            return 130
    except StudyError as error:  # the other runs are finished
        keep_failures(folder, error.failures)
        _deliver(folder, options, upload)
        raise
    _deliver(folder, options, upload)
    return 0
