"""Verdicts of recipes: in words, in the paper's layout, and each claim counted once."""

from __future__ import annotations

import io
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from mnemon.experiments.reproduce.grid import grids
from mnemon.experiments.reproduce.recipe import Recipe
from mnemon.experiments.reproduce.tables import LEGEND, cells_of, count, csv_of, notes, outcome_of, shown
from mnemon.experiments.reproduce.verdict import NO_NUMBER, NOT_RUN, MeasuredCell, claims
from mnemon.results import verdict as report
from mnemon.results.published import Published, read
from mnemon.results.record import RunRecord

NUMBER, OTHER = Published(97.57, 0.02), Published(97.30, 0.05)
LINE = MeasuredCell(
    "one", "a", "HNET", "final", "paper", ((NUMBER, 20),), (97.57, 97.58, 97.56), (0, 1, 2), key="run"
)
accuracies = st.floats(0, 100).map(lambda value: round(value, 2))


@pytest.mark.parametrize(
    ("changes", "kind", "verdict"),
    [
        ({}, "within the margin", "within 0.5 of published"),
        ({"values": (97.40, 97.41, 97.42)}, "below published", "0.16 below published, within 0.5"),
        ({"values": (98.40, 98.41, 98.42)}, "above published", "0.84 above published"),
        ({"values": (97.0, 98.1, 97.3)}, "undecided", "undecided: needs about 8 seeds"),
        ({"values": (), "seeds": ()}, NOT_RUN, "not run"),
        ({"numbers": ()}, NO_NUMBER, "no number published"),
        ({"obstacle": "other protocol"}, "not comparable", "not comparable: other protocol"),
        (
            {"waits_for": "cifar-x", "values": (), "seeds": ()},
            "waiting for a preset",
            "waiting for a preset: cifar-x",
        ),
        (
            {"values": (97.40, 97.41, 97.42), "numbers": ((NUMBER, 20), (OTHER, 20))},
            "below published",
            "0.16 below published, within 0.5 / within 0.5 of published",
        ),
        ({"numbers": ((NUMBER, 20), (Published(97.58, 0.02), 20))}, "within the margin", "within 0.5 of published"),
    ],
)
def test_a_line_says_how_it_stands_to_every_published_number(changes, kind, verdict):
    line = replace(LINE, **changes)
    assert (line.kind, line.verdict) == (kind, verdict)


@given(
    accuracies, st.floats(0, 5) | st.just(math.nan), st.integers(1, 20), st.lists(accuracies, min_size=1, max_size=4)
)
def test_the_report_says_the_same_of_the_same_runs(mean, sem, seeds, values):
    text = f"{mean}" if math.isnan(sem) else f"{mean} ± {sem:.3f}"
    records = [record_of(value, seed, text) for seed, value in enumerate(values)]
    line = replace(LINE, numbers=((read(text), seeds),), values=tuple(values))
    verdict = report.judge(records, report.Background(seeds))
    assert (line.kind, line.verdict) == (verdict.judgement.value, verdict.words)


@given(
    st.lists(st.floats(0, 1).map(lambda value: round(value, 4)), min_size=1, max_size=3),
    st.integers(1, 20),
    st.lists(st.floats(0, 1), min_size=1, max_size=4),
)
def test_the_report_says_the_same_of_errors(errors, seeds, values):
    text = f"mse {', '.join(f'{error:.4f}' for error in errors)} (published code)"
    records = [record_of(value, seed, text, "mse") for seed, value in enumerate(values)]
    line = replace(LINE, numbers=((read(text), seeds),), values=tuple(values), digits=4, of_errors=True)
    verdict = report.judge(records, report.Background(seeds))
    assert (line.kind, line.verdict) == (verdict.judgement.value, verdict.words)


def record_of(value: float, seed: int, published: str, metric: str = "accuracy") -> RunRecord:
    return RunRecord("p", {}, seed, metric, ["a"], {}, {}, "", matrix=[[value]], published=published, finished=True)


def test_a_line_has_the_mean_of_its_seeds():
    line = replace(LINE, values=(97.0, 98.0), seeds=(0, 1))
    assert (line.mean, line.sem) == pytest.approx((97.5, 0.5))
    empty = replace(LINE, numbers=(), values=(), seeds=())
    assert all(math.isnan(value) for value in (empty.mean, empty.sem))
    assert empty.published is None


def test_of_several_published_numbers_each_has_its_difference():
    line = replace(LINE, metric="during", numbers=((NUMBER, 20), (OTHER, 20)))
    assert cells_of(line) == [
        "a HNET during",
        "97.57 ± 0.02 / 97.30 ± 0.05",
        "97.57 ± 0.01",
        "3",
        "+0.00 / +0.27",
        "within 0.5 of published / 0.27 above published, within 0.5",
    ]
    assert cells_of(replace(line, obstacle="other protocol"))[4] == ""


def test_in_the_terminal_each_published_number_has_a_line_of_its_own():
    text = printed([replace(LINE, numbers=((NUMBER, 20), (OTHER, 20)))], 100)
    first, second = (" ".join(line.split()) for line in text.splitlines()[5:7])
    assert first == "a HNET 97.57 ± 0.02 97.57 ± 0.01 3 +0.00 within 0.5 of published"
    assert second == "97.30 ± 0.05 +0.27 0.27 above published, within 0.5"


# Claims


def test_a_run_that_stands_in_several_tables_counts_once():
    again = [replace(LINE, recipe="two", row="b"), replace(LINE, recipe="three", numbers=((OTHER, 20),))]
    during = replace(LINE, metric="during")
    assert list(claims([LINE, *again, during]).values()) == [LINE, during]
    assert count([LINE, *again, during]) == "2 within the margin"


def test_a_claim_is_spoken_for_by_the_first_line_with_a_number():
    without = replace(LINE, recipe="zero", numbers=())
    assert list(claims([without, LINE]).values()) == [LINE]
    assert list(claims([without, replace(without, recipe="two")]).values()) == [without]


def test_what_is_above_or_below_is_also_said_to_be_small_if_it_is():
    lines = [
        replace(LINE, key=str(i), values=values)
        for i, values in enumerate([(97.4, 97.41, 97.42), (96.4, 96.41, 96.42), (97.7, 97.71, 97.72), ()])
    ]
    assert count([*lines, replace(LINE, key="x", obstacle="other protocol")]) == (
        "1 above published (1 of them within the margin), 2 below published (1 of them within the margin), "
        "1 not comparable, 1 not run"
    )


# Tables


def table(rows: str, columns: str, without: str = "", **changes) -> list[MeasuredCell]:
    return [
        replace(LINE, row=row, column=column, key=row + column, **changes)
        for row in rows
        for column in columns
        if row + column != without
    ]


def test_a_table_of_rows_and_columns_has_the_layout_of_the_paper():
    (grid,) = grids(table("abc", "xyz", without="bz"))
    assert (grid.rows, grid.columns, len(grid.lines)) == (["a", "b", "c"], ["x", "y", "z"], 8)
    assert grid.lines["c", "x"].name == "c x"


@pytest.mark.parametrize(
    "lines",
    [
        table("abc", "x"),
        table("a", "xyz"),
        [*table("a", "wx"), *table("b", "yz")],  # half of the places are empty
        table("abc", "xyz", numbers=()),
    ],
)
def test_what_is_no_table_has_no_layout(lines):
    assert grids(lines) == []


def test_each_metric_has_a_layout_of_its_own():
    found = grids([*table("ab", "xy"), *table("ab", "xy", metric="during")])
    assert [grid.metric for grid in found] == ["final", "during"]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "97.57 ± 0.01 (3) ="),
        ({"values": (96.0, 96.01, 96.02)}, "96.01 ± 0.01 (3) ↓"),
        ({"values": (98.4, 98.41, 98.42)}, "98.41 ± 0.01 (3) ↑"),
        ({"values": (97.0, 98.1, 97.3)}, "97.47 ± 0.33 (3) ?"),
        ({"values": ()}, "not run"),
        ({"values": (), "waits_for": "p"}, "waiting for a preset"),
        ({"values": (95.0,), "budget": "short", "obstacle": "other protocol"}, "short: 95.00 (1)"),
        ({"values": (95.0,), "obstacle": "another training"}, "95.00 (1)"),
    ],
)
def test_a_place_of_the_table_has_its_number_and_a_mark(changes, text):
    assert outcome_of(replace(LINE, **changes)) == text


RECIPE = Recipe("one", "Something.", "Table 9", "", "", {}, ())


def printed(lines: list[MeasuredCell], width: int) -> str:
    text = io.StringIO()
    Console(file=text, width=width, force_terminal=False).print(shown(RECIPE, lines))
    return text.getvalue()


def test_the_layout_is_shown_where_it_fits_without_broken_lines():
    lines = table("ab", "uvwxyz")
    wide, narrow = printed(lines, 130), printed(lines, 80)
    first, second = wide.splitlines()[5:7]
    assert first.split() == ["a", *6 * ["97.57", "±", "0.02"]]
    assert second.split() == 6 * ["97.57", "±", "0.01", "(3)", "="]
    assert "".join(LEGEND.split()) in "".join(wide.split())
    assert "97.57 ± 0.01 (3)" not in narrow
    assert all("b x" in text for text in (wide, narrow))


def test_the_margin_is_explained_where_something_was_judged():
    assert report.MARGIN in printed([LINE], 120)
    assert report.MARGIN not in printed([replace(LINE, values=(), seeds=())], 120)


def test_of_many_ways_to_differ_some_are_named_and_the_others_counted():
    lines = [replace(LINE, detail=f"steps ({i})") for i in range(5)]
    named = [f"other protocol, here and there: steps ({i})" for i in range(3)]
    assert notes([*lines, lines[0]]) == [*named, "and 2 more ways"]


def test_lines_as_csv_have_the_cells_own_number():
    head, first, second = csv_of([LINE, replace(LINE, numbers=(), x=0.5)]).splitlines()
    assert head.split(",")[:7] == ["row", "column", "metric", "budget", "x", "published", "published_sem"]
    assert first.split(",")[4:7] == ["", "97.57", "0.02"]
    assert second.split(",")[4:7] == ["0.5", "", ""]
