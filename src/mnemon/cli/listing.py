"""The commands that list what there is: runs, presets, settings, data sets."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from mnemon.cli.app import console, say, say_item
from mnemon.cli.options import Settings
from mnemon.errors import UsageError

RUNS = Path("runs")


def runs(folder: Annotated[Path, Parameter(name="FOLDER")] = RUNS, /) -> None:
    """List the runs that are there, with comparisons and sweeps: how far each is, its final accuracy, when it began.

    Those that were begun last are at the end. `mnemon show` shows one of them.

    Parameters
    ----------
    folder
        Folder to look in, and in all folders below it.
    """
    from mnemon.results.terminal.listing import list_runs

    if folder == RUNS and not folder.exists():
        say("There are no runs yet: no folder runs. To start one: mnemon run")
        return
    found = list_runs(folder)
    for line in found.lines:
        say_item(str(line.folder), line.about, f"  begun {line.begun}")
    for damaged in found.damaged:
        say(damaged)
    if not found.lines and not found.damaged:
        say(f"There are no runs in {folder}, nor below it.")


def presets(*word: Annotated[str, Parameter(name="WORD")]) -> None:
    """List the presets: what each is, what it costs on one core, and the published number.

    `mnemon presets mnist replay` lists only those that have both words in their name or description.

    Parameters
    ----------
    word
        List only presets with this word in their name or description; as many words as you like. Default: all.
    """
    from mnemon.experiments.preset import DEFAULT, all_presets

    there = all_presets()
    fitting = [p for p in there if _holds(word, p.name, p.about)]
    if not fitting:
        raise UsageError(
            f"No preset has {_quoted(word)} in its name or description. `mnemon presets` lists all {len(there)}."
        )
    for p in fitting:
        published = f"; published: {p.published}" if p.published else ""
        beside = " (default)" if p.name == DEFAULT else ""
        say_item(p.name, f"{p.about} Time per seed: {p.cost}{published}", beside)


def settings(
    preset: str | None = None,
    /,
    *word: Annotated[str, Parameter(name="WORD")],
    set_: Settings = None,
) -> None:
    """List every setting of a preset with its value and what it means.

    `mnemon settings split-mnist embedding` lists only those that have the word in their name or explanation.

    Parameters
    ----------
    preset
        Name of a preset (see `mnemon presets`) or path of a TOML file like one. Default: split-digits.
    word
        List only settings with this word in their name or explanation; as many words as you like. Default: all.
    set_
        Change a setting, as in `mnemon run`.
    """
    from mnemon.experiments.preset import DEFAULT, load_preset
    from mnemon.experiments.run_config import explained, is_setting, resolve

    try:
        found = load_preset(preset or DEFAULT)
    except UsageError as error:
        if preset is None or not is_setting(preset):
            raise
        remedy = f"To search the settings of a preset: {shlex.join(['mnemon', 'settings', DEFAULT, preset])}"
        raise UsageError(f"{error} {remedy}") from error
    config = resolve(found, set_ or ())
    fitting = [one for one in explained(config) if _holds(word, one.path, one.meaning)]
    if not fitting:
        raise UsageError(
            f"No setting of {config.preset} has {_quoted(word)} in its name or explanation. "
            f"{shlex.join(['mnemon', 'settings', preset or DEFAULT])} lists all."
        )
    for one in fitting:
        say_item(one.path, one.meaning, f"  {one.value}")


def _holds(words: Sequence[str], *texts: str) -> bool:
    """Tell whether each word occurs in one of the texts."""
    return all(any(word.casefold() in text.casefold() for text in texts) for word in words)


def _quoted(words: Sequence[str]) -> str:
    return " and ".join(f"'{word}'" for word in words)


def data(*, data: Path | None = None) -> None:
    """Show the data sets: present or not, where, verified or not, and how to get them.

    Parameters
    ----------
    data
        Folder to look in first. Default: the environment variable MNEMON_DATA, then the cache.
    """
    from rich.table import Table

    from mnemon.benchmarks.sources import status

    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("data set", "state", "where", "how to get it"):
        table.add_column(column, overflow="fold")
    for s in status(data):
        state = "verified" if s.verified else f"damaged: {s.problem}" if s.present else s.problem or "missing"
        table.add_row(s.name, state, str(s.where or "-"), s.how)
    console().print(table)
