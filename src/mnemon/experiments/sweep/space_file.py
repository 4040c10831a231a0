"""The file of a space: what it says, before its settings are looked up. It can be listed without torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mnemon.config import convert
from mnemon.errors import UsageError, choose, suggest
from mnemon.experiments import cost
from mnemon.experiments.preset import load_preset
from mnemon.notation import NotationError, read_toml
from mnemon.whole_files import read_text

FOLDER = Path(__file__).parents[1] / "spaces"
ENTRIES = ("about", "cost", "preset", "sampler", "criterion", "pruning", "trials", "set", "search")
OF_A_RANGE = ("choices", "low", "high", "step", "log", "layers", "widths")
TRIALS = 50


@dataclass(frozen=True)
class SpaceFile:
    """A file that says what is searched."""

    path: Path
    entries: dict[str, Any]

    @property
    def about(self) -> str:
        """What it is, in a sentence."""
        return str(self.entries.get("about", ""))

    @property
    def preset(self) -> str:
        """The name or the path by which its preset is found."""
        name = str(self.entries.get("preset") or "")
        if not name:
            raise UsageError('It has no preset: add a line such as preset = "split-digits".')
        return str((self.path.parent / name).resolve()) if name.endswith(".toml") else name

    @property
    def fixed(self) -> dict[str, Any]:
        """The settings of all trials, by the names that the file has for them."""
        return dict(_flat(self._table("set")))

    @property
    def searched(self) -> dict[str, Any]:
        """What is said of each setting that is searched, by the name that the file has for it."""
        return dict(_flat(self._table("search"), stops=_is_range))

    @property
    def trials(self) -> int:
        """How many trials there are unless the user says another number."""
        trials: int = convert(int, self.entries.get("trials", TRIALS), "trials")
        if trials < 1:
            raise UsageError(f"trials must be above 0, not {trials}.")
        return trials

    @property
    def pruning(self) -> bool:
        """Whether trials that fall behind are stopped."""
        pruning: bool = convert(bool, self.entries.get("pruning", True), "pruning")
        return pruning

    @property
    def seconds(self) -> float:
        """About how long a trial takes on one core: as it says, or as a run of its preset with what is fixed."""
        stated = self.entries.get("cost")
        return cost.seconds(str(stated)) if stated else load_preset(self.preset).seconds(self.fixed)

    def _table(self, name: str) -> dict[str, Any]:
        table = self.entries.get(name, {})
        if not isinstance(table, dict):
            raise UsageError(f"'{name}' must be a table, not {table!r}.")
        return table


def all_spaces() -> dict[str, Path]:
    """Return the files of the spaces that come with mnemon, by their names."""
    return {name: FOLDER / f"{name}.toml" for name in sorted(path.stem for path in FOLDER.glob("*.toml"))}


def read_space(name: str) -> SpaceFile:
    """Read the file of a space, by its name or its path."""
    path = Path(name) if name.endswith(".toml") else choose("space", name, all_spaces())
    try:
        entries = read_toml(read_text(path))
    except FileNotFoundError as error:
        raise UsageError(f"There is no space file {path}.") from error
    except (NotationError, OSError, UnicodeDecodeError) as error:
        raise UsageError(f"The space file {path} cannot be read: {error}.") from error
    return _checked(SpaceFile(path, entries))


def space_of_tables(entries: Mapping[str, Any]) -> SpaceFile:
    """Return a space from tables, as a file has them."""
    return _checked(SpaceFile(Path("space"), dict(entries)))


def _checked(file: SpaceFile) -> SpaceFile:
    with said_of(file.path):
        for entry in file.entries:
            if entry not in ENTRIES:
                raise UsageError(f"Unknown entry '{entry}'.{suggest(entry, ENTRIES)} Known: {', '.join(ENTRIES)}.")
    return file


def _is_range(value: Mapping[str, Any]) -> bool:
    nested = any(isinstance(item, Mapping) for item in value.values())
    return not value or (not nested and any(key in value for key in OF_A_RANGE))


def _flat(
    table: Mapping[str, Any], prefix: str = "", stops: Callable[[Mapping[str, Any]], bool] = lambda value: False
) -> Iterator[tuple[str, Any]]:
    """Give the entries of nested tables by their dotted names: in TOML a.b = 1 is a table a."""
    for key, value in table.items():
        name = f"{prefix}{key}".replace("-", "_")
        if isinstance(value, Mapping) and not stops(value):
            yield from _flat(value, f"{name}.", stops)
        else:
            yield name, value


@contextmanager
def said_of(what: object) -> Iterator[None]:
    """Name what an error is about."""
    try:
        yield
    except UsageError as error:
        raise type(error)(f"{what}: {error}") from error
