"""A run that is stopped, killed or out of disk space goes on and ends bit for bit as if nothing had been."""

from __future__ import annotations

import errno
import itertools
import os
import random
import shlex
import shutil
import signal
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from command_line import contents, ended, forked, result_of, steps_of, wait_until, with_settings

from mnemon import whole_files
from mnemon.experiments import control
from mnemon.results.record import RunRecord
from mnemon.training.checkpoint import FILE, load

STEPS = 80
WORDS = with_settings(f"steps={STEPS}", "n_tasks=3", "target.hidden=[20]", "chunk=300", "checkpoint_seconds=0.01")
AT_THE_START = -1
EARLIER = Path(__file__).parents[1] / "earlier_versions"


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> tuple:
    """What the run comes to when nothing interrupts it."""
    from mnemon.cli import main

    folder = tmp_path_factory.mktemp("whole") / "run"
    with pytest.raises(SystemExit):
        main(["run", *WORDS, "--out", str(folder), "--quiet"])
    return result_of(folder)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_says_how_to_go_on(start, mnemon, whole, tmp_path, number):
    process = start("run", *WORDS, "--out", "my run", "--data", tmp_path)
    wait_until(lambda: steps_of(tmp_path / "my run") > STEPS, process.poll)
    os.killpg(process.pid, number)
    outcome = ended(process)
    assert outcome.code == 130
    assert outcome.err == ""
    assert outcome.out.splitlines()[-1] == (
        f"Stopped; everything is saved. Resume with: mnemon run --resume 'my run' --data {tmp_path}"
    )
    resumed = mnemon("run", "--resume", "my run", "--data", tmp_path)
    assert resumed.code == 0
    assert "task 1/3 learned" not in resumed.out
    assert "task 3/3 learned" in resumed.out
    assert result_of(tmp_path / "my run") == whole


def test_what_a_run_killed_at_its_very_end_leaves_aside_goes_with_the_next_resume(mnemon, finished, stopped):
    for folder in (finished, stopped):
        left = folder / ".record.json.abcdefgh.new"
        left.mkdir()
        (left / "record.json").write_text("{")
        outcome = mnemon("run", "--resume", folder, "--quiet")
        assert outcome.code == 0, outcome
        assert not left.exists()


@pytest.mark.parametrize(
    "words", [("run", "toy"), ("compare", "hypernet", "joint", "--benchmark", "toy", "--workers", "1")]
)
def test_the_command_that_is_named_for_going_on_still_copies_to_the_url(mnemon, monkeypatch, tmp_path, words):
    calls, url = itertools.count(1), f"file://{tmp_path}/far/away"

    @contextmanager
    def soon():
        yield lambda: next(calls) == 5

    with monkeypatch.context() as stopped:
        stopped.setattr(control, "stop_on_signal", soon)
        outcome = mnemon(*words, *with_settings("steps=3"), "--out", url, "--quiet")
    (folder,) = (tmp_path / "runs").iterdir()
    command = f"mnemon {words[0]} --resume runs/{folder.name} --out {url}"
    assert outcome.code == 130
    assert outcome.out.splitlines()[-1] == f"Stopped; everything is saved. Resume with: {command}"
    assert not (tmp_path / "far").exists()
    resumed = mnemon(*shlex.split(command)[1:], "--quiet")
    assert resumed.code == 0
    assert resumed.out.splitlines()[-1] == f"Copied to {url}"
    assert contents(tmp_path / "far" / "away") == contents(folder)


@pytest.mark.parametrize("kills", [5, pytest.param(20, marks=pytest.mark.slow)])
def test_a_run_killed_at_any_moment_ends_the_same(mnemon, whole, tmp_path, kills):
    moments = [AT_THE_START, *sorted(random.Random(0).sample(range(3 * STEPS - 40), kills))]
    pause = random.Random(1)
    for i, moment in enumerate(moments):
        folder = tmp_path / f"run-{i}"
        process = forked(["run", *WORDS, "--out", folder], tmp_path / "output")
        begun = (folder / "record.json").exists if moment == AT_THE_START else lambda: steps_of(folder) >= moment  # noqa: B023
        wait_until(begun, lambda: process.exitcode)  # noqa: B023
        time.sleep(pause.uniform(0, 0.01))
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        assert steps_of(folder) < 3 * STEPS
        assert mnemon("run", "--resume", folder).code == 0, moment
        assert result_of(folder) == whole, moment


def test_a_run_out_of_disk_space_keeps_its_checkpoint_and_goes_on(mnemon, whole, stopped, tmp_path):
    folder, output = tmp_path / "run", tmp_path / "output"
    # The checkpoints of the second task are the larger ones: they have a snapshot of the hypernetwork.
    limit = (stopped / FILE).stat().st_size * 9 // 10
    process = forked(["run", *WORDS, "--quiet", "--out", folder], output, largest_file=limit)
    process.join()
    assert process.exitcode == 2
    (line,) = output.read_text().splitlines()
    assert line.startswith(f"mnemon: Could not save the checkpoint in {folder}: ")
    assert line.endswith("The last good one is kept. Free some space or make the folder writable, then resume.")
    assert sorted(contents(folder)) == [FILE, "config.toml", "losses.jsonl", "record.json"]
    assert (load(folder)[1]["task_id"], load(folder)[1]["step"]) == (1, 0)
    assert mnemon("run", "--resume", folder).code == 0
    assert result_of(folder) == whole


@pytest.mark.parametrize("steps", [2, 60])
def test_a_second_signal_stops_at_once_and_promises_a_checkpoint_only_where_there_is_one(
    mnemon, monkeypatch, tmp_path, steps
):
    calls = itertools.count(1)

    def asked() -> bool:
        if next(calls) == steps:
            raise KeyboardInterrupt
        return False

    @contextmanager
    def twice():
        yield asked

    monkeypatch.setattr(control, "stop_on_signal", twice)
    words = with_settings("steps=50", "n_tasks=2", "target.hidden=[20]", "chunk=300")
    outcome = mnemon("run", *words, "--quiet", "--out", "run")
    there = (tmp_path / "run" / FILE).exists()
    assert there == (steps > 50)
    kept = "; the last checkpoint is kept" if there else ", before the first checkpoint"
    assert outcome.code == 130
    assert outcome.out == f"Stopped at once{kept}. Resume with: mnemon run --resume run\n"


def test_a_disk_that_cannot_be_written_is_said_in_one_line(refused, stopped, monkeypatch):
    def read_only(*_, **__):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    (stopped / f".{FILE}.k1l2m3.new").mkdir()  # what a kill has left cannot be removed
    (stopped / ".tmpAb12Cd").write_bytes(bytes(1000))
    before = contents(stopped)
    with monkeypatch.context() as disk:
        for name in ("unlink", "rmdir", "mkdir", "replace", "rename", "remove"):
            disk.setattr(os, name, read_only)
        disk.setattr(whole_files.tempfile, "mkdtemp", read_only)
        wanted = f"Could not write {stopped / 'config.toml'}: Read-only file system."
        assert refused("run", "--resume", stopped, "--quiet") == wanted
    assert contents(stopped) == before


def test_what_a_kill_left_beside_a_checkpoint_goes_when_the_run_is_resumed(mnemon, stopped):
    (stopped / f".{FILE}.k1l2m3.new").mkdir()
    (stopped / f".{FILE}.k1l2m3.new" / FILE).write_bytes(bytes(1000))
    (stopped / ".tmpAb12Cd").write_bytes(bytes(1000))
    assert mnemon("run", "--resume", stopped, "--quiet").code == 0
    assert not [path for path in stopped.iterdir() if path.name.startswith(".")]


def test_a_run_that_an_earlier_version_stopped_ends_as_it_would_have(mnemon, tmp_path):
    for name in ("stopped", "finished"):
        shutil.copytree(EARLIER / name, tmp_path / name)
    assert mnemon("run", "--resume", "stopped", "--quiet").code == 0
    ended, wanted = (RunRecord.read(tmp_path / name) for name in ("stopped", "finished"))
    assert ended.finished
    # Another processor may round otherwise: the accuracies are of 70 to 90 test images.
    assert [len(row) for row in ended.matrix] == [len(row) for row in wanted.matrix]
    assert ended.matrix[0] == wanted.matrix[0]
    assert ended.accuracy.final.value == pytest.approx(wanted.accuracy.final.value, abs=3)
