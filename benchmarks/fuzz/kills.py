"""Kill runs of several methods at any moment: resumed, each ends bit for bit as if nothing had been."""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from mnemon.cli import main
from mnemon.results.record import RunRecord
from mnemon.training import checkpoint

METHODS = ("hypernet", "online-ewc", "synaptic-intelligence", "hat", "cl3-hnet-r", "cl3-hnet-tir")
STEPS, TASKS = 60, 3
SETTINGS = (f"steps={STEPS}", f"n_tasks={TASKS}", "target.hidden=[12]", "checkpoint_seconds=0.01", "log_every=7")
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["mnemon.experiments.study"])
PATIENCE = 60.0


@dataclass(frozen=True)
class Wholes:
    """What each method's run comes to when nothing interrupts it, and how long that takes once it has begun."""

    folder: Path
    results: dict[str, tuple[dict[str, bytes], str]]
    seconds: dict[str, float]


def prepare(folder: Path) -> Wholes:
    """Run every method once without a kill."""
    results, seconds = {}, {}
    for method in METHODS:
        home = folder / f"whole-{method}"
        process = _start(["run", *_words(method), "--out", str(home)])
        _wait_until_begun(home, process)
        started = time.monotonic()
        process.join()
        results[method], seconds[method] = _result(home), time.monotonic() - started
    return Wholes(folder, results, seconds)


def case(wholes: Wholes, number: int) -> str:
    """Kill a run at a moment that follows from the number, once or several times, then let it end."""
    draw = random.Random(number)
    method = METHODS[number % len(METHODS)]
    folder = wholes.folder / f"run-{number}"
    words, kills = ["run", *_words(method), "--out", str(folder)], draw.choice((1, 1, 2))
    killed = 0
    for _ in range(kills):
        process = _start(words)
        _wait_until_begun(folder, process)
        time.sleep(draw.uniform(0, 0.9 * wholes.seconds[method] / kills))
        process.kill()
        process.join()
        killed += process.exitcode == -signal.SIGKILL
        words = ["run", "--resume", str(folder)]
    last = _start(words)
    last.join()
    assert last.exitcode == 0, f"{method}: resuming ended with {last.exitcode}"
    assert _result(folder) == wholes.results[method], f"{method}: it ended otherwise after {killed} kills"
    left = [path.name for path in folder.iterdir() if path.name.startswith(".")]
    assert not left, f"{method}: {left} are left"
    shutil.rmtree(folder)
    return f"killed {killed} times"


def _words(method: str) -> list[str]:
    preset = "split-digits" if method == "hypernet" else f"split-digits-{method}"
    return [preset, "--quiet", *(word for setting in SETTINGS for word in ("--set", setting))]


def _start(words: list[str]) -> multiprocessing.process.BaseProcess:
    process = FORKS.Process(target=_command, args=(words,))
    process.start()
    return process


def _command(words: list[str]) -> None:
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.environ["MNEMON_NO_REPORT"] = "1"
    main(words)


def _wait_until_begun(folder: Path, process: multiprocessing.process.BaseProcess) -> None:
    limit = time.monotonic() + PATIENCE
    while process.is_alive() and not (folder / "record.json").exists():
        assert time.monotonic() < limit, "it takes too long to begin"
        time.sleep(0.002)


def _result(folder: Path) -> tuple[dict[str, bytes], str]:
    """Return every tensor bit for bit, the matrix and the losses, without times."""
    tensors = {key: tensor.numpy().tobytes() for key, tensor in checkpoint.load(folder)[0].items()}
    record = RunRecord.read(folder)
    assert record.finished
    return tensors, repr((record.seed, record.matrix, record.untrained, record.losses))
