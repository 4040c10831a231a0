"""The app that all commands belong to, and how it speaks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cyclopts import App

import mnemon
from mnemon.printable import without_passwords

if TYPE_CHECKING:
    from rich.console import Console

app = App(
    name="mnemon",
    help="Continual learning with task-conditioned hypernetworks: learn tasks one after another, remember them all.",
    version=mnemon.__version__,
    version_flags=["--version"],
    suppress_keyboard_interrupt=False,  # it is told how to resume
)


def console(stderr: bool = False) -> Console:
    """Return the terminal, for what is said or for errors."""
    from mnemon.results.terminal.console import Terminal

    return Terminal(stderr)


def say(text: str) -> None:
    """Say something in a line of its own."""
    console().print(without_passwords(text), soft_wrap=True)


def say_item(name: str, about: str, beside: str = "") -> None:
    """Say a name with what stands beside it, and below it, indented, what it is."""
    from rich.padding import Padding
    from rich.text import Text

    console().print(Text(name, style="bold").append(beside, style="not bold"), soft_wrap=True)  # it can be copied
    console().print(Padding(Text(about), (0, 0, 0, 4)))
