"""A line with a bar for each of several works, as the width of a terminal allows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

NARROWEST, WIDEST = 8, 30
"""Columns that a bar takes."""


class Row(NamedTuple):
    """What a line says."""

    title: str
    done: float
    total: float
    cells: tuple[str, ...]
    """What stands behind the bar, shown whole; the same number in all rows."""


def laid_out(rows: Sequence[Row], width: int) -> Table:
    """Return the lines as a table: the bars take the room that the cells leave, and titles are cropped if they must.

    Cells of 40 columns in all leave room for a bar and a short title in 60.
    """
    widths = [max(cell_len(cell) for cell in column) for column in zip(*(row.cells for row in rows), strict=True)]
    room = width - sum(widths) - len(widths) - 1  # a column lies between two cells
    longest = max((cell_len(row.title) for row in rows), default=0)
    bar = max(NARROWEST, min(WIDEST, room - longest))
    title = max(1, min(longest, room - bar))
    table = Table.grid(padding=(0, 1))
    for n in (title, bar, *widths):
        table.add_column(width=n, no_wrap=True, overflow="crop")
    for row in rows:
        drawn = ProgressBar(total=max(row.total, 1), completed=row.done, width=bar)
        table.add_row(Text(cropped(row.title, title)), drawn, *(Text(cell) for cell in row.cells))
    return table


def cropped(text: str, width: int) -> str:
    """Return a text in so many columns; of one that is too long a part in the middle is left out."""
    if cell_len(text) <= width:
        return text
    head, tail = text, ""
    end = max(0, 2 * (width - 1) // 3)
    while head and cell_len(head[-1] + tail) <= end:
        head, tail = head[:-1], head[-1] + tail
    while head and cell_len(head + "…" + tail) > width:
        head = head[:-1]
    return f"{head}…{tail}"
