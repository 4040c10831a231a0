"""Recipes: all of them can be run, each run has one place, and a published number stands once."""

from __future__ import annotations

import itertools
import math

import pytest

from mnemon.errors import UsageError
from mnemon.experiments.compute import Compute
from mnemon.experiments.reproduce import recipe
from mnemon.experiments.reproduce.architectures import Architectures
from mnemon.experiments.reproduce.figures import FIGURES
from mnemon.experiments.reproduce.plan import folder_name, wanted
from mnemon.experiments.reproduce.recipe import BUDGETS, PAPER, SHORT, SMOKE, load, names, presets
from mnemon.experiments.run import build_run
from mnemon.experiments.run_config import resolve
from mnemon.results.published import read
from mnemon.results.verdict import Background, Other

NAMES = [
    "table-1", "table-forgetting", "table-hat", "table-upper-bound",
    "fig-architectures", "fig-beta", "fig-cifar", "fig-compression", "fig-digits", "fig-embedding-2d",
    "fig-ewc-lambda", "fig-hnet-vs-target-forgetting", "fig-permuted-100", "fig-regression", "fig-search",
    "fig-zenke", "baselines-searched", "permuted-250", "small-capacity",
]  # fmt: skip
SOME = 10
"""Of the architectures that the paper drew, those that are tried here."""


def cells_of(name: str) -> list:
    """All cells of a recipe; of many that are drawn at random, some."""
    cells = load(name).cells
    drawn = [cell for cell in cells if PAPER in cell.variants]
    return [*drawn[:SOME], *(c for c in cells if PAPER not in c.variants)] if len(drawn) > 100 else list(cells)


def test_the_recipes_are_known():
    assert names() == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_says_what_it_is_and_every_cell_is_run_at_some_budget(name):
    found = load(name)
    assert found.about.endswith(".")
    assert found.where
    assert found.figure in ("", *FIGURES)
    assert all(cell.variants for cell in found.cells)
    assert set(found.seeds) == set(BUDGETS)


@pytest.mark.parametrize("name", NAMES)
def test_a_cell_names_presets_that_exist_or_waits_for_those_of_cifar(name):
    for cell in cells_of(name):
        for variant in cell.variants.values():
            assert variant.exists or variant.preset.startswith("cifar-")
            if variant.exists:
                assert variant.seconds > 0
                resolve(presets()[variant.preset], variant.settings)


def test_every_run_has_one_folder_and_every_folder_one_run():
    runs: dict[str, set[str]] = {}
    for budget in BUDGETS:
        recipes = [load(name) for name in NAMES if (name, budget) != ("fig-architectures", PAPER)]
        for one in wanted(recipes, budget):
            if one.config is not None:
                runs.setdefault(folder_name(one.variant), set()).add(one.key)
    assert len(runs) > 200
    assert [name for name, keys in runs.items() if len(keys) > 1] == []
    assert all(name == name.strip("-. ") and not set(name) & set(' /\\:*?"<>|') and len(name) < 120 for name in runs)


def test_budgets_keep_their_promises():
    two_cores = {name: {budget: load(name).seconds(budget) / 2 for budget in BUDGETS} for name in NAMES}
    assert max(costs[SHORT] for costs in two_cores.values()) < 1.75 * 3600
    assert max(costs[SMOKE] for costs in two_cores.values()) < 90
    assert sum(costs[SMOKE] for costs in two_cores.values()) < 20 * 60


@pytest.mark.parametrize("name", NAMES)
def test_smoke_needs_no_data_but_what_is_embedded(name):
    for one in wanted([load(name)], SMOKE):
        assert one.config.benchmark_name in ("split-digits", "permuted-digits", "toy-regression")


def test_the_first_table_has_all_its_numbers_with_their_spread():
    cells = load("table-1").cells
    assert len({(cell.row, cell.column) for cell in cells}) == 36
    assert all(not math.isnan(cell.published["final"].sem) for cell in cells)
    found = {(cell.row, cell.column): cell.published["final"] for cell in cells}
    assert found["S-CL3", "HNET+R"] == (95.30, 0.13)
    assert found["P10-CL1", "EWC"] == (95.96, 0.06)


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_does_not_repeat_the_number_of_its_preset(name):
    table = recipe._read(recipe.FOLDER / f"{name}.toml")
    for cell in table.get("cells", ()):
        own, preset = cell.get("published"), presets().get(cell["preset"])
        if own and preset and not cell.get("settings"):
            assert read(own) != read(preset.published), cell


@pytest.mark.parametrize(
    ("name", "row", "number"),
    [
        ("fig-compression", "chunk 78000", {"final": (97.57, 0.02), "during": (97.58, 0.02)}),
        ("fig-compression", "chunk 32000", {}),
        ("fig-beta", "beta 0.01", {"final": (96.18, 0.09), "during": (96.12, 0.08)}),
        ("fig-beta", "beta 0.1", {}),
    ],
)
def test_a_point_of_a_figure_has_the_number_of_its_preset_where_it_is_that_preset(name, row, number):
    (cell,) = [cell for cell in load(name).cells if cell.row == row]
    assert cell.published == number


@pytest.mark.parametrize(
    ("preset", "found"),
    [
        ("permuted-10", Background(20, others=(Other("97.56 ± 0.02", 5, "table-hat"),))),
        ("permuted-10-small-hat", Background(5, "HAT was trained for 200 epochs with a falling rate")),
        ("split-mnist-cl3-hnet-r", Background(20, others=(Other("94.97 ± 0.18", 20, "table-upper-bound"),))),
        ("split-digits", Background()),
    ],
)
def test_the_recipes_know_what_else_is_known_of_the_number_of_a_preset(preset, found):
    assert recipe.background(preset) == found


def cell_of(name: str, row: str, column: str) -> tuple[recipe.Recipe, recipe.Cell]:
    found = load(name)
    (cell,) = [cell for cell in found.cells if (cell.row, cell.column) == (row, column)]
    return found, cell


@pytest.mark.parametrize(
    ("name", "row", "column", "numbers"),
    [
        ("table-1", "S-CL3", "HNET+R", [((95.30, 0.13), 20), ((94.97, 0.18), 20)]),
        ("table-upper-bound", "S-CL3", "HNET+R", [((94.97, 0.18), 20), ((95.30, 0.13), 20)]),
        ("table-1", "S-CL3", "DGR", [((91.79, 0.32), 20)]),
        ("table-hat", "P10 1000, 1000", "HNET", [((97.56, 0.02), 5), ((97.57, 0.02), 20)]),
        ("table-hat", "P10 500, 500", "HNET", [((97.35, 0.02), 5)]),
        ("fig-compression", "chunk 78000", "HNET", [((97.57, 0.02), 20), ((97.56, 0.02), 5)]),
        ("fig-compression", "chunk 32000", "HNET", []),
    ],
)
def test_a_cell_has_all_numbers_that_were_published_for_its_runs_its_own_first(name, row, column, numbers):
    found, cell = cell_of(name, row, column)
    assert found.numbers(cell, "final") == numbers


def test_another_metric_has_the_numbers_that_tell_of_it():
    found, cell = cell_of("table-forgetting", "S-CL1", "HNET+R")
    assert found.numbers(cell, "during") == [((99.82, 0.01), 20)]
    assert len(found.numbers(cell, "final")) == 2


def test_the_number_of_a_preset_is_over_as_many_seeds_in_every_recipe():
    (cell,) = [cell for cell in load("fig-compression").cells if cell.row == "chunk 78000"]
    assert load("fig-compression").published_seeds(cell) == 20
    own = next(cell for cell in load("table-hat").cells if cell.preset == "permuted-10" and not cell.settings)
    assert load("table-hat").published_seeds(own) == 5


def test_an_unknown_recipe_is_answered_with_the_nearest():
    with pytest.raises(
        UsageError, match=r"^Unknown recipe 'table1'\. Did you mean 'table-1'\? Choose one of: table-1, "
    ):
        load("table1")


# Costs


def test_a_cost_follows_steps_and_tasks():
    whole, less = (
        recipe.Variant("permuted-10", settings, "", ()) for settings in ((), ("steps=500", "benchmark.n_tasks=5"))
    )
    assert less.seconds == pytest.approx(whole.seconds / 20)


# Architectures


SIZES = Architectures([1, 2], [5, 10, 20], [50, 100, 500], [8, 12], embedding_size=96, weights=6310, n_tasks=5)


def test_architectures_are_those_of_the_seed_and_fewer_are_the_first_of_more():
    bins = [0.1, 0.5, 1.0, 2.0]
    many = list(SIZES.draw(bins, 4, seed=0))
    assert many == list(SIZES.draw(bins, 4, seed=0)) != list(SIZES.draw(bins, 4, seed=1))
    for low, high in itertools.pairwise(bins):
        of_bin = [words for a, b, words in many if (a, b) == (low, high)]
        assert [w for a, b, w in SIZES.draw(bins, 2, seed=0) if (a, b) == (low, high)] == of_bin[:2]
        assert len({tuple(words) for words in of_bin}) == len(of_bin)


@pytest.mark.parametrize("column", ["split MNIST", "permuted-10"])
def test_architectures_have_the_compression_of_their_bin(column):
    cells = [cell for cell in load("fig-architectures").cells if SMOKE in cell.variants and cell.column == column]
    assert len(cells) >= 3
    for cell in cells:
        variant = cell.variants[SMOKE]
        record = build_run(resolve(presets()[variant.preset], variant.settings), 0, Compute("cpu")).record
        _, low, _, high = cell.row.split()
        assert float(low) <= record.counts["compression"] < float(high)
