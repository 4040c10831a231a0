"""`mnemon.run`: one experiment, for one seed or several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import overload

from mnemon.errors import UsageError
from mnemon.experiments.api.finish import finish
from mnemon.experiments.api.follow import follow_jobs
from mnemon.experiments.api.options import Folder, Options, check_begun_by_user, make_options, seeds_of
from mnemon.experiments.api.settings import Settings, config_of, words_of
from mnemon.experiments.compute import Compute
from mnemon.experiments.job import Job
from mnemon.experiments.older_records import complete
from mnemon.experiments.preset import load_preset
from mnemon.experiments.screen import Screen
from mnemon.experiments.study import StudyError, new_jobs, resumed_jobs
from mnemon.experiments.upload import Upload
from mnemon.results.record import RECORD, RunRecord
from mnemon.results.study import Study
from mnemon.training import distributed
from mnemon.training.distributed import Crew
from mnemon.whole_files import is_there


# fmt: off
@overload
def run(
    preset: str | PathLike[str] | None = None, *, seed: int = 0, seeds: None = None,
    settings: Settings = None, out: Folder | None = None, resume: None = None,
    workers: int | None = None, threads: int = 1, on: str | None = None, device: str = "auto",
    data: Folder | None = None, tensorboard: bool = False, report: bool = True, quiet: bool = False,
    screen: Screen | None = None,
) -> RunRecord: ...
@overload
def run(
    preset: str | PathLike[str] | None = None, *, seed: int = 0, seeds: int | Sequence[int],
    settings: Settings = None, out: Folder | None = None, resume: None = None,
    workers: int | None = None, threads: int = 1, on: str | None = None, device: str = "auto",
    data: Folder | None = None, tensorboard: bool = False, report: bool = True, quiet: bool = False,
    screen: Screen | None = None,
) -> Study: ...
@overload
def run(
    preset: str | PathLike[str] | None = None, *, seed: int = 0, seeds: int | Sequence[int] | None = None,
    settings: Settings = None, out: Folder | None = None, resume: Folder | None,
    workers: int | None = None, threads: int = 1, on: str | None = None, device: str = "auto",
    data: Folder | None = None, tensorboard: bool = False, report: bool = True, quiet: bool = False,
    screen: Screen | None = None,
) -> RunRecord | Study: ...
# fmt: on


def run(
    preset: str | PathLike[str] | None = None,
    *,
    seed: int = 0,
    seeds: int | Sequence[int] | None = None,
    settings: Settings = None,
    out: Folder | None = None,
    resume: Folder | None = None,
    workers: int | None = None,
    threads: int = 1,
    on: str | None = None,
    device: str = "auto",
    data: Folder | None = None,
    tensorboard: bool = False,
    report: bool = True,
    quiet: bool = False,
    screen: Screen | None = None,
) -> RunRecord | Study:
    """Learn the tasks of a preset one after another, and measure what is remembered.

    Ctrl-C saves everything and raises `Interrupted`, which says how to resume.

    Args:
        preset: Name of a preset (`mnemon presets` lists them), path of a TOML file like one, or name of a benchmark.
            Default: split-digits.
        seed: The seed, or the first one.
        seeds: Number of consecutive seeds, or the seeds. They run in parallel.
        settings: What differs from the preset, such as `{"beta": 0.05}`; `mnemon settings` lists the names.
        out: New folder for the run, or a URL to which everything is copied at the end. Default: runs/NAME-TIME.
        resume: Folder of a run, or of several seeds, that was stopped.
        workers: Runs at a time, each a process of its own. Default: the number of cores.
        threads: Threads per process.
        on: Where runs are done: ray, ray:ADDRESS or ray://HOST:PORT. Default: processes of this machine.
        device: cpu, cuda, mps or auto.
        data: Folder with the data sets. Default: the environment variable MNEMON_DATA, then the cache.
        tensorboard: Write event files for TensorBoard into the run folders.
        report: Write report.html at the end.
        quiet: Show nothing.
        screen: Where progress is shown. Default: the terminal or the notebook, or `logging`.

    Returns:
        The record of the run; with `seeds`, or of a resumed folder with several seeds, a study.

    Raises:
        UsageError: If something is wrong with the settings, the data or a folder.
        Interrupted: If Ctrl-C was pressed.

    Example:
        >>> record = mnemon.run("toy", settings={"steps": 5}, report=False, quiet=True)
        >>> record.finished, record.seed, len(record.matrix)
        (True, 0, 3)
        >>> study = mnemon.run("split-mnist", seeds=5)  # doctest: +SKIP
        >>> print(f"{study.mean:.2f} ± {study.sem:.2f}")  # doctest: +SKIP
        99.77 ± 0.03
    """
    check_begun_by_user("run")
    options = make_options(
        screen, quiet, workers=workers, threads=threads, on=on, device=device, data=data,
        tensorboard=tensorboard, report=report,
    )  # fmt: skip
    destination = None if out is None else str(out)
    all_seeds = seeds_of(seed, seeds, options)
    if resume is not None:
        options.check_resumed(destination, seeds_given=seeds is not None or seed != 0)
    given = None if preset is None else str(preset)
    request = _Request(given, all_seeds, words_of(settings), destination, None if resume is None else Path(resume))
    with distributed.crew(device) as processes:
        study = _run(request, options.led_by(processes), processes)
    single = seeds is None if resume is None else is_there(study.folder / RECORD)
    return study.records[0] if single else study


@dataclass(frozen=True)
class _Request:
    """What a user asks for."""

    preset: str | None
    seeds: Sequence[int]
    words: list[str]
    out: str | None
    resume: Path | None

    def begin(self, compute: Compute) -> tuple[Path, list[Job], Upload]:
        """Return the folder, the runs that are to be done, and where the folder is copied to."""
        upload = Upload(self.out)
        if self.resume is not None:
            given = None if self.preset is None else load_preset(self.preset)
            return self.resume, resumed_jobs(self.resume, given, self.words), upload
        return *new_jobs(config_of(self.preset, self.words), self.seeds, upload.folder, compute), upload


def _run(request: _Request, options: Options, crew: Crew) -> Study:
    if crew.size > 1 and (len(request.seeds) > 1 or options.on):
        names = (options.screen.option(name) for name in ("seeds", "on"))
        raise UsageError(f"torchrun shares one run between processes: leave out {' and '.join(names)}.")
    compute = options.compute()
    folder, jobs, upload = crew.share(lambda: _sendable(request.begin(compute), crew))
    context = options.context(compute, options.to_resume("run", folder, upload.url))
    if crew.size > 1 and len(jobs) > 1:
        raise UsageError(
            f"torchrun shares one run between processes, and {len(jobs)} in {folder} are not finished. "
            f"Name the folder of one of them, or resume without torchrun: {context.resume}"
        )
    if not jobs:
        options.screen.say(f"The run in {folder} is finished; there is nothing to resume.")
    failure: StudyError | None = None
    try:
        follow_jobs(jobs, context.shared_by(crew), options.screen, folder)
    except StudyError as error:  # the other seeds are finished
        failure = error
    study = crew.share(lambda: _finished(folder, options, upload))
    if failure is not None:
        failure.result = study
        raise failure
    return study


def _sendable(begun: tuple[Path, list[Job], Upload], crew: Crew) -> tuple[Path, list[Job], Upload]:
    """Return what was begun as other processes can be told of it: each builds the run by itself."""
    folder, jobs, upload = begun
    return folder, [job._replace(built=None) for job in jobs] if crew.size > 1 else jobs, upload


def _finished(folder: Path, options: Options, upload: Upload) -> Study:
    study = Study.read(folder, complete)
    finish(study, options, upload)
    return study
