"""A report is one page that needs nothing else, says what the records say, and stays small."""

from __future__ import annotations

import html
import importlib.util
import json
import math
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest
from PIL import Image

from mnemon.errors import UsageError
from mnemon.results import figures
from mnemon.results.comparison import Comparison
from mnemon.results.figures import EmbeddingMap, PredictedCurve
from mnemon.results.groups import gather
from mnemon.results.report import write as report
from mnemon.results.report.write import write_report
from mnemon.results.verdict import Background

CONFIG = {
    "preset": "some-preset",
    "benchmark": {"name": "split-x"},
    "method": {"name": "hypernet", "beta": 0.01, "hidden": [10, 10]},
    "training": {"steps": 50, "scenario": "cl1"},
}


@pytest.fixture
def write(make_record, tmp_path) -> Callable[..., Path]:
    """Write a run folder with some facts changed."""

    def make(name: str, matrix=((90.0, None), (80.0, 95.0)), config=None, **changes) -> Path:
        folder = tmp_path / name
        folder.mkdir(parents=True)
        make_record(matrix, config={**CONFIG, **(config or {})}, **changes).write(folder)
        return folder

    return make


class Page(HTMLParser):
    """What a browser without JavaScript sees: the cells of tables by their caption, the text, links to elsewhere."""

    VOID = ("meta", "link", "img", "br")

    def __init__(self, path: Path):
        super().__init__()
        self.source = path.read_text(encoding="utf-8")
        self.tables: dict[str, list[list[str]]] = {}
        self.open: list[str] = []
        self.text, self.caption, self.outside = "", "", []
        self.charts: dict[str, dict] = {}
        self._chart = ""
        self.feed(self.source)
        assert self.open == [], "every tag is closed"

    def handle_starttag(self, tag, attrs):
        facts = dict(attrs)
        if tag not in self.VOID:
            self.open.append(tag)
        self._chart = facts.get("data-chart", "")
        self.outside += [v for k in ("src", "href") if (v := facts.get(k)) and not v.startswith(("data:", "#"))]
        if tag == "img":
            assert facts["alt"]
        if tag == "caption":
            self.caption = ""
        if tag == "tr":
            self.tables.setdefault(self.caption, []).append([])
        if tag in ("td", "th"):
            self.tables[self.caption][-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "script" in self.open:
            if self._chart:
                self.charts[self._chart] = json.loads(data)
        elif "style" not in self.open:
            self.text += data
            if "caption" in self.open:
                self.caption += data.strip()
            elif {"td", "th"} & set(self.open):
                self.tables[self.caption][-1][-1] += data

    def rows(self, caption: str) -> list[list[str]]:
        (found,) = [rows for name, rows in self.tables.items() if name.startswith(caption)]
        return [[" ".join(cell.split()) for cell in row] for row in found[1:]]


RUNS, VERDICTS = "Runs that differ only", "Mean over tasks after the last one"


def test_seeds_of_one_experiment_are_one_section_with_their_means(write, tmp_path):
    write("runs/seed-0", published="87 ± 1")
    write("runs/seed-1", ((94.0, None), (90.0, 97.0)), seed=1, published="87 ± 1")
    page = Page(write_report([tmp_path / "runs"]))
    assert page.rows(RUNS) == [
        ["some-preset", "some-preset", "hypernet", "cl1", "2", "0–1", "all", "2020-01-01 00:00"]
    ]
    ((*numbers, verdict),) = page.rows(VERDICTS)
    assert numbers == ["some-preset", "87 ± 1", "90.50 ± 3.00", "2", "+3.50"]
    assert verdict == "undecided: needs about 11 seeds 95 % interval of the difference: -34.67 to +41.67"
    assert page.rows("Accuracy (%) on each task") == [
        ["1: task 0", "92.00 ± 2.00", "85.00 ± 5.00", "-7.00 ± 3.00"],
        ["2: task 1", "96.00 ± 1.00", "96.00 ± 1.00", "0.00 ± 0.00"],
    ]
    metrics = {row[0]: row[1:] for row in page.rows("Metrics")}
    assert metrics["forgetting_avalanche"][0] == "7.00 ± 3.00"
    assert metrics["fwt_gem"][0] == "·"
    assert metrics["fwt_gem"][1].endswith("None here: the learner has no answer for a task before it is begun.")
    assert ["training step", "10 ± 0 ms"] in page.rows("Parameters and time")
    assert ["method.hidden", "10, 10"] in page.rows("Every setting")
    assert len(page.charts) == 5
    assert {chart["width"] for chart in page.charts.values()} == {"container"}


def test_costs_are_those_of_the_steps_that_were_made_and_of_all_that_is_kept(write, tmp_path):
    counts = {"learned": 1000, "per_task": 0, "bytes_per_task": 0, "target": 1000, "n_tasks": 2, "compression": 1.0}
    norms = {**counts, "per_task": 30, "bytes_per_task": 128, "sees_past": False}
    losses = [{"task": task, "step": 100, "task_loss": 0.5} for task in (0, 1)]
    write("runs/joint", preset="joint", counts={**counts, "sees_past": True})
    write("runs/norms", preset="norms", counts=norms, losses=losses)
    page = Page(write_report([tmp_path / "runs"]))
    assert [row[3:] for row in page.rows("Accuracy (%), mean over tasks")] == [
        ["1,000", "4.0 kB + data", "all data", "10"],
        ["1,060", "4.3 kB", "128 B", "5"],
    ]
    costs = dict(page.rows("Parameters and time"))  # of the last section
    assert costs["parameters stored after the last task"] == "1,060 (4.3 kB)"
    assert costs["kept of each task"] == "128 B"
    assert costs["training step"] == "5 ms"


AGAINST_BYTES = "at the end against the bytes stored for all tasks"


def test_accuracy_is_drawn_against_the_bytes_that_methods_keep(write, tmp_path):
    counts = {"learned": 1000, "per_task": 10, "target": 1000, "n_tasks": 2, "compression": 1.0}
    write("runs/small", preset="small", counts=counts)
    write("runs/large", preset="large", counts={**counts, "learned": 4000})
    write("runs/joint", preset="joint", counts={**counts, "sees_past": True})
    page = Page(write_report([tmp_path / "runs"]))
    assert AGAINST_BYTES in page.text
    (chart,) = (c for c in page.charts.values() if '"bytes kept"' in json.dumps(c))
    points = next(iter(chart["datasets"].values())) if "datasets" in chart else chart["data"]["values"]
    assert {(p["label"], p["x"]) for p in points} == {("small", 4080), ("large", 16080)}


def test_without_a_difference_in_bytes_nothing_is_drawn_against_them(write, tmp_path):
    for name in ("one", "other"):
        write(f"runs/{name}", preset=name)
    assert AGAINST_BYTES not in Page(write_report([tmp_path / "runs"])).text


def test_the_page_needs_nothing_else(write):
    page = Page(write_report([write("run")]))
    assert page.outside == []
    assert "default-src 'none'" in page.source
    assert page.source.count("vegaEmbed=") == 1
    assert len(page.source) < 1_200_000


def test_names_are_shown_as_they_are_and_never_run(write):
    evil = "</script><script>alert(1)</script>"
    page = Page(write_report([write("run", task_names=[evil, "b & <i>c</i>"], preset=evil, published="90")]))
    assert "<script>alert" not in page.source
    assert html.unescape(evil) in page.text


def test_experiments_on_the_same_tasks_stand_side_by_side(write, tmp_path):
    folders = [write(name, preset=name, published="") for name in ("one", "other")]
    folders.append(write("third", preset="third", config={"benchmark": {"name": "split-y"}}))
    page = Page(write_report(folders, tmp_path / "all.html"))
    assert re.findall(r">(Side by side: [^<]+)<", page.source) == ["Side by side: split-x, cl1"]
    assert [row[:3] for row in page.rows("Accuracy (%), mean over tasks")] == [
        ["one", "87.50", "92.50"],
        ["other", "87.50", "92.50"],
    ]
    assert "Nothing was published for these settings" in page.text
    assert len(page.charts) == 3 + 3 * 5


def test_a_comparison_keeps_its_labels_and_names_its_failures(write, tmp_path):
    Comparison("split-x", "cl1", {"mine:beta=1": "a", "b": "b"}, {"b/seed-0": "penalty became nan."}).write(tmp_path)
    write("a/seed-0")
    write("b/seed-0", ((90.0, None),), finished=False)
    page = Page(write_report([tmp_path]))
    assert [row[0] for row in page.rows(RUNS)] == ["mine:beta=1", "b"]
    assert "b, seed 0 failed: penalty became nan." in page.text
    assert page.rows(RUNS)[1][6] == "0 of 1"


def test_variants_of_one_preset_are_told_apart_and_a_seed_counts_once(write, tmp_path):
    write("r/a", config={"method": {"name": "hypernet", "beta": 0.1}})
    write("r/b", config={"method": {"name": "hypernet", "beta": 0.2}})
    write("r/c", config={"method": {"name": "hypernet", "beta": 0.2}})
    write("r/d", config={"method": {"name": "hypernet", "beta": 0.2}}, seed=1)
    (group,) = gather([tmp_path / "r", tmp_path / "r" / "a"])
    assert [(e.label, [r.seed for r in e.records]) for e in group.experiments] == [
        ("some-preset beta=0.1", [0]),
        ("some-preset beta=0.2", [0, 1]),
        ("some-preset beta=0.2 (c)", [0]),
    ]


def test_alarms_are_shown_on_top_and_where_they_belong(write):
    page = Page(write_report([write("run", alarms=["The penalty had no effect."])]))
    assert page.text.count("The penalty had no effect.") == 2


def test_a_run_that_has_just_begun_has_a_report(write):
    page = Page(write_report([write("run", (), finished=False, losses=[], seconds={}, published="90")]))
    assert page.charts == {}
    assert "not comparable no run is finished" in page.rows(VERDICTS)[0][-1]


def test_generated_images_are_in_the_page_unless_they_are_too_large(write, monkeypatch):
    folder = write("run", drift=[0.01, 0.02])
    (folder / "samples").mkdir()
    Image.new("L", (60, 20), 128).save(folder / "samples" / "sheet.png")
    page = Page(write_report([folder]))
    assert 'src="data:image/png;base64,iVBOR' in page.source
    assert ["replay drift", "0.02", "Mean squared, of the task with the largest drift."] in page.rows("Metrics")
    monkeypatch.setattr("mnemon.results.report.page.MOST_PICTURES", 10)
    page = Page(write_report([folder]))
    assert "data:image/png" not in page.source
    assert f"too large for this page, see {folder}/samples/sheet.png" in page.text


def test_generated_images_that_are_damaged_are_left_out(write):
    folder = write("run")
    (folder / "samples").mkdir()
    (folder / "samples" / "sheet.png").write_bytes(b"junk")
    page = Page(write_report([folder]))
    assert "data:image/png" not in page.source
    assert "Generated images" not in page.text


def test_side_by_side_it_is_said_how_often_the_task_was_inferred_right(write, tmp_path):
    both = {"training": {"steps": 50, "scenario": "cl3"}}
    told = [write(name, config={**both, "preset": name}, preset=name) for name in ("a", "b")]
    columns = Page(write_report(told, tmp_path / "told.html")).rows("Accuracy (%), mean over tasks")[0]
    inferred = write("c", config={**both, "preset": "c"}, preset="c", inferred=[[100.0, math.nan], [70.0, 90.0]])
    page = Page(write_report([*told, inferred], tmp_path / "inferred.html"))
    rows = page.rows("Accuracy (%), mean over tasks")
    assert [len(row) - len(columns) for row in rows] == [1, 1, 1]
    assert [row[3] for row in rows] == ["·", "·", "80.00"]


def test_a_vote_is_in_the_label(write):
    runs = [
        write("one", config={"method": {"name": "hypernet", "vote": 1}}),
        write("ten", config={"method": {"name": "hypernet", "vote": 10}}),
    ]
    (group,) = gather(runs)
    assert [experiment.label for experiment in group.experiments] == ["some-preset", "some-preset vote=10"]


def test_a_map_of_the_embedding_space_is_shown_with_its_numbers(write):
    folder = write("run")
    places = [i / 10 for i in range(61)]
    grid = [[10 * y + x for x in places] for y in places]
    EmbeddingMap(places, places, {"a": grid, "b": grid}, {"a": (0, 1), "b": (5, 6)}).write(folder)
    page = Page(write_report([folder]))
    assert page.rows("Accuracy (%) on a task (row)") == [["a", "10.0", "65.0"], ["b", "10.0", "65.0"]]
    assert "Drawn on 50 × 50 of 61 × 61 places." in page.text
    assert sum("chosen" in json.dumps(chart) for chart in page.charts.values()) == 1


def test_a_drift_that_was_not_measured_is_left_out_of_the_largest(write, tmp_path):
    write("runs/seed-0", drift=[float("nan"), 0.02, 0.01])
    write("runs/seed-1", drift=[0.04, float("nan")], seed=1)
    write("runs/seed-2", drift=[float("nan")], seed=2)
    page = Page(write_report([tmp_path / "runs"]))
    assert page.rows("Metrics")[-1][:2] == ["replay drift", "0.03 ± 0.01"]
    assert "replay drift" not in Page(write_report([tmp_path / "runs" / "seed-2"])).text


def test_predictions_of_curves_are_shown_when_there_are_some(write):
    folder = write("run", ((0.1, None), (0.2, 0.3)), metric="mse", seed=4)
    figures.write_curves(folder, [PredictedCurve("x+3", [0.0, 1.0], [3.0, 4.0], [3.0, 4.0])])
    assert len(Page(write_report([folder])).charts) == 5  # it is not finished
    figures.write_curves(folder, [PredictedCurve("x+3", [0.0, 1.0], [3.0, 4.0], [3.0, 4.0], [3.5, 4.0])])
    page = Page(write_report([folder]))
    assert len(page.charts) == 6
    assert "Predictions after the last task, and true values, seed 4." in page.text
    assert {chart["width"] for chart in page.charts.values()} == {"container"}


def against(page: Page) -> dict | None:
    return next((c for c in page.charts.values() if "against" in c["description"]), None)


def test_experiments_that_differ_in_one_number_are_drawn_against_it(write, tmp_path):
    for beta, published in ((0.01, "88 ± 1"), (1.0, ""), (0.1, "")):
        for seed in (0, 1):
            config = {"method": {"name": "hypernet", "beta": beta, "hidden": [10, 10]}}
            write(f"r/{beta}/{seed}", ((90.0 + seed, None), (80.0, 95.0)), config, seed=seed, published=published)
    chart = against(Page(write_report([tmp_path / "r"])))
    assert chart["description"] == "Accuracy (%) against method.beta, mean over tasks, with SEM over seeds"
    measured, published = chart["datasets"].values()
    found = [(row["label"], row["x"], row["mean"], row["sem"]) for row in measured]
    assert found[:3] == [("at the end", x, 87.5, 0) for x in (0.01, 0.1, 1)]
    assert found[3:] == [("right after each task", x, 92.75, 0.25) for x in (0.01, 0.1, 1)]
    assert [(row["x"], row["mean"]) for row in published] == [(0.01, 88)]
    assert '"type": "log"' in json.dumps(chart)


@pytest.mark.parametrize(
    "second",
    [
        {"method": {"name": "hypernet", "beta": 0.1}, "training": {"steps": 60, "scenario": "cl1"}},  # two settings
        {"method": {"name": "hypernet", "beta": "high"}},  # a word
        {"method": {"name": "hypernet", "beta": True}},
        {"method": {"name": "joint"}},
    ],
)
def test_experiments_that_differ_otherwise_are_not_drawn_against_a_setting(write, tmp_path, second):
    write("r/a", config={"method": {"name": "hypernet", "beta": 0.01}})
    write("r/b", config=second)
    assert against(Page(write_report([tmp_path / "r"]))) is None


def test_an_experiment_without_a_result_is_left_out_of_what_is_drawn_against_a_setting(write, tmp_path):
    for beta in (0.01, 0.1):
        write(f"r/{beta}", config={"method": {"name": "hypernet", "beta": beta}})
    write("r/c", ((90.0, None),), {"method": {"name": "joint"}}, finished=False)
    (points,) = against(Page(write_report([tmp_path / "r"])))["datasets"].values()
    assert {point["x"] for point in points} == {0.01, 0.1}


@pytest.mark.parametrize(
    ("background", "words"),
    [
        (
            Background(),
            "undecided: needs more than one seed the difference is -0.50, its interval is not known",
        ),
        (Background(20), "undecided: needs about 7 seeds 95 % interval of the difference: -1.51 to +0.51"),
        (Background(4), "undecided: needs about 4 seeds 95 % interval of the difference: -1.25 to +0.25"),
        (Background(20, "trained for longer"), "not comparable trained for longer"),
    ],
)
def test_a_single_seed_is_judged_by_the_published_spread_of_single_seeds(write, background, words):
    asked = []
    page = Page(
        write_report([write("run", published="88 ± 0.1")], None, lambda name: asked.append(name) or background)
    )
    assert page.rows(VERDICTS)[0][-1] == words
    assert asked == ["some-preset"]


def test_where_neither_has_a_spread_it_is_said(write):
    page = Page(write_report([write("run", published="88")], None, lambda name: Background(20)))
    verdict = "undecided: needs more than one seed the difference is -0.50, its interval is not known"
    assert page.rows(VERDICTS)[0][-1] == verdict


def test_hundreds_of_runs_make_a_page_of_bounded_size(write, tmp_path):
    for i in range(65):
        for seed in range(4):
            write(f"runs/{i}/seed-{seed}", config={"method": {"name": "hypernet", "beta": float(i)}}, seed=seed)
    page = Page(write_report([tmp_path / "runs"]))
    assert len(page.rows(RUNS)) == 65
    assert len(page.charts) == 4 + report.MOST_DRAWN * 5
    assert "Figures are drawn for the first 12 of 65 experiments; 60 have their tables" in page.text
    assert "Lines are drawn for the first 8 of 65 experiments." in page.text
    assert page.source.count('class="experiment"') == report.MOST_DETAILED
    assert len(page.source) < 3_000_000


def test_many_tasks_are_folded_away(write):
    rows = [[90.0 if j <= i else None for j in range(100)] for i in range(100)]
    page = Page(write_report([write("run", rows)]))
    assert "Accuracy (%) on each task (100 rows)" in page.text
    assert "(some of 100 tasks)" in page.text
    assert len(page.source) < 1_400_000


def test_errors_are_reported_in_their_own_unit(write):
    errors = {"metric": "mse", "published": "mse 0.1, 0.2 (seed 42)"}
    page = Page(write_report([write("run", ((0.1, None), (0.2, 0.3)), **errors)], None, lambda name: Background(1)))
    assert page.rows("Mean squared error on each task")[0] == ["1: task 0", "0.1000", "0.2000", "0.1000"]
    assert "<h3>Mean squared error</h3>" in page.source
    assert page.rows(f"{VERDICTS}, mean squared error.") == [
        [
            "some-preset", "mse 0.1, 0.2 (seed 42)", "0.2500", "1", "+0.1000",
            "undecided: needs more than one seed the difference is +0.1000, its interval is not known",
        ]
    ]  # fmt: skip


def test_the_verdicts_name_all_that_was_measured(write, tmp_path):
    write("runs/one", published="90")
    write("runs/other", preset="other", metric="mse", published="mse 0.1, 0.2")
    page = Page(write_report([tmp_path / "runs"]))
    assert len(page.rows(f"{VERDICTS}, accuracy (%) and mean squared error. Above, below: there is")) == 2
    assert "<h3>Accuracy (%)</h3>" in page.source


# Where it goes, and what is refused


def test_the_page_goes_where_it_is_told(write, tmp_path, monkeypatch):
    one, other = write("one"), write("other", preset="other")
    monkeypatch.chdir(tmp_path)
    assert write_report([one]) == one / "report.html"
    assert write_report([one, other]) == Path("report.html")
    assert write_report([one], tmp_path / "mine.html") == tmp_path / "mine.html"
    assert write_report([one], other) == other / "report.html"


@pytest.mark.parametrize(
    ("out", "said"),
    [
        ("page.txt", r"^A report is an HTML file: --out must be a folder or end in \.html, not .*page\.txt\.$"),
        ("none/page.html", r"^There is no folder .*none for page\.html\.$"),
    ],
)
def test_a_bad_place_is_named(write, tmp_path, out, said):
    with pytest.raises(UsageError, match=said):
        write_report([write("run")], tmp_path / out)


def test_what_holds_no_run_is_named(write, tmp_path):
    with pytest.raises(UsageError, match=r"^Name the folder of a run, of several seeds or of a comparison"):
        write_report([])
    with pytest.raises(UsageError, match=rf"^There is no folder {tmp_path}/none\.$"):
        write_report([tmp_path / "none"])
    with pytest.raises(UsageError, match=rf"^{tmp_path} holds no run: there is no record\.json in it or below it\.$"):
        write_report([tmp_path])
    folder = write("run")
    facts = json.loads((folder / "record.json").read_text())
    (folder / "record.json").write_text(json.dumps({**facts, "format": 99}))
    with pytest.raises(
        UsageError, match=r"has format 99 and was written by a newer mnemon; this one reads format \d\.$"
    ):
        write_report([folder])


def test_missing_packages_are_named(write, monkeypatch):
    folder = write("run")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "jinja2" else name)
    with pytest.raises(
        UsageError, match=r"^A report needs more packages \(jinja2\): pip install 'mnemon\[report\]'\.$"
    ):
        write_report([folder])


def test_the_templates_are_part_of_the_package():
    assert sorted(path.name for path in report.TEMPLATES.iterdir()) == ["report.css", "report.html", "report.js"]
