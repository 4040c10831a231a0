"""What holds for every benchmark in the registry."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import textwrap

import pytest

from mnemon.benchmarks.registry import BENCHMARKS


def test_there_are_eight_benchmarks():
    assert list(BENCHMARKS) == [
        "toy-regression",
        "split-digits",
        "permuted-digits",
        "split-mnist",
        "split-fashion",
        "permuted-mnist",
        "split-cifar",
        "split-cifar-100",
    ]


def explained(cls: type) -> set[str]:
    """The fields of a class that have a line of text beneath them."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    assert isinstance(definition, ast.ClassDef)
    return {
        field.target.id
        for field, text in zip(definition.body, definition.body[1:], strict=False)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and is_text(text)
    }


def is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_settings_are_frozen_and_each_is_explained_beneath_it(name):
    config = BENCHMARKS[name]
    fields = {field.name for field in dataclasses.fields(config)}
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(config(), sorted(fields)[0], 3)
    assert fields <= set().union(*(explained(cls) for cls in config.__mro__ if cls is not object))
    assert config.__doc__


@pytest.mark.parametrize("name", BENCHMARKS)
def test_equal_settings_are_equal_and_other_benchmarks_are_not(name):
    assert BENCHMARKS[name]() == BENCHMARKS[name]()
    assert sum(BENCHMARKS[name]() == config() for config in BENCHMARKS.values()) == 1


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_stream_bears_the_name_of_its_benchmark_and_gives_batches(
    name, mnist_files, fashion_files, cifar_files, tmp_path
):
    mnist_files.write(tmp_path / "mnist")
    for dataset, tiny in cifar_files.items():
        tiny.write(tmp_path / dataset)
    fashion_files.write(tmp_path / "fashion-mnist")
    stream = BENCHMARKS[name]().build(tmp_path, 0)
    assert stream.name == name
    for task in stream.tasks:
        for examples in (task.train, task.test):
            inputs, targets = examples.batch(slice(0, 3))
            assert tuple(inputs.shape[1:]) == stream.input_shape
            assert inputs.is_floating_point()
            assert len(inputs) == len(targets)
