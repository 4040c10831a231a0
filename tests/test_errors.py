"""Errors say what is wrong and what to do."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemon.errors import CheckpointError, DataError, TrainingError, UsageError, choose, suggest

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


@given(st.text(max_size=20))
@settings(max_examples=25)
def test_a_suggestion_is_one_of_the_options_or_nothing(name):
    assert suggest(name, OPTIONS) in ("", " Did you mean 'hypernet'?", " Did you mean 'joint'?")


@pytest.mark.parametrize("kind", [DataError, CheckpointError, TrainingError])
def test_every_error_of_the_user_is_a_usage_error(kind):
    assert issubclass(kind, UsageError)
