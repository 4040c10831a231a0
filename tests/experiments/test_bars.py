"""Lines with bars: in any width nothing is lost but parts of long titles."""

from __future__ import annotations

import io
import re

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from mnemon.experiments.bars import NARROWEST, WIDEST, Row, cropped, laid_out

LONGEST = ("100/100", "loss 1.23e-05", "99:59:59", "100 h left")


def shown(rows: list[Row], width: int) -> list[str]:
    text = io.StringIO()
    Console(file=text, width=width, force_terminal=True, color_system="standard").print(laid_out(rows, width))
    return re.sub(r"\x1b\[[\d;]*m", "", text.getvalue()).splitlines()


@given(st.integers(60, 200), st.text("abc=0.1, ", min_size=1, max_size=80), st.lists(st.sampled_from(LONGEST)))
def test_cells_are_shown_whole_and_lines_fit(width, title, some):
    cells = tuple(cell if cell in some else "" for cell in LONGEST)
    rows = [Row("seed 0", 50, 100, cells), Row(title, 0, 100, ("", "waiting", "", ""))]
    first, second = shown(rows, width)
    assert max(cell_len(first), cell_len(second)) <= width
    assert first.split("━")[-1].split() == " ".join(cells).split()
    assert NARROWEST <= len(re.search("[━╸╺]+", first)[0]) <= WIDEST
    assert "waiting" in second


def test_a_bar_shows_how_much_is_done():
    rows = [Row("a", 30, 60, ()), Row("b", 0, 60, ()), Row("c", 60, 60, ()), Row("d", 0, 0, ())]
    text = io.StringIO()
    Console(file=text, width=80).print(laid_out(rows, 80))  # without colours only what is done is drawn
    assert [line.count("━") for line in text.getvalue().splitlines()] == [WIDEST // 2, 0, WIDEST, 0]


def test_a_title_that_is_too_long_keeps_its_ends():
    title = "hypernet:beta=0.01, seed 3"
    assert [cropped(title, width) for width in (26, 20, 12, 1)] == [
        title,
        "hyperne…0.01, seed 3",
        "hype… seed 3",
        "…",
    ]


@given(st.text(max_size=60), st.integers(1, 60))
def test_cropped_text_fits(text, width):
    short = cropped(text, width)
    assert cell_len(short) <= width
    assert (short == text) == (cell_len(text) <= width)
