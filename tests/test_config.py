"""Settings: every name and type is checked, every setting explained, and nothing lost on the way to TOML and back."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemon.config import (
    apply_override,
    build,
    convert,
    differences,
    explanations,
    merge,
    parse_override,
    plain,
    setting_paths,
)
from mnemon.errors import UsageError


class Colour(str, Enum):
    RED = "red"
    GREEN = "green"


@dataclass(frozen=True)
class Inner:
    width: int = 3
    """Width of it."""
    colour: Colour = Colour.RED
    """Colour of it."""


@dataclass(frozen=True)
class Base:
    rate: float = 0.5
    """Rate of it."""


@dataclass(frozen=True)
class Outer(Base):
    hidden: tuple[int, ...] = (10, 10)
    """Widths of the layers."""
    limit: int | None = None
    """At most so many."""
    name: str = "mlp"
    """What it is called."""
    inner: Inner = field(default_factory=Inner)
    """What is inside."""


PATHS = [
    "section.rate",
    "section.hidden",
    "section.limit",
    "section.name",
    "section.inner.width",
    "section.inner.colour",
]


def refused(call, *words) -> str:
    with pytest.raises(UsageError) as error:
        call(*words)
    return str(error.value)


def test_settings_become_a_dataclass_with_the_defaults_for_the_rest():
    built = build(Outer, {"rate": 1, "hidden": [5], "inner": {"colour": "green"}}, "section")
    assert built == Outer(rate=1.0, hidden=(5,), inner=Inner(colour=Colour.GREEN))
    assert isinstance(built.rate, float)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rat": 1}, "Unknown setting 'section.rat'. Did you mean 'rate'? Known: rate, hidden, limit, name, inner."),
        ({"inner": {"widt": 1}}, "Unknown setting 'section.inner.widt'. Did you mean 'width'? Known: width, colour."),
        ({"rate": "x"}, "section.rate must be a number, not 'x'."),
        ({"rate": True}, "section.rate must be a number, not True."),
        ({"hidden": 5}, "section.hidden must be a list such as [10, 10], not 5."),
        ({"hidden": [5, "x"]}, "section.hidden must be a whole number, not 'x'."),
        ({"limit": 2.5}, "section.limit must be a whole number, not 2.5."),
        ({"limit": True}, "section.limit must be a whole number, not True."),
        ({"name": 5}, "section.name must be a word, not 5."),
        ({"inner": 5}, "section.inner must be a table of settings, not 5."),
        (
            {"inner": {"colour": "gren"}},
            "Unknown section.inner.colour 'gren'. Did you mean 'green'? Choose one of: red, green.",
        ),
        ({"inner": {"colour": 5}}, "Unknown section.inner.colour '5'. Choose one of: red, green."),
    ],
)
def test_a_wrong_setting_is_named_with_its_value(values, message):
    assert refused(build, Outer, values, "section") == message


@pytest.mark.parametrize("value", [None, "none"])
def test_none_can_be_written_as_a_word(value):
    assert convert(int | None, value, "limit") is None


@given(
    st.builds(
        Outer,
        rate=st.floats(allow_nan=False),
        hidden=st.lists(st.integers()).map(tuple),
        limit=st.none() | st.integers(),
        inner=st.builds(Inner, width=st.integers(), colour=st.sampled_from(Colour)),
    )
)
def test_plain_values_give_the_same_settings_again(config):
    assert build(Outer, plain(config), "section") == config


@pytest.mark.parametrize(
    ("word", "name", "value"),
    [
        ("steps=20", "steps", 20),
        ("lr=1e-3", "lr", 1e-3),
        ("target.hidden=[20, 30]", "target.hidden", [20, 30]),
        ("method=finetuned-target", "method", "finetuned-target"),
        ('name="a b"', "name", "a b"),
        ("chunk-embedding-size = 8", "chunk_embedding_size", 8),
        ("on=true", "on", True),
        ("equation=a=b", "equation", "a=b"),
        ("empty=", "empty", ""),
    ],
)
def test_a_word_is_split_into_name_and_value(word, name, value):
    assert parse_override(word) == (name, value)


@pytest.mark.parametrize("word", ["steps", "=5", "", " =5"])
def test_a_word_without_name_or_equals_is_refused(word):
    assert refused(parse_override, word) == f"--set takes name=value, not '{word}'."


def test_nan_is_read_and_left_to_the_settings_to_refuse():
    assert math.isnan(parse_override("lr=nan")[1])


def test_an_override_may_name_the_end_of_a_path():
    values: dict = {"section": {"rate": 1}}
    apply_override(values, "width", 7, PATHS)
    apply_override(values, "section.rate", 2, PATHS)
    apply_override(values, "inner.colour", "green", PATHS)
    assert values == {"section": {"rate": 2, "inner": {"width": 7, "colour": "green"}}}


def test_an_unclear_name_is_answered_with_the_choices():
    message = refused(apply_override, {}, "hidden", 5, ["target.hidden", "method.hypernet.hidden"])
    assert message == "Setting 'hidden' is ambiguous: write target.hidden or method.hypernet.hidden."


BETAS = ["method.replay.beta", "method.beta", "method.replay.hypernet.init", "method.hypernet.init"]


def test_of_several_settings_of_a_section_the_outermost_is_meant():
    values: dict = {}
    apply_override(values, "beta", 1, BETAS)
    apply_override(values, "replay.beta", 2, BETAS)
    apply_override(values, "hypernet.init", 3, BETAS)
    apply_override(values, "replay.hypernet.init", 4, BETAS)
    assert values == {
        "method": {"beta": 1, "replay": {"beta": 2, "hypernet": {"init": 4}}, "hypernet": {"init": 3}},
    }


def test_at_equal_depth_a_name_is_still_not_clear():
    paths = ["method.replay.hypernet.chunk", "method.hypernet.chunk", "method.density.chunk"]
    assert refused(apply_override, {}, "chunk", 5, paths) == (
        "Setting 'chunk' is ambiguous: write method.hypernet.chunk or method.density.chunk."
    )


def test_an_unknown_name_is_answered_with_the_nearest():
    assert refused(apply_override, {}, "widht", 5, PATHS) == (
        "Unknown setting 'widht'. Did you mean 'width'? `mnemon settings` lists them all."
    )


def test_a_part_of_a_name_is_not_its_end():
    assert refused(apply_override, {}, "idth", 5, PATHS).startswith("Unknown setting 'idth'. Did you mean 'width'?")


def test_paths_come_with_the_sentences_beneath_the_fields():
    assert setting_paths(Outer, "section.") == dict(
        zip(PATHS, ["Rate of it.", "Widths of the layers.", "At most so many.", "What it is called.",
                    "Width of it.", "Colour of it."], strict=True)
    )  # fmt: skip


def test_sentences_of_the_bases_are_found():
    assert explanations(Outer)["rate"] == "Rate of it."


def test_differences_name_the_path_and_both_values():
    one = {"a": 1, "table": {"x": 1, "y": 2}, "only": 3}
    other = {"a": 1, "table": {"x": 5, "y": 2}}
    assert differences(one, other) == ["only (3 and None)", "table.x (1 and 5)"]
    assert differences(one, one) == []


def test_tables_are_merged_at_every_depth_and_left_as_they_were():
    tables = {"a": {"x": 1, "b": {"y": 2}}, "c": 3}
    changes = {"a": {"b": {"z": 4}}, "c": {"x": 5}, "d": [6]}
    assert merge(tables, changes) == {"a": {"x": 1, "b": {"y": 2, "z": 4}}, "c": {"x": 5}, "d": [6]}
    merge({}, tables)["a"]["b"]["y"] = 7
    assert tables == {"a": {"x": 1, "b": {"y": 2}}, "c": 3}
