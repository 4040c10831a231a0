"""Methods and benchmarks from outside the package, by the commands: in two processes, on Ray, resumed, and missing.

Each command is a process of its own, since a plugin stays in the process that has imported it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
QUICK = ["--quiet", "--no-report", "--set", "steps=30"]
METHODS = """
import mnemon
from mnemon.learners.bounds import FinetunedTarget


@mnemon.register_method("mine")
class Mine(FinetunedTarget):
    pass


mnemon.register_presets("presets")
"""


@pytest.fixture
def folder(tmp_path) -> Path:
    """A working folder with the two examples, and a module with a method and a preset."""
    for name in ("own_method.py", "own_benchmark.py"):
        shutil.copy(EXAMPLES / name, tmp_path)
    (tmp_path / "my_methods.py").write_text(METHODS)
    (tmp_path / "presets").mkdir()
    (tmp_path / "presets" / "my-digits.toml").write_text(
        'like = "split-digits"\nabout = "Mine."\n[method]\nname = "mine"\n'
    )
    return tmp_path


def command(folder: Path, *words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mnemon", *map(str, words)],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "100"},
        capture_output=True,
        text=True,
        check=False,
    )


def record(folder: Path) -> dict:
    return json.loads((folder / "record.json").read_text())


MINE = ["--plugin", "my_methods"]
OWN = ["--plugin", "own_method", "--plugin", "./own_benchmark.py", "--benchmark", "moons"]


def test_own_methods_and_benchmarks_are_compared_in_two_processes(folder, mnemon):
    done = command(folder, "compare", "dark-replay", "joint", *OWN, "--workers", 2, *QUICK, "--out", "it")
    assert (done.returncode, done.stderr) == (0, "")
    assert "moons, cl1" in done.stdout
    assert "dark-replay" in done.stdout
    assert record(folder / "it" / "dark-replay" / "seed-0")["plugins"] == ["own_benchmark", "own_method"]
    assert record(folder / "it" / "joint" / "seed-0")["plugins"] == ["own_benchmark"]
    resumed = command(folder, "compare", "--resume", "it", *OWN[:4], "--no-report")
    assert resumed.returncode == 0, resumed.stderr
    missing, shown = mnemon("compare", "--resume", folder / "it"), mnemon("show", folder / "it")
    note = "Needs the plugins own_benchmark, own_method, which are not loaded: to resume, add --plugin own_benchmark"
    assert note in missing.err
    assert shown.code == 0
    assert "dark-replay" in shown.out
    assert note in " ".join(shown.out.split())


def test_a_preset_of_ones_own_is_run_and_stopped_for_lack_of_its_plugin(folder, mnemon):
    run = command(folder, "run", "my-digits", *MINE, *QUICK, "--seeds", 2, "--workers", 2, "--out", "it")
    assert (run.returncode, run.stderr) == (0, "")
    assert record(folder / "it" / "seed-1")["plugins"] == ["my_methods"]
    missing = mnemon("run", "--resume", folder / "it")
    assert missing.code == 2
    note = "Needs the plugin my_methods, which is not loaded: to resume, add --plugin my_methods."
    assert missing.err.startswith(f"mnemon: {note} Unknown method")
    assert note in " ".join(mnemon("show", folder / "it").out.split())
    mnemon("report", folder / "it", "--out", folder / "it.html")
    assert note in (folder / "it.html").read_text()


def test_a_sweep_has_its_plugins_in_its_workers(folder):
    pytest.importorskip("optuna")
    (folder / "space.toml").write_text(
        'preset = "my-digits"\ntrials = 2\n[set]\nsteps = 10\n[search]\nlr = [0.1, 0.01]\n'
    )
    words = ("space.toml", "--plugin", "my_methods", "--workers", 2, "--quiet", "--out", "it")
    done = command(folder, "sweep", *words)
    assert (done.returncode, done.stderr) == (0, "")
    assert all(record(path)["finished"] for path in (folder / "it" / "trials").iterdir())


def test_own_methods_and_benchmarks_run_on_ray(folder):
    pytest.importorskip("ray")
    words = ("dark-replay", "joint", *OWN, "--on", "ray", *QUICK, "--out", "it")
    done = command(folder, "compare", *words)
    assert done.returncode == 0, done.stderr
    assert all(record(folder / "it" / name / "seed-0")["finished"] for name in ("dark-replay", "joint"))
