"""JSON and TOML are read within limits: what is too deep, too long or no text is refused with a reason."""

from __future__ import annotations

import contextlib
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemon import notation
from mnemon.notation import MOST_DEPTH, NotationError, read_json, read_toml, write_toml


def refused(read, text) -> str:
    with pytest.raises(NotationError) as error:
        read(text)
    (line,) = str(error.value).splitlines()
    assert not line.endswith(".")
    return line


def nested(depth: int, one: str = "[", other: str = "]", core: str = "") -> str:
    return one * depth + core + other * depth


@pytest.mark.parametrize("depth", [MOST_DEPTH + 2, 500, 5_000, 40_000])
def test_what_is_nested_too_deep_is_refused(depth):
    said = f"nested more than {MOST_DEPTH} deep"
    assert refused(read_json, nested(depth)) == f"JSON {said}"
    assert refused(read_json, nested(depth, '{"a":', "}", "1")) == f"JSON {said}"
    assert refused(read_toml, f"a = {nested(depth)}") == f"TOML {said}"
    assert refused(read_toml, f"a = {nested(depth, '{a = ', '}', '1')}") == f"TOML {said}"


def test_dots_nest_too():
    name = ".".join("a" * (MOST_DEPTH + 2))
    for text in (f"{name} = 1", f"[{name}]\nb = 1"):
        assert refused(read_toml, text) == f"TOML nested more than {MOST_DEPTH} deep"


@pytest.mark.parametrize("depth", [1, 10, MOST_DEPTH - 1])
def test_what_is_nested_a_little_is_read(depth):
    assert str(read_json(nested(depth))) == nested(depth)
    assert str(read_toml(f"a = {nested(depth)}")["a"]) == nested(depth)


@pytest.mark.parametrize("read", [read_json, lambda text: read_toml(f"a = {text}")], ids=["json", "toml"])
def test_whole_numbers_have_63_bits(read):
    assert read(str(2**63 - 1)) in (2**63 - 1, {"a": 2**63 - 1})
    for number in (2**63, -(2**63), 10**30):
        assert refused(read, str(number)) == "a whole number is larger than 63 bits"
        assert refused(read, f"[[1, {number}]]") == "a whole number is larger than 63 bits"
    assert "5000 digits" in refused(read, "9" * 5000)


@pytest.mark.parametrize(("what", "read"), [("JSON", read_json), ("TOML", read_toml)])
def test_long_texts_are_refused_before_they_are_read(monkeypatch, what, read):
    monkeypatch.setitem(notation.MOST_CHARACTERS, what, 1000)
    assert refused(read, "{" * 1001) == f"1,001 characters of {what} are more than 1,000"


@pytest.mark.parametrize("key", [".".join("a" * 20_000), f"[{'.'.join('a' * 20_000)}]", '"a".' * 20_000 + "b"])
def test_keys_of_thousands_of_parts_are_refused_at_once(key):
    # The time that Python's reader takes for them grows as the square of the parts: 40,000 characters took 2 s.
    started = time.process_time()
    for text in (f"{key} = 1", f"a = 1\r\n{key} = 1", f"a = {{{key} = 1}}"):
        assert refused(read_toml, text) == "a key has more than 200 dots"
    assert time.process_time() - started < 0.5


def test_lists_of_many_numbers_are_read():
    numbers = [i / 4 for i in range(200)]
    assert read_toml(f"a = {numbers}") == {"a": numbers}


@pytest.mark.parametrize("text", [r'"\ud800"', r'["a", "\udfff"]', r'{"\ud800": 1}', r'{"a": {"b": "\udc80x"}}'])
def test_half_characters_are_refused(text):
    assert refused(read_json, text) == "a text is not Unicode: surrogates not allowed"


def test_pairs_of_halves_are_one_character():
    assert read_json(r'"\ud83d\ude00"') == "\N{GRINNING FACE}"


@pytest.mark.parametrize("text", ["", "{", "nul", '{"a": 1} x', b"\xff\xfe\x00\x01\x02", b'{"a": "\xff"}'])
def test_what_is_no_json_is_refused(text):
    assert refused(read_json, text)


@pytest.mark.parametrize("text", ["a", "a = ", "[a", "a = 1\na = 2", "a = 1\n[a]", "\0"])
def test_what_is_no_toml_is_refused(text):
    assert refused(read_toml, text)


@pytest.mark.parametrize("value", ["2020-01-01", "12:00:00", "2020-01-01T12:00:00Z"])
def test_dates_are_refused(value):
    # No setting is one, and JSON has none: they would break what is written later.
    assert refused(read_toml, f"a = [{value}]").startswith("the date or time 2020" if "-" in value else "the date or")


PLAIN = st.recursive(
    st.booleans() | st.integers(-(2**63) + 1, 2**63 - 1) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(max_size=5), values, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=5), PLAIN, max_size=3))
@settings(max_examples=25)
def test_what_was_written_is_read(tables):
    assert read_toml(write_toml(tables)) == tables


@given(st.text(max_size=30))
def test_any_text_is_read_or_refused(text):
    for read in (read_json, read_toml):
        with contextlib.suppress(NotationError):
            read(text)


def test_dots_of_numbers_and_of_texts_do_not_nest():
    numbers = ", ".join(["0.5"] * 5000)
    found = read_toml(f'beta = [{numbers}]\nabout = "{"." * 5000}"')
    assert (len(found["beta"]), len(found["about"])) == (5000, 5000)
