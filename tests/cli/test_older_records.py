"""Records of earlier versions open: a setting that came later has its default in them, for every command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mnemon.experiments.older_records import complete
from mnemon.experiments.reproduce.run_index import key_of, look
from mnemon.experiments.run_config import from_record
from mnemon.notation import read_toml, write_toml
from mnemon.results.groups import gather
from mnemon.results.record import RunRecord, find_runs
from mnemon.results.runs import read_runs

RECORDS = Path(__file__).parents[2] / "docs" / "results" / "records"
KEPT = sorted(path for path in RECORDS.iterdir())


def test_all_kept_records_are_tested():
    assert len(KEPT) >= 68  # more come with every run that is kept
    assert len(find_runs(RECORDS)) >= 186


@pytest.mark.parametrize("folder", KEPT, ids=lambda folder: folder.name)
def test_the_kept_records_of_an_experiment_are_shown_as_one(mnemon, folder):
    n = len(find_runs(folder))
    outcome = mnemon("show", folder)
    assert outcome.code == 0, outcome.err
    assert (f", {n} seeds, mean ±" if n > 1 else ", seed ") in outcome.out


def test_a_report_of_the_kept_records_has_one_experiment_for_each_folder():
    groups = gather([RECORDS], complete)
    experiments = [experiment for group in groups for experiment in group.experiments]
    homes = [{path.parent for path in experiment.runs} for experiment in experiments]
    assert sorted(home for home in homes for home in home) == KEPT
    assert len(experiments) == len(KEPT)


def test_a_report_and_a_reproduction_agree_on_which_runs_belong_together():
    index = look(RECORDS / "none", [RECORDS])
    together = {frozenset(found.folder for found in runs.values()) for runs in index.finished.values()}
    experiments = [e for group in gather([RECORDS], complete) for e in group.experiments]
    assert {frozenset(experiment.runs) for experiment in experiments} == together
    assert index.strange == []


@pytest.mark.parametrize("folder", KEPT[::8], ids=lambda folder: folder.name)
def test_a_report_of_one_folder_is_written(mnemon, folder, tmp_path):
    outcome = mnemon("report", folder, "--out", tmp_path / "it.html")
    assert outcome.code == 0, outcome.err
    assert "of 1 experiment." in (tmp_path / "it.html").read_text()


def seeds(folder: Path, source: Path, **settings: object) -> Path:
    """Make two seeds of a run, of which the second lacks a setting and the first has it at some value."""
    for seed in (0, 1):
        home = folder / f"seed-{seed}"
        home.mkdir(parents=True)
        record = RunRecord.read(source)
        record.seed = seed
        record.write(home)
        config = read_toml((source / "config.toml").read_text())
        for name, value in settings.items():
            if seed == 0:
                config["method"][name] = value
            else:
                del config["method"][name]
        (home / "config.toml").write_text(write_toml(config))
    return folder


def test_a_setting_that_is_missing_is_at_its_default(mnemon, finished, tmp_path):
    default = read_toml((finished / "config.toml").read_text())["method"]["vote"]
    folder = seeds(tmp_path / "seeds", finished, vote=default)
    assert "2 seeds, mean ± SEM" in mnemon("show", folder).out
    (group,) = gather([folder], complete)
    assert len(group.experiments) == 1
    records = read_runs(find_runs(folder), complete).values()
    assert [record.config["method"]["vote"] for record in records] == [default, default]
    assert len({key_of(from_record(record)) for record in records}) == 1


def test_a_setting_that_is_missing_is_not_at_another_value(refused, finished, tmp_path):
    folder = seeds(tmp_path / "seeds", finished, vote=7)
    assert refused("show", folder) == (
        "There are runs with different settings here: method.vote (7 and 1). Name the folder of one of them."
    )
    (group,) = gather([folder], complete)
    assert [experiment.label for experiment in group.experiments] == ["split-digits vote=7", "split-digits"]


def test_settings_that_this_version_does_not_know_stay_as_they_are(finished):
    record = RunRecord.read(finished)
    record.config["method"]["name"] = "a-later-one"
    assert complete(record) == record.config


def test_only_records_that_lack_settings_need_torch(finished, tmp_path):
    program = f"""
import sys
from mnemon.cli import main
try:
    main(["show", {str(finished)!r}])
except SystemExit as end:
    sys.exit(end.code or "torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_damaged_record_is_refused_by_every_command(refused, finished):
    facts = json.loads((finished / "record.json").read_text())
    (finished / "record.json").write_text(json.dumps({**facts, "seed": "0"}))
    said = f"The record in {finished} is damaged: record.json holds no run (seed must be a whole number, not '0')."
    for words in (["show"], ["report"], ["run", "--resume"], ["reproduce", "--report", "it.md", "--also"]):
        assert refused(*words, finished) == said
