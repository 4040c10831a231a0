"""A task's network as a file: what it answers, and what is said when it cannot be written."""

from __future__ import annotations

import importlib.util
import logging
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

import mnemon
from mnemon.continual import export as exporting
from mnemon.continual.export import export

HAS_ONNX = all(importlib.util.find_spec(name) for name in ("onnx", "onnxscript", "onnxruntime"))
onnx_only = pytest.mark.skipif(not HAS_ONNX, reason="the extra onnx is not installed")


class TwoInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(3, 8), nn.Linear(5, 8)
        self.last = nn.Linear(8, 3)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.last((self.first(x) + self.second(y)).relu())


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(5, 6)
        self.recurrent = nn.LSTM(6, 8, batch_first=True)
        self.last = nn.Linear(8, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.last(self.recurrent(self.embedding(tokens))[0][:, -1])


class Tied(nn.Module):
    """Two layers with one matrix."""

    def __init__(self):
        super().__init__()
        self.first, self.again = nn.Linear(4, 4), nn.Linear(4, 4)
        self.again.weight = self.first.weight
        self.last = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.again(self.first(x).relu()))


class WithDependence(nn.Module):
    """What it computes depends on the values of its inputs in a way that no exporter can follow."""

    def __init__(self):
        super().__init__()
        self.last = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(x) if x.sum() > 0 else -self.last(x)


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))


def convolutional() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)
    )


def learned(module: nn.Module, *inputs: Tensor, **settings) -> mnemon.ContinualModel:
    """A model with two tasks, of which the first has moved away from where it started."""
    model = mnemon.ContinualModel(module, lr=0.01, **settings)
    for number, task in enumerate(("monday", "tuesday")):
        labels = (torch.arange(len(inputs[0])) + number) % 3
        model.learn((inputs, labels), task=task, steps=8, quiet=True)
    return model


CASES: dict[str, tuple[Callable[[], nn.Module], Callable[[], tuple[Tensor, ...]]]] = {
    "perceptron": (perceptron, lambda: (torch.randn(12, 4),)),
    "batch norm": (convolutional, lambda: (torch.randn(12, 1, 8, 8),)),
    "two inputs": (TwoInputs, lambda: (torch.randn(12, 3), torch.randn(12, 5))),
    "tokens": (Recurrent, lambda: (torch.randint(5, (12, 7)),)),
    "tied": (Tied, lambda: (torch.randn(12, 4),)),
    "bytes": (perceptron, lambda: (torch.randint(256, (12, 4), dtype=torch.uint8),)),
    "double bytes": (lambda: perceptron().double(), lambda: (torch.randint(256, (12, 4), dtype=torch.uint8),)),
    "half": (lambda: perceptron().half(), lambda: (torch.randn(12, 4).half(),)),
}


def answers(path: Path, module: nn.Module, *inputs: Tensor) -> Tensor:
    """Run an exported file as its reader would, without mnemon."""
    if path.suffix == ".safetensors":
        module.load_state_dict(load_file(path))
        return module.eval()(*inputs)
    if path.suffix == ".pt2":
        return torch.export.load(path).module()(*inputs)
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [entry.name for entry in session.get_inputs()]
    return torch.from_numpy(session.run(None, dict(zip(names, (part.numpy() for part in inputs), strict=True)))[0])


def message(error: pytest.ExceptionInfo) -> str:
    return str(error.value)


@pytest.fixture
def silently(capfd, recwarn, caplog) -> Callable[..., Path]:
    """Export, and see to it that the exporters have kept their works to themselves."""

    def call(*args) -> Path:
        capfd.readouterr(), recwarn.clear(), caplog.clear()
        path = export(*args)
        assert capfd.readouterr() == ("", "")
        assert not recwarn.list
        assert not [record for record in caplog.records if record.levelno >= logging.INFO]
        return path

    return call


@pytest.mark.parametrize("ending", [".safetensors", ".pt2"])
@pytest.mark.parametrize("name", CASES)
def test_a_file_answers_like_the_network(name, ending, silently, tmp_path):
    make, draw = CASES[name]
    model = learned(make(), *draw())
    path = silently(model, "monday", tmp_path / f"network{ending}")
    assert path == tmp_path / f"network{ending}"
    assert list(tmp_path.iterdir()) == [path]
    # Other inputs than in the export, and more of them at once.
    floats = model.state.floats
    inputs = tuple(part.to(floats) / 255 if part.dtype == torch.uint8 else part for part in draw())
    with torch.no_grad(), exporting._quietly():
        wanted = model.network("monday")(*inputs)
        torch.testing.assert_close(answers(path, make(), *inputs), wanted, rtol=1e-5, atol=1e-5)
        assert not torch.allclose(model.network("tuesday")(*inputs), wanted, atol=1e-3)


@onnx_only
@pytest.mark.parametrize("name", ["batch norm", "tokens", "half"])
def test_a_file_of_onnx_answers_like_the_network(name, silently, tmp_path):
    make, draw = CASES[name]
    model = learned(make(), *draw())
    path = silently(model, "monday", tmp_path / "network.onnx")
    assert list(tmp_path.iterdir()) == [path]
    inputs = draw()
    with torch.no_grad():
        wanted = model.network("monday")(*inputs)
    close = 1e-2 if name == "half" else 1e-5
    torch.testing.assert_close(answers(path, make(), *inputs), wanted, rtol=close, atol=close)


@onnx_only
def test_the_free_size_of_onnx_has_a_name(tmp_path):
    import onnx

    model = learned(TwoInputs(), torch.randn(6, 3), torch.randn(6, 5))
    graph = onnx.load(export(model, "monday", tmp_path / "network.onnx")).graph
    sizes = {
        entry.name: [size.dim_param or size.dim_value for size in entry.type.tensor_type.shape.dim]
        for entry in graph.input
    }
    assert sizes == {"x": ["batch", 3], "y": ["batch", 5]}


@pytest.mark.parametrize("ending", [".safetensors", ".pt2"])
def test_adapters_are_added_to_their_layers(ending, tmp_path):
    module = perceptron()
    model = learned(module, torch.randn(12, 4), adapters=mnemon.LoRA(rank=2))
    path, inputs = export(model, "monday", tmp_path / f"network{ending}"), torch.randn(5, 4)
    with torch.no_grad(), exporting._quietly():
        found = answers(path, perceptron(), inputs)  # the module as it came takes the state dict
        torch.testing.assert_close(found, model.network("monday")(inputs), rtol=1e-5, atol=1e-5)
        assert not torch.allclose(found, module(inputs), atol=1e-3)


def test_the_model_exports_and_is_left_alone(tmp_path):
    model = learned(perceptron(), torch.randn(12, 4), adapters=mnemon.LoRA())
    before = {name: tensor.clone() for name, tensor in model.state.learner.tensors().items()}
    wanted, drawn = model.network("monday").state_dict(), torch.random.get_rng_state()
    assert model.export("monday", tmp_path / "new" / "network.pt2") == tmp_path / "new" / "network.pt2"
    assert torch.equal(torch.random.get_rng_state(), drawn)
    torch.testing.assert_close(model.state.learner.tensors(), before, rtol=0, atol=0)
    torch.testing.assert_close(model.network("monday").state_dict(), wanted, rtol=0, atol=0)


def test_a_tasks_network_is_the_bare_module_with_other_weights():
    # Hence it is as quick as the bare one; benchmarks/latency.py measures it.
    module = convolutional()
    network = learned(module, torch.randn(12, 1, 8, 8)).network("monday")
    assert [type(part) for part in network.modules()] == [type(part) for part in module.modules()]
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in network.modules())
    for own, bare in zip(network.parameters(), module.parameters(), strict=True):
        assert own.is_leaf
        assert own.is_contiguous()
        assert own.dtype == bare.dtype


def test_an_example_of_ones_own_is_taken(tmp_path):
    class Picky(nn.Module):
        """Looks tokens up in a table that only the module knows."""

        def __init__(self):
            super().__init__()
            self.table = nn.Parameter(torch.randn(1, 6))
            self.last = nn.Linear(6, 3)

        def forward(self, tokens: Tensor) -> Tensor:
            return self.last(self.table[tokens].mean(1))

    model = learned(Picky(), torch.zeros(12, 4, dtype=torch.long))
    with pytest.raises(mnemon.UsageError, match=r"cannot be exported as \.safetensors: index 1 is out of bounds"):
        export(model, "monday", tmp_path / "network.safetensors")
    assert list(tmp_path.iterdir()) == []
    export(model, "monday", tmp_path / "network.safetensors", example=np.zeros((1, 4), dtype=np.int64))
    export(model, "monday", tmp_path / "network.pt2", example=torch.zeros(1, 4, dtype=torch.long))
    assert {path.name for path in tmp_path.iterdir()} == {"network.safetensors", "network.pt2"}


@pytest.mark.parametrize("example", [torch.randn(3, 4), np.zeros((1, 4), dtype=np.uint8)])
def test_an_example_is_given_to_a_network_in_the_type_of_its_floats(example, tmp_path):
    model = learned(perceptron().double(), torch.randn(12, 4))
    path = export(model, "monday", tmp_path / "network.safetensors", example=example)
    assert {tensor.dtype for tensor in load_file(path).values()} == {torch.float64}


# What can go wrong


@pytest.fixture(scope="module")
def model() -> mnemon.ContinualModel:
    return learned(perceptron(), torch.randn(12, 4))


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("network.onx", "Unknown ending '.onx'. Did you mean '.onnx'? Choose one of: .safetensors, .pt2, .onnx."),
        ("network.xyz", "Unknown ending '.xyz'. Choose one of: .safetensors, .pt2, .onnx."),
        ("network", "Unknown ending ''. Choose one of: .safetensors, .pt2, .onnx."),
    ],
)
def test_an_unknown_ending_is_named(model, name, wanted, tmp_path):
    with pytest.raises(mnemon.UsageError) as error:
        export(model, "monday", tmp_path / name)
    assert message(error) == wanted


def test_an_unknown_task_is_named(model, tmp_path):
    with pytest.raises(mnemon.UsageError) as error:
        export(model, "munday", tmp_path / "network.pt2")
    assert message(error).startswith("Unknown task 'munday'. Did you mean 'monday'? ")


def test_missing_packages_are_named(model, tmp_path, monkeypatch):
    for name in ("onnx", "onnxruntime"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "onnxscript", importlib.util)  # there, whether it is or not
    with pytest.raises(mnemon.UsageError) as error:
        export(model, "monday", tmp_path / "network.onnx")
    assert message(error) == "ONNX needs more packages (onnx, onnxruntime): pip install 'mnemon[onnx]'."
    assert list(tmp_path.iterdir()) == []


def test_a_network_that_cannot_be_followed_is_named(tmp_path, capfd):
    model = learned(WithDependence(), torch.rand(12, 4))
    with pytest.raises(mnemon.UsageError) as error:
        export(model, "monday", tmp_path / "network.pt2")
    assert message(error).startswith(
        "The network of task 'monday' cannot be exported as .pt2: Could not guard on data-dependent expression"
    )
    assert "\n" not in message(error)
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("ending", [".safetensors", ".pt2"])
def test_a_file_that_answers_differently_is_not_left(model, ending, tmp_path, monkeypatch):
    write, read = exporting.FORMATS[ending]
    alone_is_off = lambda path, module: lambda *inputs: read(path, module)(*inputs) + 1e-4 * (len(inputs[0]) == 1)  # noqa: E731
    monkeypatch.setitem(exporting.FORMATS, ending, (write, alone_is_off))
    path = tmp_path / f"network{ending}"
    path.write_text("an earlier one")
    with pytest.raises(mnemon.UsageError) as error:
        export(model, "monday", path)
    assert message(error) == (
        f"The network of task 'monday' was not exported: the outputs of network{ending} are different."
    )
    assert path.read_text() == "an earlier one"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("found", "wanted", "same"),
    [
        ([1.0, 2.0], [1.0, 2.00001], True),
        ([1.0, 2.0], [1.0, 2.0001], False),
        ([1.0, 2000.0], [1.01, 2000.0], True),
        ([1.0, float("nan")], [1.0, float("nan")], True),
        ([1.0, float("inf")], [1.0, float("inf")], True),
        ([1.0, float("nan")], [1.0, 1.0], False),
        ([1.0], [1.0, 1.0], False),
        ([1, 2], [1.0, 2.0], False),
    ],
)
def test_answers_agree_up_to_rounding(found, wanted, same):
    assert exporting._agree(torch.tensor(found), torch.tensor(wanted)) is same


def test_a_folder_that_cannot_be_written_to_is_named(model, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(mnemon.UsageError) as error:
        export(model, "monday", tmp_path / "file" / "network.pt2")
    assert message(error).startswith(f"Could not write {tmp_path}/file/network.pt2: ")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_an_export_that_is_stopped_leaves_nothing(model, tmp_path, monkeypatch):
    def stop(network, inputs, path):
        path.write_text("half")
        raise KeyboardInterrupt

    monkeypatch.setitem(exporting.FORMATS, ".pt2", (stop, exporting._read_program))
    with pytest.raises(KeyboardInterrupt):
        export(model, "monday", tmp_path / "network.pt2")
    assert list(tmp_path.iterdir()) == []
