"""Results as pandas data frames, where pandas is installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from mnemon.errors import UsageError

if TYPE_CHECKING:
    import pandas


def as_frame(columns: Sequence[str], lines: Iterable[Sequence[object]]) -> pandas.DataFrame:
    """Return lines as a data frame with these columns."""
    if importlib.util.find_spec("pandas") is None:
        raise UsageError("A data frame needs pandas: pip install pandas.")
    import pandas

    return pandas.DataFrame([list(line) for line in lines], columns=list(columns))
