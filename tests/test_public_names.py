"""The public names are the same in every list of them, typed, and found by dir() and help()."""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import pydoc
import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

import mnemon

ROOT = Path(__file__).parent.parent
SOURCE = ast.parse(Path(mnemon.__file__).read_text(encoding="utf-8"))
NAMES = sorted(set(mnemon.__all__) - {"__version__"})


def imported_for_types() -> dict[str, str]:
    """The names that type checkers see, with the modules that they are imported from."""
    (block,) = (node for node in SOURCE.body if isinstance(node, ast.If) and isinstance(node.test, ast.Name))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in imports for alias in node.names}


def test_type_checkers_see_the_names_that_are_there():
    assert imported_for_types() == mnemon._HOMES


def test_all_lists_each_once():
    assert sorted(mnemon.__all__) == sorted(["__version__", *mnemon._HOMES])


def test_dir_lists_them():
    assert set(mnemon.__all__) <= set(dir(mnemon))


def test_the_reference_has_a_line_for_each():
    text = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^- `(\w+)`: \S.*\.$", text, re.MULTILINE)) == sorted(mnemon.__all__)
    assert len(re.findall(r"^- ", text, re.MULTILINE)) == len(mnemon.__all__)


@pytest.mark.parametrize("name", NAMES)
def test_each_is_what_its_module_has(name):
    assert getattr(mnemon, name) is getattr(importlib.import_module(mnemon._HOMES[name]), name)


def test_another_name_is_not_there():
    with pytest.raises(AttributeError, match="module 'mnemon' has no attribute 'Targt'"):
        mnemon.Targt  # noqa: B018


@pytest.mark.parametrize("name", NAMES)
def test_each_explains_itself(name):
    assert inspect.getdoc(vars(importlib.import_module(mnemon._HOMES[name]))[name])


def test_help_shows_what_can_be_called_and_how():
    text = pydoc.render_doc(mnemon, renderer=pydoc.plaintext)
    assert "learn(" in text
    assert re.search(r"load\(path: 'str \| Path', module: 'nn.Module \| None' = None.*\) -> 'ContinualModel'", text)
    for name in NAMES:
        assert re.search(rf"\b{name}\b", text), name


def test_the_package_says_that_it_is_typed():
    assert (files("mnemon") / "py.typed").is_file()


WRONG = """
import mnemon

mnemon.Targt
mnemon.load(1)
"""


def test_a_strictly_typed_program_of_a_user_passes_and_its_mistakes_are_found(tmp_path):
    program = (ROOT / "tests" / "typed_user.py").read_text(encoding="utf-8")
    assert len(set(re.findall(r"\bmnemon\.(\w+)", program)) & set(NAMES)) >= 10
    (tmp_path / "user.py").write_text(program, encoding="utf-8")
    (tmp_path / "wrong.py").write_text(WRONG, encoding="utf-8")
    # As in a project of the user's, who does not see what mypy would say of mnemon itself.
    options = [
        "--strict",
        "--config-file=",
        "--follow-imports=silent",
        f"--cache-dir={ROOT / '.mypy_cache' / 'user'}",
    ]
    command = [sys.executable, "-m", "mypy", *options, "user.py", "wrong.py"]
    environment = {**os.environ, "MYPYPATH": str(ROOT / "src")}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
    assert [line.split(" error: ")[0] for line in done.stdout.splitlines()[:-1]] == ["wrong.py:4:", "wrong.py:5:"]
    assert 'Module has no attribute "Targt"' in done.stdout
    assert 'Argument 1 to "load" has incompatible type "int"' in done.stdout
