"""Modules from outside the package: found, imported once, and named where something is wrong with them."""

from __future__ import annotations

import importlib.metadata
import re
import sys
import types
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from mnemon import plugins
from mnemon.errors import UsageError
from mnemon.plugins import Plugin


@pytest.fixture(autouse=True)
def forget(monkeypatch, tmp_path):
    """Let each test begin without plugins, in a folder of its own."""
    for name in ("_named", "_used"):
        monkeypatch.setattr(plugins, name, {})
    monkeypatch.setattr(plugins, "_searched", [])
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


def refused(message: str):
    return pytest.raises(UsageError, match=f"^{re.escape(message)}")


def write(name: str, text: str = "from mnemon import plugins\nplugins.origin(0)\n") -> Path:
    path = Path(name)
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize("word", ["plugin_a", "plugin_a.py", "./plugin_a.py"])
def test_a_plugin_is_a_module_of_the_working_folder_or_a_file(word):
    write("plugin_a.py")
    plugins.load(word)
    assert "plugin_a" in sys.modules
    assert plugins.missing(["plugin_a", "plugin_b"]) == ["plugin_b"]
    assert plugins.words() == ["--plugin", word]


def test_a_file_elsewhere_can_import_what_lies_beside_it():
    write("else/plugin_b.py", "import beside_b\n")
    write("else/beside_b.py")
    plugins.load("else/plugin_b.py")
    assert plugins.missing(["plugin_b"]) == [], "what is added while a plugin is imported belongs to it"
    assert plugins.missing(["beside_b"]) == ["beside_b"]


def test_a_worker_imports_what_a_job_needs_from_where_it_was():
    path = write("else/plugin_c.py").resolve()
    plugins.require([Plugin("plugin_c", str(path.parent))])
    assert "plugin_c" in sys.modules


@pytest.mark.parametrize(
    ("word", "text", "message"),
    [
        ("plugin_d", None, "There is no module plugin_d, neither in "),
        ("plugin_d.py", None, "There is no plugin file plugin_d.py."),
        ("plugin_d.py", "1 / 0", "The plugin plugin_d.py cannot be imported: ZeroDivisionError: division by zero"),
        ("plugin_d", "def", "The plugin plugin_d cannot be imported: SyntaxError: "),
        (
            "plugin_d",
            "import no_such_d",
            "The plugin plugin_d cannot be imported: ModuleNotFoundError: No module named",
        ),
        (
            "plugin_d",
            "import mnemon\nmnemon.register_method('hypernet')(mnemon.HypernetLearner)",
            "The plugin plugin_d cannot be used: The method 'hypernet' comes with mnemon: register yours",
        ),
        ("json.py", "", "The plugin json.py has the name of another module, json: rename the file."),
    ],
)
def test_what_is_wrong_with_a_plugin_is_said_in_a_line(word, text, message):
    import json  # noqa: F401

    if text is not None:
        write(word if word.endswith(".py") else f"{word}.py", text)
    with refused(message):
        plugins.load(word)


@pytest.mark.parametrize(
    ("module", "file", "plugin"),
    [
        ("__main__", "script.py", Plugin("script", ".")),
        ("__main__", None, Plugin("__main__")),
        ("__main__", "<stdin>", Plugin("__main__")),
        ("deep.own.methods", "deep/own/methods.py", Plugin("deep.own.methods", ".")),
        ("deep.own", "deep/own/__init__.py", Plugin("deep.own", ".")),
    ],
)
def test_a_module_is_imported_elsewhere_from_the_folder_that_it_was_in(module, file, plugin, monkeypatch):
    there = types.ModuleType(module)
    if file is not None:
        there.__file__ = file
        if file.endswith(".py"):
            Path(file).parent.mkdir(parents=True, exist_ok=True)
            Path(file).touch()
    monkeypatch.setitem(sys.modules, module, there)
    item = type("Own", (), {"__module__": module})
    folder = str(Path().resolve()) if plugin.folder else ""
    assert plugins.origin(item) == Plugin(plugin.module, folder)


def test_a_notebook_cannot_travel():
    with refused(
        "What is defined in a notebook or an interactive session cannot be used by other processes: put it "
    ):
        plugins.that_travel([Plugin("__main__")])
    assert plugins.that_travel([Plugin("plugin_e")]) == [Plugin("plugin_e")]


def test_a_missing_plugin_is_named_with_what_to_type():
    assert plugins.note_of_missing(["a"]) == "Needs the plugin a, which is not loaded: to resume, add --plugin a."
    several = "Needs the plugins a, b, which are not loaded: to resume, add --plugin a --plugin b."
    assert plugins.note_of_missing(["a", "b"]) == several
    assert plugins.note_of_missing([]) == ""


def test_installed_plugins_are_loaded_once_and_a_broken_one_is_a_line(monkeypatch, caplog):
    write("plugin_f.py")
    write("plugin_g.py", "1 / 0")
    monkeypatch.syspath_prepend(".")
    entries = [EntryPoint(name, f"plugin_{name}", plugins.GROUP) for name in "gf"]
    asked = []

    def entry_points(group: str) -> list[EntryPoint]:
        asked.append(group)
        return entries

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    plugins.load_installed()
    plugins.load_installed()
    assert asked == ["mnemon.plugins"]
    assert plugins.missing(["plugin_f"]) == []
    assert caplog.messages == ["The plugin 'g' is left out: ZeroDivisionError: division by zero"]
