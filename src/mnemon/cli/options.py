"""What every command that trains can be told."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter, Token

from mnemon import plugins
from mnemon.errors import UsageError
from mnemon.experiments.upload import is_url

if TYPE_CHECKING:
    from mnemon.experiments.run import Compute

Settings = Annotated[list[str] | None, Parameter(name=["--set", "-s"], consume_multiple=False, negative="")]


def whole_number(kind: object, tokens: Sequence[Token]) -> int:
    """Return a word as a whole number; 1.5 is not rounded."""
    (token,) = tokens
    if not re.fullmatch(r"[+-]?\d{1,18}", token.value):
        raise UsageError(f"{token.keyword} takes a whole number, not '{token.value}'.")
    return int(token.value)


MOST = 100_000
"""Seeds, processes or threads that can be asked for."""
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
    """Where runs are done: ray (a local cluster, or one that is there), ray:ADDRESS or ray://HOST:PORT. Default:
    processes of this machine."""
    quiet: Annotated[bool, Parameter(negative="")] = False
    """Show no progress, only the result."""

    def check(self) -> None:
        """Refuse what makes no sense."""
        at_least_one("--workers", self.workers)
        at_least_one("--threads", self.threads)

    def compute(self, tensorboard: bool = False) -> Compute:
        """Return where to compute, if there is such a place; what devices a cluster has, its workers know."""
        from mnemon.experiments.engines import check_engine
        from mnemon.experiments.run import Compute, check_device_name, pick_device

        if self.on is None:
            pick_device(self.device)
        check_device_name(self.device)
        check_engine(self.on)
        return Compute(self.device, self.data, self.threads, tensorboard)

    def at_once(self) -> int | None:
        """Return how many runs there are at a time; a cluster knows by itself."""
        return self.workers or (None if self.on else cores())

    def words(self) -> list[str]:
        """Return what to type to compute at the same place again."""
        return (
            given(
                ("--data", self.data, None),
                ("--device", self.device, "auto"),
                ("--threads", self.threads, 1),
                ("--on", self.on, None),
            )
            + plugins.words()
        )


DEFAULT_COMPUTING = Computing()


@Parameter(name="*")
@dataclass(frozen=True)
class RunOptions:
    """What every command that trains can be told."""

    set_: Settings = None
    """Change a setting: name=value, as often as you like. `mnemon settings` lists them. The end of a name is enough:
    beta is method.beta, replay.beta is method.replay.beta."""
    seeds: Whole = 1
    """Number of seeds, those that follow on the first one; their runs are parallel processes."""
    seed: Whole = 0
    """First seed."""
    computing: Computing = DEFAULT_COMPUTING
    no_report: Annotated[bool, Parameter(negative="", env_var=NO_REPORT)] = False
    """Write no report.html at the end."""
    open: Annotated[bool, Parameter(negative="")] = False
    """Show report.html in the browser at the end."""
    tensorboard: Annotated[bool, Parameter(negative="")] = False
    """Write event files for TensorBoard into the run folders."""

    @property
    def overrides(self) -> list[str]:
        """The settings that are changed."""
        return self.set_ or []

    @property
    def all_seeds(self) -> range:
        """The seeds of the runs."""
        return range(self.seed, self.seed + self.seeds)

    def check(self, out: str | Path | None, resume: Path | None) -> None:
        """Refuse what makes no sense, alone or beside a folder to go on with."""
        at_least_one("--seeds", self.seeds)
        self.computing.check()
        if self.seed < 0:
            raise UsageError(f"--seed must not be negative, not {self.seed}.")
        if self.open and self.no_report:
            variable = f"unset {NO_REPORT}, and " if os.environ.get(NO_REPORT) else ""
            raise UsageError(f"--open shows the report: {variable}leave out --no-report.")
        if resume is not None and out is not None and not is_url(out):
            raise UsageError(
                "--resume goes on in its own folder: leave out --out. Only a URL, to copy it to, can be given."
            )
        if resume is not None and (self.seeds, self.seed) != (1, 0):
            raise UsageError("--resume goes on with the seeds of its folder: leave out --seeds and --seed.")

    def compute(self) -> Compute:
        """Return where to compute, if there is such a place."""
        if self.tensorboard:
            from mnemon.experiments.artifacts.event_files import check_packages

            check_packages()
        return self.computing.compute(self.tensorboard)

    def silent(self) -> RunOptions:
        """Return the same, with no progress shown."""
        return replace(self, computing=replace(self.computing, quiet=True))

    def go_on(self, command: str, folder: Path, url: str | None = None) -> str:
        """Return what to type to go on with a folder, and to copy it to a URL at the end."""
        to = ["--out", url] if url is not None else []
        more = ["--tensorboard"] if self.tensorboard else []
        return shlex.join(["mnemon", command, "--resume", str(folder), *to, *self.computing.words(), *more])


DEFAULT_OPTIONS = RunOptions()


def check_alone(command: str) -> None:
    """Refuse to do under torchrun what starts processes by itself."""
    if "TORCHELASTIC_RUN_ID" in os.environ and os.environ.get("WORLD_SIZE", "1") != "1":
        raise UsageError(f"torchrun shares one `mnemon run` between processes; `mnemon {command}` starts its own.")


def cores() -> int:
    """Count the cores that this process may use, which can be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def at_least_one(option: str, value: int | None) -> None:
    """Refuse a number that is below one, or beyond all reason."""
    if value is not None and value < 1:
        raise UsageError(f"{option} must be at least 1, not {value}.")
    if value is not None and value > MOST:
        raise UsageError(f"{option} must be at most {MOST:,}, not {value}.")


def given(*options: tuple[str, object, object]) -> list[str]:
    """Return the words of those options, each with its value and its default, that are not as usual."""
    return [word for name, value, default in options if value != default for word in (name, str(value))]
