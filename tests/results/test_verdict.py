"""Verdicts: what is shown to be above, below or close to a published number, and what is still open."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from mnemon.results.intervals import Estimate
from mnemon.results.published import Published, read
from mnemon.results.verdict import MOST_SEEDS, Background, Judgement, Other, compare, judge, with_sign

TIGHT, LOOSE = Published(97.57, 0.02), Published(95.30, 0.13)
accuracies = st.floats(0, 100).map(lambda value: round(value, 2))
errors = st.floats(0.01, 5).map(lambda value: round(value, 2))
counts = st.integers(2, 30)
samples = st.lists(accuracies, min_size=2, max_size=8)


@pytest.mark.parametrize(
    ("number", "values", "words"),
    [
        (TIGHT, [97.57], "within 0.5 of published"),
        (
            TIGHT,
            [97.40],
            "within 0.5 of published",
        ),  # single published seeds spread by 0.09 or, before rounding, 0.11
        (TIGHT, [97.30], "0.27 below published, within 0.5"),
        (TIGHT, [97.9], "0.33 above published"),
        (TIGHT, [98.4], "0.83 above published"),
        (TIGHT, [97.4, 97.41, 97.42, 97.37], "0.17 below published, within 0.5"),
        (TIGHT, [97.0, 98.1, 97.3], "undecided: needs about 8 seeds"),  # too noisy to tell
        (LOOSE, [95.3, 95.1, 95.6, 95.4, 95.0], "within 1.16 of published"),  # twice 0.13 * sqrt(20)
        (LOOSE, [94.1, 94.3, 94.9, 94.2, 94.4], "0.92 below published"),
        (Published(96.0, 0.0), [96.0], "within 0.5 of published"),
        (Published(91.6), [90.82], "undecided: needs more than one seed"),  # nobody told a spread
        (Published(91.6), [90.0, 92.0], "undecided: needs about 24 seeds"),
        (Published(91.6), [91.5, 91.45, 91.55, 91.5], "0.10 below published, within 0.5"),
        (Published(91.6), [91.6, 91.6], "within 0.5 of published"),
    ],
)
def test_a_verdict_says_what_is_shown_and_what_is_not(number, values, words):
    assert compare(number, values, 20).words == words


def test_errors_have_no_points_so_close_is_what_published_seeds_are():
    alone, spread = Published(0.0042), Published(0.0042, 0.0005)
    assert compare(alone, [0.0040, 0.0044, 0.0041], 1, 4, True).words == "undecided: needs a published spread"
    assert compare(alone, [0.0010, 0.0011, 0.0010], 1, 4, True).words == "0.0032 below published"
    assert compare(spread, [0.0041, 0.0043, 0.0042], 20, 4, True).words == "within 0.0045 of published"


def test_two_standard_errors_are_not_enough_for_few_seeds():
    """Five seeds, 2.4 standard errors away: an interval of two would have left out zero."""
    values = [96.0 + 0.5 * z for z in (-1, -0.5, 0, 0.5, 1)]
    away = 2.4 * stats.sem(values)
    assert compare(Published(96.0 + away), values).judgement is Judgement.UNDECIDED
    assert compare(Published(96.0 + 3 * away), values).judgement is Judgement.BELOW


def test_a_published_error_of_nothing_may_have_been_rounded_down():
    assert compare(Published(97.87, 0.0), [97.83], 20).judgement is Judgement.WITHIN
    assert compare(Published(97.87, 0.0), [97.80], 20).judgement is Judgement.BELOW
    by_the_text = Estimate(97.87, 0.01 * math.sqrt(20), 20, 19)
    found = compare(Published(97.87, 0.01), [97.80], 20)
    assert found.judgement is Judgement.WITHIN
    assert replace(found, measured=replace(by_the_text, mean=97.80, n=1), reference=by_the_text).judgement is (
        Judgement.WITHIN
    )
    assert found.reference.deviation == pytest.approx(0.015 * math.sqrt(20))


# Beside SciPy: with a published number that is exact, both tests are those of one sample


@given(samples, st.floats(0, 100))
def test_a_difference_is_named_where_students_test_finds_one(values, mean):
    assume(np.std(values) > 0.05)
    found = compare(Published(mean), values)
    exact = replace(found, reference=Estimate(mean, 0.0))
    p = stats.ttest_1samp(values, mean).pvalue
    assume(abs(p - 0.05) > 1e-6)
    assert (exact.judgement in (Judgement.ABOVE, Judgement.BELOW)) == (p < 0.05)


@given(samples, st.floats(-1, 1))
def test_it_is_close_where_two_one_sided_tests_say_so(values, away):
    assume(np.std(values) > 0.05)
    mean = float(np.mean(values)) + away
    exact = replace(compare(Published(mean), values), reference=Estimate(mean, 0.0))
    below = stats.ttest_1samp(values, mean - 0.5, alternative="greater").pvalue
    above = stats.ttest_1samp(values, mean + 0.5, alternative="less").pvalue
    assume(abs(max(below, above) - 0.05) > 1e-6)
    assert exact.close == (max(below, above) < 0.05)


@given(accuracies, errors, counts, samples)
def test_with_two_spreads_their_intervals_are_put_together(mean, sem, m, values):
    n, d, s = len(values), abs(np.mean(values) - mean), stats.sem(values)
    wide, narrow = (
        math.hypot(stats.t.ppf(share, n - 1) * s, stats.t.ppf(share, m - 1) * (sem + 0.005))
        for share in (0.975, 0.95)
    )
    margin = max(0.5, 2 * sem * math.sqrt(m))
    assume(min(abs(d - wide), abs(d + narrow - margin)) > 1e-9)
    found = compare(Published(mean, sem), values, m)
    assert (found.judgement in (Judgement.ABOVE, Judgement.BELOW)) == (d > wide)
    assert found.close == (d + narrow <= margin)


# What holds for all numbers


def estimates(mean: float, sem: float, m: int, gain: float, deviation: float, n: int):
    """Compare a measured mean that is so much above a published one."""
    found = compare(Published(mean, sem), [mean, mean], m)
    return replace(found, measured=Estimate(mean + gain, deviation).with_seeds(n))


gains, spreads = st.floats(-5, 5), st.floats(0, 5)


@given(errors, counts, gains, spreads, counts, st.integers(1, 100))
def test_more_seeds_never_make_a_decided_verdict_undecided(sem, m, gain, deviation, n, more):
    few, many = (estimates(90.0, sem, m, gain, deviation, seeds) for seeds in (n, n + more))
    if few.judgement is not Judgement.UNDECIDED:
        assert many.judgement is not Judgement.UNDECIDED
    if few.close:
        assert many.close
    if few.judgement in (Judgement.ABOVE, Judgement.BELOW):
        assert many.judgement is few.judgement


@given(errors, counts, gains, spreads, counts)
def test_above_seen_from_below_is_below(sem, m, gain, deviation, n):
    mirrored = {Judgement.ABOVE: Judgement.BELOW, Judgement.BELOW: Judgement.ABOVE}
    up, down = (estimates(0.0, sem, m, way * gain, deviation, n) for way in (1, -1))
    assert down.judgement is mirrored.get(up.judgement, up.judgement)
    assert down.close == up.close
    assert down.seeds_needed == up.seeds_needed


@given(errors, st.integers(5, 30), st.integers(3, 30))
def test_no_difference_and_no_spread_to_speak_of_is_within(sem, m, n):
    assert estimates(90.0, sem, m, 0.0, 0.0, n).judgement is Judgement.WITHIN
    assert compare(Published(90.0, sem), [90.0], m).judgement in (Judgement.WITHIN, Judgement.UNDECIDED)


@given(errors, counts, gains, spreads, counts)
def test_within_means_that_the_whole_interval_is(sem, m, gain, deviation, n):
    found = estimates(90.0, sem, m, gain, deviation, n)
    if found.judgement is Judgement.WITHIN:
        assert abs(gain) < found.margin
        assert found.margin == pytest.approx(max(0.5, 2 * sem * math.sqrt(m)))
        assert found.words == f"within {found.margin:.2f}".rstrip("0").rstrip(".") + " of published"


@given(errors, counts, gains, st.floats(0.1, 5), counts)
def test_as_many_seeds_as_are_said_to_be_needed_settle_it_and_one_less_does_not(sem, m, gain, deviation, n):
    found = estimates(90.0, sem, m, gain, deviation, n)
    assume(found.judgement is Judgement.UNDECIDED)
    needed = found.seeds_needed
    assert needed > n
    last = MOST_SEEDS if math.isinf(needed) else int(needed) - 1
    assert estimates(90.0, sem, m, gain, deviation, last).judgement is Judgement.UNDECIDED
    if not math.isinf(needed):
        assert estimates(90.0, sem, m, gain, deviation, int(needed)).judgement is not Judgement.UNDECIDED
        assert found.words == f"undecided: needs about {needed:,} seeds"
    else:
        assert found.words in (
            "undecided: needs more than 1,000 seeds",
            "undecided: needs a published number with less spread",
        )


@pytest.mark.parametrize(
    ("number", "m", "words"),
    [
        (Published(91.5, 2.0), None, "undecided: needs a published number with less spread"),
        (Published(91.5, 40.0), 2, "undecided: needs a published number with less spread"),
        (Published(90.52), None, "undecided: needs more than 1,000 seeds"),
    ],
)
def test_it_is_said_if_no_number_of_seeds_would_tell(number, m, words):
    assert compare(number, [80.0, 91.0, 99.0], m).words == words


@given(accuracies, errors, counts, st.lists(accuracies, min_size=1, max_size=6))
def test_a_wider_published_spread_never_finds_a_difference(mean, sem, m, values):
    if compare(Published(mean, sem), values, m).judgement in (Judgement.WITHIN, Judgement.UNDECIDED):
        wider = compare(Published(mean, 2 * sem), values, m).judgement
        assert wider in (Judgement.WITHIN, Judgement.UNDECIDED)


@pytest.mark.parametrize(("number", "text"), [(0.444, "+0.44"), (-0.444, "-0.44"), (-0.001, "+0.00"), (math.nan, "")])
def test_a_difference_is_shown_with_its_sign(number, text):
    assert with_sign(number, 2) == text


# Runs beside what was published for their preset


def seeds(make_record, *finals, **changes):
    rows = [((90.0, None), (final, final)) for final in finals]
    return [make_record(matrix, seed=seed, **changes) for seed, matrix in enumerate(rows)]


@pytest.mark.parametrize(
    ("published", "words", "reason"),
    [
        ("92.0", "undecided: needs about 7 seeds", "95 % interval of the difference: -3.48 to +1.48"),
        ("91.0 ± 2.0", "within 17.89 of published", "90 % interval of the difference: -3.86 to +3.86"),
        ("86.0 ± 0.1", "5.00 above published", "95 % interval of the difference: +2.51 to +7.49"),
    ],
)
def test_the_verdict_of_runs_has_its_interval(make_record, published, words, reason):
    verdict = judge(seeds(make_record, 90.0, 92.0, 91.0, 93.0, 89.0, published=published)[:3], Background(20))
    assert (verdict.words, verdict.reason, verdict.n) == (words, reason, 3)
    assert (verdict.mean, round(verdict.sem, 2)) == (91.0, 0.58)
    assert verdict.difference == pytest.approx(91.0 - read(published).mean)


@pytest.mark.parametrize(
    ("published", "words"),
    [
        ("mse 0.1, 0.3", "undecided: needs about 11 seeds"),
        ("mse 0.3, 0.4", "0.1450 below published"),
        ("mse 0.1, 0.01", "0.1500 above published"),
    ],
)
def test_of_errors_above_is_above(make_record, published, words):
    verdict = judge(seeds(make_record, 0.2, 0.21, published=published, metric="mse"))
    assert verdict.words == words


def test_a_further_number_for_the_same_settings_is_compared_too(make_record):
    runs = seeds(make_record, 94.1, 94.3, 94.9, 94.2, 94.4, published="95.30 ± 0.13")
    verdict = judge(runs, Background(20, others=(Other("94.97 ± 0.18", 20, "table-9"),)))
    assert verdict.words == "0.92 below published"
    assert verdict.reason == (
        "95 % interval of the difference: -1.40 to -0.44; "
        "the 94.97 ± 0.18 of table-9: 0.59 below published, within 1.61"
    )


@pytest.mark.parametrize(
    ("finals", "changes", "reason"),
    [
        ((90.0, 92.0), {}, "nothing was published for these settings"),
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
    assert (verdict.judgement, verdict.words, verdict.reason) == (
        Judgement.NOT_COMPARABLE,
        "not comparable",
        reason,
    )


def test_a_single_seed_without_any_spread_is_undecided(make_record):
    verdict = judge(seeds(make_record, 90.0, published="91"))
    assert verdict.words == "undecided: needs more than one seed"
    assert verdict.reason == "the difference is -1.00, its interval is not known"
