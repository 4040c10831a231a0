"""The terminal, as everything writes to it: nothing that is shown can command it."""

from __future__ import annotations

import html
import io
from collections.abc import Iterable
from typing import IO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from mnemon.printable import printable

WIDTH = 120
"""Columns of a table in a file, or in a notebook."""


class Terminal(Console):
    """A console that shows text as it is, whatever it holds: no markup, no names of emoji, no control characters."""

    def __init__(self, stderr: bool = False, file: IO[str] | None = None, width: int | None = None):
        super().__init__(stderr=stderr, file=file, width=width, markup=False, emoji=False, highlight=False)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Clean what is shown; the codes of rich itself, such as those of progress bars, are control segments."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))


def as_text(*parts: RenderableType) -> str:
    """Return what is shown as plain text."""
    text = io.StringIO()
    console = Terminal(file=text, width=WIDTH)
    for part in parts:
        console.print(part, soft_wrap=isinstance(part, str))
    return text.getvalue()


def as_html(text: str) -> str:
    """Return plain text as a notebook shows it."""
    return f"<pre>{html.escape(text)}</pre>"
