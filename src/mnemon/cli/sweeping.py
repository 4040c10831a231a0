"""The command that searches for good settings."""

from __future__ import annotations

from pathlib import Path

from mnemon.cli.app import say, say_item
from mnemon.cli.options import DEFAULT_COMPUTING, Computing, Settings, Whole


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
    with the same folder, or --resume, resumes it. At the end there is a preset of the best settings, best.toml.
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
        Folder of a sweep to resume.
    storage
        URL of a database, such as postgresql+psycopg://USER@HOST/NAME, for a study that several machines share (each
        with a folder of its own). Default: a journal in the folder.
    study
        Name of the study in the database. Default: the name of the space.
    seed
        Seed of every trial, and of the choice of settings. Default: 0.
    """
    if space is None and resume is None and (trials is None or trials > 0):
        _list_spaces(trials)
        return 0

    import mnemon

    mnemon.sweep(
        space,
        settings=set_,
        trials=trials,
        minutes=minutes,
        seed=seed,
        out=out,
        resume=resume,
        storage=storage,
        study=study,
        **computing.keywords(),
    )
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
