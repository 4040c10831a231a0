"""What runs are called: after what was run, in a form that any file system takes."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemon.results.naming import LONGEST, describe_changes, folder_name_of, name_of, short_name

CONFIG = {
    "benchmark": {"name": "permuted-digits"},
    "method": {"name": "joint"},
    "training": {"scenario": "cl3"},
}


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ([], "mine"),
        (["method.beta=0.0"], "mine+beta=0"),
        (["method.replay.beta=0.5", "optimizer.lr=1e-05"], "mine+replay.beta=0.5+lr=1e-05"),
        (["method.strength=1e+16", "optimizer.lr=10.05"], "mine+strength=1e16+lr=10.05"),
        (["target.hidden=[10, 10]", "target.kind=a/../b c"], "mine+hidden=10-10+kind=a-..-b-c"),
        (["target.beta=1", "method.beta=-2"], "mine+target.beta=1+method.beta=-2"),
        (["benchmark=permuted-digits"], "permuted-digits-cl3-joint"),
        (["method=joint", "method.fresh=true"], "permuted-digits-cl3-joint+fresh=true"),
        (["training.scenario=cl3", "training.steps=5"], "permuted-digits-cl3-joint+steps=5"),
        (["nonsense"], "mine+nonsense"),
    ],
)
def test_a_run_is_called_after_its_preset_or_after_what_runs_in_its_place(changes, name):
    assert folder_name_of("mine", changes, CONFIG) == name
    assert name_of("mine", changes, CONFIG) == name.partition("+")[0]


def test_what_every_name_means_is_left_out():
    config = {**CONFIG, "method": {"name": "hypernet"}, "training": {"scenario": "cl1"}}
    assert name_of("mine", ["benchmark=permuted-digits"], config) == "permuted-digits"
    assert name_of("mine", ["benchmark=permuted-digits"], {}) == "mine"


def test_settings_without_room_are_counted_and_told_apart():
    words = [f"setting_{i}=1000" for i in range(12)]
    name = short_name("split-digits", words)
    assert re.fullmatch(r"split-digits(\+setting_\d=1000){5}\+7-more-[0-9a-f]{6}", name)
    assert short_name("split-digits", [*words[:-1], "setting_11=1001"]) != name


@given(st.text(max_size=400), st.lists(st.text(max_size=200), max_size=5))
def test_any_name_is_short_and_safe(base, words):
    name = short_name(base, words)
    assert re.fullmatch(r"[\w.=@+-]+", name)
    assert name[0] not in ".-"
    assert len(name.encode()) <= LONGEST + len("+5-more-012345")


def test_the_difference_to_the_preset_is_spelled_out():
    assert describe_changes("mine", ["method.beta=0.0", "training.steps=5"]) == (
        "Preset mine with method.beta=0.0, training.steps=5"
    )
    assert describe_changes("mine", []) == ""
