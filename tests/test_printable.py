"""A text that is shown commands no terminal."""

from __future__ import annotations

import io
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.control import Control
from rich.table import Table
from rich.text import Text

from mnemon.cli.terminal import Terminal
from mnemon.printable import MARK, printable


@given(st.text())
def test_only_tabs_and_line_feeds_are_left_of_control_characters(text):
    shown = printable(text)
    assert len(shown) == len(text)
    assert not {c for c in shown if unicodedata.category(c) in ("Cc", "Cs")} - {"\t", "\n"}
    assert printable(shown) == shown


def test_what_can_be_seen_stays():
    text = "±─│ äöü 日本\t\n\N{GRINNING FACE}"
    assert printable(text) == text


@pytest.mark.parametrize("what", [str, Text, lambda text: _table(text)], ids=["text", "styled text", "table"])
def test_a_terminal_shows_marks_in_place_of_commands(what):
    file = io.StringIO()
    Terminal(file=file, width=60).print(what("a\x1b[31mb \x9b2J :cat: [bold]c"))
    assert f"a{MARK}[31mb {MARK}2J :cat: [bold" in file.getvalue()


def test_the_codes_of_the_terminal_itself_are_left():
    file = io.StringIO()
    terminal = Terminal(file=file, width=60)
    terminal._force_terminal = True
    terminal.control(Control.clear())
    terminal.print("a", style="bold")
    assert file.getvalue().startswith("\x1b[2J")


def _table(text: str) -> Table:
    table = Table(text)
    table.add_row(text)
    return table
