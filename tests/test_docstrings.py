"""Public names explain themselves: their arguments, what they return, and examples that run."""

from __future__ import annotations

import dataclasses
import doctest
import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import mnemon
from mnemon import plugins
from mnemon.registry import Registry

NAMES = sorted(mnemon._HOMES)
OBJECTS = {name: getattr(importlib.import_module(mnemon._HOMES[name]), name) for name in NAMES}
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
NOTHING = (None, "None", inspect.Signature.empty)


def methods_of(kind: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The public methods that a class brings in, and how it is made; others are explained where they come from."""
    for name, value in vars(kind).items():
        function = inspect.unwrap(getattr(value, "__func__", value))
        made = name == "__init__" and not dataclasses.is_dataclass(kind)
        earlier = any(hasattr(base, name) for base in kind.__mro__[1:] if base.__module__.startswith("mnemon"))
        if inspect.isfunction(function) and (made or not (name.startswith("_") or earlier)):
            yield name, function


def callables() -> Iterator[tuple[str, Callable[..., Any]]]:
    for name, value in OBJECTS.items():
        if not inspect.isclass(value):
            yield name, value
        elif not getattr(value, "_is_protocol", False):
            yield from ((f"{name}.{method}", function) for method, function in methods_of(value))


CALLABLES = dict(callables())


def explained(text: str) -> list[str]:
    """The arguments that a docstring explains."""
    section = re.search(r"^Args:\n((?: +.*\n|\n)*)", text + "\n", re.MULTILINE)
    return re.findall(r"^    \*{0,2}(\w+): \S", section[1], re.MULTILINE) if section else []


@pytest.mark.parametrize("name", CALLABLES)
def test_every_argument_is_explained(name):
    parameters = inspect.signature(CALLABLES[name]).parameters
    given = [parameter for parameter in parameters if parameter not in ("self", "cls")]
    assert explained(inspect.getdoc(CALLABLES[name]) or "") == given


@pytest.mark.parametrize("name", CALLABLES)
def test_what_is_returned_is_said(name):
    text = inspect.getdoc(CALLABLES[name]) or ""
    if inspect.signature(CALLABLES[name]).return_annotation not in NOTHING:
        assert re.match("Return|Tell|Draw|Count", text) or "\nReturns:\n" in text


@pytest.fixture
def registries(monkeypatch) -> Iterator[None]:
    """What an example registers is gone after it."""
    added: list[tuple[Registry, str]] = []
    add = Registry.add

    def note(registry: Registry, name: str, item: object) -> None:
        add(registry, name, item)
        added.append((registry, name))

    monkeypatch.setattr(Registry, "add", note)
    monkeypatch.setattr(plugins, "_used", dict(plugins._used))
    yield
    for registry, name in added:
        del registry.table[name], registry.plugins[name]


@pytest.mark.parametrize("name", NAMES)
def test_examples_run(name, tmp_path, monkeypatch, registries):
    """Those of methods continue that of their class."""
    monkeypatch.chdir(tmp_path)
    value, names = OBJECTS[name], {"mnemon": mnemon, "torch": torch, "nn": nn, "Path": Path}
    methods = [function for _, function in methods_of(value)] if inspect.isclass(value) else []
    parser, runner, said = doctest.DocTestParser(), doctest.DocTestRunner(optionflags=OPTIONS), []
    n_examples = 0
    for documented in (value, *methods):
        test = parser.get_doctest(inspect.getdoc(documented) or "", names, name, None, None)
        n_examples += len(test.examples)
        runner.run(test, out=said.append, clear_globs=False)
        names = test.globs
    assert n_examples
    assert not runner.failures, "".join(said)
