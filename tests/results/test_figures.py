"""Figures show the numbers of the records, tell series apart without colour, and can be saved."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator

import pytest

from mnemon.errors import UsageError
from mnemon.results import figures
from mnemon.results.figures import EmbeddingMap, Point, PredictedCurve, Series
from mnemon.results.figures.style import COLOURS, pick_evenly
from mnemon.results.published import Published


def parts(spec: dict) -> Iterator[dict]:
    """Give a chart and all charts within it."""
    yield spec
    for key in ("layer", "vconcat"):
        for part in spec.get(key, []):
            yield from parts(part)


def data_of(chart) -> list[list[dict]]:
    """Return the rows of each data set that a chart draws."""
    return list(chart.to_dict()["datasets"].values())


def marks_of(chart) -> list[str]:
    return [part["mark"]["type"] for part in parts(chart.to_dict()) if "mark" in part]


@pytest.fixture
def seeds(make_record):
    return [
        make_record(published="86 ± 1"),
        make_record(((94.0, 20.0), (90.0, 97.0)), seed=1, published="86 ± 1"),
    ]


def test_the_matrix_has_a_cell_for_each_measured_value(seeds):
    (cells,) = data_of(figures.accuracy_matrix(seeds))
    found = {(cell["after"], cell["task"]): (cell["mean"], cell["sem"], cell["n"]) for cell in cells}
    assert found == {(1, 1): (92, 2, 2), (1, 2): (20, None, 1), (2, 1): (85, 5, 2), (2, 2): (96, 1, 2)}
    assert marks_of(figures.accuracy_matrix(seeds)) == ["rect", "text"]


def test_a_large_matrix_is_drawn_in_part_and_without_numbers(make_record):
    rows = [[float(j) if j <= i else None for j in range(100)] for i in range(100)]
    chart = figures.accuracy_matrix([make_record(rows)])
    (cells,) = data_of(chart)
    tasks = sorted({cell["task"] for cell in cells})
    assert (tasks[0], tasks[-1], len(tasks)) == (1, 100, 40)
    assert marks_of(chart) == ["rect"]


def test_each_task_is_drawn_right_after_and_at_the_end(seeds):
    points, reference = data_of(figures.per_task(seeds))
    assert [(p["task"], p["label"], p["mean"], p["low"], p["high"]) for p in points] == [
        (1, "right after", 92, 90, 94),
        (1, "at the end", 85, 80, 90),
        (2, "right after", 96, 95, 97),
        (2, "at the end", 96, 95, 97),
    ]
    assert reference == [{"mean": 86, "text": "published mean 86 ± 1"}]


def test_without_a_published_number_there_is_no_reference(make_record):
    assert len(data_of(figures.per_task([make_record()]))) == 1
    assert len(data_of(figures.average_so_far({"": [make_record()]}))) == 1


def test_tasks_over_time_begin_when_they_are_learned(seeds):
    (points,) = data_of(figures.tasks_over_time(seeds))
    assert [(p["label"], p["after"], p["mean"]) for p in points] == [
        ("1: task 0", 1, 92),
        ("1: task 0", 2, 85),
        ("2: task 1", 2, 96),
    ]
    (first,) = data_of(figures.tasks_over_time(seeds, tasks=[0]))
    assert [p["after"] for p in first] == [1, 2]


def test_the_average_so_far_of_each_group_and_what_was_published(seeds, make_record):
    points, marks = data_of(figures.average_so_far({"one": seeds, "other": [make_record()]}))
    assert [(p["label"], p["after"], p["mean"]) for p in points] == [
        ("one", 1, 92),
        ("one", 2, 90.5),
        ("other", 1, 90),
        ("other", 2, 87.5),
    ]
    assert [(m["label"], m["after"], m["mean"], m["low"], m["high"]) for m in marks] == [("one", 2, 86, 85, 87)]


def test_methods_are_compared_at_the_end_and_on_each_task(seeds, make_record):
    groups = {"one": seeds, "other": [make_record()]}
    points, marks = data_of(figures.methods_at_the_end(groups))
    assert [(p["label"], p["mean"], p["sem"], p["n"]) for p in points] == [
        ("one", 90.5, 3, 2),
        ("other", 87.5, None, 1),
    ]
    assert [(m["label"], m["mean"]) for m in marks] == [("one", 86)]
    tasks, marks = data_of(figures.methods_per_task(groups))
    assert [(p["label"], p["task"], p["mean"]) for p in tasks] == [
        ("one", 1, 85),
        ("one", 2, 96),
        ("other", 1, 80),
        ("other", 2, 95),
    ]
    assert [(m["label"], m["mean"], m["sem"]) for m in marks] == [("one", 86, 1)]


def test_published_means_are_lines_whose_ends_have_the_shapes_of_the_methods(seeds, make_record):
    groups = {"one": seeds, "other": [make_record()]}
    chart = figures.methods_per_task(groups, {"other": Published(70.0)})
    _, marks = data_of(chart)
    assert [(m["label"], m["mean"], m["sem"]) for m in marks] == [("other", 70, None)]
    assert marks_of(chart) == ["line", "rule", "point", "rule", "point"]
    rule, end = list(parts(chart.to_dict()))[-2:]
    assert rule["encoding"]["tooltip"][1] == {
        "field": "mean",
        "title": "published mean over tasks",
        "type": "quantitative",
    }
    assert end["encoding"]["shape"]["scale"]["domain"] == ["one", "other"]
    assert chart.to_dict()["title"] == "dashed, with a hollow mark: published mean"
    assert marks_of(figures.methods_per_task(groups, {})) == ["line", "rule", "point"]


def test_loss_terms_run_through_all_tasks(make_record):
    losses = [{"task": t, "step": s, "task_loss": 0.5 - s / 1000, **({"penalty": 0.1} if t else {})}
              for t in (0, 1) for s in (50, 100)]  # fmt: skip
    records = [make_record(losses=losses), make_record(losses=[{**e, "task_loss": 0.1} for e in losses], seed=1)]
    assert figures.terms_of(records) == ["task_loss", "penalty"]
    points, begins = sorted(data_of(figures.loss_term(records, "task_loss")), key=len, reverse=True)
    assert [(p["step"], p["task"], p["mean"]) for p in points] == [
        (50, 1, 0.275),
        (100, 1, 0.25),
        (150, 2, 0.275),
        (200, 2, 0.25),
    ]
    assert begins == [{"step": 100}]
    assert marks_of(figures.loss_terms(records)).count("line") == 2
    with pytest.raises(UsageError, match=r"Unknown loss term 'penality'\. Did you mean 'penalty'\?"):
        figures.loss_term(records, "penality")


def test_each_task_begins_where_the_one_before_it_ended(make_record):
    steps = [(0, 50), (0, 63), (1, 50), (1, 137), (2, 20)]  # by epochs: each has as many as its data ask for
    losses = [{"task": task, "step": step, "task_loss": 0.5} for task, step in steps]
    names = ["a", "b", "c", "not begun"]
    chart = figures.loss_term([make_record((), task_names=names, losses=losses, finished=False)], "task_loss")
    points, begins = sorted(data_of(chart), key=len, reverse=True)
    assert [(p["task"], p["step"]) for p in points] == [(1, 50), (1, 63), (2, 113), (2, 200), (3, 220)]
    assert begins == [{"step": 63}, {"step": 200}]


def test_long_curves_are_averaged_and_say_so(make_record):
    losses = [{"task": 0, "step": s, "task_loss": float(s % 2)} for s in range(1, 901)]
    chart = figures.loss_term([make_record(losses=losses)], "task_loss")
    points = max(data_of(chart), key=len)
    assert len(points) == 300
    assert points[0]["mean"] == pytest.approx(2 / 3, abs=1e-4)
    assert "step (means of 3 entries)" in json.dumps(chart.to_dict())


def test_terms_over_many_decades_have_a_logarithmic_axis(make_record):
    losses = [{"task": 0, "step": s, "task_loss": 10.0**-s if s < 5 else 0.0} for s in range(1, 6)]
    text = json.dumps(figures.loss_term([make_record(losses=losses)], "task_loss").to_dict())
    assert '"type": "log"' in text
    assert "zeros are not drawn" in text


def test_unlike_runs_are_not_drawn_as_one(make_record):
    with pytest.raises(UsageError, match="runs of different experiments here"):
        figures.per_task([make_record(), make_record(preset="another", seed=1)])


@pytest.mark.parametrize("name", ["per_task", "accuracy_matrix", "tasks_over_time", "loss_terms"])
def test_a_run_that_has_not_learned_a_task_yet_can_be_drawn(make_record, name):
    getattr(figures, name)([make_record((), losses=[], finished=False)]).to_dict()


def test_errors_have_their_own_unit(make_record):
    assert "Mean squared error" in json.dumps(figures.per_task([make_record(metric="mse")]).to_dict())


def test_no_two_colours_are_alike_for_the_colour_blind():
    """The distance of each two colours as seen with red-green blindness (Viénot et al., 1999)."""

    def seen(colour: str) -> tuple[float, ...]:
        r, g, b = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
        return (0.29 * r + 0.71 * g, 0.29 * r + 0.71 * g, b)

    distances = [math.dist(seen(a), seen(b)) for i, a in enumerate(COLOURS) for b in COLOURS[:i]]
    assert min(distances) > 20


@pytest.mark.parametrize(
    ("n", "shown"), [(3, [0, 1, 2]), (5, [0, 1, 2, 3, 4]), (9, [0, 2, 4, 6, 8]), (100, [0, 25, 50, 74, 99])]
)
def test_of_many_some_are_taken_evenly(n, shown):
    assert pick_evenly(n, 5) == shown


# Figures of plain data


@pytest.fixture
def space() -> EmbeddingMap:
    grid = [[10.0, 20.0, 30.0], [40.0, 50.0, 60.0]]
    other = [[math.nan if value == 30 else 100 - value for value in row] for row in grid]
    return EmbeddingMap(
        [0.0, 1.0, 2.0], [0.0, 1.0], {"0,1": grid, "2,3": other}, {"0,1": (1.9, 1.0), "2,3": (0.0, 0.2)}
    )


def test_the_map_has_a_cell_for_each_place_and_a_mark_for_each_task(space):
    cells, places = data_of(figures.embedding_map(space))
    assert [(c["x"], c["y"], c["values"]) for c in cells][:3] == [
        (0, 0, [10, 90]),
        (1, 0, [20, 80]),
        (2, 0, [30, None]),
    ]
    assert (cells[0]["left"], cells[-1]["right"]) == (-0.5, 2.5)
    assert [(p["task"], p["x"]) for p in places] == [("0,1", 1.9), ("2,3", 0)]


def test_a_task_of_the_map_is_chosen_by_name_or_by_a_menu(space):
    (menu,) = figures.embedding_map(space).to_dict()["params"]
    assert menu["bind"]["labels"] == ["0,1", "2,3"]
    (fixed,) = figures.embedding_map(space, "2,3").to_dict()["params"]
    assert (fixed["value"], "bind" in fixed) == (1, False)
    with pytest.raises(UsageError, match="Unknown task '2;3'"):
        figures.embedding_map(space, "2;3")


def test_a_map_is_kept_in_the_run_folder(space, tmp_path):
    assert EmbeddingMap.read(tmp_path) is None
    space = EmbeddingMap(space.xs, space.ys, {"0,1": space.accuracy["0,1"]}, space.embeddings)
    space.write(tmp_path)
    assert EmbeddingMap.read(tmp_path) == space
    assert (space.nearest("0,1", "0,1"), space.nearest("0,1", "2,3")) == (60, 10)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"xs": [0.0]}, "xs and ys must each be two or more numbers in rising order"),
        ({"ys": [1.0, 0.0]}, "xs and ys must each be two or more numbers in rising order"),
        ({"accuracy": {}}, "there is no task in it"),
        ({"accuracy": {"a": [[1.0, 2.0]]}}, "the grid of task 'a' is not of 2 rows of 3 values"),
        ({"embeddings": {"a": [1.0]}}, "embeddings.a must be a list of 2 values, not of 1"),
        ({"format": 9}, "was written by a newer mnemon; this one reads format 1"),
        ({"more": 1}, "Unknown entry 'more'"),
    ],
)
def test_a_damaged_map_is_named(space, tmp_path, change, said):
    space.write(tmp_path)
    path = tmp_path / "embedding-map.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(UsageError, match=rf"embedding-map\.json .*{said}"):
        EmbeddingMap.read(tmp_path)


def test_accuracy_against_a_setting_with_published_points():
    series = [Series("a", [Point(2, 91, 1), Point(1, 90)], [Point(1, 89, 0.5)]), Series("b", [Point(1, 80)])]
    points, published = data_of(figures.accuracy_against(series, "compression", log=True))
    assert [(p["label"], p["x"], p["mean"], p["low"], p["high"]) for p in points] == [
        ("a", 1, 90, 90, 90),
        ("a", 2, 91, 90, 92),
        ("b", 1, 80, 80, 80),
    ]
    assert [(p["label"], p["mean"], p["low"]) for p in published] == [("a", 89, 88.5)]
    with pytest.raises(UsageError, match="cannot show values of beta that are 0 or negative"):
        figures.accuracy_against([Series("a", [Point(0, 1)])], "beta", log=True)


@pytest.fixture
def curves() -> list[PredictedCurve]:
    x = [i / 100 for i in range(201)]
    return [PredictedCurve(name, x, x, x, [value + 1 for value in x]) for name in ("a", "b")]


def test_predictions_are_drawn_beside_the_truth_for_some_points_of_each_task(curves):
    chart = figures.predictions({"": curves})
    (points,) = data_of(chart)
    assert [point["task"] for point in points] == ["a"] * 50 + ["b"] * 50
    assert points[0] == {"label": "", "task": "a", "x": 0, "truth": 0, "value": 1}
    assert points[-1]["x"] == 2
    assert marks_of(chart) == ["line", "point"]
    assert chart.to_dict()["title"] == "dashed: true; marks: predicted at the end"


def test_predictions_of_several_methods_have_a_panel_each_and_look_as_all_figures_do(curves):
    chart = figures.predictions({"one": curves, "other": curves[:1]}).to_dict()
    assert chart["facet"]["column"]["sort"] == ["one", "other"]
    assert chart["config"] == figures.predictions({"": curves}).to_dict()["config"]


def test_predictions_are_kept_in_the_run_folder(curves, tmp_path):
    assert figures.read_curves(tmp_path) == []
    figures.write_curves(tmp_path, curves)
    assert figures.read_curves(tmp_path) == curves


# Files


@pytest.mark.parametrize(
    ("ending", "start"), [(".svg", b"<svg"), (".png", b"\x89PNG"), (".pdf", b"%PDF"), (".json", b"{")]
)
def test_a_figure_is_saved_as_its_ending_says(make_record, tmp_path, ending, start):
    path = figures.save(figures.per_task([make_record()]), tmp_path / "new" / f"figure{ending}")
    assert path.read_bytes().startswith(start)
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_an_unknown_ending_is_named(make_record, tmp_path):
    with pytest.raises(UsageError, match=r"^Unknown ending '\.bmp'\. Choose one of: \.svg, \.png, \.pdf, \.json\.$"):
        figures.save(figures.per_task([make_record()]), tmp_path / "figure.bmp")


def test_without_altair_it_is_said_how_to_get_it(make_record, monkeypatch):
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(
        UsageError, match=r"^Figures need more packages \(altair\): pip install 'mnemon\[report\]'\.$"
    ):
        figures.per_task([make_record()])


def test_a_figure_that_cannot_be_written_is_named(make_record, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=rf"^Could not write {tmp_path}/file/figure\.json: "):
        figures.save(figures.per_task([make_record()]), tmp_path / "file" / "figure.json")
