"""Ways in which a file of plain values (JSON, TOML) can be wrong: every value replaced, every key dropped or added.

Pure functions over plain values. `mutations` gives all that differ in one place; `some_mutations` gives a sample,
always the same for a seed, for values of which all would take too long.

    >>> [mutant for _, mutant in mutations({"a": 1}, values=(None, "x"))]
    [None, 'x', {'a': None}, {'a': 'x'}, {}, {'a': 1, 'added': 1}]
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

Path = tuple[str | int, ...]

VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1e308, -1e308, 5e-324, 10**30, float("inf"), float("nan"),
    "x", "", "a\u0000b", "../x", "\x1b[31m", [], {}, [[]], [[1, "x"]], {"x": {}},
)  # fmt: skip
"""What a value is replaced by: another type, a number out of range, a text that means something elsewhere."""


def paths(value: Any, path: Path = ()) -> Iterator[Path]:
    """Give the path of every value within a value, the whole first."""
    yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from paths(value[key], (*path, key))


def replaced(value: Any, path: Path, new: Any) -> Any:
    """Return a value with another one at a path."""
    if not path:
        return new
    copy = value.copy()
    copy[path[0]] = replaced(value[path[0]], path[1:], new)
    return copy


def removed(value: Any, path: Path) -> Any:
    """Return a value without what is at a path, which is not the whole."""
    copy = value.copy()
    if len(path) == 1:
        del copy[path[0]]
    else:
        copy[path[0]] = removed(value[path[0]], path[1:])
    return copy


def at(value: Any, path: Path) -> Any:
    """Return what is at a path."""
    for key in path:
        value = value[key]
    return value


def mutations(value: Any, values: Sequence[Any] = VALUES) -> Iterator[tuple[str, Any]]:
    """Give every mutant that differs from a value in one place, with words that say how."""
    everywhere = list(paths(value))
    for path in everywhere:
        for new in values:
            yield f"{path} = {new!r}", replaced(value, path, new)
    for path in everywhere[1:]:
        yield f"{path} removed", removed(value, path)
    for path in everywhere:
        here = at(value, path)
        if isinstance(here, dict):
            yield f"{path} with one key more", replaced(value, path, {**here, "added": 1})
        elif isinstance(here, list):
            yield f"{path} with one item more", replaced(value, path, [*here, *(here[:1] or [1])])


def some_mutations(value: Any, most: int, seed: int = 0, values: Sequence[Any] = VALUES) -> list[tuple[str, Any]]:
    """Return at most so many mutants, drawn without replacement."""
    found = list(mutations(value, values))
    return random.Random(seed).sample(found, min(most, len(found)))
