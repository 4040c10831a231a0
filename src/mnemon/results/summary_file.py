"""The one JSON file that says what the runs below a folder are of: a comparison, a sweep."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, TypeVar

from mnemon.errors import UsageError
from mnemon.results.facts import build, check_format, read_facts
from mnemon.whole_files import is_there


class Summary(Protocol):
    """What the file says."""

    def check(self) -> None:
        """Refuse what has the right types, but makes no sense; raises ValueError."""


T = TypeVar("T", bound=Summary)


def read_summary(folder: Path, file: str, what: str, newest: int, schema: type[T]) -> T:
    """Read the file of a folder that holds a `what`; one that is missing, damaged or newer is named."""
    if not is_there(folder):
        raise UsageError(f"There is no folder {folder}.")
    try:
        facts = read_facts(folder / file)
        number = check_format(facts)
        if number > newest:
            raise UsageError(
                f"The {what} in {folder} has format {number} and was written by a newer mnemon; "
                f"this one reads format {newest}."
            )
        found = build(schema, facts)
        found.check()
        return found
    except FileNotFoundError as error:
        raise UsageError(f"{folder} holds no {what}: there is no {file} in it.") from error
    except (OSError, ValueError) as error:
        raise UsageError(f"The {what} in {folder} is damaged: {file} cannot be read ({error}).") from error
