"""The document has the paper's tables in their own layout, each claim in one line, and says what is missing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mnemon.experiments.reproduce import document
from mnemon.experiments.reproduce.recipe import load
from mnemon.experiments.reproduce.run_index import look
from mnemon.results.verdict import MARGIN

RECORDS = Path(__file__).parents[2] / "docs" / "results" / "records"
NAMES = ("table-1", "table-forgetting", "table-upper-bound")
METHODS = ["EWC", "SI", "DGR", "HNET+ENT", "HNET+TIR", "HNET+R"]
PLACES = [f"{benchmark}-CL{i}" for benchmark in ("P10", "S") for i in (1, 2, 3)]


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> str:
    """The document of some tables, from the records that are kept."""
    path = tmp_path_factory.mktemp("document") / "it.md"
    document.write(path, [load(name) for name in NAMES], look(path.parent / "nothing", [RECORDS]))
    return path.read_text(encoding="utf-8")


def tables(text: str, recipe: str) -> list[list[list[str]]]:
    """The tables of a section, as rows of cells."""
    section = text.partition(f"\n## {recipe}\n")[2].partition("\n## ")[0]
    found = re.findall(r"(?:^\|.*\n)+", section, re.MULTILINE)
    return [[[cell.strip() for cell in row.split("|")[1:-1]] for row in table.splitlines()] for table in found]


def test_table_1_is_whole_and_in_the_layout_of_the_paper(text):
    head, rule, *rows = tables(text, "table-1")[0]
    assert head == ["", *METHODS]
    assert set(rule) == {"---"}
    assert [row[0] for row in rows] == [word for place in PLACES for word in (place, "")]
    published = {(row[0], method): cell for row in rows[::2] for method, cell in zip(METHODS, row[1:], strict=True)}
    cells = {(cell.row, cell.column): cell.published["final"] for cell in load("table-1").cells if cell.published}
    assert published == {place: f"*{number.mean:.2f} ± {number.sem:.2f}*" for place, number in cells.items()}
    form = r"(\w+: )?\d+\.\d\d( ± \d+\.\d\d)? \(\d+\)( [↑↓=?])?|not run"
    assert all(re.fullmatch(form, cell) for row in rows[1::2] for cell in row[1:])


def test_a_place_of_table_1_has_what_its_line_has(text):
    layout, details = tables(text, "table-1")
    shown = [cell for row in layout[3::2] for cell in row[1:] if cell != "not run"]
    lines = {name: row[2:4] for row in details[2:] for name in row[0].split(", ")}
    assert len(lines) == len(shown)
    assert [re.sub(r"^\w+: | [↑↓=?]$", "", cell) for cell in shown] == [
        f"{measured} ({n})"
        for place in PLACES
        for method in METHODS
        if (line := lines.get(f"{place} {method}"))
        for measured, n in [line]
    ]


def test_a_claim_has_one_line_and_the_other_tables_name_the_one_that_has_it(text):
    lines = [row for name in NAMES for row in tables(text, name)[-1][2:]]
    names = [name for row in lines for name in row[0].split(", ")]
    assert len(names) == len(set(names))
    assert "S-CL1 HNET+ENT, S-CL1 HNET+TIR" in [row[0] for row in lines]
    both = {row[0]: row for row in lines if " / " in row[1]}
    assert both["S-CL1 HNET+R"][1] == "99.83 ± 0.01 / 99.81 ± 0.01"
    assert all(row[5].count(" / ") == (1 if row[5] else 0) for row in both.values())
    upper = text.partition("\n## table-upper-bound\n")[2].partition("In another table: ")[2].partition(".\n")[0]
    named = {name.removesuffix(" (table-1)") for name in upper.split(", ")}
    assert named >= {name for name in both if name.endswith("HNET+R")}


def test_every_claim_is_counted_once(text):
    said = re.search(r"^In all, every claim once: (.*)\.$", text, re.MULTILINE)[1]
    lines = sum(len(tables(text, name)[-1]) - 2 for name in NAMES)
    assert sum(int(n) for n in re.findall(r"(\d+) (?!of them)", said)) == lines


def test_the_opening_explains_the_verdicts_and_names_what_the_runs_were_made_with(text):
    opening = text.partition("\n## ")[0]
    assert MARGIN in opening
    assert re.search(r"^with mnemon \S+.*, torch \S+", opening, re.MULTILINE)
    assert "?" not in opening
