"""`mnemon.compare`: several methods on the same tasks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mnemon.benchmarks.given import give_name
from mnemon.benchmarks.registry import REGISTRY, Benchmark
from mnemon.benchmarks.task import TaskStream
from mnemon.errors import UsageError
from mnemon.experiments.api.finish import finish
from mnemon.experiments.api.follow import follow_jobs
from mnemon.experiments.api.options import Folder, Options, check_alone, make_options, seeds_of
from mnemon.experiments.api.settings import Settings, words_of
from mnemon.experiments.compare import begin_runs, keep_failures, make_plan, resumed_runs
from mnemon.experiments.compute import Compute
from mnemon.experiments.job import Job
from mnemon.experiments.older_records import complete
from mnemon.experiments.screen import Screen
from mnemon.experiments.study import StudyError
from mnemon.experiments.upload import Upload
from mnemon.learners import METHODS
from mnemon.learners.base import AbstractLearner
from mnemon.results.comparison import ComparisonTable

Method = str | type[AbstractLearner] | tuple[str | type[AbstractLearner], Settings]
"""A method by its name or its class, and perhaps settings of it alone."""
Tasks = str | TaskStream | type[Benchmark]
"""What is learned: by the name of a preset or a benchmark, by the class of a benchmark, or the tasks themselves."""


def compare(
    methods: Sequence[Method] = (),
    benchmark: Tasks | None = None,
    scenario: str | None = None,
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
) -> ComparisonTable:
    """Learn the same tasks with several methods, several runs at a time, and put them into one table.

    Ctrl-C saves everything and raises `Interrupted`, which says how to resume.

    Args:
        methods: What to compare: the end of a preset's name, a whole preset, a method or its class. A variant has
            settings of its own: `("hypernet", {"beta": 0.1})` or `"hypernet:beta=0.1"`.
        benchmark: Preset whose tasks are learned, a benchmark, or a `TaskStream` of your own, which no other session
            knows. Default: split-digits.
        scenario: cl1 (the task is told), cl2 (it is not, all tasks share one head) or cl3 (it is not, all classes
            compete). Default: cl1.
        seed: The seed, or the first one.
        seeds: Number of consecutive seeds, or the seeds.
        settings: Settings of all methods.
        out: New folder, or a URL to which everything is copied at the end. Default: runs/compare-…-TIME.
        resume: Folder of a comparison that was stopped.
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
        The table, with the records of all runs.

    Raises:
        UsageError: If something is wrong with a method, the settings, the data or a folder.
        Interrupted: If Ctrl-C was pressed.

    Example:
        >>> methods, settings = ["joint", ("finetuned-target", {"lr": 0.01})], {"steps": 5, "n_tasks": 2}
        >>> table = mnemon.compare(methods, settings=settings, workers=1, report=False, quiet=True)
        >>> table.methods
        ['joint', 'finetuned-target:lr=0.01']
    """
    check_alone("compare")
    options = make_options(
        screen, quiet, workers=workers, threads=threads, on=on, device=device, data=data,
        tensorboard=tensorboard, report=report,
    )  # fmt: skip
    destination, words = None if out is None else str(out), words_of(settings)
    all_seeds = seeds_of(seed, seeds, options)
    compute = options.compute()
    if resume is not None:
        options.check_resumed(destination, seeds_given=seeds is not None or seed != 0)
        _check_resumed(options, bool(methods or benchmark or scenario or words))
        upload, folder = Upload(destination), Path(resume)
        return _compare(folder, resumed_runs(folder), upload, compute, options)
    upload = Upload(destination)
    plan = make_plan([_word(method) for method in methods], _tasks(benchmark), scenario, words)
    folder, jobs = begin_runs(plan, all_seeds, upload.folder, compute)
    return _compare(folder, jobs, upload, compute, options)


def _check_resumed(options: Options, given: bool) -> None:
    """Refuse methods and settings beside a folder that has its own."""
    if given:
        names = ("methods", "benchmark", "scenario")
        methods, benchmark, scenario, settings = (options.screen.option(name) for name in (*names, "settings"))
        raise UsageError(
            f"{options.screen.option('resume')} continues the methods and settings of its folder: leave out "
            f"{methods}, {benchmark}, {scenario} and {settings}."
        )


def _word(method: Method) -> str:
    """Return a method as the word that the command line takes."""
    if isinstance(method, tuple):
        name, settings = method
        own = ",".join(words_of(settings))
        return f"{_word(name)}:{own}" if own else _word(name)
    if isinstance(method, str):
        return method
    if not isinstance(method, type):
        raise UsageError(f"A method is a name, a class or (method, settings), not {method!r:.60}.")
    if (found := METHODS.name_of(method)) is not None:
        return found
    raise UsageError(f"The method {method.__name__} is not registered: put @mnemon.register_method(NAME) above it.")


def _tasks(benchmark: Tasks | None) -> str | None:
    """Return the name of what is learned."""
    if benchmark is None or isinstance(benchmark, str):
        return benchmark
    if isinstance(benchmark, TaskStream):
        return give_name(benchmark)
    if isinstance(benchmark, type) and (found := REGISTRY.name_of(benchmark)) is not None:
        return found
    raise UsageError(
        f"The benchmark {benchmark!r:.60} is neither a name, a TaskStream nor registered: put "
        "@mnemon.register_benchmark(NAME) above it."
    )


def _compare(folder: Path, jobs: list[Job], upload: Upload, compute: Compute, options: Options) -> ComparisonTable:
    if not jobs:
        options.screen.say(f"The comparison in {folder} is finished; there is nothing to resume.")
    context = options.context(compute, options.to_resume("compare", folder, upload.url))
    failure: StudyError | None = None
    try:
        follow_jobs(jobs, context, options.screen, folder)
    except StudyError as error:  # the other runs are finished
        keep_failures(folder, error.failures)
        failure = error
    table = ComparisonTable.read(folder, complete)
    finish(table, options, upload)
    if failure is not None:
        failure.result = table
        raise failure
    return table
