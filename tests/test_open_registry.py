"""Names can be added from outside, once each, and none of mnemon's own is taken over."""

from __future__ import annotations

import re

import pytest

from mnemon.errors import UsageError
from mnemon.plugins import source_of
from mnemon.registry import Registry


class Own:
    """Something to register."""


class Other:
    """Something else."""


@pytest.fixture
def registry() -> Registry[type]:
    return Registry("method", {"hypernet": int}, "method.name")


def refused(message: str):
    return pytest.raises(UsageError, match=f"^{re.escape(message)}$")


def test_a_name_that_was_added_is_found_with_where_it_comes_from(registry):
    registry.add("mine", Own)
    assert registry.find("mine") is Own
    assert registry.name_of(Own) == "mine"
    assert registry.plugins["mine"].module == __name__
    assert list(registry.all()) == ["hypernet", "mine"]


def test_the_same_object_may_be_added_again(registry):
    registry.add("mine", Own)
    registry.add("mine", Own)
    again = type("Own", (), {"__module__": __name__, "__qualname__": "Own"})  # as when its module is imported again
    registry.add("mine", again)
    assert registry.find("mine") is again


def test_another_object_under_the_same_name_is_refused(registry):
    registry.add("mine", Own)
    with refused(f"The method 'mine' is registered by {__name__} already: choose another name."):
        registry.add("mine", Other)
    assert registry.find("mine") is Own


def test_functions_without_a_name_are_the_same_only_if_they_are_one():
    assert source_of(lambda: 0) is None
    registry = Registry("network", {})
    registry.add("mine", lambda: 0)
    with pytest.raises(UsageError, match="registered by"):
        registry.add("mine", lambda: 0)


def test_names_of_mnemon_cannot_be_taken_over(registry):
    with refused("The method 'hypernet' comes with mnemon: register yours under another name."):
        registry.add("hypernet", Own)


@pytest.mark.parametrize("name", ["", "a b", "a:b", "a=b", "a/b", "-a", "a.toml", "a,b"])
def test_a_name_is_one_word(registry, name):
    with refused(f"A method is named by letters, digits, - and _, not '{name}'."):
        registry.add(name, Own)


def test_an_unknown_name_is_answered_with_all(registry):
    registry.add("mine", Own)
    with refused("Unknown method 'mind'. Did you mean 'mine'? Choose one of: hypernet, mine."):
        registry.find("mind")


@pytest.mark.parametrize(
    ("path", "named"),
    [("method.name", True), ("benchmark.name", False), ("other.method.name", True), ("amethod.name", False)],
)
def test_a_registry_knows_the_settings_that_hold_its_names(registry, path, named):
    assert registry.is_named_by(path) is named


def test_a_registry_without_a_setting_is_named_by_none():
    assert not Registry("preset", {}).is_named_by("method.name")
