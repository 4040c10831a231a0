"""Imports point down, results are readable without torch, and every file is named after an idea."""

from __future__ import annotations

import ast
import graphlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import mnemon

SOURCE = Path(mnemon.__file__).parent
FILES = {".".join(p.relative_to(SOURCE.parent).with_suffix("").parts): p for p in sorted(SOURCE.rglob("*.py"))}

LAYERS = [
    {"__main__"},
    {"cli"},
    {"experiments"},
    {"interop"},
    {"continual"},
    {"training"},
    {"learners"},
    {"inference"},
    {"replay"},
    {"memory"},
    {"lifecycle", "problem", "hypernet"},
    {"models", "benchmarks"},
    {"config", "results", "seeding", "optimizer"},
    {"whole_files", "registry"},
    {"plugins", "extras"},
    {"errors", "notation", "printable", "interrupts", "allocator"},
]
"""A line may import from lines below it, never above."""

HEIGHT = {part: -i for i, layer in enumerate(LAYERS) for part in layer}


def part_of(module: str) -> str | None:
    """The part of the library that a module belongs to; None for the package itself."""
    names = module.split(".")
    return names[1] if len(names) > 1 and names[1] != "__init__" else None


def imports_of(path: Path) -> Iterator[str]:
    """All that a file imports, also within functions: full names of modules (or of names in them).

    A public name that is taken from the package, as in `mnemon.load`, is an import of the module that it is in.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree) if path != SOURCE / "__init__.py" else tree.body:  # which imports names for types only
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            names = [alias.name for alias in node.names]
            homes = mnemon._HOMES if node.module == "mnemon" else {}
            yield from (f"{homes.get(name, node.module)}.{name}" for name in names)
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "mnemon" and node.attr in mnemon._HOMES:
            yield mnemon._HOMES[node.attr]


def test_every_part_has_its_place_in_the_layers():
    assert {part_of(name) for name in FILES} - {None} == set(HEIGHT)


@pytest.mark.parametrize("name", FILES)
def test_imports_point_down(name):
    part = part_of(name)
    for imported in imports_of(FILES[name]):
        other = part_of(imported) if imported.split(".")[0] == "mnemon" else None
        if other in (None, part, "__version__") or part == "cli":
            continue
        assert part is not None, f"the package itself imports {imported}"
        assert HEIGHT[other] <= HEIGHT[part], f"{name} imports {imported}"


def test_no_two_parts_need_each_other():
    needs: dict[str, set[str]] = {}
    for name, path in FILES.items():
        used = {part_of(imported) for imported in imports_of(path) if imported.split(".")[0] == "mnemon"}
        needs.setdefault(part_of(name) or "mnemon", set()).update(used & HEIGHT.keys() - {part_of(name)})
    tuple(graphlib.TopologicalSorter(needs).static_order())  # an error names the circle


@pytest.mark.parametrize("name", [name for name in FILES if part_of(name) == "results"])
def test_results_never_import_torch(name):
    roots = {imported.split(".")[0] for imported in imports_of(FILES[name])}
    assert not roots & {"torch", "safetensors"}


QUICK = ["mnemon", "mnemon.cli", "mnemon.experiments.preset", "mnemon.errors", "mnemon.config"]
QUICK += [name.removesuffix(".__init__") for name in FILES if part_of(name) == "results"]


def test_what_must_be_quick_does_not_import_torch():
    # One process, in which the modules are imported in turn: it names the first that brings torch along.
    program = f"""
import importlib, sys
for name in {QUICK!r}:
    importlib.import_module(name)
    if "torch" in sys.modules:
        sys.exit(f"{{name}} imports torch")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_help_of_the_command_line_does_not_wait_for_terminals():
    program = "import sys, mnemon.cli; sys.exit('rich.console' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_no_file_is_named_after_nothing():
    nameless = {"utils", "util", "helpers", "helper", "misc", "common"}
    assert not [name for name in FILES if nameless & set(name.split("."))]


@pytest.mark.parametrize("name", FILES)
def test_every_file_opens_with_a_sentence(name):
    assert ast.get_docstring(ast.parse(FILES[name].read_text(encoding="utf-8")))


def test_no_two_test_files_have_one_name():
    """Pytest could not collect them together."""
    names = [path.name for path in Path(__file__).parent.rglob("test_*.py")]
    assert {name for name in names if names.count(name) > 1} == set()


def lengths() -> dict[str, int]:
    """The lines of each function, without those of its docstring."""
    found = {}
    for name, path in FILES.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                first = node.body[0]
                explained = ast.get_docstring(node) is not None and first.end_lineno - first.lineno + 1
                found[f"{name}.{node.name}:{node.lineno}"] = node.end_lineno - node.lineno + 1 - explained
    return found


def test_no_function_is_long():
    assert {name: n for name, n in lengths().items() if n > 60} == {}


def test_most_functions_are_short():
    assert np.percentile(list(lengths().values()), 90) <= 15
