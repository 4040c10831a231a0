"""Settings as Python has them, as the words that the command line takes: `{"beta": 0.05}` is `beta=0.05`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from os import PathLike
from pathlib import Path
from typing import Any

from mnemon.config import as_word, flat
from mnemon.errors import UsageError
from mnemon.experiments.preset import DEFAULT
from mnemon.experiments.run_config import RunConfig, preset_of, resolve

Settings = Mapping[str, Any] | Sequence[str] | None
"""Settings that differ from the preset: by their names, or as `name=value` words."""


def words_of(settings: Settings) -> list[str]:
    """Return settings as `name=value` words; tables within tables are names with dots."""
    if settings is None:
        return []
    if isinstance(settings, str):
        return [settings]
    if not isinstance(settings, Mapping):
        return [str(word) for word in settings]
    return [_word(name, value) for name, value in flat(settings)]


def _word(name: str, value: Any) -> str:
    try:
        return as_word(name, _plain(value))
    except TypeError as error:
        raise UsageError(f"The setting '{name}' takes a number, a word or a list, not {value!r:.60}.") from error


def _plain(value: Any) -> Any:
    """Return a value as TOML has it: arrays and tensors are lists or numbers, None is a word."""
    if value is None:
        return "none"
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value.tolist() if hasattr(value, "tolist") else value


def config_of(preset: str | PathLike[str] | None, words: Sequence[str]) -> RunConfig:
    """Return the config of a preset, or of the default preset with another benchmark, with some settings changed."""
    found, own = preset_of(DEFAULT if preset is None else str(preset))
    return resolve(found, [*own, *words])
