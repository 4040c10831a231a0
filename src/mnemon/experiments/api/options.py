"""What all functions that compute can be told: where, how many runs at a time, and what is shown."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path

from mnemon import plugins
from mnemon.errors import UsageError
from mnemon.experiments.compute import Compute, check_device_name, pick_device
from mnemon.experiments.engines import check_engine
from mnemon.experiments.job import RunContext
from mnemon.experiments.screen import Screen, pick_screen
from mnemon.experiments.upload import is_url
from mnemon.training.distributed import Crew, is_shared

Folder = str | PathLike[str]
MOST = 100_000
"""Seeds, processes or threads that can be asked for."""


@dataclass(frozen=True)
class Options:
    """Where to compute, how many runs at a time, and what is shown."""

    screen: Screen
    workers: int | None = None
    threads: int = 1
    on: str | None = None
    device: str = "auto"
    data: Path | None = None
    tensorboard: bool = False
    report: bool = True

    def __post_init__(self) -> None:
        self.check_count("workers", self.workers)
        self.check_count("threads", self.threads)

    def check_count(self, name: str, value: int | None) -> None:
        """Refuse a number that is below one, or beyond all reason."""
        if value is not None and value < 1:
            raise UsageError(f"{self.screen.option(name)} must be at least 1, not {value}.")
        if value is not None and value > MOST:
            raise UsageError(f"{self.screen.option(name)} must be at most {MOST:,}, not {value}.")

    def compute(self) -> Compute:
        """Return where to compute, if there is such a place; what devices a cluster has, its workers know."""
        if self.tensorboard:
            from mnemon.experiments.artifacts.event_files import check_packages

            check_packages()
        if self.on is None:
            pick_device(self.device)
        check_device_name(self.device)
        check_engine(self.on)
        return Compute(self.device, self.data, self.threads, self.tensorboard)

    def here(self) -> Compute:
        """Return where to compute what is left to do on this machine when all runs are done."""
        return replace(self, on=None, device="auto" if self.on else self.device, tensorboard=False).compute()

    def at_once(self) -> int | None:
        """Return how many runs there are at a time; a cluster knows by itself."""
        return self.workers or (None if self.on else cores())

    def context(self, compute: Compute, resume: str) -> RunContext:
        """Return what runs are done with."""
        return RunContext(compute, self.at_once(), self.on, resume=resume)

    def led_by(self, crew: Crew) -> Options:
        """Return the same for one of several processes that share a run: only the first one shows something."""
        return self if crew.leads else replace(self, screen=Screen())

    def to_resume(self, command: str, folder: Path, url: str | None = None) -> str:
        """Return what to write to resume what is in a folder, and to copy it to a URL at the end."""
        more = {"out": url, **self.differing(), "tensorboard": self.tensorboard}
        return self.screen.call(command, (), {"resume": folder, **{k: v for k, v in more.items() if v}})

    def differing(self) -> dict[str, object]:
        """Return the options by which the place to compute differs from the usual one."""
        usual = {"data": None, "device": "auto", "threads": 1, "on": None}
        return {name: getattr(self, name) for name, value in usual.items() if getattr(self, name) != value}

    def check_seeds(self, seeds: Sequence[int]) -> None:
        """Refuse seeds that are negative or named twice."""
        if negative := [seed for seed in seeds if seed < 0]:
            raise UsageError(f"{self.screen.option('seed')} must not be negative, not {negative[0]}.")
        if len(set(seeds)) < len(seeds):
            raise UsageError(f"{self.screen.option('seeds')} has a seed twice: {', '.join(map(str, seeds))}.")

    def check_resumed(self, out: str | None, seeds_given: bool) -> None:
        """Refuse what makes no sense beside a folder that is resumed."""
        resume, own = self.screen.option("resume"), self.screen.option("out")
        if out is not None and not is_url(out):
            raise UsageError(
                f"{resume} continues in its own folder: leave out {own}. Only a URL, to copy it to, can be given."
            )
        if seeds_given:
            seeds, seed = self.screen.option("seeds"), self.screen.option("seed")
            raise UsageError(f"{resume} continues the seeds of its folder: leave out {seeds} and {seed}.")


def make_options(
    screen: Screen | None,
    quiet: bool,
    *,
    workers: int | None,
    threads: int,
    on: str | None,
    device: str,
    data: Folder | None,
    tensorboard: bool = False,
    report: bool = True,
) -> Options:
    """Return the options that a function was given; without a screen, with the one that there is."""
    folder = None if data is None else Path(data)
    return Options(screen or pick_screen(quiet), workers, threads, on, device, folder, tensorboard, report)


def check_begun_by_user(command: str) -> None:
    """Refuse to compute while a module is only imported for what it registers, as in a worker process."""
    if module := plugins.loading():
        raise UsageError(
            f"{module} calls mnemon.{command} when it is imported: put the call below `if __name__ == '__main__':`."
        )


def check_alone(command: str) -> None:
    """Refuse to do under torchrun what starts processes by itself."""
    check_begun_by_user(command)
    if is_shared():
        raise UsageError(f"torchrun shares one `mnemon run` between processes; `mnemon {command}` starts its own.")


def seeds_of(seed: int, seeds: int | Sequence[int] | None, options: Options) -> Sequence[int]:
    """Return the seeds of some runs: those that are named, or so many from the first one on."""
    if isinstance(seeds, int):
        options.check_count("seeds", seeds)
        seeds = range(seed, seed + seeds)
    found = [seed] if seeds is None else list(seeds)
    if not found:
        raise UsageError(f"{options.screen.option('seeds')} must have at least one seed.")
    options.check_seeds(found)
    return found


def cores() -> int:
    """Count the cores that this process may use, which can be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
