"""Text that may be shown: without the characters that would command a terminal, and without passwords."""

from __future__ import annotations

import re

_COMMANDS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters but for tab and line feed, and halves of characters, which cannot be written at all."""
MARK = "\N{REPLACEMENT CHARACTER}"
_SCHEME_END = re.compile(r":/+")
"""With one slash, too: so a URL looks that was taken for a path."""
_SECRET = re.compile("pass|pwd|secret|token|key", re.IGNORECASE)
HIDDEN = "***"


def printable(text: str) -> str:
    """Return a text with a mark in place of each character that is not to be seen.

    A name from a file that somebody else wrote could otherwise move the cursor, hide lines or rename the window.
    """
    return _COMMANDS.sub(MARK, text)


def without_passwords(text: str) -> str:
    """Return a text with the passwords hidden in all URLs that are in it."""
    return re.sub(r"\S+", lambda found: _hidden_in(found[0]), text)


def _hidden_in(word: str) -> str:
    bare = word.rstrip("'\".,;)")
    return password_hidden(bare) + word[len(bare) :] if _SCHEME_END.search(bare) else word


def password_hidden(word: str) -> str:
    """Hide what may be a password in a word that need not be a URL.

    That is all from the first colon to the last @, and behind a ? the values whose names sound secret.
    """
    end = found.end() if (found := _SCHEME_END.search(word)) else 0
    access, at, place = word[end:].rpartition("@")
    user, colon, _ = access.partition(":")
    place, mark, query = place.partition("?")
    parts = [_value_hidden(part) for part in query.split("&")]
    return f"{word[:end]}{user}{f':{HIDDEN}' if colon else ''}{at}{place}{mark}{'&'.join(parts)}"


def is_secret(name: str) -> bool:
    """Tell whether a name in a URL is one whose value is not shown."""
    return _SECRET.search(name) is not None


def _value_hidden(part: str) -> str:
    name, equals, _ = part.partition("=")
    return f"{name}={HIDDEN}" if equals and is_secret(name) else part
