"""What a user can get wrong, said in one line with the remedy."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

from mnemon.printable import printable, without_passwords

T = TypeVar("T")
SHOWN = 8
"""Names that an error lists at most."""
SHORTEST_PART = 3
"""Letters that a part of a word must have to look a name up by it."""
_BETWEEN_WORDS = re.compile(r"[\W_]+")
MOST_CHARACTERS = 1000
"""Characters of an error that are shown: of a value that is far too long, its beginning and its end."""


def shorten(text: str) -> str:
    """Return a message without the middle of a value that is far too long."""
    if len(text) <= MOST_CHARACTERS:
        return text
    half = MOST_CHARACTERS // 2
    return f"{text[:half]} … {text[-half:]}"


class UsageError(Exception):
    """Something that the user can put right. The message says what is wrong, with the value, and what to do.

    On the command line it is one line, with exit code 2. The message is shortened if it is very long, shows no
    password of a URL, and has no control characters.

    Example:
        >>> mnemon.LoRA(rank=0)
        Traceback (most recent call last):
        ...
        mnemon.errors.UsageError: The rank of an adapter must be a whole number of at least 1, not 0.
    """

    def __str__(self) -> str:
        return shorten(without_passwords(printable(super().__str__())))


class DataError(UsageError):
    """A data set that is missing, damaged or not what its name says.

    Example:
        >>> issubclass(mnemon.DataError, mnemon.UsageError)
        True
    """


class CheckpointError(UsageError):
    """A checkpoint, run folder or model file that is missing, damaged, from other software, or does not fit.

    Example:
        >>> mnemon.load("nothing", nn.Linear(1, 1))
        Traceback (most recent call last):
        ...
        mnemon.errors.CheckpointError: There is no file nothing.mnemon.
    """


class TrainingError(UsageError):
    """Training that cannot go on, such as a loss that is NaN.

    Example:
        >>> issubclass(mnemon.TrainingError, mnemon.UsageError)
        True
    """


class ForgettingWarning(UserWarning):
    """A warning that an earlier task may have lost more than 2 points of accuracy.

    Example:
        >>> issubclass(mnemon.ForgettingWarning, UserWarning)
        True
    """


class Interrupted(KeyboardInterrupt):
    """Ctrl-C ended what was done. Its text says what is saved and how to resume.

    It is a `KeyboardInterrupt`: `except Exception` does not catch it, and a script ends.

    Example:
        >>> try:
        ...     raise mnemon.Interrupted("Stopped. Resume with: mnemon.run(resume='runs/one')", Path("runs/one"))
        ... except mnemon.Interrupted as stop:
        ...     print(stop.folder)
        runs/one
    """

    def __init__(self, text: str, folder: Path | None = None):
        """Say what is saved.

        Args:
            text: What is said.
            folder: Where everything is that was saved.
        """
        super().__init__(text)
        self.folder = folder
        """Where everything is that was saved."""


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or its type if it has none."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def reason_of(error: BaseException) -> str:
    """Return the first line of an error's message without its full stop, to put into a sentence."""
    return first_line(error).rstrip(".")


def suggest(name: str, options: Iterable[str]) -> str:
    """Return " Did you mean 'x'?" or nothing."""
    found = nearest(name, list(options))
    return f" Did you mean '{found}'?" if found else ""


def nearest(name: str, options: Collection[str]) -> str:
    """Return the option that a wrong name most likely stands for, or nothing.

    People write a part of a name (ewc), its initials (si), or misspell it. Of several that hold the part, it is the
    shortest.
    """
    part, words = name.casefold(), set(_words(name))
    by_words = [option for option in options if words and words <= set(_words(option))]
    by_initials = [option for option in options if len(part) > 1 and part == _initials(option)]
    by_spelling = difflib.get_close_matches(name, options, n=1, cutoff=0.55)
    by_part = [option for option in options if len(part) >= SHORTEST_PART and part in option.casefold()]
    fitting = by_words or by_initials or by_spelling or by_part
    return min(fitting, key=len, default="")


def _words(name: str) -> list[str]:
    return [word for word in _BETWEEN_WORDS.split(name.casefold()) if word]


def _initials(name: str) -> str:
    return "".join(word[0] for word in _words(name))


def join_some(names: Collection[str]) -> str:
    """Return some names for an error; if there are many, the first ones."""
    return f"{', '.join(list(names)[:SHOWN])}{', …' if len(names) > SHOWN else ''}"


def choose(kind: str, name: str, options: Mapping[str, T], listing: str = "") -> T:
    """Look a name up; a wrong one is answered with the nearest and with all names, or with what lists them."""
    if name in options:
        return options[name]
    rest = f"`{listing}` lists all {len(options)}." if listing else f"Choose one of: {', '.join(options)}."
    raise UsageError(f"Unknown {kind} '{name}'.{suggest(name, options)} {rest}")


def check_not_negative(setting: str, value: float) -> None:
    """Refuse a setting that must be a finite number of at least 0."""
    if not 0 <= value < float("inf"):
        raise UsageError(f"{setting} must be a finite number of at least 0, not {value}.")
