"""What runs cost: the words of presets as seconds, and seconds as words."""

from __future__ import annotations

import re

_UNITS = {"s": 1, "min": 60, "h": 3600, "day": 86400, "week": 7 * 86400}
_WORDS = {"a": 1, "an": 1, "two": 2, "three": 3, "ten": 10}
_FORM = re.compile(rf"(?:about )?(?:(\d+(?:\.\d+)?|{'|'.join(_WORDS)}) )?({'|'.join(_UNITS)})s?\b")


def seconds(words: str) -> float:
    """Return the seconds that words such as "about 2.5 min" or "a week (estimated)" stand for; "weeks" are two."""
    found = _FORM.match(words)
    if found is None:
        raise ValueError(f"'{words}' is not a cost such as 'about 10 min'.")
    number, unit = found.groups(default="two")
    return (_WORDS[number] if number in _WORDS else float(number)) * _UNITS[unit]


def in_words(amount: float) -> str:
    """Say about how long so many seconds are."""
    for unit, size in reversed(_UNITS.items()):
        if amount >= 1.5 * size or unit == "s":
            number = amount / size
            shown = f"{max(number, 0.1):.1f}" if number < 10 else f"{number:.0f}"
            plural = "s" if unit in ("day", "week") else ""
            return f"{shown.removesuffix('.0')} {unit}{plural}"
    raise AssertionError("a second is the smallest unit")
