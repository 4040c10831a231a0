"""Whatever is wrong in a file of results, it is shown or refused in one line: never a crash.

Every value of every file is replaced, dropped or joined by another (tests/mutations.py); what can still be read must
also be shown in full.
"""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from mutations import mutations

from mnemon.cli.showing import show_folder
from mnemon.errors import UsageError
from mnemon.notation import read_toml, write_toml
from mnemon.results import comparison, samples
from mnemon.results.comparison import Comparison
from mnemon.results.figures import EmbeddingMap, PredictedCurve, read_curves, write_curves
from mnemon.results.groups import gather
from mnemon.results.record import RunRecord
from mnemon.results.report.write import page
from mnemon.results.sweep import SweepRecord, Trial, read_trials, write_trials
from mnemon.results.terminal.console import Terminal

TABLES, PAGES = 200, 8
"""Survivors of each file that are shown, and of which a whole page is made: with its charts that takes a while."""


@pytest.fixture
def run(make_record, tmp_path) -> Path:
    """A run folder with every file that a run can have."""
    config = {
        "preset": "some-preset",
        "published": "90 ± 1",
        "benchmark": {"name": "split", "n_tasks": 2},
        "method": {"name": "hypernet", "vote": 10, "beta": 0.01, "hypernet": {"hidden": [10], "embedding_size": 2}},
        "training": {"steps": 50, "epochs": "none", "held_out": 0.1, "scenario": "cl3"},
    }
    folder = tmp_path / "run"
    folder.mkdir()
    make_record(
        config=config, published="90 ± 1", inferred=[[70.0, 60.0], [60.0, 80.0]], drift=[0.1, 0.2], alarms=["Oh."]
    ).write(folder)
    EmbeddingMap([0.0, 1.0], [0.0, 1.0], {"a": [[1.0, 2.0], [3.0, 4.0]]}, {"a": (0.0, 1.0)}).write(folder)
    write_curves(folder, [PredictedCurve("a", [0.0, 1.0], [3.0, 4.0], [3.0, 4.0], [3.0, 4.0])])
    return folder


def show(folder: Path) -> str:
    text = io.StringIO()
    show_folder(folder, Terminal(file=text, width=120))
    return text.getvalue()


def report(folder: Path) -> str:
    return page(gather([folder]))


def survivors(
    path: Path, wrong: Iterable[tuple[str, str]], look: Callable[[Path], Any], folder: Path
) -> list[tuple[str, str]]:
    """Write each wrong text in turn; return those that were shown, after all others were refused in one line."""
    left, whole = [], path.read_text()
    for how, text in wrong:
        path.write_text(text)
        try:
            look(folder)
        except UsageError as error:
            if path.name not in str(error) and "There is no folder" not in str(error):
                raise AssertionError(f"{path.name} {how}: it is not named: {error}") from error
        except Exception as error:
            raise AssertionError(f"{path.name} {how}: {type(error).__name__}: {error}") from error
        else:
            left.append((how, text))
    path.write_text(whole)
    look(folder)
    return left


def as_json(value: Any) -> Iterable[tuple[str, str]]:
    return ((how, json.dumps(mutant)) for how, mutant in mutations(value))


def as_toml(value: Any) -> Iterable[tuple[str, str]]:
    for how, mutant in mutations(value):
        try:
            yield how, write_toml(mutant)
        except (TypeError, AttributeError):  # TOML has no null, and is always a table
            continue


def check_survivors(path: Path, left: list[tuple[str, str]], folder: Path) -> None:
    """Check that what could be read can be shown, too, or is refused."""
    some = random.Random(0).sample(left, min(TABLES, len(left)))
    survivors(path, some, show, folder)
    survivors(path, some[:PAGES], report, folder)


def test_a_run_with_anything_wrong_is_shown_or_refused(run):
    path = run / "record.json"
    left = survivors(path, as_json(json.loads(path.read_text())), RunRecord.read, run)
    assert 300 < len(left) < 900
    check_survivors(path, left, run)


def test_settings_with_anything_wrong_are_shown_or_refused(run):
    path = run / "config.toml"
    left = survivors(path, as_toml(read_toml(path.read_text())), RunRecord.read, run)
    assert len(left) > 100
    check_survivors(path, left, run)


def test_losses_with_anything_wrong_are_shown_or_refused(run):
    path = run / "losses.jsonl"
    first = json.loads(path.read_text().splitlines()[0])
    texts = [("text", text) for text in ("", "\n", "{", "[]\n", "5", '"task"', path.read_text() + "\n\n")]
    left = survivors(path, [*texts, *as_json(first)], RunRecord.read, run)
    check_survivors(path, left, run)


@pytest.mark.parametrize("file", ["embedding-map.json", "predictions.json"])
def test_what_is_drawn_with_anything_wrong_is_shown_or_refused(run, file):
    path = run / file

    def read(folder: Path) -> None:
        EmbeddingMap.read(folder)
        read_curves(folder)

    left = survivors(path, as_json(json.loads(path.read_text())), read, run)
    assert len(left) > 5
    check_survivors(path, left, run)


def test_a_comparison_with_anything_wrong_is_shown_or_refused(run, make_record, tmp_path):
    folder = tmp_path / "compared"
    for label, seed in (("a", 0), ("a", 1), ("b", 0)):
        (folder / label / f"seed-{seed}").mkdir(parents=True)
        make_record(seed=seed, finished=seed == 0).write(folder / label / f"seed-{seed}")
    Comparison("split-x", "cl1", {"a": "a", "b": "b"}, {"a/seed-1": "no."}).write(folder)

    def look(folder: Path) -> None:
        show(folder)
        comparison.ComparisonTable.read(folder).write_numbers()

    path = folder / comparison.FILE
    left = survivors(path, as_json(json.loads(path.read_text())), look, folder)
    check_survivors(path, left, folder)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "/", "/etc", "../compared", "a/../..", "a\\b", "C:x", "a\u0000b", "x" * 5000]
)
def test_a_comparison_of_what_lies_elsewhere_is_refused(tmp_path, name):
    Comparison("split-x", "cl1", {"a": name}).write(tmp_path)
    with pytest.raises(UsageError, match=r"is damaged: compare\.json .* is not the plain name of a folder\)\.$"):
        Comparison.read(tmp_path)


def test_runs_of_one_experiment_that_learned_different_tasks_are_not_averaged(make_record, tmp_path):
    for seed, names in enumerate((["a", "b"], ["a", "c"])):
        (tmp_path / f"seed-{seed}").mkdir()
        make_record(seed=seed, task_names=names).write(tmp_path / f"seed-{seed}")
    with pytest.raises(UsageError, match=r"^There are runs with the same settings and different tasks here"):
        show(tmp_path)
    assert len(gather([tmp_path])) == 2  # a report keeps them apart


@pytest.fixture
def sweep(tmp_path) -> Path:
    fixed = {"method.name": "hypernet", "training.held_out": 0.1}
    SweepRecord("split-digits", "", "held-out", "accuracy", 0, "s", "", "h", 5, fixed).write(tmp_path)
    settings = {"method.beta": 0.1, "method.hypernet.hidden": [10, 10]}
    trials = [
        Trial(0, "finished", 90.0, 5, 1.0, "trial-0000", "", settings),
        Trial(1, "pruned", float("nan"), 0, 1.0, "trial-0001", "slow", settings),
    ]
    write_trials(tmp_path, trials)
    return tmp_path


def test_a_sweep_with_anything_wrong_is_shown_or_refused(sweep):
    path = sweep / "sweep.json"
    assert survivors(path, as_json(json.loads(path.read_text())), show, sweep)


CELLS = [
    "",
    "x",
    "-1",
    "nan",
    "inf",
    "1e308",
    "1e400",
    "9" * 5000,
    "[" * 5000,
    "\x1b[31m",
    "²",
    "None",
    '"',
    "x" * 200_000,
]


@pytest.mark.parametrize("value", [None, [None], [0.1, None]])
def test_a_sweep_whose_fixed_settings_could_not_be_written_is_refused(sweep, value):
    path = sweep / "sweep.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "fixed": {"method.beta": value}}))
    with pytest.raises(UsageError, match="fixed holds what no setting can be"):
        SweepRecord.read(sweep)


def test_trials_with_anything_wrong_are_shown_or_refused(sweep):
    path = sweep / "trials.csv"
    header, *rows = (line.split(",") for line in path.read_text().splitlines())
    lines = [header, *rows]
    wrong = []
    for i, line in enumerate(lines):
        for j in range(len(line)):
            changed = [[*line[:j], cell, *line[j + 1 :]] for cell in CELLS] + [line[:j], line[:j] + line[j + 1 :]]
            wrong += [(f"{i}, {j}", [*lines[:i], new, *lines[i + 1 :]]) for new in changed]
        wrong += [(f"{i} longer", [*lines[:i], [*line, "more", "more"], *lines[i + 1 :]])]
    texts = [(how, "\n".join(",".join(line) for line in new)) for how, new in wrong]
    left = survivors(path, [*texts, ("empty", ""), ("blank", "\n\n"), ("NUL", "trial\0")], show, sweep)
    assert 10 < len(left) < len(texts)


def test_trials_that_are_no_file_are_refused(sweep):
    (sweep / "trials.csv").unlink()
    assert read_trials(sweep) == []
    (sweep / "trials.csv").mkdir()
    with pytest.raises(UsageError, match=r"is damaged: trials\.csv cannot be read \(it is a folder, not a file\)"):
        read_trials(sweep)


@pytest.mark.parametrize("name", ["task-x-right-after.png", "task--right-after.png", "task-²-right-after.png"])
def test_pictures_with_strange_names_are_no_samples(run, name):
    (run / samples.FOLDER).mkdir()
    (run / samples.FOLDER / name).write_bytes(b"junk")
    (run / samples.FOLDER / name.replace("right-after", "at-the-end")).write_bytes(b"junk")
    samples.check(run)
    assert samples.tasks_at_both_moments(run) == []


@pytest.mark.parametrize("name", ["x" * 5000, "seed-²"])
def test_a_folder_of_any_name_is_found_or_named(run, tmp_path, name):
    if len(name) > 255:
        with pytest.raises(UsageError, match="There is no folder xxx"):
            show(Path(name))
    else:
        run.rename(tmp_path / name)
        assert "some-preset" in show(tmp_path)


def test_a_finished_record_without_times_or_steps_is_shown(make_record, tmp_path):
    make_record(seconds={}, losses=[], config={"training": {"steps": 0}}).write(tmp_path)
    assert "· s training" in show(tmp_path)
    assert RunRecord.read(tmp_path).seconds == {}
    report(tmp_path)
