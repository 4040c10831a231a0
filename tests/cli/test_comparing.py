"""Methods side by side: one table in the order of the words, stopped and resumed as one, and failures named."""

from __future__ import annotations

import csv
import io
import itertools
import os
import re
import signal
from pathlib import Path

import pytest
from command_line import contents, forked, result_of, wait_until, with_settings

from mnemon.experiments.compare import begin_runs, make_plan
from mnemon.experiments.compute import Compute
from mnemon.experiments.job import RunContext
from mnemon.experiments.study import run_jobs
from mnemon.results.costs import in_bytes
from mnemon.training.checkpoint import FILE
from mnemon.training.trainer import Stopped

METHODS = ["hypernet:chunk=300", "finetuned-target"]
SMALL = ["steps=10", "n_tasks=2", "target.hidden=[20]"]
WORDS = ["compare", *METHODS, "--seeds", "2", *with_settings(*SMALL)]
RUNS = [f"{method}/seed-{seed}" for method in ("hypernet-chunk=300", "finetuned-target") for seed in (0, 1)]
TABLES = ["compare.json", "comparison.csv", "summary.txt", "tasks.csv"]


def results(folder: Path) -> list[tuple]:
    return [result_of(folder / run) for run in RUNS]


def table_of(text: str) -> list[list[str]]:
    """Return the cells of the table's rows."""
    rows = text.partition("─\n")[2].partition("\n\n")[0].splitlines()
    return [re.split(r"\s{2,}", row.strip()) for row in rows]


def lines_of(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text())))


@pytest.fixture(scope="module")
def template(tmp_path_factory) -> Path:
    """A comparison that ran here, one run after another."""
    from mnemon.cli import main

    folder = tmp_path_factory.mktemp("template") / "compared"
    with pytest.raises(SystemExit) as end:
        main([*WORDS, "--workers", "1", "--out", str(folder), "--quiet"])
    assert not end.value.code
    return folder


@pytest.fixture
def compared(template, tmp_path) -> Path:
    return copied(template, tmp_path / "compared")


def copied(source: Path, target: Path) -> Path:
    for name, content in contents(source).items():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_bytes(content)
    return target


@pytest.fixture
def half_done(tmp_path) -> Path:
    """The same comparison, stopped in the middle of the second of its four runs."""
    folder, jobs = begin_runs(make_plan(METHODS, overrides=SMALL), range(2), tmp_path / "half", Compute("cpu"))
    calls = itertools.count(1)
    with pytest.raises(Stopped):
        run_jobs(jobs, RunContext(Compute("cpu"), should_stop=lambda: next(calls) >= 31))
    return folder


def test_methods_and_seeds_in_parallel_come_to_one_table(template, tmp_path):
    folder, output = tmp_path / "my table", tmp_path / "output"
    process = forked([*WORDS, "--workers", "2", "--out", folder], output)
    process.join()
    assert process.exitcode == 0
    assert results(folder) == results(template)
    assert sorted(path.name for path in folder.iterdir() if path.is_file()) == TABLES
    lines = output.read_text().splitlines()
    for method, seed, task in itertools.product(METHODS, (0, 1), (1, 2)):
        assert sum(line.startswith(f"{method}, seed {seed}  task {task}/2 learned: ") for line in lines) == 1
    assert lines[-1] == f"Saved to {folder}. To show it again: mnemon show '{folder}'"
    assert "split-digits, cl1  Accuracy (%), mean over tasks" in lines
    assert "2 seeds for each method, mean ± SEM" in lines


def test_settings_that_are_changed_in_all_methods_are_named(mnemon):
    words = [*with_settings("steps=2", "n_tasks=2"), "--workers", "1", "--quiet", "--out", "it"]
    out = mnemon("compare", "joint", "hypernet:beta=0.5", *words).out
    assert "\nIn all methods: benchmark.n_tasks=2, training.steps=2\n" in out
    assert "method.beta" not in out


def test_the_files_hold_the_table_and_its_numbers(compared):
    rows = table_of((compared / "summary.txt").read_text())
    assert [row[0] for row in rows] == METHODS
    runs = lines_of(compared / "comparison.csv")
    assert [(run["label"], run["seed"], run["finished"]) for run in runs] == [
        (method, seed, "True") for method in METHODS for seed in "01"
    ]
    for row, (one, other) in zip(rows, (runs[:2], runs[2:]), strict=True):
        for cell, key in zip(row[1:], ("final", "during"), strict=False):
            values = [float(run[key]) for run in (one, other)]
            assert cell == f"{sum(values) / 2:.2f} ± {abs(values[0] - values[1]) / 2:.2f}"
        assert row[4] == in_bytes(int(one["bytes_kept"]))
    tasks = lines_of(compared / "tasks.csv")
    assert [(line["label"], line["seed"], line["task"], line["name"]) for line in tasks] == [
        (method, seed, task, name)
        for method in METHODS
        for seed in "01"
        for task, name in (("1", "0,1"), ("2", "2,3"))
    ]
    final = [float(line["at_the_end"]) for line in tasks[:2]]
    assert sum(final) / 2 == pytest.approx(float(runs[0]["final"]))


def test_a_comparison_is_shown_again_and_showing_changes_nothing(mnemon, compared, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    before = contents(compared)
    outcome = mnemon("show", compared)
    assert outcome.code == 0
    assert outcome.out == before["summary.txt"].decode()
    assert contents(compared) == before
    assert "hypernet, 2 seeds, mean ± SEM" in mnemon("show", compared / "hypernet-chunk=300").out


def test_an_unfinished_comparison_is_shown_and_resumed(mnemon, half_done, template):
    text = mnemon("show", half_done).out
    assert "2 seeds for each method, mean ± SEM; 1 of 4 runs are finished" in text
    resumed = mnemon("compare", "--resume", half_done, "--workers", "1")
    assert resumed.code == 0
    assert "hypernet:chunk=300, seed 0  task" not in resumed.out
    assert "finetuned-target, seed 0  task 1/2" not in resumed.out
    assert "finetuned-target, seed 0  task 2/2" in resumed.out
    assert results(half_done) == results(template)
    assert [row[1:4] for row in table_of((half_done / "summary.txt").read_text())] == [
        row[1:4] for row in table_of((template / "summary.txt").read_text())
    ]


def test_a_signal_saves_and_says_how_to_go_on(mnemon, tmp_path):
    output = tmp_path / "output"
    settings = with_settings(*SMALL[1:], "steps=100000", "checkpoint_seconds=0.05")
    words = ["compare", *METHODS, *settings, "--workers", "1", "--data", tmp_path, "--out", tmp_path / "runs"]
    process = forked(words, output)
    wait_until((tmp_path / "runs" / RUNS[0] / FILE).exists, lambda: process.exitcode)
    os.kill(process.pid, signal.SIGINT)
    process.join(60)
    assert process.exitcode == 130
    folder = tmp_path / "runs"
    assert output.read_text().splitlines()[-1] == (
        f"Stopped; everything is saved. Resume with: mnemon compare --resume {folder} --data {tmp_path}"
    )
    assert "1 seed for each method; 0 of 2 runs are finished" in mnemon("show", folder).out


def test_a_finished_comparison_says_so(mnemon, compared):
    outcome = mnemon("compare", "--resume", compared)
    assert outcome.code == 0
    assert outcome.out.startswith(f"The comparison in {compared} is finished; there is nothing to resume.\n")
    assert "2 seeds for each method, mean ± SEM" in outcome.out


def test_a_run_that_fails_is_named_and_the_others_finish(mnemon, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    failing = "finetuned-target:lr=1e30"
    words = ["compare", failing, "finetuned-target", *with_settings(*SMALL), "--workers", "1", "--out", "runs"]
    outcome = mnemon(*words)
    reason = "task_loss became nan in task 1 ('0,1'), step "
    assert outcome.code == 2
    assert re.fullmatch(
        rf"mnemon: {failing}, seed 0: {re.escape(reason)}.* All runs are saved to runs\.\n", outcome.err
    )
    assert f"{failing}, seed 0  failed: {reason}" in outcome.out
    bad, good = table_of(outcome.out)
    assert bad[:4] == [f"{failing} (0 of 1 seeds, 1 failed)", "·", "·", "·"]
    assert good[0] == "finetuned-target"
    assert float(good[1]) > 0
    assert f"{failing}: seed 0 failed: {reason}" in outcome.out
    assert f"{failing}: seed 0 failed: {reason}" in mnemon("show", "runs").out
    assert [path.name for path in sorted((tmp_path / "runs").iterdir()) if path.is_file()] == TABLES
    # Resumed, it fails in the same way.
    again = mnemon("compare", "--resume", "runs")
    assert again.code == 2
    assert again.err.startswith(f"mnemon: {failing}, seed 0: {reason}")


def test_the_default_folder_is_named_after_benchmark_scenario_and_changed_settings(mnemon, tmp_path):
    words = ["compare", "finetuned-target", "--scenario", "cl3", "--quiet", *with_settings("steps=1", "n_tasks=2")]
    assert mnemon(*words).code == 0
    (folder,) = (tmp_path / "runs").iterdir()
    assert re.fullmatch(r"compare-split-digits-cl3\+steps=1\+n_tasks=2-\d{8}-\d{6}", folder.name)
    assert sorted(path.name for path in folder.iterdir()) == sorted([*TABLES, "finetuned-target"])
    assert [path.name for path in (folder / "finetuned-target").iterdir()] == ["seed-0"]


def test_what_sees_earlier_data_again_is_said_to_keep_all_of_it(mnemon, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    methods = ["joint", "replay:replay.model=real", "finetuned-target"]
    words = ["compare", *methods, *with_settings(*SMALL, "epochs=0.5"), "--workers", "1", "--out", "runs"]
    assert {row[0]: row[5] for row in table_of(mnemon(*words).out)} == dict(
        zip(methods, ("all data", "all data", "0"), strict=True)
    )
    runs = lines_of(tmp_path / "runs" / "comparison.csv")
    assert [(run["sees_past"], run["bytes_per_task"]) for run in runs] == [
        ("True", "0"),
        ("True", "0"),
        ("False", "0"),
    ]


def test_a_regression_is_compared_in_its_own_unit(mnemon, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    words = ["compare", "finetuned-hypernet", "joint", "--benchmark", "toy", *with_settings("steps=2")]
    text = mnemon(*words, "--workers", "1", "--out", "run").out
    assert "toy, cl1  Mean squared error, mean over tasks" in text
    assert [row[0] for row in table_of(text)] == ["finetuned-hypernet", "joint"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "Name the methods to compare, such as: mnemon compare hypernet finetuned-target joint"),
        (["joint", "joint"], "'joint' is given twice; a variant is written METHOD:name=value."),
        (["ewc"], "Unknown method 'ewc'. Did you mean 'online-ewc'? Choose one of: hnet-r, replay-bound, "),
        (["si"], "Unknown method 'si'. Did you mean 'synaptic-intelligence'? Choose one of: hnet-r, replay-bound, "),
        (["jiont"], "Unknown method 'jiont'. Did you mean 'joint'? Choose one of: hnet-r, replay-bound, "),
        (["joint:lr"], "A method is written METHOD or METHOD:name=value,name=value, not 'joint:lr'."),
        (["joint", "--scenario", "cl0"], "Unknown scenario 'cl0'. Did you mean 'cl"),
        (["joint", "--benchmark", "mnist"], "Unknown preset 'mnist'. "),
        (["split-mnist"], "split-mnist: It learns other tasks than split-digits: benchmark.name (split-mnist and "),
        (["joint", "hypernet-tir"], "hypernet-tir: "),
        (["joint", "--seeds", "0"], "--seeds must be at least 1, not 0."),
        (["joint", "--device", "gpu"], "Unknown device 'gpu'. Did you mean 'cpu'?"),
        (["joint", "--data", "nowhere"], "The data folder 'nowhere' (--data) does not exist."),
        (["--resume", "none"], "There is no folder none."),
        (["--resume", "none", "--out", "x"], "--resume continues in its own folder: leave out --out."),
        (
            ["--resume", "none", "--seeds", "2"],
            "--resume continues the seeds of its folder: leave out --seeds and",
        ),
        *(
            (
                [*more, "--resume", "none"],
                "--resume continues the methods and settings of its folder: leave out METHOD, --benchmark, "
                "--scenario and --set.",
            )
            for more in (["joint"], ["--benchmark", "toy"], ["--scenario", "cl1"], ["--set", "steps=1"])
        ),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_made(refused, tmp_path, words, message):
    assert refused("compare", *words).startswith(message)
    assert list(tmp_path.iterdir()) == []


def test_run_and_compare_do_not_take_each_others_folders(refused, compared, finished):
    before = contents(compared), contents(finished)
    assert refused("run", "--resume", compared) == (
        f"{compared} holds a comparison of methods. Resume it with: mnemon compare --resume {compared}"
    )
    assert refused("compare", "--resume", finished) == (
        f"{finished} holds no comparison: there is no compare.json in it."
    )
    assert refused("compare", "joint", "--out", compared) == (
        f"{compared} exists already and is not changed. Choose another --out, or resume what is in it: "
        f"mnemon compare --resume {compared}"
    )
    assert (contents(compared), contents(finished)) == before
