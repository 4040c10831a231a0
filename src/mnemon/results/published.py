"""Published numbers as records have them: a text such as "97.57 ± 0.02", read as a number with its spread."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from mnemon.results.record import RunRecord

_NUMBER = r"(\d+(?:\.\d+)?)"
_FORM = re.compile(rf"^{_NUMBER}(?:\s*(?:±|\+-|\+/-)\s*{_NUMBER})?(?=$|[\s(,;])(?!\s*,)")
_ERRORS = "mse "
"""With this a text about errors begins."""


class Published(NamedTuple):
    """A mean over tasks, after the last one, as it was published."""

    mean: float
    sem: float = math.nan


def read(text: str, metric: str = "final") -> Published | None:
    """Return what a text such as "94.19 ± 0.16 (during 95.54 ± 0.05)" says of a metric; None where it says nothing.

    "mse 0.1, 0.2, 0.3 (…)" names an error per task, of which it is the mean.
    """
    if metric != "final":
        return _number(text.partition(f"{metric} ")[2].partition(";")[0].partition(")")[0])
    if not text.startswith(_ERRORS):
        return _number(text)
    errors = [_number(part) for part in text.removeprefix(_ERRORS).partition("(")[0].split(",")]
    found = [error for error in errors if error is not None]
    if len(found) < len(errors):
        return None
    return found[0] if len(found) == 1 else Published(sum(error.mean for error in found) / len(found))


def find_published(record: RunRecord) -> Published | None:
    """Return the mean that was published for a run; None where there is none of what it measures."""
    same = record.published.startswith(_ERRORS) == record.accuracy.of_errors
    return read(record.published) if same else None


def _number(text: str) -> Published | None:
    """Return the number that a text begins with, and its spread if it has one."""
    found = _FORM.match(text.strip())
    if found is None:
        return None
    mean, sem = found.groups()
    return Published(float(mean), float(sem) if sem else math.nan)
