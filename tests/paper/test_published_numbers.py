"""The numbers that presets and recipes call published are those of the paper's tables."""

from __future__ import annotations

import math

import pytest

from mnemon.experiments.preset import all_presets
from mnemon.experiments.reproduce.recipe import load
from mnemon.results.published import read

TABLE_1 = """
            EWC    SI     DGR    HNET+ENT   HNET+TIR   HNET+R     RPL-UB
    P10-CL1 95.96  94.75  97.51  97.57±.02  97.57±.02  97.87±.01  97.89
    P10-CL2 94.42  95.33  97.35  92.80±.15  97.58±.02  97.60±.01  97.72
    P10-CL3 33.88  29.31  96.38  91.75±.21  97.59±.01  97.76±.01  97.91
    S-CL1   99.12  99.09  99.61  99.79±.01  99.79±.01  99.83±.01  99.83
    S-CL2   64.32  65.36  96.83  87.01±.47  94.43±.28  98.00±.03  98.96
    S-CL3   19.96  19.99  91.79  69.48±.80  89.59±.59  95.30±.13  98.38
"""
"""Table 1, and beside it the upper bounds of the appendix; standard errors as far as they are written here."""
PRESETS = {
    ("permuted-100", "final"): 96.18,
    ("permuted-100-cl2-hnet-tir", "final"): 95.97,
    ("permuted-100-cl3-hnet-tir", "final"): 96.00,
    ("permuted-250", "final"): 94.19,
    ("permuted-250", "during"): 95.54,
    ("permuted-10-small", "final"): 93.91,
    ("permuted-10-small-smoothed", "final"): 94.24,
    ("permuted-50-small", "final"): 90.91,
    ("cifar-resnet32", "during"): 82.36,
    ("cifar-resnet32", "final"): 82.34,
    ("cifar-zenke", "during"): 74.75,
    ("cifar-zenke", "final"): 71.29,
    ("cifar-zenke-synaptic-intelligence", "final"): 73.85,
    ("permuted-10-small-hat", "final"): 91.6,
    ("permuted-10-medium-hat", "final"): 97.4,
}
HAT = """
                   HAT    HNET
    P10 100, 100   91.6   95.92
    P10 500, 500   97.4   97.35
    P10 1000, 1000 97.67  97.56
    P10 2000, 2000 98.6   98.06
    P100 1000, 1000 86.04 94.98
"""
SECOND = {"P10-CL1": 97.85, "S-CL3": 94.97}
"""HNET+R in the appendix, which is another set of runs."""


def places(table: str) -> dict[tuple[str, str], tuple[float, float]]:
    """Read a table: the number and its standard error by row and column."""
    head, *lines = table.strip().splitlines()
    columns, found = head.split(), {}
    for line in lines:
        *row, rest = line.strip().rsplit(maxsplit=len(columns))[0], line.split()[-len(columns) :]
        for column, word in zip(columns, rest, strict=True):
            mean, _, sem = word.partition("±")
            found[" ".join(row), column] = (float(mean), float(sem or "nan"))
    return found


def published(recipe: str, metric: str = "final") -> dict[tuple[str, str], tuple[float, float]]:
    found = load(recipe)
    return {(cell.row, cell.column): cell.published[metric] for cell in found.cells if metric in cell.published}


def check(found: tuple[float, float], expected: tuple[float, float]) -> None:
    assert found[0] == expected[0]
    assert math.isnan(expected[1]) or found[1] == expected[1]


@pytest.mark.parametrize(("place", "expected"), places(TABLE_1).items(), ids=lambda value: str(value))
def test_table_1_has_the_papers_numbers(place, expected):
    check(published("table-upper-bound" if place[1] == "RPL-UB" else "table-1")[place], expected)


@pytest.mark.parametrize(("place", "expected"), places(HAT).items(), ids=lambda value: str(value))
def test_the_comparison_with_hat_has_the_papers_numbers(place, expected):
    check(published("table-hat")[place], expected)


@pytest.mark.parametrize(("place", "mean"), PRESETS.items(), ids=lambda value: str(value))
def test_a_preset_has_the_papers_number(place, mean):
    preset, metric = place
    (text,) = [one.published for one in all_presets() if one.name == preset]
    assert read(text, metric).mean == pytest.approx(mean)


def test_the_second_table_has_its_own_numbers():
    found = published("table-upper-bound")
    assert {row: found[row, "HNET+R"][0] for row in SECOND} == SECOND


def test_the_tables_are_read_whole():
    assert len(places(TABLE_1)) == 42
    assert len(places(HAT)) == 10
