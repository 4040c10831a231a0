"""Sweeps whose processes are killed: `python -m benchmarks.sweeps killed|ray FOLDER [TRIALS]`.

`killed` ends a worker, then the parent by SIGKILL and goes on; `ray` ends a worker of a local cluster of two nodes.
Both say whether a finished trial was lost or run again.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from mnemon.results.sweep import COUNTED, read_trials

SPACE = ("split-digits", "--set", "steps=10")


def descendants(pid: int) -> set[int]:
    found: set[int] = set()
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            found |= {child, *descendants(child)}
    return found


def kill_one(pid: int, name: bytes) -> int:
    """Kill one of the processes that a process has started, whose command line has a word in it."""
    while True:
        for child in descendants(pid):
            try:
                if name in Path(f"/proc/{child}/cmdline").read_bytes():
                    os.kill(child, signal.SIGKILL)
                    return child
            except OSError:
                continue
        time.sleep(0.05)


def counted(folder: Path) -> dict[int, str]:
    """Return the counted trials, with the record of each: its time of starting would tell a repetition."""
    try:
        done = [trial for trial in read_trials(folder) if trial.state in COUNTED]
        return {t.number: (folder / "trials" / t.folder / "record.json").read_text() for t in done}
    except OSError:
        return {}


def wait_for(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.1)


def report(folder: Path, before: dict[int, str], since: float) -> None:
    after, trials = counted(folder), read_trials(folder)
    kept = sum(after.get(number) == record for number, record in before.items())
    settings = {json.dumps(trial.settings) for trial in trials if trial.state in COUNTED}
    put_back = sum(trial.state == "failed" for trial in trials)
    print(
        f"{len(after)} trials counted, {len(settings)} different settings; {kept} of {len(before)} from "
        f"before the last kill are unchanged; {put_back} put back; {time.monotonic() - since:.0f} s in all"
    )


def killed(folder: Path, trials: int) -> None:
    since = time.monotonic()
    words = [sys.executable, "-m", "mnemon", "sweep", *SPACE, "--trials", str(trials), "--workers", "2", "--quiet"]
    parent = subprocess.Popen([*words, "--out", str(folder)])
    wait_for(lambda: len(counted(folder)) >= trials // 4)
    print("killed worker", kill_one(parent.pid, b"spawn_main"), "after", len(counted(folder)), "trials")
    wait_for(lambda: len(counted(folder)) >= trials // 2)
    parent.kill()
    parent.wait()
    before = counted(folder)
    print("killed the parent after", len(before), "trials")
    subprocess.run([*words, "--out", str(folder)], check=True)
    report(folder, before, since)


def ray(folder: Path, trials: int) -> None:
    from ray.cluster_utils import Cluster

    from mnemon.cli import main

    since = time.monotonic()
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    cluster.add_node(num_cpus=1)
    before: dict[int, str] = {}

    def kill_later() -> None:
        wait_for(lambda: len(counted(folder)) >= trials // 2)
        pid = kill_one(os.getpid(), b"ray::_work")
        before.update(counted(folder))
        print("killed worker", pid, "after", len(before), "trials")

    threading.Thread(target=kill_later, daemon=True).start()
    words = ["sweep", *SPACE, "--trials", str(trials), "--on", f"ray:{cluster.address}", "--quiet"]
    try:
        main([*words, "--out", str(folder)])
    except SystemExit as end:
        print("exit code", end.code)
    report(folder, before, since)
    cluster.shutdown()


if __name__ == "__main__":
    what, where, *count = sys.argv[1:]
    {"killed": killed, "ray": ray}[what](Path(where), int(count[0]) if count else 60)
