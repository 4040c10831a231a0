"""The functions of the API do what the commands do: same numbers, same folders."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from small_runs import FEW, QUIETLY, SMALL

import mnemon
from mnemon.cli import main
from mnemon.config import parse_override
from mnemon.experiments.api.settings import words_of
from mnemon.results.record import RECORD
from mnemon.training.checkpoint import load

TIMES = re.compile(r'"(seconds|started)": (\{[^}]*\}|"[^"]*")')
SPACE = {
    "preset": "toy",
    "pruning": False,
    "set": {"steps": 3, "method.hypernet.hidden": [4]},
    "search": {"lr": {"low": 1e-3, "high": 1e-1, "log": True}},
}


def command(*words: object) -> None:
    with pytest.raises(SystemExit) as end:
        main([str(word) for word in words])
    assert not end.value.code


def typed(settings: dict[str, object]) -> list[str]:
    return [word for setting in words_of(settings) for word in ("--set", setting)]


def came_to(folder: Path) -> dict[str, object]:
    """All that is in a folder, without times: every file, the tensors bit for bit, the records without the clock."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.name == RECORD:
            found[name] = TIMES.sub("", path.read_text())
        elif path.suffix == ".safetensors":
            found[name] = {key: tensor.numpy().tobytes() for key, tensor in load(path.parent)[0].items()}
        elif path.is_file():
            found[name] = None if path.suffix in (".txt", ".csv", ".html") else path.read_bytes()
    return found


def test_one_seed_is_the_run_of_the_command_and_its_record(tmp_path):
    record = mnemon.run("split-digits", seed=3, settings=SMALL, out="here", **QUIETLY)
    command("run", "split-digits", "--seed", 3, *typed(SMALL), "--device", "cpu", "--out", "there", "--no-report")
    assert came_to(tmp_path / "here") == came_to(tmp_path / "there")
    assert (record.seed, record.finished, record.folder) == (3, True, Path("here"))
    assert record == mnemon.RunRecord.read(Path("here"))
    assert record.changes == mnemon.RunRecord.read(Path("there")).changes


def test_several_seeds_are_a_study(tmp_path):
    study = mnemon.run(seeds=2, seed=5, settings=SMALL, out="here", workers=1, **QUIETLY)
    command(
        "run",
        "--seeds",
        2,
        "--seed",
        5,
        *typed(SMALL),
        "--workers",
        1,
        "--device",
        "cpu",
        "--out",
        "there",
        "--no-report",
    )
    assert came_to(tmp_path / "here") == came_to(tmp_path / "there")
    finals = [record.accuracy.final.value for record in study]
    assert study.seeds == [5, 6]
    assert study.mean == pytest.approx(sum(finals) / 2)
    assert study.sem == pytest.approx(abs(finals[0] - finals[1]) / 2)
    assert study.metric("during")[0] == pytest.approx(sum(r.accuracy.during.value for r in study) / 2)
    assert "mean" in str(study)
    assert (tmp_path / "here" / "summary.txt").read_text() == str(study)
    assert list(study.to_pandas()["seed"]) == [5, 6]
    assert len(study.to_pandas(tasks=True)) == 4
    assert repr(study) == "<Study split-digits: 2 of 2 runs finished, in here>"


def test_named_seeds_are_those_that_are_run():
    study = mnemon.run("toy", seeds=[7, 2], settings={"steps": 2}, out="here", workers=1, **QUIETLY)
    assert study.seeds == [2, 7]
    single = mnemon.run("toy", seeds=[7], settings={"steps": 2}, out="one", **QUIETLY)
    assert (len(single), math.isnan(single.sem)) == (1, True)
    assert single.records[0].matrix == study.records[1].matrix


def test_a_comparison_is_a_table(tmp_path):
    methods = ["joint", ("finetuned-target", {"lr": 0.01})]
    table = mnemon.compare(methods, seeds=2, settings=FEW, out="here", workers=1, **QUIETLY)
    words = ["joint", "finetuned-target:lr=0.01", "--seeds", 2, *typed(FEW), "--workers", 1, "--device", "cpu"]
    command("compare", *words, "--out", "there", "--no-report")
    assert came_to(tmp_path / "here") == came_to(tmp_path / "there")
    assert table.methods == ["joint", "finetuned-target:lr=0.01"]
    assert table.mean("joint")[0] == pytest.approx(sum(r.accuracy.final.value for r in table["joint"]) / 2)
    assert list(table.to_pandas()["label"]) == ["joint"] * 2 + ["finetuned-target:lr=0.01"] * 2
    assert (tmp_path / "here" / "comparison.csv").exists()


def test_a_method_may_be_named_by_its_class():
    table = mnemon.compare([mnemon.HypernetLearner], settings=SMALL, out="here", **QUIETLY)
    assert table.methods == ["hypernet"]


def test_a_sweep_has_a_best_trial_whose_preset_can_be_run(tmp_path):
    result = mnemon.sweep(SPACE, trials=3, out="here", workers=1, quiet=True, device="cpu")
    assert len(result.trials) == 3
    assert result.best is min(result.trials, key=lambda trial: trial.score)
    assert set(result.best_settings) == {"training.steps", "method.hypernet.hidden", "optimizer.lr"}
    assert sorted(result.to_pandas()["state"]) == ["finished"] * 3
    record = mnemon.run(result.best_preset, out="best", **QUIETLY)
    assert record.config["optimizer"]["lr"] == result.best_settings["optimizer.lr"]
    again = mnemon.sweep(resume="here", trials=4, workers=1, quiet=True, device="cpu")
    assert [trial.score for trial in again.trials[:3]] == [trial.score for trial in result.trials]


def test_a_table_of_the_paper_is_run_again_once():
    first = mnemon.reproduce("fig-regression", budget="smoke", out="here", workers=1, quiet=True, device="cpu")
    again = mnemon.reproduce(["fig-regression"], budget="smoke", out="here", quiet=True, device="cpu")
    assert [(line.name, line.values) for line in first.lines] == [(line.name, line.values) for line in again.lines]
    assert all(line.values for line in first.lines)
    assert "fig-regression" in str(first)
    assert len(first.to_pandas()) == len(first.lines)


def test_a_report_takes_what_functions_return_and_folders():
    pytest.importorskip("altair")
    study = mnemon.run("toy", seeds=2, settings={"steps": 2}, out="study", workers=1, **QUIETLY)
    table = mnemon.compare(["joint", "from-scratch"], settings=FEW, out="table", workers=1, **QUIETLY)
    page = mnemon.report([study, table, "study/seed-0", study.records[1]], "page.html")
    by_folder = mnemon.report(["study", Path("table")], "folders.html")
    assert page == Path("page.html")
    assert page.read_text() == by_folder.read_text()
    assert mnemon.report(study) == Path("study/report.html")


def test_a_record_without_a_folder_is_not_reported(tmp_path):
    record = mnemon.run("toy", settings={"steps": 2}, out="run", **QUIETLY)
    record.folder = None
    with pytest.raises(mnemon.UsageError, match=r"^The record of toy has no folder: read it from one"):
        mnemon.report(record)


@pytest.mark.parametrize(
    ("settings", "values"),
    [
        ({"beta": 0.05, "hypernet.hidden": (10, 10)}, {"beta": 0.05, "hypernet.hidden": [10, 10]}),
        ({"method": {"beta": 1e-3}, "training": {"epochs": None}}, {"method.beta": 1e-3, "training.epochs": "none"}),
        ({"lr": np.float64(0.1), "steps": torch.tensor(3)}, {"lr": 0.1, "steps": 3}),
        ({"scenario": mnemon.Scenario.CL3, "fresh": True}, {"scenario": "cl3", "fresh": True}),
        (["beta=0.05", "steps=3"], {"beta": 0.05, "steps": 3}),
        (None, {}),
    ],
)
def test_settings_are_the_words_of_the_command_line(settings, values):
    assert dict(map(parse_override, words_of(settings))) == values


ERRORS = {
    "run('split-mnst')": "Unknown preset 'split-mnst'. Did you mean 'split-mnist'?",
    "run(settings={'beta': object()})": "The setting 'beta' takes a number, a word or a list, not <object object",
    "run(settings={'bta': 1})": "Unknown setting 'bta' of split-digits and hypernet. Did you mean",
    "run(seeds=0)": "seeds must be at least 1, not 0.",
    "run(seeds=[])": "seeds must have at least one seed.",
    "run(seeds=[1, 1])": "seeds has a seed twice: 1, 1.",
    "run(seed=-1)": "seed must not be negative, not -1.",
    "run(workers=0)": "workers must be at least 1, not 0.",
    "run(resume='x', out='y')": "resume continues in its own folder: leave out out.",
    "run(resume='x', seeds=2)": "resume continues the seeds of its folder: leave out seeds and seed.",
    "run(resume='x')": "There is no folder x.",
    "run(device='tpu')": "Unknown device 'tpu'.",
    "run(on='cluster')": "--on takes ray, ray:ADDRESS or ray://HOST:PORT, not 'cluster'.",
    "compare([])": "Name the methods to compare",
    "compare([mnemon.AbstractLearner])": "The method AbstractLearner is not registered: put @mnemon.register_method",
    "compare(['joint'], resume='x')": "resume continues the methods and settings of its folder: leave out methods, ",
    "sweep(trials=0)": "trials must be above 0, not 0.",
    "sweep({'preset': 'toy'})": "space: It has nothing to search:",
    "sweep('x', resume='y')": "resume continues the space and the study of its folder: leave out space, settings, ",
    "reproduce('table-9')": "Unknown ",
    "reproduce('table-1', budget='large')": "Unknown budget 'large'.",
    "report([])": "Name the folder of a run",
    "report('nowhere')": "There is no folder nowhere.",
}


@pytest.mark.parametrize("call", ERRORS)
def test_what_is_wrong_is_said_in_one_line_before_anything_is_made(call, tmp_path):
    with pytest.raises(mnemon.UsageError) as error:
        eval(f"mnemon.{call}")
    assert str(error.value).startswith(ERRORS[call])
    assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_seed_leaves_the_others_in_the_error():
    settings = {"steps": 2}
    mnemon.run("toy", seeds=2, settings=settings, out="runs", workers=1, **QUIETLY)
    facts = json.loads(Path("runs/seed-0/record.json").read_text())
    Path("runs/seed-0/record.json").write_text(json.dumps({**facts, "finished": False}))
    Path("runs/seed-0/checkpoint.safetensors").write_bytes(b"nothing")
    with pytest.raises(mnemon.UsageError, match="is damaged") as error:
        mnemon.run(resume="runs", workers=1, **QUIETLY)
    assert len(str(error.value).splitlines()) == 1


def test_torch_is_left_as_it_was():
    torch.manual_seed(5)
    wanted = torch.rand(3)
    torch.manual_seed(5)
    torch.set_num_threads(2)
    try:
        mnemon.run("toy", settings={"steps": 2}, out="run", **QUIETLY)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)
    assert torch.equal(torch.rand(3), wanted)
