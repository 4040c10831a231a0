"""Published numbers are read as they are written in presets, and judged by the spread of both sides."""

from __future__ import annotations

import math

import pytest

from mnemon.experiments.preset import all_presets
from mnemon.results.published import read
from mnemon.results.verdict import Judgement, judge


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


@pytest.mark.parametrize("text", ["", "mse 0.0042, 0.0024, 0.0061", "0.1, 0.2", "about 90", "90%"])
def test_what_is_not_one_number_is_not_read(text):
    assert read(text) is None


def test_every_published_accuracy_of_a_preset_can_be_read():
    published = [preset.published for preset in all_presets() if preset.published]
    assert len(published) > 40
    assert [text for text in published if read(text) is None and not text.startswith("mse")] == []


def seeds(make_record, *finals, **changes):
    rows = [((90.0, None), (final, final)) for final in finals]
    return [make_record(matrix, seed=seed, **changes) for seed, matrix in enumerate(rows)]


@pytest.mark.parametrize(
    ("published", "judgement"),
    [
        ("90.5", Judgement.WITHIN),
        ("92.0", Judgement.WITHIN),  # 1.0 away; two standard errors of 90 and 92 are 2.0
        ("93.5", Judgement.SHORT),
        ("93.5 ± 1.0", Judgement.WITHIN),  # 2.5 away; together they are 2.83
        ("88.5", Judgement.ABOVE),
    ],
)
def test_a_difference_is_judged_by_two_standard_errors_of_both(make_record, published, judgement):
    verdict = judge(seeds(make_record, 90.0, 92.0, published=published))
    assert (verdict.judgement, verdict.n) == (judgement, 2)
    assert (verdict.mean, verdict.sem) == (91.0, 1.0)
    assert verdict.difference == pytest.approx(91.0 - read(published).mean)


@pytest.mark.parametrize(
    ("finals", "changes", "reason"),
    [
        ((90.0, 92.0), {}, "nothing was published for these settings"),
        ((90.0,), {"published": "90"}, "one seed has no spread; run more with --seeds"),
        ((90.0, 92.0), {"published": "90", "finished": False}, "no run is finished"),
        ((90.0, 92.0), {"published": "mse 0.1, 0.2"}, "what was published is not one mean accuracy"),
        ((90.0, 92.0), {"published": "0.1", "metric": "mse"}, "what was published is not one mean accuracy"),
        (
            (90.0, 92.0),
            {"published": "90", "config": {"training": {"held_out": 0.1}}},
            "tested on held-out training data",
        ),
    ],
)
def test_what_cannot_be_compared_says_why(make_record, finals, changes, reason):
    verdict = judge(seeds(make_record, *finals, **changes))
    assert (verdict.judgement, verdict.reason) == (Judgement.NOT_COMPARABLE, reason)
