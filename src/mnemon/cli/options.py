"""What every command that trains can be told."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter, Token

from mnemon.errors import UsageError

Settings = Annotated[list[str] | None, Parameter(name=["--set", "-s"], consume_multiple=False, negative="")]


def whole_number(kind: object, tokens: Sequence[Token]) -> int:
    """Return a word as a whole number; 1.5 is not rounded."""
    (token,) = tokens
    if not re.fullmatch(r"[+-]?\d{1,18}", token.value):
        raise UsageError(f"{token.keyword} takes a whole number, not '{token.value}'.")
    return int(token.value)


Whole = Annotated[int, Parameter(converter=whole_number)]
"""A whole number on the command line."""
NO_REPORT = "MNEMON_NO_REPORT"
"""The variable of the environment that leaves the report out."""


@Parameter(name="*")
@dataclass(frozen=True)
class Computing:
    """Where to compute, and how much at a time."""

    data: Path | None = None
    """Folder with MNIST and the like. Default: the environment variable MNEMON_DATA, then the cache."""
    device: str = "auto"
    """cpu, cuda, mps or auto."""
    workers: Whole | None = None
    """Runs at a time, each a process of its own. Default: the number of cores, here or in the cluster."""
    threads: Whole = 1
    """Threads per process."""
    on: str | None = None
    """Where runs are done: ray (the current cluster, or a new local one), ray:ADDRESS or ray://HOST:PORT. Default:
    processes of this machine."""
    quiet: Annotated[bool, Parameter(negative="")] = False
    """Show no progress, only the result."""

    def keywords(self) -> dict[str, Any]:
        """Return them as the functions of the API take them."""
        from mnemon.cli.screen import ShellScreen  # here: --help has no need of rich

        names = ("data", "device", "workers", "threads", "on", "quiet")
        return {**{name: getattr(self, name) for name in names}, "screen": ShellScreen(self.quiet)}


DEFAULT_COMPUTING = Computing()


@Parameter(name="*")
@dataclass(frozen=True)
class RunOptions:
    """What every command that trains can be told."""

    set_: Settings = None
    """Change a setting: name=value. Can be repeated. `mnemon settings` lists them. The end of a name is enough:
    beta is method.beta, replay.beta is method.replay.beta."""
    seeds: Whole = 1
    """Number of consecutive seeds; their runs are parallel processes."""
    seed: Whole = 0
    """First seed."""
    computing: Computing = DEFAULT_COMPUTING
    no_report: Annotated[bool, Parameter(negative="", env_var=NO_REPORT)] = False
    """Write no report.html at the end."""
    open: Annotated[bool, Parameter(negative="")] = False
    """Show report.html in the browser at the end."""
    tensorboard: Annotated[bool, Parameter(negative="")] = False
    """Write event files for TensorBoard into the run folders."""

    def check(self) -> None:
        """Refuse what makes no sense on a command line."""
        if self.open and self.no_report:
            variable = f"unset {NO_REPORT}, and " if os.environ.get(NO_REPORT) else ""
            raise UsageError(f"--open shows the report: {variable}leave out --no-report.")

    def keywords(self) -> dict[str, Any]:
        """Return them as the functions of the API take them; of one seed they return a record."""
        return {
            "settings": self.set_,
            "seed": self.seed,
            "seeds": None if self.seeds == 1 else self.seeds,
            "tensorboard": self.tensorboard,
            "report": not self.no_report,
            **self.computing.keywords(),
        }


DEFAULT_OPTIONS = RunOptions()
