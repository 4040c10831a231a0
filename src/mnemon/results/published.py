"""Published numbers as records have them: a text such as "97.57 ± 0.02", read as a number with its spread."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

_NUMBER = r"(\d+(?:\.\d+)?)"
_FORM = re.compile(rf"^{_NUMBER}(?:\s*(?:±|\+-|\+/-)\s*{_NUMBER})?(?=$|[\s(,;])(?!\s*,)")


class Published(NamedTuple):
    """A mean over tasks, after the last one, as it was published."""

    mean: float
    sem: float = math.nan


def read(text: str) -> Published | None:
    """Return the number that a text begins with, and its spread if it has one; None where there is none such."""
    found = _FORM.match(text.strip())
    if found is None:
        return None
    mean, sem = found.groups()
    return Published(float(mean), float(sem) if sem else math.nan)
