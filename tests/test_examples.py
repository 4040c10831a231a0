"""The examples run, show what they are meant to show, and are named where people look for them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PLUGINS = ("own_benchmark.py", "own_method.py")
"""Those that `mnemon compare --plugin` runs; see cli/test_own_methods.py."""
ALL = {path.name: path for path in sorted((ROOT / "examples").glob("*.py"))}
EXAMPLES = {name: path for name, path in ALL.items() if name not in PLUGINS}


def numbers(text: str, pattern: str, n: int) -> list[float]:
    """The numbers that stand at a place in what was printed, as many as there should be."""
    found = [float(number) for number in re.findall(pattern, text)]
    assert len(found) == n, text
    return found


def check_first_steps(text: str) -> None:
    assert min(numbers(text, r"at the end: ([\d.]+) %", 3)) >= 90
    assert numbers(text, r"task inferred: ([\d.]+) %", 1)[0] >= 40
    assert "ContinualModel of Sequential with 4,420 weights" in text


def check_own_cnn(text: str) -> None:
    kept, not_kept = (numbers(line, r"([\d.]+) %", 3) for line in text.splitlines())
    assert min(kept) >= 70
    assert kept[0] >= not_kept[0] + 15


def check_regression(text: str) -> None:
    assert max(numbers(text, r"([\d.]+) at the end", 3)) <= 0.1
    assert text.endswith("after forgetting the bowl: wave, step\n")


def check_pretrained_lora(text: str) -> None:
    assert min(numbers(text, r"at the end: ([\d.]+) %", 2)) >= 85
    assert max(numbers(text, r"([\d.]+) % as it came", 2)) <= 50
    assert numbers(text, r"the network itself: ([\d.]+) %", 1)[0] >= 95


def check_stream_without_boundaries(text: str) -> None:
    found = re.findall(r"from batch (\d+): (new,|back to) (task \d)  \((.*)\)", text)
    assert [int(batch) for batch, *_ in found] == [0, 20, 40, 60, 80]  # every change, and no other
    task_of: dict[str, str] = {}
    for _, verb, task, view in found:
        assert (verb == "new,") == (view not in task_of)
        assert task_of.setdefault(view, task) == task
    assert len(set(task_of.values())) == 3
    assert min(numbers(text, r"([\d.]+) % at the end", 3)) >= 85


CHECKS: dict[str, Callable[[str], None]] = {
    "first_steps.py": check_first_steps,
    "own_cnn.py": check_own_cnn,
    "pretrained_lora.py": check_pretrained_lora,
    "regression.py": check_regression,
    "stream_without_boundaries.py": check_stream_without_boundaries,
}


def test_every_example_is_checked():
    assert list(EXAMPLES) == list(CHECKS)


RUN_ALL = """
import contextlib, io, json, runpy, sys
for path in sys.argv[1:]:
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        runpy.run_path(path, run_name="__main__")
    print(json.dumps(printed.getvalue()))
"""


def test_the_examples_show_their_points(tmp_path):
    # In one process, because half of an example's time would go into importing torch.
    done = subprocess.run(
        [sys.executable, "-c", RUN_ALL, *EXAMPLES.values()],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    for name, line in zip(EXAMPLES, done.stdout.splitlines(), strict=True):
        CHECKS[name](json.loads(line))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ALL)
def test_an_example_is_short_and_named_in_the_readme(name):
    assert len(ALL[name].read_text(encoding="utf-8").splitlines()) <= 60
    assert f"examples/{name}" in (ROOT / "README.md").read_text(encoding="utf-8")
