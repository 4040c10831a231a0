"""The one JSON file that says what the runs below a folder are of: a comparison, a sweep."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from mnemon.errors import UsageError
from mnemon.notation import read_json
from mnemon.whole_files import read_text

T = TypeVar("T")


def read_summary(folder: Path, file: str, what: str, newest: int, build: Callable[[dict[str, Any]], T]) -> T:
    """Read the file of a folder that holds a `what`; one that is missing, damaged or newer is named."""
    if not folder.exists():
        raise UsageError(f"There is no folder {folder}.")
    try:
        facts = read_json(read_text(folder / file))
        if facts["format"] > newest:
            raise UsageError(
                f"The {what} in {folder} has format {facts['format']} and was written by a newer mnemon; "
                f"this one reads format {newest}."
            )
        return build(facts)
    except FileNotFoundError as error:
        raise UsageError(f"{folder} holds no {what}: there is no {file} in it.") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"The {what} in {folder} is damaged: {file} cannot be read ({error}).") from error
