"""A sweep that begins, or is resumed in its folder."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from mnemon.errors import UsageError
from mnemon.experiments.compute import Compute
from mnemon.experiments.preset import DEFAULT
from mnemon.experiments.run import build_run, new_folder
from mnemon.experiments.study import dated_folder
from mnemon.experiments.sweep.space import Space, load_space
from mnemon.experiments.sweep.storage import check_database, check_optuna, without_password
from mnemon.notation import MOST_CHARACTERS, write_toml
from mnemon.results.naming import short_name
from mnemon.results.sweep import SweepRecord, is_sweep
from mnemon.whole_files import write_text

SPACE = "space.toml"


@dataclass(frozen=True)
class SweepRequest:
    """What a user asks of a sweep."""

    space: str | Mapping[str, Any] | None = None
    """The name of a space, the path of its file, or its tables."""
    overrides: tuple[str, ...] = ()
    """Settings that are fixed in all trials, as `name=value`."""
    out: Path | None = None
    resume: Path | None = None
    trials: int | None = None
    seed: int | None = None
    storage: str | None = None
    """URL of the database of the study; None for a journal in the folder."""
    study: str | None = None


class Prepared(NamedTuple):
    """A sweep that is ready to begin or to be resumed."""

    space: Space
    record: SweepRecord
    folder: Path
    url: str | None


def prepare(asked: SweepRequest, compute: Compute) -> Prepared:
    """Begin a sweep, or resume the one that is in a folder."""
    check_optuna()
    if asked.resume is not None:
        record = SweepRecord.read(asked.resume)
        return _resumed(asked, asked.resume, record, load_space(str(asked.resume / SPACE)))
    space = load_space(asked.space or DEFAULT, asked.overrides)
    folder = asked.out or dated_folder(short_name(f"sweep-{space.name}", asked.overrides))
    if not is_sweep(folder):
        return Prepared(space, _begin(space, folder, asked, compute), folder, asked.storage)
    record = SweepRecord.read(folder)
    if (asked.seed or 0, asked.study or record.study) != (record.seed, record.study):
        raise UsageError(f"The sweep in {folder} has seed {record.seed} and is the study '{record.study}'.")
    return _resumed(asked, folder, record, space)


def _resumed(asked: SweepRequest, folder: Path, record: SweepRecord, space: Space) -> Prepared:
    url = asked.storage
    if url is None and "***" in record.storage:
        raise UsageError(f"The study is in {record.storage}: give its URL with the password by --storage.")
    if url is not None and without_password(url) != record.storage:
        raise UsageError(f"The study of this sweep is in {record.storage or 'its folder'}, not in that --storage.")
    if asked.trials is not None and asked.trials != record.trials:
        record = replace(record, trials=asked.trials)
        record.write(folder)
    return Prepared(space, record, folder, url or record.storage or None)


def _begin(space: Space, folder: Path, asked: SweepRequest, compute: Compute) -> SweepRecord:
    """Make the folder of a sweep; what is wrong with settings and data shows before."""
    text, url, seed = write_toml(space.plain()), asked.storage, asked.seed or 0
    if len(text) > MOST_CHARACTERS["TOML"]:
        raise UsageError(f"The space {space.name} is too large to save: give fewer choices.")
    metric = build_run(space.config(), seed, compute).record.metric
    if url is not None:
        check_database(url)
    record = SweepRecord(
        preset=space.preset_name,
        about=space.about,
        criterion=space.criterion.value,
        metric=metric,
        seed=seed,
        study=asked.study or (space.name if url else folder.name),
        storage=without_password(url) if url else "",
        home=secrets.token_hex(8),
        trials=asked.trials or space.trials,
        fixed=space.changes({}),
    )
    new_folder(folder)
    write_text(folder / SPACE, text)
    record.write(folder)
    return record
