"""Files and words that somebody made to harm are answered in one line; what is shown cannot command the terminal."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from mnemon.printable import MARK
from mnemon.results.comparison import Comparison

DEEP = "[" * 5000 + "]" * 5000
DIGITS = "9" * 5000
EVIL = "\x1b[31mred\x1b]0;title\x07 \x9b2J"


def edit(folder: Path, **changes: object) -> None:
    path = folder / "record.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


# Deep and long


@pytest.mark.parametrize("file", ["record.json", "config.toml", "losses.jsonl"])
@pytest.mark.parametrize("value", [DEEP, DIGITS], ids=["deep", "long"])
@pytest.mark.parametrize("command", ["show", "report"])
def test_a_record_that_is_too_deep_or_long_is_named(refused, finished, file, value, command):
    text = f"a = {value}" if file.endswith("toml") else f'{{"format": 1, "task": {value}}}'
    (finished / file).write_text(text)
    said = refused(command, finished)
    assert said.startswith(f"The record in {finished} is damaged: {file} holds no ")
    assert "nested more than 40 deep" in said or "5000 digits" in said


@pytest.mark.parametrize("file", ["compare.json", "sweep.json"])
def test_a_summary_that_is_too_deep_is_named(refused, finished, file):
    (finished / file).write_text(f'{{"format": 1, "a": {DEEP}}}')
    assert f"is damaged: {file} cannot be read (JSON nested more than 40 deep)." in refused("show", finished)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        (f"target.hidden={DEEP}", "target.hidden must be a list such as [10, 10], not '[[["),
        (f"target.hidden={DEEP[:5000]}", "target.hidden must be a list such as [10, 10], not '[[["),
        (f"steps={DIGITS}", "training.steps must be a whole number, not '999"),
        (f"beta={DIGITS}", "method.beta must be a number, not '999"),
        ("steps=9223372036854775808", "training.steps must be a whole number, not '9223372036854775808'."),
        (f"target.hidden=[{DIGITS}]", "target.hidden must be a list such as [10, 10], not '[999"),
        (f"method={DEEP}", "Unknown method '[[["),
        (f"{DEEP}=1", "Unknown setting '[[["),
        ("steps=2020-01-01", "training.steps must be a whole number, not '2020-01-01'."),
    ],
    ids=lambda word: word[:16],
)
def test_a_setting_that_is_too_deep_or_long_is_refused_with_its_beginning_and_end(refused, setting, said):
    for command in ("run", "settings"):
        message = refused(command, "--set", setting)
        assert message.startswith(said)
        assert len(message) < 1100


@pytest.mark.parametrize("value", [DEEP, DIGITS], ids=["deep", "long"])
def test_a_preset_or_space_that_is_too_deep_or_long_is_named(refused, tmp_path, value):
    (tmp_path / "mine.toml").write_text(f'like = "split-digits"\n[target]\nhidden = {value}\n')
    assert refused("run", "mine.toml").startswith("The preset file mine.toml cannot be read: ")
    (tmp_path / "space.toml").write_text(f'preset = "split-digits"\n[search]\nbeta = {value}\n')
    assert refused("sweep", "space.toml").startswith("The space file space.toml cannot be read: ")


# Commands to the terminal


def on_a_terminal(*words: object) -> str:
    """Return what the command writes to a terminal of its own."""
    ours, theirs = pty.openpty()
    program = "from mnemon.cli import main; main()"
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "200"}
    command = [sys.executable, "-c", program, *map(str, words)]
    process = subprocess.Popen(command, stdout=theirs, stderr=theirs, stdin=theirs, env=environment)
    os.close(theirs)
    written = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # so Linux tells that the other end was closed
            break
        if not part:
            break
        written += part
    process.wait()
    os.close(ours)
    return written.decode()


@pytest.mark.parametrize("command", ["show", "list"])
def test_names_in_a_record_cannot_command_a_terminal(finished, command):
    edit(finished, preset=EVIL, task_names=[EVIL, "b", "c"], alarms=[EVIL], published=EVIL, started=EVIL)
    shown = on_a_terminal(command, finished)
    assert "\x1b[1m" in shown  # it is a terminal, and headings are bold
    for evil in ("\x1b[31m", "\x1b]", "\x07", "\x9b"):
        assert evil not in shown
    assert f"{MARK}[31mred" in shown


def test_names_in_an_error_cannot_command_a_terminal(finished, tmp_path):
    edit(finished, metric=EVIL)
    Comparison("x", "cl1", {"a": EVIL}).write(tmp_path)
    for folder in (finished, tmp_path):
        shown = on_a_terminal("show", folder)
        for evil in ("\x1b[31mred", "\x1b]", "\x07", "\x9b"):
            assert evil not in shown
        assert f"{MARK}[31mred" in shown


def test_what_is_shown_elsewhere_is_cleaned_too(mnemon, finished):
    edit(finished, preset=EVIL, task_names=[EVIL, "b", "c"])
    outcome = mnemon("show", finished)
    assert outcome.code == 0
    assert not {"\x1b", "\x07", "\x9b"} & set(outcome.out)
    assert mnemon("report", finished).code == 0
    assert not {"\x1b", "\x07", "\x9b"} & set((finished / "report.html").read_text().partition("<script")[0])


def test_a_folder_whose_name_is_no_text_is_named(mnemon, tmp_path):
    name = os.fsdecode(b"\xff\x1b[31m")
    outcome = mnemon("show", tmp_path / name)
    assert (outcome.code, outcome.err) == (2, f"mnemon: There is no folder {tmp_path}/{MARK}{MARK}[31m.\n")
