"""What commands show, and their words: those of a shell."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import RenderableType

from mnemon import plugins
from mnemon.cli.app import console
from mnemon.experiments.screen import LiveScreen

_WORDS = {"settings": "--set", "methods": "METHOD", "space": "SPACE"}
"""What options are called on the command line where that is not their name."""


class ShellScreen(LiveScreen):
    """The terminal, or whatever a command writes to: it shows also what comes out."""

    def __init__(self, quiet: bool = False):
        super().__init__(console(), quiet)

    def show(self, result: RenderableType, remarks: Sequence[str] = ()) -> None:
        self.console.print(result)
        for remark in remarks:
            self.say(remark)

    def saved(self, folder: Path) -> None:
        self.say(f"Saved to {folder}. To show it again: mnemon show {shlex.quote(str(folder))}")

    def option(self, name: str) -> str:
        return _WORDS.get(name, f"--{name}")

    def call(self, command: str, names: Sequence[str], options: Mapping[str, object]) -> str:
        words = ["mnemon", command, *names]
        for name, value in options.items():
            for one in value if isinstance(value, list) else [value]:
                words += [f"--{name}"] if one is True else [f"--{name}", str(one)]
        return shlex.join([*words, *plugins.words()])
