"""Text that a terminal only shows: without the characters that would command it."""

from __future__ import annotations

import re

_COMMANDS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters but for tab and line feed, and halves of characters, which cannot be written at all."""
MARK = "\N{REPLACEMENT CHARACTER}"


def printable(text: str) -> str:
    """Return a text with a mark in place of each character that is not to be seen.

    A name from a file that somebody else wrote could otherwise move the cursor, hide lines or rename the window.
    """
    return _COMMANDS.sub(MARK, text)
