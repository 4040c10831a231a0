"""A text that is shown commands no terminal."""

from __future__ import annotations

import io
import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.control import Control
from rich.table import Table
from rich.text import Text

from mnemon.errors import UsageError
from mnemon.printable import MARK, printable, without_passwords
from mnemon.results.terminal.console import Terminal


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


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("s3://bucket/name", "s3://bucket/name"),
        ("https://host:80/a?b=c&d", "https://host:80/a?b=c&d"),
        ("ftp://me:secret@host/a", "ftp://me:***@host/a"),
        ("x://me:sec:r/@t@host:1/db?password=secret&a=b", "x://me:***@host:1/db?password=***&a=b"),
        ("x://me@host?sslkey=secret&API_TOKEN=secret", "x://me@host?sslkey=***&API_TOKEN=***"),
        ("x:/me:secret@host/a", "x:/me:***@host/a"),  # a URL that was taken for a path
    ],
)
def test_passwords_in_urls_are_hidden_in_any_text(word, shown):
    assert without_passwords(f"Before '{word}', after: a:b@c.") == f"Before '{shown}', after: a:b@c."
    assert str(UsageError(f"It is {word}.")) == f"It is {shown}."
    assert without_passwords(shown) == shown


@given(st.text())
def test_a_text_without_a_url_stays_what_it_is(text):
    plain = text.replace(":/", ": ")
    assert without_passwords(plain) == plain


def test_a_long_text_is_cleaned_at_once():
    for long in ("x" * 10**6, ":" * 10**6, ":/" * 10**6, "x://" + "a:@" * 10**6):
        before = time.process_time()
        without_passwords(long)
        assert time.process_time() - before < 2


def _table(text: str) -> Table:
    table = Table(text)
    table.add_row(text)
    return table
