"""Files of results, read with every type and number checked: what has been read can be shown.

Raises OSError or ValueError; the caller says which file it was, and what it should have held.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from mnemon import config
from mnemon.errors import UsageError
from mnemon.notation import read_json
from mnemon.whole_files import read_text

T = TypeVar("T")
LARGEST = 1e100
"""Numbers stay below it, so that sums and squares of them are numbers, too; no float32 comes close."""
METRICS = ("accuracy", "mse")
"""What can be measured on a task: percent, or the mean squared error."""


def read_facts(path: Path) -> Any:
    """Return what a JSON file holds; no number in it is too large to compute with."""
    return check_numbers(read_json(read_text(path)))


def check_numbers(value: Any) -> Any:
    """Return a value of JSON or TOML, if no number in it is too large; infinity and NaN are let through."""
    if isinstance(value, dict):
        for item in value.values():
            check_numbers(item)
    elif isinstance(value, list):
        for item in value:
            check_numbers(item)
    elif isinstance(value, float) and LARGEST < abs(value) < math.inf:
        raise ValueError(f"the number {value} is larger than {LARGEST:.0e}")
    return value


def build(schema: type[T], facts: Any) -> T:
    """Make a dataclass from what a file holds, with every name and type checked."""
    if not isinstance(facts, Mapping):
        raise ValueError(f"it holds no table, but {facts!r:.40}")
    try:
        return config.build(schema, facts, "", what="entry")
    except UsageError as error:
        raise ValueError(str(error).rstrip(".")) from error


def check_format(facts: Any) -> int:
    """Return the number of the format of a file."""
    number = facts.get("format") if isinstance(facts, dict) else None
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise ValueError("it names no format")
    return number


def check_choice(name: str, value: str, options: tuple[str, ...]) -> None:
    """Refuse a word that is none of those which are known."""
    if value not in options:
        raise ValueError(f"{name} must be one of {', '.join(options)}, not '{value}'")


def check_at_least(name: str, value: float, least: int) -> None:
    """Refuse a number that is too small, or none."""
    if not value >= least:
        raise ValueError(f"{name} must be at least {least}, not {value}")


def check_plain_name(name: str) -> None:
    """Refuse the name of a folder that could lead out of the one that it is in."""
    if name in ("", ".", "..") or any(c in name for c in "/\\:\0") or len(name.encode()) > 255:
        raise ValueError(f"'{name:.40}' is not the plain name of a folder")
