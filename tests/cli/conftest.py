"""The command line as a user meets it: called in this process, or as a real process of its own."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from command_line import Outcome, with_settings

from mnemon.cli import main
from mnemon.experiments.compute import Compute
from mnemon.experiments.job import RunContext
from mnemon.experiments.preset import load_preset
from mnemon.experiments.run_config import resolve
from mnemon.experiments.study import new_jobs, run_jobs
from mnemon.training.trainer import Stopped

SMALL = ("steps=20", "n_tasks=3", "target.hidden=[20]", "chunk=300")
STOPPED_AFTER = 31


@pytest.fixture(scope="session", autouse=True)
def _without_report() -> Iterator[None]:
    """Leave out the page that a run ends with; the tests of it take this back."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MNEMON_NO_REPORT", "1")
        yield


@pytest.fixture
def mnemon(capsys, monkeypatch, tmp_path) -> Callable[..., Outcome]:
    """Call the command in this process, in an empty folder and 80 columns."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("MNEMON_DATA", raising=False)

    def call(*words: object) -> Outcome:
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main([str(word) for word in words])
        return Outcome(int(end.value.code or 0), *capsys.readouterr())

    return call


@pytest.fixture
def refused(mnemon) -> Callable[..., str]:
    """Call the command, expect the error of a user, and return its one line."""

    def call(*words: object) -> str:
        outcome = mnemon(*words)
        assert outcome.code == 2, outcome
        assert re.fullmatch(r"mnemon: [^\n]+\n", outcome.err), outcome.err
        return outcome.err.removeprefix("mnemon: ").rstrip("\n")

    return call


@pytest.fixture(scope="session")
def small() -> list[str]:
    """Words that make the default preset small."""
    return with_settings(*SMALL)


@pytest.fixture(scope="session")
def templates(tmp_path_factory) -> Path:
    """Two runs of the small preset: `finished`, and `stopped` in the middle of the second task."""
    folder = tmp_path_factory.mktemp("templates")
    config = resolve(load_preset("split-digits"), SMALL)
    for name, steps in (("finished", 10**9), ("stopped", STOPPED_AFTER)):
        _, jobs = new_jobs(config, range(1), folder / name, Compute("cpu"))
        calls = itertools.count(1)
        try:
            run_jobs(jobs, RunContext(Compute("cpu"), should_stop=lambda: next(calls) >= steps))  # noqa: B023
        except Stopped:
            assert name == "stopped"
    return folder


@pytest.fixture
def finished(templates, tmp_path) -> Path:
    return copied(templates / "finished", tmp_path / "finished")


@pytest.fixture
def stopped(templates, tmp_path) -> Path:
    return copied(templates / "stopped", tmp_path / "stopped")


def copied(source: Path, target: Path) -> Path:
    target.mkdir()
    for path in source.iterdir():
        (target / path.name).write_bytes(path.read_bytes())
    return target


@pytest.fixture
def start(tmp_path) -> Iterator[Callable[..., subprocess.Popen]]:
    """Start the command as a process in a group of its own, and leave none behind."""
    begun: list[subprocess.Popen] = []
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "80"}

    def call(*words: object, **options) -> subprocess.Popen:
        process = subprocess.Popen(
            [sys.executable, "-m", "mnemon", *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env=environment,
            start_new_session=True,
            **options,
        )
        begun.append(process)
        return process

    yield call
    for process in begun:
        if process.poll() is None:
            process.kill()
        process.communicate()
