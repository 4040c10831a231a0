"""A recipe: which runs a table or figure of the paper is made of, as data.

A recipe is a TOML file in `recipes/`. Its cells name a preset, the settings by which they differ from it, and what is
measured. `grids` are cells that differ in the value of one setting, `architectures` cells with hypernetworks that are
drawn at random. What a budget changes stands in `budgets.toml` by the benchmark of a preset, unless the recipe or the
cell says otherwise. A published number stands in the preset; in the recipe only where there is no preset for it, or
the paper gives another one for the same run.
"""

from __future__ import annotations

import fnmatch
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mnemon.errors import UsageError, choose
from mnemon.experiments import cost
from mnemon.experiments.preset import Preset, all_presets
from mnemon.experiments.reproduce.architectures import Architectures
from mnemon.notation import read_toml
from mnemon.results.published import Published, read
from mnemon.results.verdict import UNKNOWN, Background, Other
from mnemon.whole_files import read_text

FOLDER = Path(__file__).parent.parent / "recipes"
PAPER, SHORT, SMOKE = "paper", "short", "smoke"
BUDGETS = {
    PAPER: "the paper's own protocol",
    SHORT: "about an hour on two cores for each",
    SMOKE: "about a minute for each, on the embedded digits",
}
_LEFT_OUT = "left out"
ALL = "all"
"""Stands for the names of all recipes."""
MOST_NAMES = 12
"""Cells that are named in a sentence."""


@dataclass(frozen=True)
class Variant:
    """What is run: a preset with some settings changed."""

    preset: str
    settings: tuple[str, ...]
    budget: str
    """The budget that changed the settings; empty where it changed none."""
    own: tuple[str, ...]
    """Those of the settings that are the cell's own."""
    full_cost: str = ""
    """What a seed of the paper's protocol costs, where it is not what the preset says."""
    stated_cost: str = ""
    """What a seed costs, where that does not follow from steps and tasks."""

    @property
    def exists(self) -> bool:
        """Whether there is such a preset."""
        return self.preset in presets()

    @property
    def seconds(self) -> float:
        """About how long a seed takes on one core: as stated, or as the preset says, times steps and tasks."""
        if self.stated_cost or not self.exists:
            return cost.seconds(self.stated_cost) if self.stated_cost else 0.0
        changes = {name: value for name, _, value in (word.partition("=") for word in self.settings)}
        return presets()[self.preset].seconds(changes, self.full_cost)


@dataclass(frozen=True)
class Cell:
    """One place of a table, or one point or line of a figure."""

    row: str
    column: str
    metrics: tuple[str, ...]
    variants: Mapping[str, Variant]
    """By budget, what is run; a budget that leaves the cell out has none."""
    preset: str
    settings: tuple[str, ...]
    """What it changes in its preset."""
    number: str | None
    """What was published for it; None where that is what was published for its preset."""
    x: float | None = None
    """Where it stands in a figure; None where that comes out of the run."""
    caveat: str = ""
    """Why even the paper's budget cannot be compared with the published number."""
    seeds: int | None = None
    """How many the paper averaged over, where that differs from the rest of the recipe."""

    @property
    def name(self) -> str:
        """What it is called in messages."""
        return " ".join(part for part in (self.row, self.column) if part)

    @functools.cached_property
    def published(self) -> Mapping[str, Published]:
        """What was published, by metric."""
        text = self.number if self.number is not None else _number_of(self.preset, self.settings)
        found = {metric: read(text, metric) for metric in self.metrics}
        return {metric: number for metric, number in found.items() if number is not None}


@dataclass(frozen=True)
class Recipe:
    """A table or figure of the paper."""

    name: str
    about: str
    where: str
    """Where it stands in the paper."""
    figure: str
    """What is drawn of it: see figures.py; empty for a table."""
    against: str
    """What the x axis is, in a figure that has one."""
    seeds: Mapping[str, int]
    """By budget, how many there are unless the user says another number; the paper's is what it averaged over."""
    cells: tuple[Cell, ...]

    def n_seeds(self, cell: Cell, budget: str) -> int:
        """Return how many seeds of a cell a budget runs."""
        return cell.seeds if cell.seeds is not None and budget == PAPER else self.seeds[budget]

    def published_seeds(self, cell: Cell) -> int:
        """Return over how many seeds the published number of a cell was averaged."""
        known = background(cell.preset).seeds if cell.number is None else None
        return known or self.n_seeds(cell, PAPER)

    def numbers(self, cell: Cell, metric: str) -> list[tuple[Published, int | None]]:
        """Return what was published for the runs of a cell, each number with its number of seeds.

        The cell's own comes first, then those that the preset and other recipes have for the same settings.
        """
        own = cell.published.get(metric)
        if own is None:
            return []
        found: dict[Published, int | None] = {own: self.published_seeds(cell)}
        if cell.number is None or not cell.settings:
            known = background(cell.preset)
            texts = [(_number_of(cell.preset, ()), known.seeds), *((one.text, one.seeds) for one in known.others)]
            for text, seeds in texts:
                if (number := read(text, metric)) is not None:
                    found.setdefault(number, seeds)
        return list(found.items())

    def seconds(self, budget: str, seeds: int | None = None) -> float:
        """Return about how long it takes on one core."""
        runs = {c.variants[budget]: seeds or self.n_seeds(c, budget) for c in self.cells if budget in c.variants}
        return sum(n * variant.seconds for variant, n in runs.items())

    @property
    def waits_for(self) -> list[str]:
        """The presets that do not exist yet."""
        names = (variant.preset for cell in self.cells for variant in cell.variants.values() if not variant.exists)
        return sorted(dict.fromkeys(names))


@functools.cache
def presets() -> dict[str, Preset]:
    """Return all presets by name."""
    return {preset.name: preset for preset in all_presets()}


def names() -> list[str]:
    """Return the names of all recipes, tables first."""
    found = (path.stem for path in FOLDER.glob("*.toml") if path.stem != "budgets")
    return sorted(found, key=lambda name: (not name.startswith("table"), not name.startswith("fig"), name))


def load(name: str) -> Recipe:
    """Return a recipe by its name."""
    choose("recipe", name, dict.fromkeys(names()))
    return _load(FOLDER / f"{name}.toml")


@functools.cache
def _load(path: Path) -> Recipe:
    table = _read(path)
    cells = [_cell(table, cell) for cell in table.get("cells", ())]
    cells += [cell for grid in table.get("grids", ()) for cell in _grid(table, grid)]
    cells += [cell for drawn in table.get("architectures", ()) for cell in _architectures(table, drawn)]
    if not cells:
        raise UsageError(f"The recipe {path.stem} has no cells.")
    seeds = {PAPER: 1, SHORT: 1, SMOKE: 1, **table.get("seeds", {})}
    figure, against = table.get("figure", ""), table.get("against", "")
    return Recipe(path.stem, table["about"], table["where"], figure, against, seeds, tuple(cells))


def chosen(wanted: Sequence[str], only: Sequence[str] = ()) -> list[Recipe]:
    """Return the recipes of these names, all without a name or by "all"; of their cells those that fit a pattern."""
    recipes = [load(name) for name in (names() if ALL in wanted else dict.fromkeys(wanted or names()))]
    if not only:
        return recipes
    found = [replace(r, cells=tuple(cell for cell in r.cells if _fits(cell, only))) for r in recipes]
    if not any(recipe.cells for recipe in found):
        known = list(dict.fromkeys(cell.name for recipe in recipes for cell in recipe.cells))
        raise UsageError(
            f"No cell of {', '.join(recipe.name for recipe in recipes)} fits {' or '.join(map(repr, only))}. "
            f"Their names are {', '.join(known[:MOST_NAMES])}{' and so on' if len(known) > MOST_NAMES else ''}."
        )
    return [recipe for recipe in found if recipe.cells]


def _fits(cell: Cell, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(cell.name, pattern) for pattern in patterns)


def _number_of(preset: str, settings: tuple[str, ...]) -> str:
    """Return what was published for a preset, if these settings leave it what it is."""
    text = presets()[preset].published if preset in presets() else ""
    return text if text and (not settings or _key(preset, settings) == _key(preset)) else ""


@functools.cache
def _key(preset: str, settings: tuple[str, ...] = ()) -> str:
    from mnemon.experiments.reproduce.run_index import key_of  # here: torch, which a list of recipes can do without
    from mnemon.experiments.run_config import resolve

    return key_of(resolve(presets()[preset], settings))


def waits(recipe: Recipe) -> str:
    """Say for what a recipe waits."""
    return f"waiting for its network: there is no preset {', '.join(recipe.waits_for)} yet"


def background(preset: str) -> Background:
    """Return what the recipes know of the number that was published for a preset."""
    return _backgrounds(FOLDER).get(preset, UNKNOWN)


@functools.cache
def _backgrounds(folder: Path) -> dict[str, Background]:
    found: dict[str, Background] = {}
    for path in sorted(folder.glob("*.toml")):
        table = _read(path)
        for cell in table.get("cells", ()):
            if not cell.get("settings"):
                before = found.get(cell["preset"], UNKNOWN)
                seeds = cell.get("seeds", table.get("seeds", {}).get(PAPER))
                caveat = cell.get("caveat", table.get("caveat", ""))
                found[cell["preset"]] = _with_cell(before, cell.get("published"), seeds, caveat, path.stem)
    return found


def _with_cell(before: Background, text: str | None, seeds: int | None, caveat: str, recipe: str) -> Background:
    """Add what a cell that changes nothing in its preset says of the preset's number, or its own other number."""
    if text is None:
        return replace(before, seeds=max(seeds or 0, before.seeds or 0) or None, caveat=before.caveat or caveat)
    other = (Other(text, seeds, recipe),) if text and not caveat else ()
    return replace(before, others=(*before.others, *other))


@functools.cache
def _read(path: Path) -> dict[str, Any]:
    return read_toml(read_text(path))


def _cell(recipe: dict[str, Any], cell: dict[str, Any], x: float | None = None) -> Cell:
    metrics = tuple(cell.get("metrics", recipe.get("metrics", ["final"])))
    found = {budget: _variant(recipe, cell, budget) for budget in BUDGETS}
    return Cell(
        cell.get("row", ""),
        cell.get("column", ""),
        metrics,
        {budget: variant for budget, variant in found.items() if variant is not None},
        cell["preset"],
        tuple(cell.get("settings", ())),
        cell.get("published"),
        x,
        cell.get("caveat", recipe.get("caveat", "")),
        cell.get("seeds"),
    )


def _variant(recipe: dict[str, Any], cell: dict[str, Any], budget: str) -> Variant | None:
    own = tuple(cell.get("settings", ()))
    changes = cell.get(budget, recipe.get(budget))
    if changes is None:
        benchmark = presets()[cell["preset"]].given("benchmark", "name") if cell["preset"] in presets() else ""
        changes = _read(FOLDER / "budgets.toml").get(budget, {}).get(benchmark, {})
    if changes == _LEFT_OUT:
        return None
    settings = tuple(changes.get("settings", ()))
    preset = changes.get("preset", cell["preset"])
    return Variant(
        preset, (*settings, *own), budget if settings else "", own, cell.get("cost", ""), changes.get("cost", "")
    )


def _grid(recipe: dict[str, Any], grid: dict[str, Any]) -> list[Cell]:
    """Return a cell for each value of a setting; budgets may have values of their own."""
    setting, by_budget = (
        grid["setting"],
        {budget: grid[f"values-{budget}"] for budget in BUDGETS if f"values-{budget}" in grid},
    )
    lists = {budget: by_budget.get(budget, grid["values"]) for budget in BUDGETS}
    cells = []
    for value in dict.fromkeys(value for values in lists.values() for value in values):
        shown = f"{value:g}"
        cell = {**grid, "settings": [*grid.get("settings", ()), f"{setting}={shown}"]}
        cell["row"] = f"{grid.get('label', setting.rpartition('.')[2])} {shown}"
        for budget, values in lists.items():
            if value not in values:
                cell[budget] = _LEFT_OUT
        cells.append(_cell(recipe, cell, float(value) if recipe.get("against") != "compression" else None))
    return cells


def _architectures(recipe: dict[str, Any], drawn: dict[str, Any]) -> list[Cell]:
    """Return a cell for each hypernetwork that is drawn, for each budget its own."""
    cells = []
    for budget in BUDGETS:
        sizes = Architectures(**drawn["sizes"], **drawn["targets"].get(budget, drawn["targets"][PAPER]))
        for low, high, settings in sizes.draw(drawn["bins"], drawn["per_bin"][budget], drawn["seed"]):
            others = {other: _LEFT_OUT for other in BUDGETS if other != budget}
            row = f"compression {low:g} to {high:g}"
            cells.append(_cell(recipe, {**drawn, **others, "row": row, "settings": settings}))
    return cells
