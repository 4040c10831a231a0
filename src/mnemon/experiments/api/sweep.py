"""`mnemon.sweep`: a search for good settings."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from mnemon.errors import UsageError
from mnemon.experiments.api.finish import SUMMARY
from mnemon.experiments.api.follow import resumable
from mnemon.experiments.api.options import Folder, Options, check_alone, make_options
from mnemon.experiments.api.settings import Settings, words_of
from mnemon.experiments.compute import Compute
from mnemon.experiments.engines import open_engine
from mnemon.experiments.screen import Screen
from mnemon.experiments.sweep.prepare import SweepRequest, prepare
from mnemon.experiments.sweep.space import Criterion
from mnemon.experiments.sweep.trials import run_sweep
from mnemon.experiments.upload import Upload
from mnemon.results.sweep import SweepResult
from mnemon.whole_files import write_text


def sweep(
    space: str | PathLike[str] | Mapping[str, Any] | None = None,
    *,
    settings: Settings = None,
    trials: int | None = None,
    minutes: float | None = None,
    seed: int | None = None,
    out: Folder | None = None,
    resume: Folder | None = None,
    storage: str | None = None,
    study: str | None = None,
    workers: int | None = None,
    threads: int = 1,
    on: str | None = None,
    device: str = "auto",
    data: Folder | None = None,
    quiet: bool = False,
    screen: Screen | None = None,
) -> SweepResult:
    """Search for good settings and architectures; trials are judged on held-out training data.

    Ctrl-C saves everything and raises `Interrupted`, which says how to resume.

    Args:
        space: What is searched: the name of a space that comes with mnemon, the path of a TOML file, or its tables,
            such as `{"preset": "split-digits", "search": {"beta": {"low": 1e-3, "high": 1.0, "log": True}}}`.
            Default: split-digits.
        settings: Settings that all trials share.
        trials: Trials in all, over all resumes. Default: what the space says.
        minutes: Stop after so many minutes; trials under way are saved.
        seed: Seed of every trial, and of the choice of settings. Default: 0.
        out: Folder of the sweep; a sweep that is in it already is resumed. Or a URL to which everything is copied at
            the end. Default: runs/sweep-SPACE-TIME.
        resume: Folder of a sweep that was stopped.
        storage: URL of a database for a study that several machines share. Default: a journal in the folder.
        study: Name of the study in the database. Default: the name of the space.
        workers: Trials at a time, each a process of its own. Default: the number of cores.
        threads: Threads per process.
        on: Where trials are run: ray, ray:ADDRESS or ray://HOST:PORT. Default: processes of this machine.
        device: cpu, cuda, mps or auto.
        data: Folder with the data sets. Default: the environment variable MNEMON_DATA, then the cache.
        quiet: Show nothing.
        screen: Where progress is shown. Default: the terminal or the notebook, or `logging`.

    Returns:
        The trials and the best of them; its `best_preset` can be run.

    Raises:
        UsageError: If something is wrong with the space, the settings, the data or a folder.
        Interrupted: If Ctrl-C was pressed.

    Example:
        >>> space = {"preset": "toy", "set": {"steps": 5}, "search": {"lr": {"low": 1e-3, "high": 0.1, "log": True}}}
        >>> result = mnemon.sweep(space, trials=2, workers=1, quiet=True)
        >>> len(result.trials)
        2
    """
    check_alone("sweep")
    options = make_options(
        screen, quiet, workers=workers, threads=threads, on=on, device=device, data=data
    )  # fmt: skip
    words, destination = words_of(settings), None if out is None else str(out)
    _check(options, trials=trials, minutes=minutes)
    if resume is not None:
        options.check_resumed(destination, seeds_given=False)
        _check_resumed(options, bool(space or words or study or seed is not None))
    if study is not None and storage is None:
        named, url = options.screen.option("study"), options.screen.option("storage")
        raise UsageError(f"{named} names a study in a database: give its URL by {url}, or leave out {named}.")
    options.check_seeds([seed or 0])
    what = space if space is None or isinstance(space, Mapping) else str(space)
    compute, upload = options.compute(), Upload(destination)
    folder = None if resume is None else Path(resume)
    request = SweepRequest(what, tuple(words), upload.folder, folder, trials, seed, storage, study)
    return _sweep(request, minutes, upload, compute, options)


def _check(options: Options, **numbers: float | None) -> None:
    for name, value in numbers.items():
        if value is not None and not value > 0:
            raise UsageError(f"{options.screen.option(name)} must be above 0, not {value}.")


def _check_resumed(options: Options, given: bool) -> None:
    """Refuse a space and settings beside a folder that has its own."""
    if given:
        space, settings, study, seed = map(options.screen.option, ("space", "settings", "study", "seed"))
        raise UsageError(
            f"{options.screen.option('resume')} continues the space and the study of its folder: leave out {space}, "
            f"{settings}, {study} and {seed}."
        )


def _sweep(
    request: SweepRequest, minutes: float | None, upload: Upload, compute: Compute, options: Options
) -> SweepResult:
    screen, prepared = options.screen, prepare(request, compute)
    folder = prepared.folder
    if prepared.space.criterion is Criterion.TEST:
        screen.say(
            "Warning: trials are judged on the test data, as the space says; the best score is too optimistic."
        )
    resume = options.to_resume("sweep", folder, upload.url)
    engine = open_engine(options.context(compute, resume), prepared.record.trials)
    with (
        resumable(folder, resume, lambda: "; finished trials are kept") as should_stop,
        screen.trials(prepared.record) as view,
    ):
        run_sweep(prepared, engine, view.on_change, should_stop, minutes)
    result = SweepResult.read(folder)
    screen.show(result, result.remarks)
    write_text(folder / SUMMARY, str(result))
    screen.saved(folder)
    upload.send(folder, screen.say)
    return result
