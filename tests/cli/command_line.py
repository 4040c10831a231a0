"""What the tests of the command line ask of processes and run folders."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import resource
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path

from safetensors import SafetensorError, safe_open

from mnemon.results.record import RunRecord
from mnemon.training.checkpoint import FILE, load


@dataclass(frozen=True)
class Outcome:
    """How a command ended."""

    code: int
    out: str
    err: str


def with_settings(*settings: str) -> list[str]:
    return [word for setting in settings for word in ("--set", setting)]


def contents(folder: Path) -> dict[str, bytes]:
    """Return all files of a folder, to see that nothing was touched."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def result_of(folder: Path) -> tuple[dict[str, bytes], str]:
    """Return all that a run came to: every tensor bit for bit, the matrix and the losses, without times."""
    tensors = {key: tensor.numpy().tobytes() for key, tensor in load(folder)[0].items()}
    record = RunRecord.read(folder)
    assert record.finished
    return tensors, repr((record.seed, record.matrix, record.untrained, record.losses))


def steps_of(folder: Path) -> int:
    """Return how many steps the checkpoint of a run has done; -1 without one."""
    try:
        with safe_open(folder / FILE, framework="numpy") as file:
            facts = json.loads(file.metadata()["mnemon"])
    except (OSError, SafetensorError):
        return -1
    return facts["task_id"] * facts["identity"]["training"]["steps"] + facts["step"]


FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["mnemon.experiments.study"])


def forked(words: Sequence[object], output: Path, largest_file: int | None = None) -> BaseProcess:
    """Start the command as a process that need not import torch: a copy of one that has done so once."""
    process = FORKS.Process(target=_command, args=([str(word) for word in words], output, largest_file))
    process.start()
    return process


def _command(words: list[str], output: Path, largest_file: int | None) -> None:
    from mnemon.cli import main

    with output.open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    if largest_file is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))
    main(words)


def ended(process: subprocess.Popen, seconds: float = 180) -> Outcome:
    """Wait for the end of a process."""
    out, err = process.communicate(timeout=seconds)
    return Outcome(process.returncode, out, err)


def wait_until(condition: Callable[[], bool], exit_code: Callable[[], int | None], seconds: float = 180) -> None:
    """Wait for something that a running process does."""
    limit = time.monotonic() + seconds
    while not condition():
        assert exit_code() is None, "it has ended"
        assert time.monotonic() < limit, "it takes too long"
        time.sleep(0.002)


def descendants(pid: int) -> set[int]:
    """Return the processes that a process has started, and those that they have started."""
    found: set[int] = set()
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            found |= {child, *descendants(child)}
    return found


def alive(pids: set[int]) -> set[int]:
    def is_alive(pid: int) -> bool:
        try:
            # Whoever has ended and was not yet collected is a zombie.
            return not re.search(r"^State:\s+[ZX]", Path(f"/proc/{pid}/status").read_text(), re.M)
        except FileNotFoundError:
            return False

    return {pid for pid in pids if is_alive(pid)}


def all_ended(pids: set[int], seconds: float) -> bool:
    limit = time.monotonic() + seconds
    while alive(pids) and time.monotonic() < limit:
        time.sleep(0.05)
    return not alive(pids)
