"""What is wrong with a command line, in words."""

from __future__ import annotations

import shlex

from cyclopts import UnknownOptionError, UnusedCliTokensError

from mnemon.errors import shorten
from mnemon.printable import without_passwords


def message_of(error: Exception) -> str:
    """Return what an error says to the user, in one line."""
    return shorten(without_passwords(" ".join(_words_of(error).split())))


def _words_of(error: Exception) -> str:
    if isinstance(error, UnusedCliTokensError):
        return f"Unexpected words: {' '.join(error.unused_tokens or ())}. See: mnemon --help"
    if isinstance(error, UnknownOptionError) and (setting := _meant_setting(error)):
        return f"Unknown option: {_option(error)}. It is a setting: use {setting}."
    return str(error)


def _meant_setting(error: UnknownOptionError) -> str:
    """Return what to type in place of an option that is a setting; nothing if it is none, or none can be given."""
    if not any("--set" in argument.names for argument in error.argument_collection):
        return ""
    from mnemon.experiments.run_config import is_setting  # imports torch: only where something is wrong already

    name = _option(error).lstrip("-").replace("-", "_")
    return shlex.join(["--set", f"{name}={_value_of(error)}"]) if is_setting(name) else ""


def _option(error: UnknownOptionError) -> str:
    return (error.token.keyword or error.token.value).partition("=")[0]


def _value_of(error: UnknownOptionError) -> str:
    """Return the value that was given with an unknown option: behind a =, or as the next word."""
    words, option = error.root_input_tokens or [], _option(error)
    for word, following in zip(words, [*words[1:], "--"], strict=True):
        if word.startswith(f"{option}="):
            return word.partition("=")[2]
        if word == option and not following.startswith("--"):
            return following
    return "VALUE"
