"""Verdicts: what is within the spread, what misses a published number and by how much, what surpasses it."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemon.experiments.reproduce.tables import notes
from mnemon.experiments.reproduce.verdict import BETTER, NO_NUMBER, NOT_RUN, SHORT, WITHIN, Line, judge
from mnemon.results import verdict as report
from mnemon.results.published import Published, read
from mnemon.results.record import RunRecord

NUMBER = Published(97.57, 0.02)
WORDS = {report.Judgement.ABOVE: BETTER, report.Judgement.SHORT: SHORT, report.Judgement.WITHIN: WITHIN}
accuracies = st.floats(0, 100).map(lambda value: round(value, 2))
errors = st.floats(0.001, 5)


@pytest.mark.parametrize(
    ("number", "values", "verdict"),
    [
        (NUMBER, [97.57], "within the spread"),
        (NUMBER, [97.40], "within the spread"),  # a single seed may differ by twice 0.02 * sqrt(20), and more
        (NUMBER, [97.30], "short of it by 0.27"),
        (NUMBER, [97.9], "better by 0.33"),
        (NUMBER, [97.4, 97.41, 97.42, 97.37], "short of it by 0.17"),  # its own seeds agree
        (NUMBER, [97.0, 98.1, 97.3], "within the spread"),  # its own seeds differ widely
        (Published(91.6), [90.82], "short of it by 0.78 (spread not known)"),
        (Published(91.6), [91.7], "better by 0.10 (spread not known)"),
        (Published(91.6), [90.0, 92.0], "within the spread"),
        (NUMBER, [], NOT_RUN),
        (None, [97.57], NO_NUMBER),
        (None, [], NOT_RUN),
    ],
)
def test_a_verdict_says_how_a_measured_number_stands_to_a_published_one(number, values, verdict):
    assert judge(number, 20, values) == verdict


@given(
    accuracies, st.floats(0, 5) | st.just(math.nan), st.integers(1, 20), st.lists(accuracies, min_size=1, max_size=4)
)
def test_the_report_says_the_same_of_the_same_runs(mean, sem, seeds, values):
    text = f"{mean}" if math.isnan(sem) else f"{mean} ± {sem:.3f}"
    records = [record_of(value, seed, text) for seed, value in enumerate(values)]
    said = judge(read(text), seeds, [record.accuracy.final.value for record in records])
    judgement = report.judge(records, report.Background(seeds)).judgement
    assert said.startswith(WORDS[judgement])


@given(
    st.lists(st.floats(0, 1).map(lambda value: round(value, 4)), min_size=1, max_size=3),
    st.integers(1, 20),
    st.lists(st.floats(0, 1), min_size=1, max_size=4),
)
def test_the_report_says_the_same_of_errors(errors, seeds, values):
    text = f"mse {', '.join(f'{error:.4f}' for error in errors)} (published code)"
    records = [record_of(value, seed, text, "mse") for seed, value in enumerate(values)]
    said = judge(read(text), seeds, values, digits=4, lower_is_better=True)
    judgement = report.judge(records, report.Background(seeds)).judgement
    assert said.startswith(WORDS[judgement])


def record_of(value: float, seed: int, published: str, metric: str = "accuracy") -> RunRecord:
    return RunRecord("p", {}, seed, metric, ["a"], {}, {}, "", matrix=[[value]], published=published, finished=True)


def test_of_errors_the_lower_is_the_better():
    number = Published(0.0042, 0.0001)
    assert judge(number, 1, [0.0010], digits=4, lower_is_better=True) == "better by 0.0032"
    assert judge(number, 1, [0.0100], digits=4, lower_is_better=True) == "short of it by 0.0058"


@given(accuracies, errors, st.integers(1, 20), accuracies)
def test_what_is_better_seen_from_above_is_short_seen_from_below(mean, sem, seeds, value):
    up = judge(Published(mean, sem), seeds, [value])
    down = judge(Published(mean, sem), seeds, [value], lower_is_better=True)
    assert (up == WITHIN) == (down == WITHIN)
    if up != WITHIN:
        assert {up.split(" by ")[0], down.split(" by ")[0]} == {BETTER.removesuffix(" by"), SHORT.removesuffix(" by")}
        assert up.split(" by ")[1] == down.split(" by ")[1]


@given(accuracies, errors, st.integers(1, 20), st.lists(accuracies, min_size=1, max_size=6))
def test_a_wider_published_spread_never_turns_agreement_into_a_miss(mean, sem, seeds, values):
    if judge(Published(mean, sem), seeds, values) == WITHIN:
        assert judge(Published(mean, 2 * sem), seeds, values) == WITHIN


@given(accuracies, errors, st.integers(1, 20), st.integers(1, 5))
def test_the_published_number_itself_is_within_its_spread(mean, sem, seeds, n):
    assert judge(Published(mean, sem), seeds, [mean] * n) == WITHIN


def test_of_many_ways_to_differ_some_are_named_and_the_others_counted():
    lines = [Line("r", "a", "b", "final", "short", NUMBER, (97.0,), (0,), 2, "", f"steps ({i})") for i in range(5)]
    named = [f"other protocol, here and there: steps ({i})" for i in range(3)]
    assert notes([*lines, lines[0]]) == [*named, "and 2 more ways"]


def test_a_line_has_the_mean_of_its_seeds():
    line = Line("r", "a", "b", "final", "paper", NUMBER, (97.0, 98.0), (0, 1), 2, "")
    assert (line.mean, line.sem, line.difference) == pytest.approx((97.5, 0.5, -0.07))
    empty = Line("r", "a", "b", "final", "paper", None, (), (), 2, "")
    assert all(math.isnan(value) for value in (empty.mean, empty.sem, empty.difference))
