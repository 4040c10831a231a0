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
    ("published", "judgement", "reason"),
    [
        ("mse 0.1, 0.3", Judgement.WITHIN, "the difference is 0.0050, 2 standard errors are 0.0100"),
        ("mse 0.1, 0.2", Judgement.SHORT, "the difference is 0.0550, 2 standard errors are 0.0100"),
        ("mse 0.3, 0.4", Judgement.ABOVE, "the difference is 0.1450, 2 standard errors are 0.0100"),
    ],
)
def test_of_errors_the_lower_is_the_better(make_record, published, judgement, reason):
    verdict = judge(seeds(make_record, 0.2, 0.21, published=published, metric="mse"))
    assert (verdict.judgement, verdict.reason) == (judgement, reason)


@pytest.mark.parametrize(
    ("finals", "changes", "reason"),
    [
        ((90.0, 92.0), {}, "nothing was published for these settings"),
        ((90.0,), {"published": "90"}, "one seed has no spread; run more with --seeds"),
        ((90.0, 92.0), {"published": "90", "finished": False}, "no run is finished"),
        ((90.0, 92.0), {"published": "mse 0.1, 0.2"}, "what was published is not one mean accuracy"),
        ((0.1, 0.2), {"published": "0.1", "metric": "mse"}, "what was published is not one mean squared error"),
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
