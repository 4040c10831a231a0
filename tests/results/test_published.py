"""Published numbers are read as they are written in presets."""

from __future__ import annotations

import math

import pytest

from mnemon.experiments.preset import all_presets
from mnemon.results.published import read


@pytest.mark.parametrize(
    ("text", "mean", "sem"),
    [
        ("97.57 ± 0.02", 97.57, 0.02),
        ("99.12", 99.12, math.nan),
        ("91.6 (200 epochs)", 91.6, math.nan),
        ("94.19 ± 0.16 (during 95.54 ± 0.05)", 94.19, 0.16),
        ("96 +- 1", 96.0, 1.0),
    ],
)
def test_a_number_is_read_with_its_spread(text, mean, sem):
    assert read(text) == pytest.approx((mean, sem), nan_ok=True)


@pytest.mark.parametrize(
    ("text", "mean", "sem"),
    [
        ("mse 0.0042, 0.0024, 0.0061 (published code, seed 42)", 0.0127 / 3, math.nan),
        ("mse 0.1, 0.2", 0.15, math.nan),
        ("mse 0.1 ± 0.02", 0.1, 0.02),
    ],
)
def test_of_errors_there_is_one_for_each_task(text, mean, sem):
    assert read(text) == pytest.approx((mean, sem), nan_ok=True)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("94.19 ± 0.16 (during 95.54 ± 0.05)", (95.54, 0.05)),
        ("96.18 ± 0.09 (during 96.12 ± 0.08; the paper's run)", (96.12, 0.08)),
    ],
)
def test_a_text_may_speak_of_another_metric_too(text, number):
    assert read(text, "during") == number
    assert read(text, "drift") is None


@pytest.mark.parametrize("text", ["", "0.1, 0.2", "about 90", "90%", "mse small", "mse 0.1, small", "mse "])
def test_what_is_not_one_number_is_not_read(text):
    assert read(text) is None
    assert read(text, "during") is None


def test_every_published_text_of_a_preset_can_be_read():
    published = [preset.published for preset in all_presets() if preset.published]
    assert len(published) > 40
    assert [text for text in published if read(text) is None] == []
