"""Errors say what is wrong and what to do."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemon.errors import CheckpointError, DataError, TrainingError, UsageError, choose, nearest, suggest
from mnemon.printable import MARK

OPTIONS = {"hypernet": 1, "joint": 2}


def test_a_known_name_is_looked_up():
    assert choose("method", "joint", OPTIONS) == 2


def test_a_near_name_is_suggested_and_all_are_listed():
    with pytest.raises(UsageError) as error:
        choose("method", "hypernt", OPTIONS)
    assert str(error.value) == "Unknown method 'hypernt'. Did you mean 'hypernet'? Choose one of: hypernet, joint."


def test_nothing_is_suggested_for_a_far_name():
    with pytest.raises(UsageError) as error:
        choose("method", "xyz", OPTIONS)
    assert str(error.value) == "Unknown method 'xyz'. Choose one of: hypernet, joint."


METHODS = ("hypernet", "online-ewc", "synaptic-intelligence", "finetuned-target", "hat", "split-mnist-cl3-hat")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("ewc", "online-ewc"),  # a word of the name
        ("EWC-online", "online-ewc"),
        ("HAT", "hat"),  # the shortest of those which have it
        ("cl3_hat", "split-mnist-cl3-hat"),
        ("si", "synaptic-intelligence"),  # initials
        ("finetune", "finetuned-target"),  # spelling
        ("hypernett", "hypernet"),
        ("mnis", "split-mnist-cl3-hat"),  # a part of a word
        ("tuned", "finetuned-target"),
        ("h", ""),
        ("-", ""),
        ("", ""),
        ("xyz", ""),
    ],
)
def test_a_name_is_found_by_a_part_by_initials_and_by_spelling(name, meant):
    assert nearest(name, METHODS) == meant
    assert suggest(name, METHODS) == (f" Did you mean '{meant}'?" if meant else "")


@given(st.text(max_size=20))
@settings(max_examples=25)
def test_a_suggestion_is_one_of_the_options_or_nothing(name):
    assert suggest(name, OPTIONS) in ("", " Did you mean 'hypernet'?", " Did you mean 'joint'?")


def test_what_an_error_says_of_values_can_be_shown():
    said = str(DataError(f"No '\x1b[31m{'x' * 5000}' in https://me:secret@host/a."))
    assert said.startswith(f"No '{MARK}[31mxxx")
    assert said.endswith("xxx' in https://me:***@host/a.")
    assert len(said) < 1100


@pytest.mark.parametrize("kind", [DataError, CheckpointError, TrainingError])
def test_every_error_of_the_user_is_a_usage_error(kind):
    assert issubclass(kind, UsageError)
