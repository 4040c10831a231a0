"""A run folder is read as it was written, by any program, and a wrong one is named."""

from __future__ import annotations

import errno
import json
import math
import os
import subprocess
import sys
from dataclasses import asdict

import pytest

from mnemon import whole_files
from mnemon.errors import UsageError
from mnemon.results.record import FORMAT, RunRecord, find_runs


def same(one: RunRecord, other: RunRecord) -> bool:
    # repr, because NaN is not equal to itself
    return repr(asdict(one)) == repr(asdict(other))


def refused(folder) -> str:
    with pytest.raises(UsageError) as error:
        RunRecord.read(folder)
    return str(error.value)


def no_constants(name: str) -> float:
    raise AssertionError(f"{name} is not JSON")


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"matrix": [], "finished": False},
        {"metric": "mse", "matrix": ((0.125, 0.25), (1e-9, 3e8))},
        {"published": "97.57 ± 0.02", "config": {"published": "97.57 ± 0.02"}},
        {"losses": []},
        {"untrained": []},
        {"alarms": ["The penalty had no effect: 'penalty' was 0 in every step from the second task on."]},
    ],
)
def test_a_record_is_read_as_it_was_written(make_record, tmp_path, changes):
    record = make_record(**changes)
    record.write(tmp_path)
    assert same(RunRecord.read(tmp_path), record)


def test_nan_becomes_null_and_comes_back(make_record, tmp_path):
    make_record().write(tmp_path)
    facts = json.loads((tmp_path / "record.json").read_text(), parse_constant=no_constants)
    assert facts["matrix"] == [[90.0, None], [80.0, 95.0]]
    assert facts["untrained"] == [None, None]
    assert math.isnan(RunRecord.read(tmp_path).matrix[0][1])


def test_what_is_missing_is_said_in_the_file(make_record, tmp_path):
    make_record().write(tmp_path)
    facts = json.loads((tmp_path / "record.json").read_text())
    assert facts["metrics"]["final"] == 87.5
    assert facts["metrics"]["fwt_gem"] is None
    assert facts["missing"] == {"fwt_gem": "the learner has no answer for a task before it is begun"}


def test_loss_terms_are_json_even_if_they_are_not_finite(make_record, tmp_path):
    make_record(losses=[{"task": 0, "step": 1, "task_loss": math.inf}]).write(tmp_path)
    (line,) = (tmp_path / "losses.jsonl").read_text().splitlines()
    assert json.loads(line, parse_constant=no_constants) == {"task": 0, "step": 1, "task_loss": None}


def test_a_record_is_read_without_torch(make_record, tmp_path):
    make_record().write(tmp_path)
    program = (
        "import sys, pathlib; from mnemon.results.record import RunRecord;"
        f"print(RunRecord.read(pathlib.Path({str(tmp_path)!r})).accuracy.final.value, 'torch' in sys.modules)"
    )
    assert subprocess.check_output([sys.executable, "-c", program], text=True).split() == ["87.5", "False"]


@pytest.mark.parametrize("name", ["record.json", "config.toml"])
def test_a_missing_file_is_named(make_record, tmp_path, name):
    make_record().write(tmp_path)
    (tmp_path / name).unlink()
    assert refused(tmp_path) == f"{tmp_path} is not a run folder: {name} is missing."


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("record.json", b'{"format": 1, "matrix": [[90'),
        ("record.json", b"\xff\xfe\x00"),
        ("config.toml", b"[method\nname ="),
        ("losses.jsonl", b'{"task": 0\n'),
    ],
)
def test_a_damaged_file_is_said_to_be_damaged(make_record, tmp_path, name, content):
    make_record().write(tmp_path)
    (tmp_path / name).write_bytes(content)
    assert refused(tmp_path).startswith(f"The record in {tmp_path} is damaged: ")


@pytest.mark.parametrize("content", ["[]", "{}", '{"format": "x"}', "5"])
def test_a_foreign_file_is_said_to_be_foreign(make_record, tmp_path, content):
    make_record().write(tmp_path)
    (tmp_path / "record.json").write_text(content)
    assert refused(tmp_path) == f"{tmp_path / 'record.json'} was not written by mnemon: it names no format."


def edit(folder, **changes):
    path = folder / "record.json"
    facts = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({k: v for k, v in facts.items() if v != "drop"}))


def test_a_record_of_a_newer_format_is_refused(make_record, tmp_path):
    make_record().write(tmp_path)
    edit(tmp_path, format=FORMAT + 1)
    assert refused(tmp_path) == (
        f"The record in {tmp_path} has format {FORMAT + 1} and was written by a newer mnemon; "
        f"this one reads format {FORMAT}."
    )


@pytest.mark.parametrize(
    "changes",
    [{"matrix": "drop"}, {"matrix": [[90.0]]}, {"matrix": [[1.0, 2.0]] * 3}, {"colour": "red"}, {"seed": "drop"}],
)
def test_a_record_that_contradicts_itself_is_refused(make_record, tmp_path, changes):
    make_record().write(tmp_path)
    edit(tmp_path, **changes)
    assert refused(tmp_path).startswith(f"The record in {tmp_path} is damaged: record.json holds no run (")


def test_a_record_from_before_there_were_alarms_has_none(make_record, tmp_path):
    make_record(alarms=["Something had no effect."]).write(tmp_path)
    edit(tmp_path, alarms="drop")
    assert RunRecord.read(tmp_path).alarms == []


def test_a_full_disk_leaves_the_earlier_record(make_record, tmp_path, monkeypatch):
    earlier = make_record(seed=1)
    earlier.write(tmp_path)

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(whole_files.os, "replace", full)
    with pytest.raises(UsageError, match=r"^Could not write .*config\.toml: .*No space left on device"):
        make_record(seed=2).write(tmp_path)
    assert same(RunRecord.read(tmp_path), earlier)
    assert not list(tmp_path.glob(".*.new"))


def test_runs_are_found_in_the_order_of_their_numbers(make_record, tmp_path):
    for seed in (10, 9, 0):
        (tmp_path / f"seed-{seed}").mkdir()
        make_record(seed=seed).write(tmp_path / f"seed-{seed}")
    assert [path.name for path in find_runs(tmp_path)] == ["seed-0", "seed-9", "seed-10"]
    assert find_runs(tmp_path / "seed-9") == [tmp_path / "seed-9"]


def test_a_folder_without_runs_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"holds no run: there is no record\.json in it or below it"):
        find_runs(tmp_path)
    with pytest.raises(UsageError, match=r"There is no folder .*nothing"):
        find_runs(tmp_path / "nothing")


def test_a_drift_that_was_not_measured_is_read_as_none(make_record, tmp_path):
    make_record(drift=[0.5, float("nan")]).write(tmp_path)
    measured, missing = RunRecord.read(tmp_path).drift
    assert (measured, math.isnan(missing)) == (0.5, True)
    path = tmp_path / "record.json"
    path.write_text(json.dumps({k: v for k, v in json.loads(path.read_text()).items() if k != "drift"}))
    assert RunRecord.read(tmp_path).drift == []
