"""The commands that train: run and compare."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from mnemon.cli.app import console
from mnemon.cli.options import DEFAULT_OPTIONS, RunOptions
from mnemon.cli.reporting import show_in_browser
from mnemon.errors import Interrupted, UsageError

if TYPE_CHECKING:
    from mnemon.results.comparison import ComparisonTable
    from mnemon.results.record import RunRecord
    from mnemon.results.study import Study


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

    Ctrl-C saves and says how to resume; nothing is lost. `torchrun --nproc-per-node 2 -m mnemon run …` lets several
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
        Folder of a run, or of several seeds, to resume.
    dry_run
        Do not run it: say how large everything is and how long it would take, from a few timed steps.
    """
    options.check()
    if dry_run:
        return _dry_run(preset, resume, options)

    import mnemon
    from mnemon.training.distributed import leads

    try:
        result = mnemon.run(preset, out=out, resume=resume, **options.keywords())
    except (UsageError, Interrupted) as error:
        if leads():  # the first of several processes speaks for all
            raise
        return 2 if isinstance(error, UsageError) else 130
    if leads():
        _open(result, options)
    return 0


def _dry_run(preset: str | None, resume: Path | None, options: RunOptions) -> int:
    if resume is not None:
        raise UsageError("--dry-run estimates a preset: leave out --resume.")

    from mnemon.experiments.api.options import make_options
    from mnemon.experiments.api.settings import config_of
    from mnemon.experiments.dry_run import estimate, shown
    from mnemon.training.distributed import leads

    if leads():
        config = config_of(preset, options.set_ or ())
        compute = make_options(**options.computing.keywords()).compute()
        console().print(shown(estimate(config, options.seed, compute), config))
    return 0


def _open(result: RunRecord | Study | ComparisonTable, options: RunOptions) -> None:
    """Show the report in the browser, if that was asked for and there is one."""
    from mnemon.results.report.write import FILE

    if options.open and result.folder is not None and (page := result.folder / FILE).exists():
        show_in_browser(page)


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
    Ctrl-C saves and says how to resume; nothing is lost.

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
        Folder of a comparison to resume.
    """
    options.check()

    import mnemon

    _open(mnemon.compare(method, benchmark, scenario, out=out, resume=resume, **options.keywords()), options)
    return 0
