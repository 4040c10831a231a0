"""What whole processes take: the start of a run, the memory of a learner, two seeds on two cores."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.timing import Rounds

UNTIL_FIRST_STEP = """
import sys, time
try:
    from mnemon.allocator import restart_with_huge_pages
    restart_with_huge_pages()
except ImportError:  # an earlier version
    pass
from mnemon.learners.hypernet import HypernetLearner
from mnemon.cli import main
def train_step(learner, batch):
    print(time.process_time())
    sys.exit()
HypernetLearner.train_step = train_step
main(["run", "--quiet", "--no-report", "--out", "run"])
"""
IMPORT = "import time, torch; print(time.process_time())"
PEAK = """
import sys, torch
from benchmarks.subjects import subject
from benchmarks.timing import peak_memory
torch.set_num_threads(1)
preset, n_tasks, task, *settings = sys.argv[1:]
made = subject(preset, int(n_tasks), int(task), settings)
for _ in range(5):
    made.step()
print(peak_memory())
"""
SEEDS = ("permuted-digits", "--set", "target.hidden=[400,400]", "--set", "steps=1000", "--seeds", "2", "--no-report")


def start_and_import(rounds: int = 5) -> Rounds:
    """Return the CPU seconds of `mnemon run` before it trains, and those of importing torch."""
    pairs = [(_printed(UNTIL_FIRST_STEP), _printed(IMPORT)) for _ in range(rounds)]
    return Rounds([a for a, _ in pairs], [b for _, b in pairs], "s")


def peaks(preset: str, n_tasks: int, tasks: Sequence[int], settings: Sequence[str]) -> Rounds:
    """Return the peak memory of two processes that train in a late task and in an early one."""
    late, early = (_printed(PEAK, preset, str(n_tasks), str(task), *settings) for task in tasks)
    return Rounds([late], [early], "MB")


def one_after_the_other_and_side_by_side(rounds: int = 3) -> Rounds:
    """Return the wall time of two seeds in one process, and in two."""
    pairs = [(_wall_time(workers=1), _wall_time(workers=2)) for _ in range(rounds)]
    return Rounds([a for a, _ in pairs], [b for _, b in pairs], "s")


def _printed(program: str, *words: str) -> float:
    """Return the number that a program prints."""
    here = Path(__file__).parent.parent
    path = os.pathsep.join([str(here), *filter(None, [os.environ.get("PYTHONPATH")])])
    with tempfile.TemporaryDirectory() as folder:
        command, environment = [sys.executable, "-c", program, *words], {**os.environ, "PYTHONPATH": path}
        done = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return float(done.stdout.split()[-1])


def _wall_time(workers: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "mnemon", "run", *SEEDS, "--quiet", "--workers", str(workers)]
        start = time.perf_counter()
        subprocess.run([*command, "--out", "runs"], cwd=folder, stdout=subprocess.DEVNULL, check=True)
        return time.perf_counter() - start
