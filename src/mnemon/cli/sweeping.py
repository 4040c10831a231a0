"""The command that searches for good settings."""

from __future__ import annotations

from pathlib import Path

from mnemon.cli.app import console, say, say_item
from mnemon.cli.options import DEFAULT_COMPUTING, Computing, RunOptions, Settings, Whole, check_alone
from mnemon.cli.showing import show_folder
from mnemon.errors import UsageError


def sweep(
    space: str | None = None,
    /,
    *,
    set_: Settings = None,
    trials: Whole | None = None,
    minutes: float | None = None,
    out: str | None = None,
    resume: Path | None = None,
    storage: str | None = None,
    study: str | None = None,
    seed: Whole | None = None,
    computing: Computing = DEFAULT_COMPUTING,
) -> int:
    """Search for good settings and architectures; trials are judged on held-out training data.

    Without SPACE it starts nothing and lists the spaces that come with mnemon: what each searches and what it costs.

    Trials are runs, several at a time, and those that fall behind are stopped early. Ctrl-C saves; the same command
    with the same folder, or --resume, goes on. At the end there is a preset of the best settings, best.toml.
    Needs optuna: pip install 'mnemon[sweep]'.

    Parameters
    ----------
    space
        What is searched: the name of a space that comes with mnemon, or the path of a TOML file like
        experiments/spaces/split-digits.toml.
    set_
        Fix a setting of all trials: name=value, as in `mnemon run`.
    trials
        Trials in all, finished or pruned, over all workers, machines and resumes. Default: what the space says.
    minutes
        Stop after so many minutes, even if there are fewer trials; those under way are saved.
    out
        Folder of the sweep; a sweep that is in it already is resumed. Or a URL such as s3://BUCKET/NAME to which
        everything is copied at the end (needs fsspec). Default: runs/sweep-SPACE-TIME.
    resume
        Folder of a sweep to go on with.
    storage
        URL of a database, such as postgresql+psycopg://USER@HOST/NAME, for a study that several machines share (each
        with a folder of its own). Default: a journal in the folder.
    study
        Name of the study in the database. Default: the name of the space.
    seed
        Seed of every trial, and of the choice of settings. Default: 0.
    """
    check_alone("sweep")
    if resume is not None and (space or set_ or study or seed is not None):
        raise UsageError(
            "--resume goes on with the space and the study of its folder: leave out SPACE, --set, --study and --seed."
        )
    if study is not None and storage is None:
        raise UsageError("--study names a study in a database: give its URL by --storage, or leave out --study.")
    options = RunOptions(seed=seed or 0, computing=computing)
    options.check(out, resume)
    for name, value in (("--trials", trials), ("--minutes", minutes)):
        if value is not None and not value > 0:
            raise UsageError(f"{name} must be above 0, not {value}.")
    if space is None and resume is None:
        _list_spaces(trials)
        return 0

    from mnemon.experiments.engines import open_engine
    from mnemon.experiments.run import stop_on_signal
    from mnemon.experiments.sweep.leaderboard import Leaderboard
    from mnemon.experiments.sweep.prepare import prepare
    from mnemon.experiments.sweep.space import Criterion
    from mnemon.experiments.sweep.trials import run_sweep
    from mnemon.experiments.upload import Upload
    from mnemon.training.trainer import Stopped

    compute, upload = options.compute(), Upload(out)
    prepared = prepare(space, set_ or [], upload.folder, resume, seed, study, storage, trials, compute)
    plan, record, folder = prepared.space, prepared.record, prepared.folder
    if plan.criterion is Criterion.TEST:
        say("Warning: trials are judged on the test data, as the space says; the best score is no fair measurement.")
    go_on = options.go_on("sweep", folder, upload.url)
    engine = open_engine(computing.on, compute, computing.at_once(), record.trials)
    try:
        with stop_on_signal() as should_stop, Leaderboard(record, console(), computing.quiet) as board:
            run_sweep(plan, record, folder, prepared.url, engine, board.on_change, should_stop, minutes)
    except (Stopped, KeyboardInterrupt) as stop:
        saved = "everything is saved" if isinstance(stop, Stopped) else "at once, finished trials are kept"
        say(f"Stopped; {saved}. Go on with: {go_on}")
        return 130
    _finish(folder)
    upload.send(folder, say)
    return 0


def _list_spaces(trials: int | None) -> None:
    """Say of each space what it searches and what that costs."""
    from mnemon.experiments.cost import in_words
    from mnemon.experiments.preset import DEFAULT
    from mnemon.experiments.sweep.space_file import all_spaces, read_space

    for name in all_spaces():
        file = read_space(name)
        n, each = trials or file.trials, file.seconds
        cost = f"{n} trials, about {in_words(each)} each: {in_words(n * each)} on one core"
        less = ", less with pruning" if file.pruning else ""
        say_item(name, f"{file.about} Preset {file.preset}; searches {', '.join(file.searched)}. {cost}{less}.")
    say(f"Nothing was started. To start one: mnemon sweep {DEFAULT} (or the path of a TOML file of your own).")


def _finish(folder: Path) -> None:
    from mnemon.cli.showing import as_text
    from mnemon.whole_files import write_text

    show_folder(folder, console())
    write_text(folder / "summary.txt", as_text(folder))
    say(f"Kept in {folder} (this report: summary.txt; all trials: trials.csv, trials/; the best: best.toml)")
