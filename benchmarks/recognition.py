"""How well tasks are recognised by their inputs, on real data.

python -m benchmarks.recognition found       tasks found and classes told apart, by statistics
python -m benchmarks.recognition lda         tasks found by class means and one covariance of the inputs themselves
python -m benchmarks.recognition ways        the same on small sets, beside entropy and density
python -m benchmarks.recognition unknown     strange inputs beside those of the tasks
python -m benchmarks.recognition cost        seconds and bytes at 1, 20 and 1,000 tasks
python -m benchmarks.recognition patches     what kinds of features give on CIFAR-100
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from sklearn.datasets import load_breast_cancer, make_classification
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn

import mnemon
from mnemon.benchmarks.sources import load
from mnemon.continual.data import Data
from mnemon.continual.objective import Goal, ObjectiveKind
from mnemon.continual.recognition import Statistics, StatisticsRecogniser
from mnemon.inference import features
from mnemon.inference.features import AbstractFeatures, ConvolutionalFeatures, RandomFeatures, features_for
from mnemon.inference.gaussian import SharedGaussian
from mnemon.inference.sums import ClassSums

SEEDS = (0, 1, 2)
MOST = 1000
"""Strange inputs of each kind."""


class Part(NamedTuple):
    """A task: what to learn from and what to be tested on."""

    inputs: Tensor
    classes: Tensor
    test_inputs: Tensor
    test_classes: Tensor


def split(name: str, n_tasks: int, per_task: int) -> list[Part]:
    """Return tasks of the classes of a data set, in order."""
    base = load(name, None)
    parts = []
    for first in range(0, n_tasks * per_task, per_task):
        arrays = []
        sets = ((base.train_images, base.train_labels), (base.test_images, base.test_labels))
        for images, labels in sets:
            chosen = (labels >= first) & (labels < first + per_task)
            arrays += [_floats(images[chosen]), labels[chosen].long() - first]
        parts.append(Part(*arrays))
    return parts


def _floats(images: Tensor) -> Tensor:
    scaled = images.float() / 255 if images.dtype == torch.uint8 else images.float()
    return scaled[:, None] if scaled.ndim == 3 else scaled


def permuted(n_tasks: int, seed: int, most: int = 60_000) -> list[Part]:
    """Return MNIST with its pixels in other orders."""
    whole, random = split("mnist", 1, 10)[0], torch.Generator().manual_seed(seed)
    parts = []
    for _ in range(n_tasks):
        order = torch.randperm(784, generator=random)
        train, test = (images.flatten(1)[:most][:, order] for images in (whole.inputs, whole.test_inputs))
        parts.append(Part(train, whole.classes[:most], test, whole.test_classes))
    return parts


def sites(seed: int) -> list[Part]:
    """Return breast cancer at three sites, whose instruments differ in scale and offset."""
    x, y = (torch.tensor(array) for array in load_breast_cancer(return_X_y=True))
    x = ((x - x.mean(0)) / x.std(0)).float()
    random = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(x), generator=random)
    parts = []
    for index in order.chunk(3):
        scale, offset = 1 + 0.3 * torch.randn(30, generator=random), torch.randn(30, generator=random)
        inputs, half = x[index] * scale + offset, 2 * len(index) // 3
        parts.append(Part(inputs[:half], y[index[:half]], inputs[half:], y[index[half:]]))
    return parts


def tables(seed: int) -> list[Part]:
    """Return three synthetic tables of twenty columns."""
    parts = []
    for task in range(3):
        x, y = make_classification(1500, 20, n_informative=8, n_classes=2, random_state=100 * seed + task)
        inputs, classes = torch.tensor(x).float(), torch.tensor(y).long()
        parts.append(Part(inputs[:1000], classes[:1000], inputs[1000:], classes[1000:]))
    return parts


# Tasks found


def learned(parts: list[Part], seed: int, statistics: Statistics | None = None) -> StatisticsRecogniser:
    """Return the sums of all tasks."""
    torch.manual_seed(seed)
    sums = StatisticsRecogniser(statistics or Statistics(), seed, None)
    for task, part in enumerate(parts):
        goal = Goal(ObjectiveKind.CLASSES, tuple(range(int(part.classes.max()) + 1)))
        sums.learn(Data((part.inputs,), part.classes), goal, range(task + 1))
    return sums


def scores(sums: StatisticsRecogniser, parts: list[Part]) -> tuple[float, float, float]:
    """Return the shares of tasks found, of classes of all tasks told apart, and of inputs called unknown."""
    found, right, unknown, first = [], [], [], 0
    for task, part in enumerate(parts):
        answer = sums.recognise((part.test_inputs,), [True] * len(parts))
        assert answer.probability is not None
        found.append(answer.index == task)
        right.append(answer.probability.argmax(1) == first + part.test_classes)
        unknown.append(~answer.known)
        first += len(sums.tasks[task].counts)
    return tuple(100 * float(torch.cat(each).double().mean()) for each in (found, right, unknown))  # type: ignore


SETS: dict[str, Callable[[int], list[Part]]] = {
    "breast cancer, 3 sites": sites,
    "synthetic tables, 3": tables,
    "digits, 5 pairs": lambda seed: split("digits", 5, 2),
    "Fashion-MNIST, 5 pairs": lambda seed: split("fashion-mnist", 5, 2),
    "MNIST, 5 pairs": lambda seed: split("mnist", 5, 2),
    "CIFAR-100, 4 x 10": lambda seed: split("cifar-100", 4, 10),
    "permuted MNIST, 20": lambda seed: permuted(20, seed, 6000),
    "CIFAR-100, 10 x 10": lambda seed: split("cifar-100", 10, 10),
}


def found() -> None:
    """Print tasks found by statistics, over the seeds."""
    for name in SETS:
        found_in(name)


def found_in(name: str) -> None:
    """Print tasks found in one of the sets."""
    each, seconds = [], []
    for seed in SEEDS:
        parts, started = SETS[name](seed), time.process_time()
        sums = learned(parts, seed)
        seconds.append((time.process_time() - started) / len(parts))
        each.append(scores(sums, parts))
    print(f"{name}: {_row(each, ('tasks', 'classes', 'unknown'))}; {max(seconds):.1f} s/task", flush=True)


def lda() -> None:
    """Print tasks found by class means and one covariance of the inputs themselves."""
    for name, make in SETS.items():
        print(f"{name}, LDA: {_row([_lda(make(seed)) for seed in SEEDS], ('tasks',))}", flush=True)


def _lda(parts: list[Part]) -> tuple[float]:
    counts = [int(part.classes.max()) + 1 for part in parts]
    batches = [(part.inputs.flatten(1), part.classes + sum(counts[:task])) for task, part in enumerate(parts)]
    gaussian, hits = SharedGaussian(ClassSums.over(batches, sum(counts)), counts, 1e-4), []
    for task, part in enumerate(parts):
        likely = gaussian.log_probability(gaussian.distances(part.test_inputs.flatten(1)), 1.0)
        hits.append(gaussian.by_task(likely).argmax(1) == task)
    return (100 * float(torch.cat(hits).double().mean()),)


def _row(each: list[tuple[float, ...]], names: tuple[str, ...]) -> str:
    values = torch.tensor(each, dtype=torch.float64)
    sem = values.std(0) / len(each) ** 0.5
    return ", ".join(f"{n} {m:.2f} ± {s:.2f}" for n, m, s in zip(names, values.mean(0), sem, strict=True))


def ways() -> None:
    """Print tasks found by each way of a ContinualModel, on sets that it learns in seconds."""
    rows = {
        "digits, 5 pairs": lambda seed: [_flat(part) for part in split("digits", 5, 2)],
        "breast cancer, 3 sites": sites,
        "synthetic tables, 3": tables,
    }
    for name, make in rows.items():
        for way in ("entropy", "density", "statistics"):
            each = [_found_by(way, make(seed), seed) for seed in SEEDS]
            print(f"{name}, {way}: {_row(each, ('tasks', 'right'))}", flush=True)


def _flat(part: Part) -> Part:
    return part._replace(inputs=part.inputs.flatten(1), test_inputs=part.test_inputs.flatten(1))


def _found_by(way: str, parts: list[Part], seed: int) -> tuple[float, float]:
    """Return the shares of tasks found, whatever is called unknown, and of right answers."""
    torch.manual_seed(seed)
    low = min(float(part.inputs.min()) for part in parts)
    high = max(float(part.inputs.max()) for part in parts)
    module = nn.Sequential(nn.Linear(parts[0].inputs.shape[1], 64), nn.ReLU(), nn.Linear(64, 2))
    model = mnemon.ContinualModel(module, recognise=way, seed=seed)
    shown = [[((x - low) / (high - low)).clamp(0, 1) for x in (p.inputs, p.test_inputs)] for p in parts]
    for task, (part, (train, _)) in enumerate(zip(parts, shown, strict=True)):
        model.learn((train, part.classes), task=str(task), steps=300, quiet=True)
    hits, right = [], []
    for task, (part, (_, test)) in enumerate(zip(parts, shown, strict=True)):
        index = _index_of(model, test)
        hits.append(index == task)
        right.append((index == task) & (model.predict(test, str(task)).label == part.test_classes))
    return tuple(100 * float(torch.cat(each).double().mean()) for each in (hits, right))  # type: ignore


def _index_of(model: mnemon.ContinualModel, inputs: Tensor) -> Tensor:
    from mnemon.continual.prediction import recognised

    return recognised(model.state, (inputs,)).index


# Unknown


def unknown() -> None:
    """Print how well strange inputs are told, over the seeds: AUROC, and the share that is called unknown."""
    for name, other in (("digits", ""), ("fashion-mnist", "mnist"), ("mnist", "fashion-mnist")):
        unknown_in(name, other)


def unknown_in(name: str, other: str) -> None:
    """Print how well strange inputs are told from those of one set."""
    each: dict[str, list[tuple[float, float]]] = {}
    for seed in SEEDS:
        parts = split(name, 5, 2)
        sums = learned(parts, seed)
        test = torch.cat([part.test_inputs for part in parts])
        usual = strangeness(sums, test[torch.randperm(len(test))[:MOST]])
        each.setdefault("(false alarms)", []).append((0.5, float((usual > 0).double().mean())))
        for kind, inputs in strange(test, other, seed):
            found = strangeness(sums, inputs)
            answers = torch.cat([torch.zeros(len(usual)), torch.ones(len(found))])
            area = roc_auc_score(answers, torch.cat([usual, found]))
            each.setdefault(kind, []).append((float(area), float((found > 0).double().mean())))
    for kind, values in each.items():
        area, share = torch.tensor(values).mean(0).tolist()
        print(f"{name}, {kind}: AUROC {area:.3f}, unknown {100 * share:.0f} %", flush=True)


def strangeness(sums: StatisticsRecogniser, inputs: Tensor) -> Tensor:
    """Return how strange inputs are beside the bound of their task: above 0 they are unknown."""
    found = sums._of((inputs,))
    index = sums.recognise((inputs,), [True] * len(sums.tasks)).index
    strange = torch.zeros(len(inputs), dtype=torch.float64)
    for task in index.unique().tolist():
        of, kept = index == task, sums.tasks[task].strangeness
        strange[of] = kept.of(sums._own(task).measures(found[of])) - kept.bound
    return strange


def strange(test: Tensor, other: str, seed: int) -> Iterator[tuple[str, Tensor]]:
    """Return kinds of inputs that are of none of the tasks."""
    random = torch.Generator().manual_seed(seed)
    some = test[torch.randperm(len(test), generator=random)[:MOST]]
    order = torch.randperm(some[0].numel(), generator=random)
    yield "noise", torch.rand(some.shape, generator=random)
    if other:
        yield other, torch.cat([part.test_inputs for part in split(other, 5, 2)])[::10]
    if some.shape[2] == 8:
        yield "letters", letters()
    yield "another permutation", some.flatten(1)[:, order].view(some.shape)
    changes = {"times 255": some * 255, "times 2": some * 2, "times 0.2": some * 0.2, "times 0.5": some * 0.5}
    yield from changes.items()
    yield "plus 0.3", some + 0.3
    yield "inverted", 1 - some
    yield "blank", torch.zeros_like(some)
    yield "moved by a fifth", some.roll(some.shape[3] // 5, 3)
    yield "upside down", some.flip(2)


def letters() -> Tensor:
    """Return drawn letters as images of 8 x 8."""
    from PIL import Image, ImageDraw, ImageFont

    found = []
    for size in range(16, 25):
        for letter in "ABCDEFGHJKLMNPQRTUVWXYZabdefghkmnpqrtwy":
            image = Image.new("L", (28, 28), 0)
            font = ImageFont.load_default(size)
            ImageDraw.Draw(image).text((14, 14), letter, fill=255, font=font, anchor="mm")
            found.append(torch.tensor(list(image.tobytes())).view(1, 28, 28).float() / 255)
    return nn.functional.interpolate(torch.stack(found)[:, :, 4:24, 4:24], size=8, mode="area")


# Cost


def cost() -> None:
    """Print seconds per task, bytes, and seconds to recognise 1,000 inputs, at 1, 20 and 1,000 tasks."""
    whole = split("mnist", 1, 10)[0]
    train, test = whole.inputs.flatten(1)[:2000], whole.test_inputs.flatten(1)[:1000]
    goal = Goal(ObjectiveKind.CLASSES, tuple(range(10)))
    sums, random, spent = StatisticsRecogniser(Statistics(), 0, None), torch.Generator().manual_seed(0), 0.0
    orders = [torch.randperm(784, generator=random) for _ in range(1000)]
    for task, order in enumerate(orders):
        started = time.process_time()
        sums.learn(Data((train[:, order],), whole.classes[:2000]), goal, range(task + 1))
        spent += time.process_time() - started
        if task + 1 in (1, 20, 1000):
            rows = torch.arange(1000) % (task + 1)
            asked = torch.stack([test[i][orders[t]] for i, t in enumerate(rows.tolist())])
            sums.recognise((asked[:1],), [True] * (task + 1))
            started = time.process_time()
            index = sums.recognise((asked,), [True] * (task + 1)).index
            took, right = time.process_time() - started, 100 * float((index == rows).double().mean())
            print(
                f"{task + 1} tasks: {spent / (task + 1):.2f} s per task, {sums.nbytes:,} bytes, "
                f"{sums.width} features; "
                f"1,000 inputs in {took:.2f} s, {right:.1f} % found",
                flush=True,
            )


# What helps on CIFAR


def patches() -> None:
    """Print tasks found and classes told apart on four tasks of CIFAR-100, by kinds of features."""
    parts = split("cifar-100", 4, 10)
    kinds: dict[str, AbstractFeatures] = {
        "pixels, random ReLU, 1000": RandomFeatures(3072, 1000),
        "patches, 3 x 3 cells, 990": ConvolutionalFeatures((3, 32, 32), 990),
        "patches and random (default), 1000": features_for((3, 32, 32), 1000),
        "patches and random, 2000": features_for((3, 32, 32), 2000),
        "patches, 3 x 3 cells, 3996": ConvolutionalFeatures((3, 32, 32), 3996),
    }
    features.GRID = 2
    kinds["patches, 2 x 2 cells, 2000"] = ConvolutionalFeatures((3, 32, 32), 2000)
    for name, kind in kinds.items():
        torch.manual_seed(0)
        kind.fit((parts[0].inputs[:2000],))
        batches = [(kind.of((p.inputs,)), p.classes + 10 * t) for t, p in enumerate(parts)]
        gaussian = SharedGaussian(ClassSums.over(batches, 40), [10] * 4)
        found, right = [], []
        for task, part in enumerate(parts):
            likely = gaussian.log_probability(gaussian.distances(kind.of((part.test_inputs,))), 0.2)
            found.append(gaussian.by_task(likely).argmax(1) == task)
            right.append(likely.argmax(1) == 10 * task + part.test_classes)
        shares = [100 * float(torch.cat(each).double().mean()) for each in (found, right)]
        print(f"{name}: tasks {shares[0]:.1f}, classes {shares[1]:.1f}", flush=True)


SECTIONS = {"found": found, "lda": lda, "ways": ways, "unknown": unknown, "cost": cost, "patches": patches}

if __name__ == "__main__":
    torch.set_num_threads(1)
    for section in sys.argv[1:] or SECTIONS:
        SECTIONS[section]()
