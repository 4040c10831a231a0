"""JSON and TOML, read within limits: no text, whoever wrote it, can crash the process or hide in a value."""

from __future__ import annotations

import datetime
import json
import re
import sys
from typing import Any

from tomli_w import dumps as write_toml

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["NotationError", "read_json", "read_toml", "write_toml"]

MOST_DEPTH = 40
"""Tables and lists within each other; what recurses over values need not fear for its stack."""
MOST_CHARACTERS = {"JSON": 1 << 28, "TOML": 1 << 18}
MOST_DOTS = 200
"""Dots in a line of TOML; the time that a key takes to read grows as the square of its parts."""
LARGEST = 2**63
"""Whole numbers stay below it, so that each fits into a tensor, a float and a line of text."""


class NotationError(ValueError):
    """Text that is not JSON or TOML, or more of it than is reasonable."""


_QUOTED = re.compile(r'"[^"\n]*"|\'[^\'\n]*\'')
_BESIDE_KEYS = re.compile(r"[,={}\[\]\n]")


def read_json(text: str | bytes) -> Any:
    """Return the value of a JSON text; raises NotationError."""
    return _read("JSON", text, json.loads)


def read_toml(text: str) -> dict[str, Any]:
    """Return the tables of a TOML text; raises NotationError."""
    return _read("TOML", text, _parse_toml)


def _parse_toml(text: str) -> dict[str, Any]:
    # Each dot of a key is a table within a table. Dots in strings, and those of the numbers of a list, are none.
    keys = _BESIDE_KEYS.split(_QUOTED.sub("quoted", text))
    if any(key.count(".") > MOST_DOTS for key in keys):
        raise NotationError(f"a key has more than {MOST_DOTS} dots")
    return tomllib.loads(text)


def _read(what: str, text: Any, parse: Any) -> Any:
    if len(text) > MOST_CHARACTERS[what]:
        raise NotationError(f"{len(text):,} characters of {what} are more than {MOST_CHARACTERS[what]:,}")
    try:
        value = parse(text)
    except RecursionError:
        raise NotationError(_too_deep(what)) from None
    except ValueError as error:  # also a number of thousands of digits, and bytes that are no text
        raise NotationError(f"{error}".partition("\n")[0].rstrip(".")) from error
    _check(what, value)
    return value


def _check(what: str, value: Any) -> None:
    """Refuse values that could be read, but would break what is done with them."""
    level, depth = [value], 0
    while level:
        if depth > MOST_DEPTH:
            raise NotationError(_too_deep(what))
        within: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                within += item.keys()
                within += item.values()
            elif isinstance(item, list):
                within += item
            elif isinstance(item, str) and not item.isascii():
                _check_text(item)
            elif isinstance(item, int) and abs(item) >= LARGEST:
                raise NotationError("a whole number is larger than 63 bits")
            elif isinstance(item, datetime.date | datetime.time):  # TOML has them; no setting is one
                raise NotationError(f"the date or time {item} must be a text in quotes")
        level, depth = within, depth + 1


def _check_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise NotationError(f"a text is not Unicode: {error.reason}") from None


def _too_deep(what: str) -> str:
    return f"{what} nested more than {MOST_DEPTH} deep"
