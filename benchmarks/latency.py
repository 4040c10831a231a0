"""How long one input takes in a task's network, in the bare module that it has the form of, and in exported files.

python -m benchmarks.latency [ROUNDS]

CPU time on one thread, taken in turns within one process; shown are the median of the bare module's times, and the
medians (and quartiles) of the ratios to it.
"""

from __future__ import annotations

import importlib.util
import logging
import random
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

import mnemon

BAR = 1.05
"""How much longer a task's network may take than the bare module."""
REPEATS = 20
TASK = "task"

Action = Callable[[], object]


class Attention(nn.Module):
    """A small transformer that reads rows of an image."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(28, 32)
        self.layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
        self.last = nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.layer(self.first(x)).mean(1))


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))


def convolutional() -> nn.Module:
    first = [nn.Conv2d(1, 16, 3, 2), nn.BatchNorm2d(16), nn.ReLU()]
    second = [nn.Conv2d(16, 32, 3, 2), nn.BatchNorm2d(32), nn.ReLU()]
    return nn.Sequential(*first, *second, nn.Flatten(), nn.Linear(32 * 6 * 6, 10))


CASES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], mnemon.LoRA | None]] = {
    "perceptron": (perceptron, (784,), None),
    "CNN, batch norm": (convolutional, (1, 28, 28), None),
    "transformer": (Attention, (28, 28), None),
    "perceptron, LoRA": (perceptron, (784,), mnemon.LoRA()),
}


def cpu_seconds(action: Action) -> float:
    for _ in range(3):  # whatever ran before has left the caches to itself
        action()
    start = time.process_time()
    for _ in range(REPEATS):
        action()
    return (time.process_time() - start) / REPEATS


def in_turns(actions: dict[str, Action], rounds: int) -> dict[str, list[float]]:
    """Return the times of each action, taken in another order every round."""
    times: dict[str, list[float]] = {name: [] for name in actions}
    shuffled = random.Random(0)
    for _ in range(rounds):
        for name in shuffled.sample(list(actions), len(actions)):
            times[name].append(cpu_seconds(actions[name]))
    return times


def forms(bare: nn.Module, model: mnemon.ContinualModel, x: Tensor, folder: Path) -> dict[str, Action]:
    """Return what is to be timed: a bare module twice, to see what chance does, and a task's network in all forms."""
    network = model.network(TASK)
    program = torch.export.load(model.export(TASK, folder / "network.pt2")).module()
    found: dict[str, Action] = {
        "bare": lambda: bare(x),
        "bare again": lambda: bare(x),
        "network": lambda: network(x),
        ".pt2": lambda: program(x),
    }
    if importlib.util.find_spec("onnxruntime"):
        found[".onnx"] = onnx_form(model.export(TASK, folder / "network.onnx"), x)
    return found


def onnx_form(path: Path, x: Tensor) -> Action:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    fed = {session.get_inputs()[0].name: x.numpy()}
    return lambda: session.run(None, fed)


def measured(name: str, rounds: int) -> bool:
    """Print the line of a case; return whether its bar is met."""
    make, shape, adapters = CASES[name]
    bare = make().eval()
    model = mnemon.ContinualModel(bare, adapters=adapters)
    model.learn((torch.randn(8, *shape), torch.arange(8)), task=TASK, steps=1, quiet=True)
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        times = in_turns(forms(bare, model, torch.randn(1, *shape), Path(folder)), rounds)
    ratios = {
        form: statistics.quantiles([a / b for a, b in zip(times[form], times["bare"], strict=True)], n=4)
        for form in times
        if form != "bare"
    }
    shown = ", ".join(
        f"{form} {middle:.2f} ({low:.2f} to {high:.2f})" for form, (low, middle, high) in ratios.items()
    )
    met = ratios["network"][1] <= BAR
    print(f"{name:17} bare {1e6 * statistics.median(times['bare']):6.0f} µs; ratio: {shown}", end="", flush=True)
    print(f"   network at most {BAR}: {'met' if met else 'MISSED'}", flush=True)
    return met


def main(rounds: int = 101) -> int:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    print(f"torch {torch.__version__}, one thread, one input at once, {rounds} rounds of {REPEATS}")
    met = [measured(name, rounds) for name in CASES]
    return int(not all(met))


if __name__ == "__main__":
    sys.exit(main(*(int(number) for number in sys.argv[1:2])))
