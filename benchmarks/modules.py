"""What is left of three tasks that a module of any kind learned one after another through `ContinualModel`.

python -m benchmarks.modules [CASE …]      a table for the documents; with beta = 0 beside the default
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

from mnemon.continual.model import ContinualModel
from mnemon.continual.objective import Loss, ObjectiveKind

KEPT, WITHIN = 0.98, 1.1
"""A task is kept if it has so much of its accuracy at the end, or its error within so many times."""

Pair = tuple[tuple[Tensor, ...], Tensor]
"""Inputs and targets."""
Tasks = list[tuple[Pair, Pair]]
"""Training and test data of each task."""


@dataclass(frozen=True)
class Case:
    """A module, and three tasks for it."""

    make: Callable[[], nn.Module]
    tasks: Callable[[], Tasks]
    loss: str | Loss = "auto"


@dataclass(frozen=True)
class Outcome:
    """Scores of each task right after it was learned and at the end."""

    kind: ObjectiveKind
    during: list[float]
    final: list[float]
    seconds: float

    @property
    def kept(self) -> float:
        """The part of its accuracy, or the multiple of its error, that the worst task ended with."""
        ratios = [now / then for then, now in zip(self.during, self.final, strict=True)]
        return min(ratios) if self.kind.higher_is_better else max(ratios)

    @property
    def is_kept(self) -> bool:
        """Whether every task was kept."""
        return self.kept >= KEPT if self.kind.higher_is_better else self.kept <= WITHIN


def measure(case: Case, steps: int | None = None, **settings: float) -> Outcome:
    """Learn the three tasks one after another, in as many steps as the data call for, and ask for all at the end."""
    torch.manual_seed(0)
    start = time.process_time()
    model, tasks = ContinualModel(case.make(), **settings), case.tasks()
    names = ["first", "second", "third"]
    during = []
    for name, (train, test) in zip(names, tasks, strict=True):
        model.learn(train, task=name, steps=steps, loss=case.loss, quiet=True)
        during.append(model.evaluate(test, name))
    final = [model.evaluate(test, name) for name, (_, test) in zip(names, tasks, strict=True)]
    return Outcome(model.about("first").goal.kind, during, final, time.process_time() - start)


# Tasks


@functools.cache
def digits() -> tuple[Tensor, Tensor]:
    """Return the 1,797 digits of scikit-learn, 8 x 8 pixels from 0 to 1."""
    bunch = load_digits()
    return torch.tensor(bunch.images / 16, dtype=torch.float32), torch.tensor(bunch.target)


def parted(inputs: Sequence[Tensor], targets: Tensor) -> tuple[Pair, Pair]:
    """Part examples into three quarters to learn from and one to test on."""
    test = torch.arange(len(targets)) % 4 == 3
    return tuple((tuple(part[chosen] for part in inputs), targets[chosen]) for chosen in (~test, test))


def split_digits(shape: Sequence[int] = (8, 8), dtype: torch.dtype = torch.float32, halves: bool = False) -> Tasks:
    """Three digits in each task, under their own labels."""
    images, labels = digits()
    tasks = []
    for first in (0, 3, 6):
        chosen = (labels >= first) & (labels < first + 3)
        x = images[chosen].to(dtype).reshape(-1, *shape)
        tasks.append(parted(x.chunk(2, -1) if halves else (x,), labels[chosen]))
    return tasks


def labelled_digits() -> Tasks:
    """Four properties of a digit, yes or no, that are others in each task."""
    images, digit = digits()
    tables = torch.rand(3, 10, 4, generator=torch.Generator().manual_seed(1)) > 0.5
    return [parted((images.flatten(1),), table[digit]) for table in tables]


def curves() -> Tasks:
    """Noisy values of three functions on three stretches of the line."""
    random = torch.Generator().manual_seed(2)
    tasks = []
    for centre, function in ((-2.0, torch.sin), (0.0, torch.square), (2.0, torch.cos)):
        x = centre + 2 * torch.rand(800, 1, generator=random) - 1
        noise = 0.2 * torch.randn(800, 1, generator=random)
        tasks.append(parted((x,), function(2 * x if centre else 1.5 * x) + noise))
    return tasks


def sequences() -> Tasks:
    """One of three classes for every step of a sequence, from what comes now and what came before."""
    random = torch.Generator().manual_seed(3)
    tasks = []
    for _ in range(3):
        x = torch.randn(400, 10, 3, generator=random)
        now, before = torch.randn(2, 3, 3, generator=random)
        tasks.append(parted((x,), (x @ now + 0.5 * x.roll(1, 1) @ before).argmax(-1)))
    return tasks


def pinball(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the loss whose minimum is the 80th percentile."""
    above = targets - outputs
    return torch.maximum(0.8 * above, -0.2 * above).mean()


# Modules


class Convolutional(nn.Module):
    """Two convolutions with a normalisation each."""

    def __init__(self, norm: Callable[[int], nn.Module]):
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 8, 3, padding=1), nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.norms = nn.ModuleList([norm(8), norm(16)])
        self.last = nn.Linear(16 * 16, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norms[0](self.first(x)).relu()
        return self.last(self.norms[1](self.second(x)).relu().flatten(1))


class Recurrent(nn.Module):
    """Reads an image row by row, or labels every step."""

    def __init__(self, kind: type[nn.LSTM] | type[nn.GRU], inputs: int = 8, every: bool = False):
        super().__init__()
        self.cells, self.last, self.every = kind(inputs, 24, batch_first=True), nn.Linear(24, 3), every

    def forward(self, x: Tensor) -> Tensor:
        steps, _ = self.cells(x)
        return self.last(steps if self.every else steps[:, -1])


class Transformer(nn.Module):
    """Attends to the rows of an image."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.place = nn.Linear(8, 16), nn.Parameter(0.1 * torch.randn(8, 16))
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.last = nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.encoder(self.embed(x) + self.place).mean(1))


class TwoInputs(nn.Module):
    """Takes the left and the right half of an image."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right, self.last = nn.Linear(32, 16), nn.Linear(32, 16), nn.Linear(32, 3)

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        both = [self.left(left.flatten(1)), self.right(right.flatten(1))]
        return self.last(torch.cat(both, 1).relu())


class Tied(nn.Module):
    """Uses one matrix twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.again, self.last = nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, 3)
        self.again.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.again(self.first(x).relu()).relu())


def mlp(inputs: int = 64, outputs: int = 3, activation: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 48), activation(), nn.Linear(48, 48), activation(), nn.Linear(48, outputs))


def partly_frozen() -> nn.Module:
    module = mlp()
    module[0].requires_grad_(False)
    return module


FLAT, IMAGE, ROWS = (64,), (1, 8, 8), (8, 8)
CASES: dict[str, Case] = {
    "MLP": Case(mlp, functools.partial(split_digits, FLAT)),
    "CNN, batch norm": Case(lambda: Convolutional(nn.BatchNorm2d), functools.partial(split_digits, IMAGE)),
    "CNN, group norm": Case(
        lambda: Convolutional(functools.partial(nn.GroupNorm, 4)), functools.partial(split_digits, IMAGE)
    ),
    "LSTM": Case(lambda: Recurrent(nn.LSTM), functools.partial(split_digits, ROWS)),
    "GRU": Case(lambda: Recurrent(nn.GRU), functools.partial(split_digits, ROWS)),
    "transformer": Case(Transformer, functools.partial(split_digits, ROWS)),
    "two inputs": Case(TwoInputs, functools.partial(split_digits, ROWS, halves=True)),
    "tied parameters": Case(Tied, functools.partial(split_digits, FLAT)),
    "frozen part": Case(partly_frozen, functools.partial(split_digits, FLAT)),
    "half precision": Case(lambda: mlp().bfloat16(), functools.partial(split_digits, FLAT, torch.bfloat16)),
    "regression": Case(lambda: mlp(1, 1, nn.Tanh), curves),
    "multi-label": Case(lambda: mlp(64, 4), labelled_digits),
    "sequence labelling": Case(lambda: Recurrent(nn.GRU, 3, every=True), sequences),
    "own loss": Case(lambda: mlp(1, 1, nn.Tanh), curves, pinball),
}
"""Ten modules that tell digits apart, and four other kinds of answers."""


def main(names: Sequence[str]) -> int:
    torch.set_num_threads(1)
    print("| module | right after learning | at the end | worst kept | with beta = 0 | seconds |")
    print("|---|---|---|---|---|---|")
    all_kept = True
    for name in names or CASES:
        kept, lost = measure(CASES[name]), measure(CASES[name], beta=0.0)
        then, now = (" ".join(f"{score:.3g}" for score in scores) for scores in (kept.during, kept.final))
        print(f"| {name} | {then} | {now} | {kept.kept:.3f} | {lost.kept:.3f} | {kept.seconds:.1f} |", flush=True)
        all_kept &= kept.is_kept
    return 0 if all_kept else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
