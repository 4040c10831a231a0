# ruff: noqa: E501, PT017 (lists of values; this is no test of pytest's)
"""Call the library with arguments that make no sense: it refuses them in its own words, and the model stays as it was."""

from __future__ import annotations

import os
import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import mnemon
from benchmarks.fuzz.files import net
from mnemon.errors import UsageError

N = 12


class Detached(nn.Module):
    """Its outputs have no gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x: Any) -> Any:
        """Return outputs that are cut off."""
        return self.layer(x).detach()


class Failing(Detached):
    """It fails when it is asked."""

    def forward(self, x: Any) -> Any:
        """Fail."""
        raise ZeroDivisionError("my own mistake")


def _inputs() -> list[Any]:
    good = torch.rand(N, 4, generator=torch.Generator().manual_seed(0))
    array = good.numpy()
    return [
        good, array, array.tolist(), good.double(), good.half(), good.bfloat16(), good[0], good[:0], good[:, :0],
        good[:, :3], good.reshape(N, 2, 2), good.int(), good > 0.5, (good * 255).byte(), good * float("nan"),
        good * float("inf"), good + 1j, good.to_sparse(), good.to("meta"), good.clone().requires_grad_(),
        torch.tensor(1.0), torch.tensor([]), None, 3, 2.5, "text", b"bytes", {}, [], (), object(), range(N), iter([1]),
        np.ma.masked_array(array, array > 0.5), np.array(["a"] * N), np.array([None] * N, dtype=object),
        np.array(["2020-01-01"] * N, dtype="datetime64[D]"), array[::-1], array[:, ::-1], array.astype(">f8"),
        [[1.0, 2.0], [3.0]], [good, good[:3]], (good, good), {"x": good}, np.zeros((N, 4), dtype=np.uint64),
        torch.zeros(N, 4, dtype=torch.uint8), good.T, _nested(good),
    ]  # fmt: skip


def _nested(good: torch.Tensor) -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch may change them yet
        return torch.nested.nested_tensor([good[0], good[1, :2]])


def _targets() -> list[Any]:
    good = torch.arange(N) % 2
    return [
        good, good.numpy(), good.tolist(), good.bool(), good.float(), good + 100, -good, good.view(N, 1), good[:3],
        good[:0], torch.zeros(N).long(), torch.full((N,), -100), good.float() * float("nan"), torch.rand(N, 2), torch.rand(N, 5),
        torch.randint(0, 2, (N, 2)).bool(), torch.arange(N), good.to(torch.uint8), good.to("meta"), None, 1, "text",
        ["a"] * N, np.array([2**63 + 5] * N, dtype=np.uint64), np.ma.masked_array(good.numpy(), good.numpy() > 0),
        {}, object(), torch.full((N,), 2**62), torch.rand(N, 2, 2), good.to_sparse(),
    ]  # fmt: skip


def _numbers() -> list[Any]:
    return [
        None, 0, 1, 2, -1, 1.5, True, False, float("nan"), float("inf"), 10**30, "3", [], {}, np.int64(2), torch.tensor(2),
        np.float32(1.5), object(), 1e-300, 2**70, -(2**70), "", b"", 1j,
    ]  # fmt: skip


def _names() -> list[Any]:
    return [
        "one", "two", "three", "unknown", "", " ", "\0", "\x1b[31m", "a" * 10_000, "é☃", "../x", None, 3, [], {}, object(),
        b"one", "One", "on", "\n", "\ud800",
    ]  # fmt: skip


def _losses() -> list[Any]:
    def detached(outputs: Any, targets: Any) -> Any:
        return torch.tensor(1.0)

    def several(outputs: Any, targets: Any) -> Any:
        return outputs.sum(0)

    def right(outputs: Any, targets: Any) -> Any:
        return outputs.square().mean()

    return ["auto", "classes", "labels", "numbers", "clases", "", None, 3, detached, several, right, [], object()]


def _data(draw: random.Random) -> Any:
    inputs, targets = draw.choice(_inputs()), draw.choice(_targets())
    if draw.random() < 0.3:
        inputs = _inputs()[0]
    if draw.random() < 0.5:
        targets = _targets()[0]
    kind = draw.randrange(8)
    if kind < 5:
        return inputs, targets
    if kind == 5:
        return draw.choice(
            (inputs, None, [inputs], (inputs,), (inputs, targets, targets), {"x": inputs, "y": targets})
        )
    try:
        examples = TensorDataset(inputs, targets)
        return examples if kind == 6 else DataLoader(examples, batch_size=draw.choice((1, 5)))
    except Exception:
        return [(inputs, targets)]


def prepare(folder: Path) -> tuple[Path, Path]:
    """Keep a model of two tasks."""
    model = mnemon.ContinualModel(net())
    inputs, targets = _inputs()[0], _targets()[0]
    os.chdir(folder)  # where a strange path leads to
    for task in ("one", "two"):
        model.learn((inputs, targets), task=task, steps=2, quiet=True)
    return model.save(folder / "model"), folder


def case(prepared: tuple[Path, Path], number: int) -> str:
    """Make a call that follows from the number, on a model of its own."""
    path, folder = prepared
    draw = random.Random(number)
    model = mnemon.load(path, net())
    before = state_of(model)
    call = draw.choice(CALLS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch, about what it was given
        try:
            call(model, draw, folder)
        except UsageError as error:
            assert str(error), "an error without words"
            kept = call is learn_stream or state_of(model) == before  # of a stream, what was learned is kept
            assert kept, f"{call.__name__} was refused ({error}) and the model is another one"
            return f"{call.__name__} refused"
        except ZeroDivisionError as error:  # of the user's own module
            assert str(error) == "my own mistake"
            return "the user's own error"
    return f"{call.__name__} done"


def state_of(model: mnemon.ContinualModel) -> Any:
    """Return all that a model is, to be compared."""
    tensors = {name: tensor.detach().numpy().tobytes() for name, tensor in model.state.learner.tensors().items()}
    return tensors, repr((model.state.tasks, model.state.n_learned, model.state.n_inputs, model.state.settings))


def _options(draw: random.Random) -> dict[str, Any]:
    found: dict[str, Any] = {"steps": 2, "quiet": True}
    if draw.random() < 0.4:
        found[draw.choice(("steps", "epochs", "batch_size"))] = draw.choice(
            [n for n in _numbers() if type(n) is not int or abs(n) < 1000]
        )
    if draw.random() < 0.3:
        found["loss"] = draw.choice(_losses())
    if draw.random() < 0.2:
        found["validation"] = _data(draw)
    return found


def make(model: Any, draw: random.Random, folder: Path) -> None:
    """Make another model of a strange module with strange settings."""
    modules: list[Any] = [
        net(), nn.Identity(), nn.Linear(4, 2), Detached(), Failing(), None, 3, "net", nn.Sequential(), nn.LazyLinear(2),
        nn.Linear(4, 2, device="meta"), Detached, nn.Linear(4, 2).half(), nn.Linear(4, 1), nn.LSTM(4, 2),
        nn.ParameterList([nn.Parameter(torch.ones(2))]),
    ]  # fmt: skip
    settings = {
        "beta": _numbers(), "lr": _numbers(), "compression": _numbers(), "seed": _numbers(), "recognise": _names(),
        "generate": [*_names(), ["last.*"], ("*",), "first.*"], "adapters": [None, mnemon.LoRA(), 3, "LoRA"],
        "hypernet": [None, 3, "x"],
    }  # fmt: skip
    chosen = draw.sample(list(settings), draw.randrange(3))
    other = mnemon.ContinualModel(draw.choice(modules), **{name: draw.choice(settings[name]) for name in chosen})
    other.learn(_data(draw) if draw.random() < 0.5 else (_inputs()[0], _targets()[0]), "one", **_options(draw))
    other.predict(_inputs()[0])


def learn(model: Any, draw: random.Random, folder: Path) -> None:
    """Learn from strange data."""
    model.learn(_data(draw), draw.choice(_names()) if draw.random() < 0.3 else "three", **_options(draw))


def relearn(model: Any, draw: random.Random, folder: Path) -> None:
    """Go on with strange data."""
    model.relearn(_data(draw), draw.choice(_names()) if draw.random() < 0.3 else "one", **_options(draw))


def learn_stream(model: Any, draw: random.Random, folder: Path) -> None:
    """Learn from a strange stream."""
    batches = draw.choice(([_data(draw) for _ in range(3)], [], None, 3, [None], "text"))
    options = {name: draw.choice(_numbers()) for name in ("recent", "patience") if draw.random() < 0.2}
    model.learn_stream(batches, steps=draw.choice((1, 0, None)), name=draw.choice(_names()), **options)


def predict(model: Any, draw: random.Random, folder: Path) -> None:
    """Ask about strange inputs."""
    inputs = draw.choice(_inputs())
    found = model.predict(inputs, task=draw.choice(("one", None, draw.choice(_names()))))
    n = len(inputs[0]) if isinstance(inputs, tuple) else len(inputs)
    assert len(found.task) == len(found.label) == len(found.confidence) == n, "answers for another number of inputs"


def evaluate(model: Any, draw: random.Random, folder: Path) -> None:
    """Score strange data."""
    options = {"loss": draw.choice(_losses())} if draw.random() < 0.3 else {}
    model.evaluate(_data(draw), draw.choice(("one", draw.choice(_names()))), infer=draw.random() < 0.3, **options)


def name_tasks(model: Any, draw: random.Random, folder: Path) -> None:
    """Rename, forget and ask about tasks by strange names."""
    verb = draw.choice(("forget", "rename", "about", "network"))
    names = [draw.choice(_names()), draw.choice(_names())] if verb == "rename" else [draw.choice(_names())]
    getattr(model, verb)(*names)


def move(model: Any, draw: random.Random, folder: Path) -> None:
    """Move to a strange device."""
    model.to(draw.choice(("cpu", "nope", "", "cuda:99", "meta", None, 3, 2.5, [], torch.device("cpu"))))


def save(model: Any, draw: random.Random, folder: Path) -> None:
    """Save to a strange path, and load from one."""
    paths = [
        "", ".", "..", "a" * 5000, "a/" * 3000, "\0", folder / "gone" / "x", folder, str(folder / "y.z"), None, 3, b"x",
        "/proc/x", "/dev/full/x", folder / ("é" * 200), [],
    ]  # fmt: skip
    if draw.random() < 0.5:
        model.save(draw.choice(paths))
    else:
        mnemon.load(draw.choice([*paths, folder / "model.mnemon"]), draw.choice((net(), None, 3, nn.Linear(1, 1))))


CALLS: tuple[Callable[[Any, random.Random, Path], None], ...] = (
    make, learn, learn, relearn, learn_stream, predict, predict, evaluate, name_tasks, move, save,
)  # fmt: skip
