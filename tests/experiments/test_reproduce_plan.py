"""From recipes to runs and back: each run once, what is there is not run again, and what came out is judged."""

from __future__ import annotations

import csv
import itertools
import json
import sys
from pathlib import Path

import pytest

from mnemon.benchmarks.split import SplitDigits
from mnemon.errors import DataError, UsageError
from mnemon.experiments.artifacts.embedding_maps import map_of
from mnemon.experiments.compute import Compute
from mnemon.experiments.job import Job, RunContext
from mnemon.experiments.preset import load_preset
from mnemon.experiments.reproduce import document, figures, outcome, recipe
from mnemon.experiments.reproduce.plan import lines, make_folders, make_plan, missing_data, wanted
from mnemon.experiments.reproduce.recipe import PAPER, SHORT, SMOKE, load
from mnemon.experiments.reproduce.run_index import key_of, look
from mnemon.experiments.run import execute, load_run
from mnemon.experiments.run_config import from_record, resolve
from mnemon.experiments.study import run_jobs
from mnemon.results.figures import EmbeddingMap, read_curves
from mnemon.results.record import RECORD, RunRecord
from mnemon.training import checkpoint
from mnemon.training.trainer import Stopped

PLACE = Compute("cpu")
PRESET = 'preset = "split-digits"'
TINY = '"n_tasks=2", "target.hidden=[8]", "chunk=200", "steps=6"'
RECIPES = {
    "budgets": """
        [smoke.split-digits]
        settings = ["steps=4"]
        cost = "1 s"
    """,
    "one": f"""
        about = "One."
        where = "Here"
        figure = "tasks"
        metrics = ["final", "during"]
        seeds.paper = 3
        cells = [
          {{ row = "a", column = "HNET", {PRESET}, settings = [{TINY}], published = "95 ± 20 (during 95 ± 20)" }},
          {{ row = "b", column = "HNET", {PRESET}, settings = [{TINY}, "beta=0"], smoke = "left out" }},
          {{ row = "c", column = "later", preset = "cifar-to-come" }},
        ]
    """,
    "other": """
        about = "The same run as another recipe's, differently spelt, and a strength."
        where = "There"
        figure = "against"
        against = "beta"
        [[grids]]
        column = "HNET"
        preset = "split-digits"
        setting = "method.beta"
        settings = ["training.steps=6", "n_tasks=2", "target.hidden=[8]", "chunk=200"]
        values = [0.1, 1.0]
    """,
    "map": f"""
        about = "A map."
        where = "Elsewhere"
        figure = "embeddings"
        cells = [{{ column = "2-D", preset = "split-digits", settings = [{TINY}, "embedding_size=2"] }}]
    """,
}


@pytest.fixture
def recipes(tmp_path, monkeypatch) -> Path:
    """Recipes of runs that take a blink, and small maps."""
    monkeypatch.setattr(figures, "SIDE", 3)
    folder = tmp_path / "recipes"
    folder.mkdir()
    for name, text in RECIPES.items():
        (folder / f"{name}.toml").write_text("\n".join(line.strip() for line in text.splitlines()))
    monkeypatch.setattr(recipe, "FOLDER", folder)
    return folder


def planned(out: Path, *names: str, budget: str = PAPER, seeds: int | None = 1, also: tuple = ()):
    return make_plan(wanted([load(name) for name in names], budget), seeds, out, look(out, also))


def ran(out: Path, *names: str, should_stop=lambda: False, **options):
    plan = planned(out, *names, **options)
    make_folders(plan.jobs)
    run_jobs(plan.jobs, RunContext(PLACE, should_stop=should_stop))
    return plan


def result_of(folder: Path) -> tuple:
    return {k: v.numpy().tobytes() for k, v in checkpoint.load(folder)[0].items()}, RunRecord.read(folder).matrix


def all_lines(out: Path, name: str, budget: str = PAPER, also: tuple = ()) -> list:
    index = look(out, also)
    return [line for one in wanted([load(name)], budget) for line in lines(one, index)]


def test_what_several_recipes_need_is_run_once(recipes, tmp_path):
    plan = planned(tmp_path / "out", "one", "other")
    assert [job.folder.parent.name for job in plan.jobs] == [
        "split-digits+n_tasks=2+target.hidden=8+chunk=200+steps=6",
        "split-digits+n_tasks=2+target.hidden=8+chunk=200+steps=6+beta=0",
        "split-digits+training.steps=6+n_tasks=2+target.hidden=8+chunk=200+method.beta=1",
    ]
    assert len({key_of(job.config) for job in plan.jobs}) == 3


def test_all_cells_of_a_seed_come_before_the_next_seed(recipes, tmp_path):
    assert [job.seed for job in planned(tmp_path, "one", seeds=None).jobs] == [0, 0, 1, 1, 2, 2]
    assert [job.seed for job in planned(tmp_path, "one", seeds=2).jobs] == [0, 0, 1, 1]
    assert [job.seed for job in planned(tmp_path, "one", seeds=None, budget=SMOKE).jobs] == [0]


def test_what_is_done_is_not_run_again_and_what_was_stopped_goes_on(recipes, tmp_path):
    ran(tmp_path / "whole", "one")
    calls = itertools.count(1)
    with pytest.raises(Stopped):
        ran(tmp_path / "out", "one", should_stop=lambda: next(calls) == 20)
    plan = ran(tmp_path / "out", "one")
    assert (plan.n_done, plan.n_begun, len(plan.jobs)) == (1, 1, 1)
    again = planned(tmp_path / "out", "one", "other")
    assert (again.n_done, [job.folder.name for job in again.jobs]) == (2, ["seed-0"])
    for folder in sorted(path.parent for path in (tmp_path / "whole").rglob(RECORD)):
        assert result_of(tmp_path / "out" / folder.relative_to(tmp_path / "whole")) == result_of(folder)


def test_runs_without_data_are_left_out_and_those_that_are_there_count(recipes, tmp_path, monkeypatch):
    def without_images(*arguments):
        raise DataError("no images")

    ran(tmp_path / "out", "map")
    plan = planned(tmp_path / "out", "one", "other", "map")
    assert missing_data(plan.jobs, PLACE) == {}
    monkeypatch.setattr(SplitDigits, "build", without_images)
    assert missing_data(plan.jobs, PLACE) == {"split-digits": "no images"}
    cells = wanted([load(name) for name in ("one", "other", "map")], PAPER)
    index = look(tmp_path / "out")
    less = make_plan(cells, 1, tmp_path / "out", index, {"split-digits"})
    assert (less.jobs, less.n_done, less.seconds) == ([], 1, 0.0)
    assert [(one.recipe.name, one.cell.row) for one in less.skipped] == [
        ("one", "a"), ("one", "b"), ("other", "beta 0.1"), ("other", "beta 1"),
    ]  # fmt: skip
    assert [less.can_show(load(name), index) for name in ("one", "other", "map")] == [False, False, True]
    assert planned(tmp_path / "out", "one").skipped == []


def test_runs_made_elsewhere_count_under_whatever_name_and_are_left_alone(recipes, tmp_path):
    config = resolve(
        load_preset("split-digits"), ["steps=6", "n_tasks=2", "target.hidden=[8]", "chunk=200", "log_every=2"]
    )
    for seed, name in ((4, "mine"), (5, "stopped")):
        (tmp_path / "also" / name).mkdir(parents=True)
        stop = itertools.count(1)
        try:
            execute(
                Job(0, config, seed, tmp_path / "also" / name),
                RunContext(PLACE, should_stop=lambda: seed == 5 and next(stop) == 3),  # noqa: B023
            )
        except Stopped:
            assert seed == 5
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "also").rglob("*")}
    plan = planned(tmp_path / "out", "one", seeds=6, also=(tmp_path / "also",))
    assert plan.n_done == 1
    assert [job.seed for job in plan.jobs if "beta" not in job.folder.parent.name] == [0, 1, 2, 3, 5]
    assert all(tmp_path / "out" in job.folder.parents for job in plan.jobs)
    first = all_lines(tmp_path / "out", "one", also=(tmp_path / "also",))[0]
    assert first.seeds == (4,)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "also").rglob("*")} == before


def test_a_folder_whose_run_has_other_settings_is_refused(recipes, tmp_path):
    ran(tmp_path / "out", "one")
    (recipes / "one.toml").write_text((recipes / "one.toml").read_text().replace("steps=6", "steps=7"))
    recipe._read.cache_clear()
    recipe._load.cache_clear()
    folder = tmp_path / "out" / "runs" / "split-digits+n_tasks=2+target.hidden=8+chunk=200+steps=7" / "seed-0"
    folder.parent.mkdir()
    (tmp_path / "out" / "runs" / "split-digits+n_tasks=2+target.hidden=8+chunk=200+steps=6" / "seed-0").rename(folder)
    with pytest.raises(UsageError) as error:
        planned(tmp_path / "out", "one")
    assert str(error.value) == (
        f"{folder} holds a run with other settings than the recipe has now: training.steps (6 and 7) (there and "
        "now). Choose another --out, or move that folder away."
    )


def test_a_record_of_a_newer_version_is_named(recipes, tmp_path):
    ran(tmp_path / "out", "map")
    path = next((tmp_path / "out").rglob(RECORD))
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 99}))
    with pytest.raises(UsageError, match=r"^The record in .* has format 99 and was written by a newer mnemon"):
        look(tmp_path / "out")


def test_a_run_with_settings_of_another_version_does_not_count(recipes, tmp_path):
    ran(tmp_path / "out", "map")
    path = next((tmp_path / "out").rglob("config.toml"))
    path.write_text(path.read_text().replace("[training]", "[training]\nmagic = 3"))
    index = look(tmp_path / "out")
    assert index.strange == [path.parent]
    assert not index.finished


def test_a_folder_without_runs_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"holds no run: there is no record\.json in it or below it\."):
        look(tmp_path / "out", [tmp_path])


# What came out


def test_a_cell_is_judged_if_it_was_run_as_in_the_paper(recipes, tmp_path):
    ran(tmp_path / "out", "one", seeds=2)
    found = all_lines(tmp_path / "out", "one")
    assert [(line.row, line.metric) for line in found[:2]] == [("a", "final"), ("a", "during")]
    assert [line.verdict for line in found] == ["within 69.28 of published"] * 2 + ["no number published"] * 2 + [
        "waiting for a preset: cifar-to-come"
    ] * 2
    records = look(tmp_path / "out").records(wanted([load("one")], PAPER)[0].key)
    assert found[0].values == tuple(record.accuracy.final.value for record in records)
    assert found[0].seeds == (0, 1)


def test_another_protocol_is_not_compared_and_says_in_what_it_differs(recipes, tmp_path):
    (recipes / "one.toml").write_text(
        (recipes / "one.toml")
        .read_text()
        .replace('"steps=6"]', '"chunk=200"], smoke = { settings = ["steps=4", "n_tasks=3"] }', 1)
    )
    recipe._read.cache_clear()
    recipe._load.cache_clear()
    ran(tmp_path / "out", "one", budget=SMOKE)
    found = all_lines(tmp_path / "out", "one", budget=SMOKE)
    assert found[0].verdict == "not comparable: other protocol"
    assert found[0].detail == "training.steps (4 and 300)"
    assert [line.verdict for line in all_lines(tmp_path / "out", "one")][:2] == ["not run", "not run"]


def written(out: Path, *names: str, budget: str = PAPER) -> tuple[str, list[str]]:
    from rich.console import Console

    found = [load(name) for name in names]
    result = outcome.write(found, wanted(found, budget), look(out), out, PLACE)
    with Console(width=100).capture() as captured, Console(width=100) as console:
        console.print(result)
    return captured.get(), list(result.remarks)


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_every_recipe_has_its_table_its_numbers_and_its_figure(recipes, tmp_path):
    out = tmp_path / "out"
    ran(out, "one", "other", "map")
    _, remarks = written(out, "one", "other", "map")
    assert remarks == []
    assert {path.name for path in (out / "one").iterdir()} == {"cells.csv", "table.txt", "tasks.csv", "tasks.svg"}
    assert {path.name for path in (out / "other").iterdir()} == {
        "cells.csv",
        "table.txt",
        "points.csv",
        "against.svg",
    }
    assert {path.name for path in (out / "map").iterdir()} == {
        "cells.csv", "table.txt", "map.csv", "embeddings.csv", "task-1.svg", "task-2.svg",
    }  # fmt: skip
    assert rows_of(out / "one" / "cells.csv")[0]["verdict"].startswith("undecided: needs about ")
    assert [(row["label"], row["task"]) for row in rows_of(out / "one" / "tasks.csv")] == [
        ("a HNET", "1"), ("a HNET", "2"), ("b HNET", "1"), ("b HNET", "2"),
    ]  # fmt: skip
    assert [float(row["x"]) for row in rows_of(out / "other" / "points.csv")] == [0.1, 1.0]
    assert [row["published"] for row in rows_of(out / "other" / "points.csv")] == ["", ""]
    assert "a HNET during" in (out / "one" / "table.txt").read_text()


@pytest.mark.parametrize(("budget", "more"), [(PAPER, ""), (SMOKE, "; all else: budget smoke")])
def test_published_numbers_are_drawn_beside_what_came_out(recipes, tmp_path, monkeypatch, budget, more):
    drawn = {}
    monkeypatch.setattr(figures.figures, "save", lambda chart, path: drawn.update({path.name: chart.to_dict()}))
    number = 'published = "50 ± 4"\nvalues ='
    (recipes / "other.toml").write_text((recipes / "other.toml").read_text().replace("values =", number))
    recipe._read.cache_clear()
    recipe._load.cache_clear()
    ran(tmp_path / "out", "one", "other", budget=budget)
    written(tmp_path / "out", "one", "other", budget=budget)
    tasks, against = drawn["tasks.svg"], drawn["against.svg"]
    assert [(m["label"], m["mean"], m["sem"]) for m in list(tasks["datasets"].values())[-1]] == [
        ("a HNET", 95, 20),
        ("a HNET, right after", 95, 20),
    ]
    assert tasks["title"] == f"dashed, with a hollow mark: published mean{more}"
    assert [(m["x"], m["mean"], m["sem"]) for m in list(against["datasets"].values())[-1]] == [
        (0.1, 50, 4),
        (1, 50, 4),
    ]
    assert against["title"] == f"hollow diamonds: published{more}"
    assert [row["published"] for row in rows_of(tmp_path / "out" / "other" / "points.csv")] == ["50.0", "50.0"]


def test_without_the_packages_for_figures_there_are_tables_and_one_hint(recipes, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "altair", None)
    out = tmp_path / "out"
    ran(out, "one", "other")
    _, remarks = written(out, "one", "other")
    assert remarks == ["Figures need more packages (altair): pip install 'mnemon[report]'."]
    assert {path.name for path in (out / "one").iterdir()} == {"cells.csv", "table.txt", "tasks.csv"}


def test_a_map_says_what_each_place_of_the_embedding_space_is_worth(recipes, tmp_path):
    folder = ran(tmp_path / "out", "map").jobs[0].folder
    space = map_of(folder, PLACE, 3)
    assert list(space.accuracy) == ["0,1", "2,3"] == list(space.embeddings)
    _, stream, learner = load_run(folder, PLACE)
    for task_id, task in enumerate(stream.tasks):
        assert space.embeddings[task.name] == pytest.approx(learner.memory.embeddings[task_id].tolist())
        inputs, targets = task.test.batch(slice(None))
        for (i, y), (j, x) in itertools.product(enumerate(space.ys), enumerate(space.xs)):
            weights = learner.memory.hypernet.padded(learner.memory.embeddings[0].new_tensor([x, y]))
            outputs = learner.memory.run(task_id, inputs, training=False, weights=weights)
            right = 100 * float((outputs.argmax(1) == targets).float().mean())
            assert space.accuracy[task.name][i][j] == pytest.approx(right)
    assert space.xs[0] < min(x for x, _ in space.embeddings.values())
    assert space.xs[-1] > max(x for x, _ in space.embeddings.values())


def test_a_map_is_made_once_and_kept_in_the_run_folder(recipes, tmp_path):
    folder = ran(tmp_path / "out", "map").jobs[0].folder
    written(tmp_path / "out", "map")
    assert EmbeddingMap.read(folder) is not None
    stamp = (folder / "embedding-map.json").stat().st_mtime_ns
    written(tmp_path / "out", "map")
    assert (folder / "embedding-map.json").stat().st_mtime_ns == stamp


def test_a_map_may_be_made_on_some_of_the_test_examples(recipes, tmp_path):
    folder = ran(tmp_path / "out", "map").jobs[0].folder
    _, stream, _ = load_run(folder, PLACE)
    n = len(stream.tasks[0].test)
    whole, same, some = (map_of(folder, PLACE, 3, most).accuracy["0,1"] for most in (None, n, 10))
    assert whole == same != some
    assert all(value % 10 == pytest.approx(0, abs=1e-4) for row in some for value in row)  # of ten examples


def test_a_run_without_embeddings_of_two_numbers_has_no_map(recipes, tmp_path):
    folder = ran(tmp_path / "out", "one").jobs[0].folder
    with pytest.raises(UsageError, match=r"has no task embeddings of two numbers, to draw a map of\.$"):
        map_of(folder, PLACE, 3)


def test_a_run_whose_checkpoint_is_gone_has_no_map_and_the_table_is_there_all_the_same(recipes, tmp_path):
    folder = ran(tmp_path / "out", "map").jobs[0].folder
    (folder / checkpoint.FILE).unlink()
    _, remarks = written(tmp_path / "out", "map")
    assert remarks == [f"There is no checkpoint.safetensors in {folder}, which is needed to map its embeddings."]
    assert (tmp_path / "out" / "map" / "table.txt").exists()


def test_a_regression_keeps_its_predictions_of_both_moments(tmp_path):
    config = resolve(load_preset("toy"), ["steps=20", "n_test=10"])
    stops = itertools.count(1)
    with pytest.raises(Stopped):
        execute(Job(0, config, 0, tmp_path), RunContext(PLACE, should_stop=lambda: next(stops) == 30))
    record = execute(Job(0, from_record(RunRecord.read(tmp_path)), 0, tmp_path), RunContext(PLACE))
    curves = read_curves(tmp_path)
    assert [curve.name for curve in curves] == record.task_names
    for j, curve in enumerate(curves):
        for row, predicted in ((j, curve.right_after), (-1, curve.at_the_end)):
            error = sum((a - b) ** 2 for a, b in zip(predicted, curve.truth, strict=True)) / 10
            assert error == pytest.approx(record.matrix[row][j], rel=1e-4)


def test_damaged_predictions_are_named(tmp_path):
    short = {"name": "a", "x": [0.0, 1.0], "truth": [0.0, 1.0], "right_after": [0.5]}
    for facts, why in (([3], ".*"), ([short], "task 'a' has 2 inputs and 1 values")):
        (tmp_path / "predictions.json").write_text(json.dumps(facts))
        with pytest.raises(UsageError, match=rf"predictions\.json holds no predictions \({why}\): delete it\.$"):
            read_curves(tmp_path)


# The document


def test_the_document_has_what_was_run_and_names_what_was_not(recipes, tmp_path):
    out = tmp_path / "out"
    ran(out, "one", seeds=2)
    said = document.write(tmp_path / "it.md", [load(name) for name in ("one", "other", "map")], look(out), None)
    assert said == "2 within the margin, 2 no number published"  # the third such line is a run that another has
    text = (tmp_path / "it.md").read_text()
    assert "from 4 runs that were begun" in text
    assert "| 0, 1 |" in text
    assert "| paper | within 69.28 of published |" in text
    assert "No record here: method.beta" not in text
    assert "\nNo record here: beta 1 HNET.\n" in text
    assert "\nNo record here: 2-D.\n" in text
    assert "\nWaiting for presets: cifar-to-come.\n" in text


def test_a_document_of_nothing_is_refused(recipes, tmp_path):
    with pytest.raises(
        UsageError, match=r"^There is no finished run of these recipes here: run them first, or name a"
    ):
        document.write(tmp_path / "it.md", [load("one")], look(tmp_path / "out"), SHORT)
    assert not (tmp_path / "it.md").exists()
