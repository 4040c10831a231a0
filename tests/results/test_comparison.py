"""What is shown and kept of a comparison: the right numbers for each method, in the order that was asked for."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from mnemon.errors import UsageError
from mnemon.results.comparison import (
    FILE,
    RUNS,
    TASKS,
    Comparison,
    ComparisonTable,
    is_comparison,
)
from mnemon.results.costs import describe_kept_in_all, describe_kept_per_task, in_bytes, ms_per_step, stored_bytes
from mnemon.results.record import RunRecord

TRAINING = {"training": {"steps": 50}}


@pytest.fixture
def compared(tmp_path, make_record) -> Callable[..., Path]:
    """Make the folder of a comparison of runs, given by label and then as changes to a record for each seed."""

    def make(failures: dict[str, str] | None = None, **methods: list[dict]) -> Path:
        for label, runs in methods.items():
            for seed, changes in enumerate(runs):
                folder = tmp_path / label / f"seed-{seed}"
                folder.mkdir(parents=True)
                make_record(**{"seed": seed, "config": {"preset": label, **TRAINING}, **changes}).write(folder)
        Comparison("split-x", "cl1", {label: label for label in methods}, failures or {}).write(tmp_path)
        return tmp_path

    return make


def text_of(folder: Path, width: int = 120) -> str:
    text = io.StringIO()
    Console(file=text, width=width, markup=False).print(ComparisonTable.read(folder))
    assert max(len(line) for line in text.getvalue().splitlines()) <= width
    return text.getvalue()


def rows_of(text: str) -> dict[str, list[str]]:
    """Return the cells of each row by the first one."""
    table = text.partition("─\n")[2].partition("\n\n")[0]
    return {cells[0]: cells[1:] for line in table.splitlines() if (cells := re.split(r"\s{2,}", line.strip()))}


def lines_of(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text())))


BETTER = {"matrix": ((94.0, None), (90.0, 97.0))}
LARGE = {"counts": {"learned": 1000, "per_task": 448, "target": 1426, "n_tasks": 2, "spared": 48, "compression": 1}}


def test_each_method_has_a_row_in_the_order_of_the_comparison(compared):
    folder = compared(second=[{}, BETTER], first=[{**BETTER, **LARGE}, {**BETTER, **LARGE}])
    text = text_of(folder)
    assert "split-x, cl1  Accuracy (%), mean over tasks\n" in text
    # Final 87.5 and 93.5, right after 92.5 and 95.5; 4220 + 2 × 32 numbers; 1 s for 2 × 50 steps.
    assert rows_of(text) == {
        "second": ["90.50 ± 3.00", "94.00 ± 1.50", "-3.50 ± 1.50", "17.1 kB", "128 B", "10.00"],
        "first": ["93.50 ± 0.00", "95.50 ± 0.00", "-2.00 ± 0.00", "7.4 kB", "1.8 kB", "10.00"],
    }
    assert list(rows_of(text)) == ["second", "first"]
    assert "2 seeds for each method, mean ± SEM\n" in text
    assert "published" not in text
    assert "inferred" not in text


def test_one_seed_is_shown_without_an_error(compared):
    text = text_of(compared(one=[{}]))
    assert rows_of(text)["one"][:3] == ["87.50", "92.50", "-5.00"]
    assert "1 seed for each method" in text
    assert "±" not in text


def test_what_only_some_have_is_missing_in_the_others(compared):
    folder = compared(
        ent=[{"inferred": [[70.0, float("nan")], [60.0, 80.0]], "published": "69.48 ± 0.80"}], told=[{}]
    )
    text = text_of(folder)
    assert "inferred" in text
    assert rows_of(text)["ent"] == ["87.50", "92.50", "-5.00", "70.00", "17.1 kB", "128 B", "10.00", "69.48 ± 0.80"]
    assert rows_of(text)["told"] == ["87.50", "92.50", "-5.00", "·", "17.1 kB", "128 B", "10.00"]


def test_the_inferred_tasks_are_shown_with_their_error(compared):
    runs = [{"inferred": [[70.0, float("nan")], [60.0, right]]} for right in (80.0, 90.0)]
    assert rows_of(text_of(compared(ent=runs)))["ent"][3] == "72.50 ± 2.50"


def test_a_step_is_one_that_was_made_whatever_the_setting_says(make_record):
    of_epochs = {"preset": "x", "training": {"steps": 50, "epochs": 2.0}}
    steps = [(0, 50), (0, 63), (1, 50), (1, 100), (1, 137)]
    losses = [{"task": task, "step": step, "task_loss": 0.5} for task, step in steps]
    assert ms_per_step(make_record(config=of_epochs, losses=losses)) == 5.0  # 1 s for 63 + 137 steps
    assert ms_per_step(make_record(config=of_epochs, losses=losses, finished=False)) is math.nan


def test_without_losses_the_setting_says_how_many_steps_there_were(make_record):
    assert ms_per_step(make_record(config=TRAINING, losses=[])) == 10.0
    assert ms_per_step(make_record(config={"training": {"steps": 50, "epochs": "none"}}, losses=[])) == 10.0


def test_without_losses_the_steps_of_epochs_are_not_known(compared):
    of_epochs = {"preset": "one", "training": {"steps": 50, "epochs": 2.0}}
    assert rows_of(text_of(compared(one=[{"config": of_epochs, "losses": []}])))["one"][-1] == "·"


@pytest.mark.parametrize(
    ("facts", "text", "stored"),
    [
        ({}, "128 B", 4 * 4284),
        ({"bytes_per_task": 200, "sees_past": False}, "200 B", 4 * 4220 + 2 * 200),
        ({"bytes_per_task": 200, "bytes_learned": 50_000}, "200 B", 50_000 + 2 * 200),
        ({"bytes_per_task": 200, "spared": 5}, "200 B", 4 * 4215 + 2 * 200),
        ({"per_task": 0, "bytes_per_task": 0, "sees_past": False}, "0", 4 * 4220),
        ({"per_task": 0, "bytes_per_task": 0, "sees_past": True}, "all data", 4 * 4220),
    ],
)
def test_what_is_kept_of_a_task_is_bytes_or_all_its_data(make_record, tmp_path, facts, text, stored):
    record = make_record()
    record.counts.update(facts)
    record.write(tmp_path)
    read = RunRecord.read(tmp_path)
    assert describe_kept_per_task(read) == text
    assert stored_bytes(read) == stored
    assert describe_kept_in_all(read) == in_bytes(stored) + (" + data" if text == "all data" else "")


def test_errors_are_shown_in_their_own_unit(compared):
    text = text_of(compared(one=[{"matrix": ((0.00421, None), (0.00523, 0.0061)), "metric": "mse"}]))
    assert "Mean squared error, mean over tasks" in text
    assert rows_of(text)["one"][:3] == ["0.0057", "0.0052", "0.0005"]


UNFINISHED = {"matrix": ((90.0, None),), "finished": False}


def test_only_finished_runs_count_and_the_others_are_named(compared):
    folder = compared({"b/seed-1": "task_loss became nan.", "a/seed-0": "old"}, a=[{}, {}], b=[{}, UNFINISHED])
    text = text_of(folder)
    assert rows_of(text)["a"][0] == "87.50 ± 0.00"
    assert rows_of(text)["b (1 of 2 seeds, 1 failed)"][0] == "87.50"
    assert text.endswith(
        "2 seeds for each method, mean ± SEM; 3 of 4 runs are finished\nb: seed 1 failed: task_loss became nan.\n"
    )


def test_a_comparison_of_which_nothing_is_finished_is_shown(compared):
    text = text_of(compared(a=[UNFINISHED], b=[{"matrix": (), "finished": False, "seconds": {}}]))
    assert rows_of(text) == {
        f"{label} (0 of 1 seeds)": ["·", "·", "·", "17.1 kB", "128 B", "·"] for label in ("a", "b")
    }
    assert "1 seed for each method; 0 of 2 runs are finished" in text


def test_alarms_are_shown_once_for_each_method(compared):
    alarm = {"alarms": ["The penalty had no effect."]}
    text = text_of(compared(a=[alarm, alarm], b=[{}, {}], c=[alarm, {}]))
    assert text.endswith("mean ± SEM\na: The penalty had no effect.\nc: The penalty had no effect.\n")


def test_a_test_on_held_out_data_is_said_to_be_one(compared):
    text = text_of(compared(one=[{"config": {"preset": "x", "training": {"steps": 50, "held_out": 0.1}}}]))
    assert "mean over tasks, tested on held-out training data\n" in text


def test_nothing_is_lost_in_80_columns(compared):
    label = "finetuned-hypernet_beta=0.0001"
    run = {**BETTER, "inferred": [[70.0, 60.0], [60.0, 80.0]], "published": "69.48 ± 0.80"}
    text = text_of(compared(**{label: [run, {**run, "matrix": ((90.0, None), (80.0, 95.0))}]}), width=80)
    assert "…" not in text
    columns = [re.split(r"\s{2,}", line.strip()) for line in text.partition("─\n")[2].splitlines()]
    assert "".join(cells[0] for cells in columns if cells[0] and cells[0] in label) == label
    for part in ("90.50", "94.00", "-3.50", "70.00", "17.1 kB", "69.48"):
        assert part in text


@pytest.mark.parametrize("width", [80, 100])
def test_an_error_that_does_not_fit_beside_its_mean_stands_below_it(compared, width):
    label = "finetuned-hypernet_beta=0.0001"
    runs = [{**run, "inferred": [[70.0, 60.0], [60.0, 80.0]], "published": "69.48 ± 0.80"} for run in ({}, BETTER)]
    lines = text_of(compared(**{label: runs}), width).partition("─\n")[2].splitlines()
    means, errors = (re.split(r"\s{2,}", line.strip())[1:] for line in lines[:2])
    assert means == ["90.50", "94.00", "-3.50", "70.00", "17.1 kB", "128 B", "10.00", "69.48"]
    assert errors == ["± 3.00", "± 1.50", "± 1.50", "± 0.00", "± 0.80"]


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0"), (4, "4 B"), (96, "96 B"), (996, "996 B"), (1000, "1.0 kB"), (1792, "1.8 kB"), (6e6, "6.0 MB")],
)
def test_memory_is_shown_in_a_unit_that_fits(size, text):
    assert in_bytes(size) == text


def test_the_numbers_are_kept_for_each_run_and_task(compared):
    folder = compared(a=[{}, UNFINISHED], b=[{"inferred": [[70.0, 60.0], [60.0, 80.0]]}])
    ComparisonTable.read(folder).write_numbers()
    first, second, third = lines_of(folder / RUNS)
    assert first == {
        "label": "a", "preset": "some-preset", "seed": "0", "final": "87.5", "during": "92.5", "bwt_gem": "-10.0",
        "inferred": "", "parameters": "4284", "bytes_kept": "17136", "per_task": "32", "bytes_per_task": "128",
        "sees_past": "", "ms_per_step": "10.0", "finished": "True",
    }  # fmt: skip
    assert [second[key] for key in ("seed", "final", "during", "ms_per_step", "finished")] == [
        "1",
        "",
        "",
        "",
        "False",
    ]
    assert (third["label"], third["inferred"]) == ("b", "70.0")
    assert [list(line.values()) for line in lines_of(folder / TASKS)] == [
        ["a", "0", "1", "task 0", "90.0", "80.0"],
        ["a", "0", "2", "task 1", "95.0", "95.0"],
        ["a", "1", "1", "task 0", "90.0", ""],
        ["a", "1", "2", "task 1", "", ""],
        ["b", "0", "1", "task 0", "90.0", "80.0"],
        ["b", "0", "2", "task 1", "95.0", "95.0"],
    ]


def test_a_label_may_hold_commas_and_quotes(compared):
    label = 'a "b", c'
    folder = compared(**{label: [{}]})
    ComparisonTable.read(folder).write_numbers()
    assert [line["label"] for line in lines_of(folder / RUNS)] == [label]


def test_what_was_compared_is_read_as_it_was_written(tmp_path):
    written = Comparison("split-x", "cl3", {"b": "b", "a": "a-2"}, {"b/seed-1": "no."})
    assert not is_comparison(tmp_path)
    written.write(tmp_path)
    assert is_comparison(tmp_path)
    assert Comparison.read(tmp_path) == written
    assert list(Comparison.read(tmp_path).folders) == ["b", "a"]


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"format": 1}', '{"format": "x", "folders": {"a": "a"}}'])
def test_a_damaged_comparison_is_named(tmp_path, content):
    (tmp_path / FILE).write_text(content)
    with pytest.raises(UsageError, match=rf"^The comparison in {tmp_path} is damaged: compare\.json cannot be read"):
        Comparison.read(tmp_path)


def test_a_comparison_without_methods_is_damaged(tmp_path):
    Comparison("split-x", "cl1", {}).write(tmp_path)
    with pytest.raises(UsageError, match=r"is damaged: compare\.json cannot be read \(it names no methods\)\.$"):
        Comparison.read(tmp_path)


def test_what_is_missing_or_newer_is_named(tmp_path):
    with pytest.raises(UsageError, match=rf"^There is no folder {tmp_path}/none\.$"):
        Comparison.read(tmp_path / "none")
    with pytest.raises(UsageError, match=rf"^{tmp_path} holds no comparison: there is no compare\.json in it\.$"):
        Comparison.read(tmp_path)
    (tmp_path / FILE).write_text(json.dumps({"format": 9}))
    with pytest.raises(
        UsageError, match=r"has format 9 and was written by a newer mnemon; this one reads format 1\.$"
    ):
        Comparison.read(tmp_path)


def test_runs_that_do_not_belong_together_are_not_averaged(compared, make_record):
    folder = compared(a=[{}, {}])
    make_record(preset="another", seed=1).write(folder / "a" / "seed-1")
    with pytest.raises(UsageError, match="runs of different experiments here: some-preset and another"):
        ComparisonTable.read(folder)
