"""Named experiments: one TOML file each."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mnemon.errors import UsageError
from mnemon.experiments import cost
from mnemon.notation import NotationError, read_toml
from mnemon.registry import Registry
from mnemon.whole_files import is_there, read_text

FOLDER = Path(__file__).parent / "presets"
DEFAULT = "split-digits"
_FACTS = ("about", "cost", "published")


@dataclass(frozen=True)
class Preset:
    """An experiment that can be run by its name."""

    name: str
    about: str
    """What it is, in a sentence."""
    cost: str
    """Time per seed on one core of an ordinary machine."""
    published: str
    """The number of the paper, if there is one."""
    layers: tuple[dict[str, Any], ...]
    """Its settings as tables benchmark, target, method, optimizer, training: first those of what it is like."""

    def given(self, section: str, name: str) -> Any:
        """Return a setting as the files give it; None where they leave it at its default."""
        tables = (layer.get(section, {}) for layer in reversed(self.layers))
        return next((table[name] for table in tables if name in table), None)

    def seconds(self, changes: Mapping[str, Any], stated: str = "") -> float:
        """Return about how long a seed takes on one core with some settings changed: it grows with steps and tasks.

        `stated`: what it takes without the changes of both, where that is not the preset's cost.
        """
        found = cost.seconds(stated or self.cost)
        for section, name in (("training", "steps"), ("benchmark", "n_tasks")):
            before = self.given(section, name)
            after = [value for path, value in changes.items() if path in (name, f"{section}.{name}")]
            found *= float(after[-1]) / float(before) if before and after else 1.0
        return found


def load_preset(name: str) -> Preset:
    """Return a preset by its name, or from a TOML file by its path."""
    return _read(_find(name, Path()))


def is_preset(name: str) -> bool:
    """Tell whether there is a preset of this name."""
    return name in _files().all()


def all_presets() -> list[Preset]:
    """Return all presets in the order of their names."""
    return [_read(path) for _, path in sorted(_files().all().items())]


def register_presets(folder: str | Path) -> None:
    """Make presets of your own known by their names, beside those that come with mnemon.

    Args:
        folder: Where they are: one TOML file each, named after the preset. Other files are left alone.

    Raises:
        UsageError: If there is no preset in the folder, or a name is taken.

    Example:
        >>> folder = Path("presets")
        >>> folder.mkdir()
        >>> _ = (folder / "short-digits.toml").write_text('like = "split-digits"')
        >>> mnemon.register_presets(folder)
    """
    found = sorted(Path(folder).resolve().glob("*.toml"))
    if not found:
        raise UsageError(f"There is no preset in {folder}: a preset is a TOML file.")
    for path in found:
        _files().add(path.stem, path)


@functools.cache  # they come with the package and stay what they are
def _files() -> Registry[Path]:
    names = sorted(path.stem for path in FOLDER.glob("*.toml"))
    return Registry("preset", {name: FOLDER / f"{name}.toml" for name in names}, listing="mnemon presets")


def _find(name: str, beside: Path) -> Path:
    if not name.endswith(".toml"):
        return _files().find(name)
    if not is_there(beside / name):
        raise UsageError(f"There is no preset file {beside / name}.")
    return beside / name


@functools.cache  # many presets are like one
def _tables(text: str) -> dict[str, Any]:
    return read_toml(text)


def _read(path: Path, heirs: tuple[Path, ...] = ()) -> Preset:
    if path in heirs:
        raise UsageError(f"The preset file {path} inherits from itself.")
    try:
        values = dict(_tables(read_text(path)))
    except (NotationError, OSError, UnicodeDecodeError) as error:
        raise UsageError(f"The preset file {path} cannot be read: {error}.") from error
    facts = {name: str(values.pop(name, "")) for name in _FACTS}
    base = values.pop("like", None)
    below = () if base is None else _read(_find(str(base), path.parent), (*heirs, path)).layers
    return Preset(path.stem, layers=(*below, values), **facts)
