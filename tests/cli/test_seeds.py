"""Several seeds: the same in parallel as one after another, stopped together, and no process left behind."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import time
from pathlib import Path

import pytest
from command_line import all_ended, descendants, ended, forked, result_of, steps_of, wait_until, with_settings

from mnemon.experiments.compute import Compute
from mnemon.experiments.preset import load_preset
from mnemon.experiments.run_config import resolve
from mnemon.experiments.study import new_jobs
from mnemon.results.metrics import mean_and_sem
from mnemon.results.record import RunRecord
from mnemon.training.checkpoint import FILE

STEPS = 150
WORDS = ["toy", "--seeds", "2", "--workers", "2"]
SETTINGS = with_settings(f"steps={STEPS}", "checkpoint_seconds=0.05")
NAMES = ("seed-0", "seed-1")

linux = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="the processes are looked up in /proc")


def results(folder: Path) -> list[tuple]:
    return [result_of(folder / name) for name in NAMES]


@pytest.fixture(scope="module")
def one_after_another(tmp_path_factory) -> list[tuple]:
    """What the seeds come to when they run here, one after another."""
    from mnemon.cli import main

    folder = tmp_path_factory.mktemp("whole") / "runs"
    with pytest.raises(SystemExit) as end:
        main(["run", *WORDS[:-1], "1", *SETTINGS, "--out", str(folder), "--quiet"])
    assert not end.value.code
    return results(folder)


@pytest.fixture
def under_way(start, tmp_path) -> subprocess.Popen:
    """Two seeds in two workers, both in the middle."""
    process = start("run", *WORDS, *SETTINGS, "--out", "runs")
    wait_until(lambda: min(steps_of(tmp_path / "runs" / name) for name in NAMES) > 0, process.poll)
    return process


def goes_on(mnemon, folder: Path) -> list[tuple]:
    assert mnemon("run", "--resume", folder, "--workers", "1").code == 0
    return results(folder)


def test_seeds_in_parallel_are_the_same_as_one_after_another(start, one_after_another, tmp_path):
    outcome = ended(start("run", *WORDS, *SETTINGS, "--out", "runs"))
    assert (outcome.code, outcome.err) == (0, "")
    assert results(tmp_path / "runs") == one_after_another
    assert one_after_another[0] != one_after_another[1]
    lines = outcome.out.splitlines()
    assert sum("learned:" in line for line in lines) == 6
    # The mean and its error, from the records.
    finals = [RunRecord.read(tmp_path / "runs" / name).accuracy.final.value for name in NAMES]
    mean, sem = sum(finals) / 2, abs(finals[0] - finals[1]) / 2
    assert mean_and_sem(finals) == pytest.approx((mean, sem))
    assert any(re.fullmatch(rf"final\s+{mean:.4f} ± {sem:.4f}\s*", line) for line in lines)
    assert (tmp_path / "runs" / "summary.txt").exists()


def test_in_a_terminal_every_task_has_a_line_and_every_seed_a_bar(tmp_path):
    ours, theirs = os.openpty()
    words = ["run", *WORDS[:-1], "1", *with_settings("steps=20"), "--no-report", "--out", tmp_path / "runs"]
    process = forked(words, Path(os.ttyname(theirs)))
    written = b""
    while process.is_alive() or select.select([ours], [], [], 0)[0]:
        if select.select([ours], [], [], 0.05)[0]:
            written += os.read(ours, 65536)
    for end in (ours, theirs):
        os.close(end)
    assert process.exitcode == 0
    lines = [line.strip() for line in re.split(r"[\r\n]+", re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", written.decode()))]
    for seed in (0, 1):
        for task in (1, 2, 3):
            said = rf"seed {seed}  task {task}/3 learned: MSE [\d.]+, average [\d.]+"
            assert sum(bool(re.fullmatch(said, line)) for line in lines) == 1
        assert re.fullmatch(
            rf"seed {seed} ━+  waiting", next(line for line in lines if line.startswith(f"seed {seed} ━"))
        )
        assert any(re.fullmatch(rf"seed {seed} ━+ 3/3 done +\d:\d\d", line) for line in lines)
    assert any("Mean squared error on each task" in line for line in lines)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_all_processes_saves_every_seed(under_way, mnemon, one_after_another, tmp_path, number):
    os.killpg(under_way.pid, number)
    outcome = ended(under_way)
    assert (outcome.code, outcome.err) == (130, "")
    last = outcome.out.splitlines()[-1]
    assert last == "Stopped; everything is saved. Resume with: mnemon run --resume runs"
    assert goes_on(mnemon, tmp_path / "runs") == one_after_another


def test_a_signal_while_the_workers_are_starting_is_not_lost(start, mnemon, one_after_another, tmp_path):
    process = start("run", *WORDS, *SETTINGS, "--out", "runs")
    wait_until((tmp_path / "runs" / "seed-1" / "record.json").exists, process.poll)
    time.sleep(0.3)
    os.killpg(process.pid, signal.SIGINT)
    outcome = ended(process)
    assert (outcome.code, outcome.err) == (130, "")
    assert goes_on(mnemon, tmp_path / "runs") == one_after_another


@linux
def test_workers_end_by_themselves_when_the_parent_is_killed(under_way, mnemon, one_after_another, tmp_path):
    workers = descendants(under_way.pid)
    assert len(workers) >= 2
    under_way.kill()
    under_way.wait()
    assert all_ended(workers, seconds=10)
    # They have saved before they ended.
    assert min(steps_of(tmp_path / "runs" / name) for name in NAMES) < 3 * STEPS
    assert goes_on(mnemon, tmp_path / "runs") == one_after_another


@linux
def test_a_lost_worker_is_said_to_be_lost(under_way, mnemon, one_after_another, tmp_path):
    workers = descendants(under_way.pid)
    (victim, *_) = [pid for pid in sorted(workers) if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    os.kill(victim, signal.SIGKILL)
    outcome = ended(under_way)
    assert outcome.code == 2
    assert outcome.err == (
        "mnemon: A worker process was killed, perhaps because memory ran out. Resume from the last "
        "checkpoints, with fewer workers if memory is short: mnemon run --resume runs\n"
    )
    assert all_ended(workers, seconds=10)
    assert goes_on(mnemon, tmp_path / "runs") == one_after_another


def test_a_seed_that_fails_is_named_and_the_other_finishes(start, tmp_path, one_after_another):
    new_jobs(resolve(load_preset("toy"), SETTINGS[1::2]), range(2), tmp_path / "runs", Compute("cpu"))
    broken = tmp_path / "runs" / "seed-0" / FILE
    broken.write_bytes(b"nothing")
    outcome = ended(start("run", "--resume", "runs", "--workers", "2"))
    assert outcome.code == 2
    assert outcome.err.count("\n") == 1
    problem = "runs/seed-0/checkpoint.safetensors is damaged: "
    assert outcome.err.startswith(f"mnemon: seed 0: {problem}")
    assert outcome.err.endswith(" All seeds are saved to runs.\n")
    assert f"seed 0  failed: {problem}" in outcome.out
    assert result_of(tmp_path / "runs" / "seed-1") == one_after_another[1]
    assert broken.read_bytes() == b"nothing"


def test_when_a_seed_fails_the_others_are_shown_kept_and_copied(mnemon, tmp_path):
    new_jobs(resolve(load_preset("toy"), ["steps=2"]), range(2), tmp_path / "runs", Compute("cpu"))
    (tmp_path / "runs" / "seed-0" / FILE).write_bytes(b"nothing")
    outcome = mnemon("run", "--resume", "runs", "--workers", "1", "--out", f"file://{tmp_path}/far")
    assert outcome.code == 2
    assert outcome.err.startswith("mnemon: seed 0: runs/seed-0/checkpoint.safetensors is damaged: ")
    assert "toy  hypernet, 1 of 2 seeds  (1 not finished)" in outcome.out
    assert "Saved to runs." in outcome.out
    assert "1 of 2 seeds" in (tmp_path / "far" / "summary.txt").read_text()


def test_a_seed_counts_from_the_first(mnemon, tmp_path):
    settings = with_settings("steps=2")
    assert mnemon("run", "toy", "--seeds", "2", "--seed", "5", "--workers", "1", *settings, "--out", "runs").code == 0
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["seed-5", "seed-6", "summary.txt"]
    assert mnemon("run", "toy", "--seed", "6", *settings, "--out", "six").code == 0
    assert result_of(tmp_path / "six") == result_of(tmp_path / "runs" / "seed-6")


def test_seeds_that_draw_their_own_pairs_are_run_shown_and_reported_together(mnemon):
    small = with_settings("pairs=shuffled", "steps=5", "n_tasks=2", "target.hidden=[8]", "chunk=200")
    outcome = mnemon("run", "--seeds", "2", "--workers", "1", *small, "--out", "runs")
    assert outcome.code == 0, outcome.err
    tasks = [RunRecord.read(Path("runs") / name).task_names for name in NAMES]
    assert tasks[0] != tasks[1]
    assert "1: drawn by seed" in outcome.out
    assert "1: drawn by seed" in mnemon("show", "runs").out
    assert f"1: {tasks[1][0]} " in mnemon("show", "runs/seed-1").out
    assert mnemon("report", "runs").code == 0
    assert "1: drawn by seed" in Path("runs/report.html").read_text(encoding="utf-8")
