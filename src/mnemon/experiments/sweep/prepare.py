"""A sweep that begins, or goes on in its folder."""

from __future__ import annotations

import secrets
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from mnemon.errors import UsageError
from mnemon.experiments.preset import DEFAULT
from mnemon.experiments.run import Compute, begin, new_folder
from mnemon.experiments.study import dated_folder
from mnemon.experiments.sweep.space import Space, load_space
from mnemon.experiments.sweep.storage import check_database, check_optuna, without_password
from mnemon.notation import MOST_CHARACTERS, write_toml
from mnemon.results.naming import short_name
from mnemon.results.sweep import SweepRecord, is_sweep
from mnemon.whole_files import write_text

SPACE = "space.toml"


class Prepared(NamedTuple):
    """A sweep that is ready to begin or to go on."""

    space: Space
    record: SweepRecord
    folder: Path
    url: str | None


def prepare(
    name: str | None,
    overrides: list[str],
    out: Path | None,
    resume: Path | None,
    seed: int | None,
    study: str | None,
    url: str | None,
    trials: int | None,
    compute: Compute,
) -> Prepared:
    """Begin a sweep, or go on with the one that is in a folder."""
    check_optuna()
    if resume is not None:
        record, space = SweepRecord.read(resume), load_space(str(resume / SPACE))
    else:
        space = load_space(name or DEFAULT, overrides)
        folder = out or dated_folder(short_name(f"sweep-{space.name}", overrides))
        if not is_sweep(folder):
            return Prepared(space, _begin(space, folder, seed or 0, study, url, trials, compute), folder, url)
        resume, record = folder, SweepRecord.read(folder)
        if (seed or 0, study or record.study) != (record.seed, record.study):
            raise UsageError(f"The sweep in {folder} has seed {record.seed} and is the study '{record.study}'.")
    if url is None and "***" in record.storage:
        raise UsageError(f"The study is in {record.storage}: give its URL with the password by --storage.")
    if url is not None and without_password(url) != record.storage:
        raise UsageError(f"The study of this sweep is in {record.storage or 'its folder'}, not in that --storage.")
    if trials is not None and trials != record.trials:
        record = replace(record, trials=trials)
        record.write(resume)
    return Prepared(space, record, resume, url or record.storage or None)


def _begin(
    space: Space, folder: Path, seed: int, study: str | None, url: str | None, trials: int | None, compute: Compute
) -> SweepRecord:
    """Make the folder of a sweep; what is wrong with settings and data shows before."""
    text = write_toml(space.plain())
    if len(text) > MOST_CHARACTERS["TOML"]:
        raise UsageError(f"The space {space.name} is too large to be kept: name fewer choices.")
    metric = begin(space.config(), seed, compute).metric
    if url is not None:
        check_database(url)
    record = SweepRecord(
        preset=space.preset_name,
        about=space.about,
        criterion=space.criterion.value,
        metric=metric,
        seed=seed,
        study=study or (space.name if url else folder.name),
        storage=without_password(url) if url else "",
        home=secrets.token_hex(8),
        trials=trials or space.trials,
        fixed=space.changes({}),
    )
    new_folder(folder)
    write_text(folder / SPACE, text)
    record.write(folder)
    return record
