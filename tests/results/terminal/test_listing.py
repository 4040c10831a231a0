"""What is below a folder has a line each; what is damaged is named and hides nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from mnemon.errors import UsageError
from mnemon.results.comparison import Comparison
from mnemon.results.record import LOSSES, RECORD, RunRecord
from mnemon.results.sweep import FILE, SweepRecord, Trial, write_trials
from mnemon.results.terminal.listing import list_runs


@pytest.fixture
def write(make_record, tmp_path):
    """Write the record of a run to a folder below the one that is listed."""

    def call(name: str, **changes) -> Path:
        folder = tmp_path / "runs" / name
        folder.mkdir(parents=True)
        make_record(**changes).write(folder)
        return folder

    return call


def lines_of(tmp_path: Path) -> dict[str, str]:
    found = list_runs(tmp_path / "runs")
    assert found.damaged == []
    return {line.folder.relative_to(tmp_path / "runs").as_posix(): line.about for line in found.lines}


def test_a_run_says_its_method_how_far_it_is_and_what_it_came_to(write, tmp_path):
    write("some-preset-20200101")
    write("mine")
    write("stopped", matrix=((90.0, None),), finished=False)
    write("begun", matrix=(), finished=False)
    write("errors", metric="mse")
    write("held-out", config={"method": {"name": "joint"}, "training": {"held_out": 0.1}})
    assert lines_of(tmp_path) == {
        "some-preset-20200101": "hypernet, 1 seed: finished; final accuracy 87.50 %",
        "mine": "some-preset, hypernet, 1 seed: finished; final accuracy 87.50 %",
        "stopped": "some-preset, hypernet, 1 seed: 1 of 2 tasks learned",
        "begun": "some-preset, hypernet, 1 seed: 0 of 2 tasks learned",
        "errors": "some-preset, hypernet, 1 seed: finished; final mean squared error 87.5000",
        "held-out": "some-preset, joint, 1 seed: finished; final accuracy 87.50 %, tested on held-out training data",
    }


def test_seeds_are_one_line_with_the_spread_of_those_that_are_finished(write, tmp_path):
    for seed, last in enumerate((80.0, 82.0, 84.0)):
        write(f"three/seed-{seed}", seed=seed, matrix=((90.0, None), (last, 95.0)))
    write("two/seed-0")
    write("two/seed-1", seed=1, matrix=((90.0, None),), finished=False)
    assert lines_of(tmp_path) == {
        "three": "some-preset, hypernet, 3 seeds: finished; final accuracy 88.50 ± 0.58 %",
        "two": "some-preset, hypernet, 2 seeds: 1 of 2 seeds finished, 3 of 4 tasks learned; final accuracy 87.50 %",
    }


@pytest.mark.parametrize(("metric", "best"), [("accuracy", "better"), ("mse", "worse")])
def test_a_comparison_is_one_line_with_the_best_of_its_methods(write, tmp_path, metric, best):
    write("it/worse/seed-0", metric=metric, matrix=((90.0, None), (70.0, 95.0)))
    write("it/better/seed-0", metric=metric)
    write("it/begun/seed-0", metric=metric, matrix=(), finished=False)
    Comparison("b", "cl1", {name: name for name in ("worse", "better", "begun")}).write(tmp_path / "runs" / "it")
    number = "accuracy 87.50 %" if metric == "accuracy" else "mean squared error 82.5000"
    assert lines_of(tmp_path) == {
        "it": f"comparison of worse, better, begun, 1 seed: 2 of 3 runs finished; best final {number} ({best})"
    }


def test_a_comparison_of_many_methods_names_the_first(write, tmp_path):
    for name in "abcdef":
        write(f"it/{name}/seed-0")
    Comparison("b", "cl1", {name: name for name in "abcdef"}).write(tmp_path / "runs" / "it")
    assert lines_of(tmp_path)["it"].startswith("comparison of a, b, c, d and 2 more, 1 seed: finished; best final ")


def test_a_sweep_is_one_line_with_its_best_score(write, tmp_path):
    write("it/trials/trial-0000")
    folder = tmp_path / "runs" / "it"
    SweepRecord("toy", "", "held-out", "accuracy", 0, "x", "", "home", 3).write(folder)
    assert lines_of(tmp_path) == {"it": "sweep of toy: 0 of 3 trials done"}
    trials = [Trial(i, "finished", score, 2, 1.0, "x", "", {}) for i, score in enumerate((88.0, 91.0))]
    write_trials(folder, trials)
    score = "best score 91.00, % correct on held-out training data"
    assert lines_of(tmp_path) == {"it": f"sweep of toy: 2 of 3 trials done; {score}"}
    write_trials(folder, [*trials, Trial(2, "pruned", 10.0, 1, 1.0, "x", "", {})])
    assert lines_of(tmp_path) == {"it": f"sweep of toy: finished; {score}"}


def test_those_that_were_begun_last_are_at_the_end(write, tmp_path):
    for name, day in (("a", 3), ("b", 1), ("c", 2)):
        write(name, started=f"2020-01-0{day}T12:30:59+00:00")
    lines = list_runs(tmp_path / "runs").lines
    assert [(line.folder.name, line.begun) for line in lines] == [
        ("b", "2020-01-01 12:30"), ("c", "2020-01-02 12:30"), ("a", "2020-01-03 12:30"),
    ]  # fmt: skip


def test_runs_are_found_below_folders_of_any_depth_but_not_in_hidden_ones(write, tmp_path):
    write("reproduce/runs/toy@smoke/seed-0")
    write("reproduce/runs/toy@smoke/deeper/one")
    write(".hidden/one")
    assert list(lines_of(tmp_path)) == ["reproduce/runs/toy@smoke", "reproduce/runs/toy@smoke/deeper/one"]
    assert [line.folder for line in list_runs(tmp_path / "runs/reproduce/runs/toy@smoke/seed-0").lines] == [
        tmp_path / "runs/reproduce/runs/toy@smoke/seed-0"
    ]


def test_what_is_damaged_is_named_and_the_rest_is_listed(write, tmp_path):
    write("good")
    for name in ("bad", "seeds/seed-0", "compared/a/seed-0"):
        (write(name) / RECORD).write_text("{")
    write("seeds/seed-1", seed=1)
    write("compared/a/seed-1", seed=1)
    Comparison("b", "cl1", {"a": "a"}).write(tmp_path / "runs" / "compared")
    for name in ("swept", "lost"):
        (tmp_path / "runs" / name).mkdir()
    (tmp_path / "runs" / "swept" / FILE).write_text("{}")
    Comparison("b", "cl1", {"a": "gone"}).write(tmp_path / "runs" / "lost")
    found = list_runs(tmp_path / "runs")
    assert sorted(line.folder.name for line in found.lines) == ["compared", "good", "seeds"]
    runs = tmp_path / "runs"
    for start in (
        f"The record in {runs / 'bad'} is damaged: ",
        f"The record in {runs / 'seeds/seed-0'} is damaged: ",
        f"The record in {runs / 'compared/a/seed-0'} is damaged: ",
        f"The sweep in {runs / 'swept'} is damaged: ",
        f"There is no folder {runs / 'lost/gone'}.",
    ):
        assert sum(message.startswith(start) for message in found.damaged) == 1, start
    assert len(found.damaged) == 5


def test_the_losses_are_not_read(write, tmp_path):
    folder = write("one")
    (folder / LOSSES).write_text("{")
    assert len(lines_of(tmp_path)) == 1
    with pytest.raises(UsageError, match=r"is damaged: losses\.jsonl"):
        RunRecord.read(folder)


def test_a_folder_that_is_missing_is_refused_and_an_empty_one_is_not(tmp_path):
    with pytest.raises(UsageError, match=r"^There is no folder .*nowhere\.$"):
        list_runs(tmp_path / "nowhere")
    assert list_runs(tmp_path).lines == []
