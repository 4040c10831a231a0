"""Modules from outside the package that add methods, benchmarks or presets: how they are found and imported.

A plugin is named on the command line (`--plugin my_module`), comes with an installed package (the entry points
`mnemon.plugins`), or is any module that calls `mnemon.register_method` and the like.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from mnemon.errors import UsageError, first_line

GROUP = "mnemon.plugins"
"""The entry points by which an installed package names its modules."""
MAIN = "__main__"
"""Where something is defined that no other process can import: a notebook, or an interactive session."""


class Plugin(NamedTuple):
    """A module that adds names, and the folder that it is imported from."""

    module: str
    folder: str = ""


_named: dict[str, Plugin] = {}
"""What was named on the command line, by the words."""
_used: dict[str, Plugin] = {}
"""All plugins that have added something, by their modules."""
_loading: list[Plugin] = []
"""Plugins that are being imported now, the innermost at the end."""
_searched: list[bool] = []
"""Not empty once installed packages were looked at."""


def load(word: str) -> None:
    """Import the plugin that a user names.

    Args:
        word: A module that can be imported from the working folder, or the path of a .py file.

    Raises:
        UsageError: If there is no such module or file, or if importing it fails.
    """
    plugin = _in_file(Path(word)) if word.endswith(".py") else Plugin(word, str(Path.cwd()))
    _import(plugin, word)
    _named[word] = plugin


def words() -> list[str]:
    """Return what to type so that another command has the same plugins."""
    return [part for word in _named for part in ("--plugin", word)]


def require(plugins: Iterable[Plugin]) -> None:
    """Import plugins in a process that was started for a job."""
    for plugin in plugins:
        if plugin.module not in _used:
            _import(plugin, plugin.module)


def that_travel(needed: list[Plugin]) -> list[Plugin]:
    """Return plugins for another process, and refuse what it could not import."""
    if Plugin(MAIN) in needed:
        raise UsageError(
            "What is defined in a notebook or an interactive session cannot be used by other processes: put it into "
            "a .py file and import it from there, or compute with workers=1."
        )
    return needed


def missing(modules: Iterable[str]) -> list[str]:
    """Return those of some plugins that have added nothing here."""
    wanted = list(modules)
    if wanted:
        load_installed()
    return [module for module in wanted if module not in _used]


def note_of_missing(modules: Iterable[str]) -> str:
    """Say which of the plugins of a run are missing, and what to do; nothing if all are there."""
    found = missing(modules)
    if not found:
        return ""
    some = f"plugin {found[0]}, which is" if len(found) == 1 else f"plugins {', '.join(found)}, which are"
    return f"Needs the {some} not loaded: to resume, add {' '.join(f'--plugin {module}' for module in found)}."


def load_installed() -> None:
    """Import the plugins of installed packages, once; a broken one is named in a line and left out."""
    if _searched:
        return
    _searched.append(True)
    import importlib.metadata as installed  # slow to import, and mostly not needed

    for entry in installed.entry_points(group=GROUP):
        try:
            with _being_loaded(Plugin(entry.module)):
                entry.load()
        except Exception as error:  # whatever is wrong with it, mnemon can do without
            reason = f"{type(error).__name__}: {first_line(error)}"
            logging.getLogger("mnemon").warning("The plugin '%s' is left out: %s", entry.name, reason)


def loading() -> str:
    """Return the plugin that is being imported now; nothing if there is none."""
    return _loading[-1].module if _loading else ""


def origin(item: object) -> Plugin:
    """Return the plugin that adds an object: the one that is being imported, or else the module of the object."""
    plugin = _loading[-1] if _loading else _home(str(getattr(item, "__module__", MAIN)))
    _used[plugin.module] = plugin
    return plugin


def source_of(item: object) -> tuple[str, str] | None:
    """Return the file and the name with which a class or function was defined; None where it has no such name."""
    name = str(getattr(item, "__qualname__", "<"))
    module = sys.modules.get(str(getattr(item, "__module__", "")))
    if module is None or "<lambda>" in name or name == "<":
        return None
    file = getattr(module, "__file__", None)
    return (str(Path(file).resolve()) if file else module.__name__, name)


def _in_file(path: Path) -> Plugin:
    if not path.is_file():
        raise UsageError(f"There is no plugin file {path}.")
    plugin = Plugin(path.stem, str(path.resolve().parent))
    loaded = sys.modules.get(plugin.module)
    file = getattr(loaded, "__file__", None)
    if loaded is not None and (file is None or Path(file).resolve() != path.resolve()):
        raise UsageError(f"The plugin {path} has the name of another module, {plugin.module}: rename the file.")
    return plugin


def _import(plugin: Plugin, word: str) -> None:
    if plugin.folder and plugin.folder not in sys.path:
        sys.path.append(plugin.folder)
    importlib.invalidate_caches()
    try:
        with _being_loaded(plugin):
            importlib.import_module(plugin.module)
    except UsageError as error:
        raise UsageError(f"The plugin {word} cannot be used: {error}") from error
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name == plugin.module.partition(".")[0]:
            raise UsageError(
                f"There is no module {word}, neither in {plugin.folder or 'this environment'} nor installed: "
                "name a module, or the path of a .py file."
            ) from error
        reason = f"{type(error).__name__}: {first_line(error)}"
        raise UsageError(f"The plugin {word} cannot be imported: {reason}") from error


@contextlib.contextmanager
def _being_loaded(plugin: Plugin) -> Iterator[None]:
    _loading.append(plugin)
    try:
        yield
    finally:
        _loading.pop()


def _home(module: str) -> Plugin:
    """Return the plugin that a module is; a script is one by the name of its file."""
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None or not Path(file).is_file():  # such as a notebook, or what comes through a pipe
        return Plugin(module)
    path = Path(file).resolve()
    if module in (MAIN, "__mp_main__"):
        return Plugin(path.stem, str(path.parent))
    above = module.count(".") + (path.stem == "__init__")
    return Plugin(module, str(path.parents[above]))
