"""Costs: the words of presets are understood, and times said in a unit that suits."""

from __future__ import annotations

import pytest

from mnemon.experiments import cost
from mnemon.experiments.preset import all_presets


@pytest.mark.parametrize("preset", all_presets(), ids=lambda p: p.name)
def test_the_cost_of_every_preset_is_understood(preset):
    assert 1 <= cost.seconds(preset.cost) <= 60 * 86400


@pytest.mark.parametrize(
    ("words", "seconds"),
    [
        ("about 2.5 min", 150),
        ("about a week (estimated)", 604800),
        ("about ten days (estimated)", 864000),
        ("3 s", 3),
        ("weeks (estimated)", 1209600),
    ],
)
def test_words_stand_for_seconds(words, seconds):
    assert cost.seconds(words) == seconds


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.001, "0.1 s"),
        (0.24, "0.2 s"),
        (3, "3 s"),
        (45, "45 s"),
        (89, "89 s"),
        (150, "2.5 min"),
        (3600, "60 min"),
        (7200, "2 h"),
        (3 * 86400, "3 days"),
        (9e5, "10 days"),
    ],
)
def test_seconds_are_said_in_words(seconds, words):
    assert cost.in_words(seconds) == words


def test_a_cost_that_is_none_is_named():
    with pytest.raises(ValueError, match=r"^'soon' is not a cost such as 'about 10 min'\.$"):
        cost.seconds("soon")
