"""Tables of names that can be added to from outside the package."""

from __future__ import annotations

import re
from typing import Generic, TypeVar

from mnemon import plugins
from mnemon.errors import UsageError, choose
from mnemon.plugins import Plugin

T = TypeVar("T")
_NAME = re.compile(r"[A-Za-z0-9][\w-]*")


class Registry(Generic[T]):
    """A table of what can be chosen by a name, open to plugins.

    The table is a plain dict, in which what comes with mnemon is written down. Names from outside are added to it.
    """

    def __init__(self, kind: str, table: dict[str, T], setting: str = "", listing: str = ""):
        """Open a table.

        Args:
            kind: What the names stand for, as errors call it.
            table: What comes with mnemon.
            setting: The end of the path of the settings that hold such a name.
            listing: The command that lists the names, if there is one.
        """
        self.kind, self.table, self.setting, self.listing = kind, table, setting, listing
        self.plugins: dict[str, Plugin] = {}
        """Where each name comes from that was added."""
        self._built_in = frozenset(table)

    def add(self, name: str, item: T) -> None:
        """Add a name; the same object may be added again, as when its module is imported again."""
        if not _NAME.fullmatch(name):
            raise UsageError(f"A {self.kind} is named by letters, digits, - and _, not '{name}'.")
        if name in self._built_in:
            raise UsageError(f"The {self.kind} '{name}' comes with mnemon: register yours under another name.")
        if name in self.plugins and not _same(self.table[name], item):
            raise UsageError(
                f"The {self.kind} '{name}' is registered by {self.plugins[name].module} already: choose another name."
            )
        self.table[name] = item
        self.plugins[name] = plugins.origin(item)

    def find(self, name: str) -> T:
        """Return what a name stands for; installed plugins are looked at if it is not known yet."""
        if name not in self.table:
            plugins.load_installed()
        return choose(self.kind, name, self.table, self.listing)

    def all(self) -> dict[str, T]:
        """Return all names with what they stand for, those of installed plugins included."""
        plugins.load_installed()
        return self.table

    def name_of(self, item: T) -> str | None:
        """Return the name of an object; None if it has none."""
        return next((name for name, found in self.table.items() if _same(found, item)), None)

    def is_named_by(self, path: str) -> bool:
        """Tell whether the setting at a dotted path holds a name of this table."""
        return bool(self.setting) and f".{path}".endswith(f".{self.setting}")


def _same(one: object, other: object) -> bool:
    """Tell whether two objects are one, or come from the same place of the same file."""
    return one is other or one == other or (plugins.source_of(one) or one) == plugins.source_of(other)
