"""What `ContinualModel` promises, measured through its public face.

python -m benchmarks.continual [saved] [thousand] [room] [forget] [streams] [unknown]

Each prints a table (or some lines) for the documents. `benchmarks.modules` has the table of modules, and
`benchmarks.latency` the times of a task's network.
"""

from __future__ import annotations

import itertools
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor, nn

import mnemon
from benchmarks.modules import Pair, digits, parted

PAIRS = [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)]


def pair_of_digits(first: int, second: int) -> tuple[Pair, Pair]:
    """Return training and test data of two digits, under their own labels."""
    images, labels = digits()
    chosen = (labels == first) | (labels == second)
    return parted((images[chosen].flatten(1),), labels[chosen])


def perceptron(outputs: int = 10) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, outputs))


def taught(n_tasks: int, **settings: object) -> mnemon.ContinualModel:
    """Return a model that has learned so many pairs of digits."""
    model = mnemon.ContinualModel(perceptron(2), **settings)  # type: ignore[arg-type]
    for pair in PAIRS[:n_tasks]:
        model.learn(pair_of_digits(*pair)[0], task=str(pair), quiet=True)
    return model


def outputs_of(model: mnemon.ContinualModel) -> dict[str, Tensor]:
    inputs = pair_of_digits(0, 1)[1][0]
    found = {task: model.predict(inputs, task=task).outputs for task in model.tasks}
    return {task: outputs for task, outputs in found.items() if outputs is not None}


# Save, load in a new process, learn on


GO_ON = """
import sys, torch, mnemon
from benchmarks.continual import PAIRS, outputs_of, pair_of_digits, perceptron
from safetensors.torch import save_file
model = mnemon.load(sys.argv[1], perceptron(2))
model.learn(pair_of_digits(*PAIRS[3])[0], task=str(PAIRS[3]), quiet=True)
save_file(outputs_of(model), sys.argv[2])
"""


def saved() -> None:
    """Learn a fourth task after loading in another process, and without having saved at all."""
    from safetensors.torch import load_file

    model = taught(3)
    with tempfile.TemporaryDirectory() as folder:
        path, answers = model.save(Path(folder) / "memory"), Path(folder) / "answers.safetensors"
        subprocess.run([sys.executable, "-c", GO_ON, str(path), str(answers)], check=True)
        model.learn(pair_of_digits(*PAIRS[3])[0], task=str(PAIRS[3]), quiet=True)
        there, here = load_file(answers), outputs_of(model)
    same = all(torch.equal(here[task], there[task]) for task in here)
    print(f"A fourth task after loading in a new process: outputs of {len(here)} tasks bit-identical: {same}")


# A thousand tasks


def tiny_task(number: int, n: int = 200) -> Pair:
    """Return two classes parted by a plane of the task's own."""
    chance = torch.Generator().manual_seed(number)
    inputs = torch.randn(n, 8, generator=chance)
    return (inputs,), (inputs @ torch.randn(8, generator=chance) > 0).long()


def thousand(n_tasks: int = 1000, steps: int = 30) -> None:
    """Teach a small module many tasks; the first two and the last in as many steps as the data call for."""
    torch.manual_seed(0)
    make = lambda: nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))  # noqa: E731
    mnemon.ContinualModel(make()).learn(tiny_task(0), task="warm-up", quiet=True)
    model = mnemon.ContinualModel(make())
    seconds, during = {}, []
    for number in range(n_tasks):
        start, whole = time.process_time(), number in (0, 1, n_tasks - 1)
        model.learn(tiny_task(number), task=f"task {number}", steps=None if whole else steps, quiet=True)
        seconds[number] = time.process_time() - start
        during.append(model.evaluate(tiny_task(number), f"task {number}"))
    final = [model.evaluate(tiny_task(number), f"task {number}") for number in range(n_tasks)]
    with tempfile.TemporaryDirectory() as folder:
        start = time.process_time()
        path = model.save(Path(folder) / "memory")
        saving, size = time.process_time() - start, path.stat().st_size
        before = mnemon.ContinualModel(make()).save(Path(folder) / "empty").stat().st_size
        start = time.process_time()
        mnemon.load(path, make())
        loading = time.process_time() - start
    first, second, last = seconds[0], seconds[1], seconds[n_tasks - 1]
    early, late = (
        statistics.median(seconds[n] for n in some) for some in (range(2, 12), range(n_tasks - 11, n_tasks - 1))
    )
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{n_tasks} tasks of a module with 178 weights, {steps} steps each, CPU time")
    print(f"  600 steps: the first task {first:.2f} s, the second {second:.2f} s, the last {last:.2f} s")
    print(f"    last / first {last / first:.2f}, last / second {last / second:.2f}")
    print(f"  {steps} steps: an early task {early:.3f} s, a late one {late:.3f} s, ratio {late / early:.2f}")
    print(f"  file {size / 1e3:.0f} kB, {(size - before) / n_tasks:.0f} bytes per task")
    print(f"  saving {saving:.2f} s, loading {loading:.2f} s, memory of the process at most {memory:.0f} MB")
    print(f"  accuracy right after {statistics.fmean(during):.2f} %, at the end {statistics.fmean(final):.2f} %")


def room(n_tasks: int = 100) -> None:
    """Teach fewer such tasks with more steps, a firmer hold, and a larger hypernetwork."""
    for steps, beta, compression in (
        (30, 0.1, None),
        (30, 1.0, None),
        *((150, b, c) for c in (None, 30) for b in (0.1, 1.0)),
    ):
        torch.manual_seed(0)
        module = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
        model = mnemon.ContinualModel(module, beta=beta, compression=compression)
        tasks = {f"task {number}": tiny_task(number) for number in range(n_tasks)}
        during = [model.learn(data, task=task, steps=steps, quiet=True).score for task, data in tasks.items()]
        final = [model.evaluate(data, task) for task, data in tasks.items()]
        print(
            f"{n_tasks} tasks, {steps} steps, beta {beta}, compression {compression}: right after "
            f"{statistics.fmean(during):.1f} %, at the end {statistics.fmean(final):.1f} %",
            flush=True,
        )


# Forgetting on purpose


def forget() -> None:
    """Forget a task in the middle, and look for it in the file."""
    model, dropped = taught(5), str(PAIRS[2])
    traces = [tensor.detach().numpy().tobytes() for tensor in model._learner.memory.embeddings[2:3]]
    with tempfile.TemporaryDirectory() as folder:
        there = model.save(Path(folder) / "before").read_bytes()
        before = outputs_of(model)
        model.forget(dropped)
        gone = model.save(Path(folder) / "after").read_bytes()
    after = outputs_of(model)
    same = all(torch.equal(before[task], after[task]) for task in after)
    found = [all(trace in content for trace in traces) for content in (there, gone)]
    print(f"forget: outputs of the other {len(after)} tasks bit-identical: {same}")
    print(f"  its embedding is in the file before: {found[0]}, after: {found[1]}")


# Streams


@dataclass
class Stream:
    """Pairs of digits in a random order, with returns, and what came of them."""

    order: list[int]
    length: int = 20
    size: int = 32
    seed: int = 0

    @classmethod
    def random(cls, seed: int) -> Stream:
        """Draw an order of five tasks and five returns, in which no task follows on itself."""
        chance, order = random.Random(seed), [0, 0]
        while any(a == b for a, b in itertools.pairwise(order)):
            order = [*range(5), *(chance.randrange(5) for _ in range(5))]
            chance.shuffle(order)
        return cls(order, seed=seed)

    def batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        chance = torch.Generator().manual_seed(self.seed)
        for number in self.order:
            (inputs,), labels = pair_of_digits(*PAIRS[number])[0]
            for _ in range(self.length):
                chosen = torch.randint(len(labels), (self.size,), generator=chance)
                yield inputs[chosen], labels[chosen]


def streams(n: int = 20, steps: int = 10) -> None:
    """Learn random streams of pairs of digits, with and without their boundaries."""
    print("| order | switches | found at once | late | missed | false | tasks opened | accuracy | with boundaries |")
    print("|---|---|---|---|---|---|---|---|---|")
    differences = []
    for seed in range(n):
        stream = Stream.random(seed)
        row, difference = _streamed(stream, steps)
        print(row, flush=True)
        differences.append(difference)
    print(
        f"Accuracy with boundaries minus without: {statistics.fmean(differences):.2f} points on average, "
        f"{max(differences):.2f} at most"
    )


def _streamed(stream: Stream, steps: int) -> tuple[str, float]:
    model = mnemon.ContinualModel(perceptron(), seed=stream.seed)
    switches = model.learn_stream(stream.batches(), steps=steps)
    true = [i * stream.length for i in range(1, len(stream.order))]
    found = [switch.batch for switch in switches[1:]]
    at_once = [b for b in true if b in found]
    late = [b for b in true if b not in found and any(b < f < b + stream.length for f in found)]
    false = len(found) - len(at_once) - len(late)
    n = len(stream.order) * stream.length
    starts = [switch.batch for switch in switches] + [n]
    active = [switch.task for switch, a, b in zip(switches, starts, starts[1:], strict=False) for _ in range(b - a)]
    accuracies = []
    for number, pair in enumerate(PAIRS):
        of_pair = [active[i] for i in range(n) if stream.order[i // stream.length] == number]
        task = statistics.mode(of_pair)
        accuracies.append(model.evaluate(pair_of_digits(*pair)[1], task=task))
    told = _told(stream, steps)
    without = statistics.fmean(accuracies)
    shown = " ".join(map(str, stream.order))
    missed = len(true) - len(at_once) - len(late)
    row = (
        f"| {shown} | {len(true)} | {len(at_once)} | {len(late)} | {missed} | {false} | {len(model.tasks)} | "
        f"{without:.2f} | {told:.2f} |"
    )
    return row, told - without


def _told(stream: Stream, steps: int) -> float:
    """Return the mean accuracy when every stretch of the same stream is given with its task's name."""
    model = mnemon.ContinualModel(perceptron(), seed=stream.seed)
    batches = list(stream.batches())
    for i, number in enumerate(stream.order):
        stretch = batches[i * stream.length : (i + 1) * stream.length]
        data = torch.cat([x for x, _ in stretch]), torch.cat([y for _, y in stretch])
        learn = model.relearn if str(number) in model.tasks else model.learn
        learn(data, task=str(number), steps=steps * stream.length, batch_size=stream.size, quiet=True)
    scores = [model.evaluate(pair_of_digits(*pair)[1], task=str(i)) for i, pair in enumerate(PAIRS)]
    return statistics.fmean(scores)


# Without a task's name


def letters(n: int = 400) -> Tensor:
    """Return capital letters (but those that look like digits), drawn like the digits: 8 x 8 pixels from 0 to 1."""
    chance = random.Random(0)
    images = []
    for _ in range(n):
        large = Image.new("L", (64, 64))
        letter = chance.choice("ACEFHJKMNPQRTUVWXY")
        font = ImageFont.load_default(size=chance.randint(52, 62))
        ImageDraw.Draw(large).text((32 + chance.randint(-3, 3), 32 + chance.randint(-3, 3)), letter, 255, font, "mm")
        small = large.rotate(chance.uniform(-12, 12)).resize((8, 8), Image.Resampling.BOX)
        images.append(torch.tensor(list(small.tobytes()), dtype=torch.float32) / 255)
    return torch.stack(images)


def unknown() -> None:
    """Ask for pairs of digits, and for what is none, without a task's name."""
    chance = torch.Generator().manual_seed(0)
    images, _ = digits()
    strange = {
        "noise": torch.rand(400, 64, generator=chance),
        "letters": letters(),
        "negative digits": 1 - images[:400].flatten(1),
    }
    columns = ["tasks", "by", "told the task", "not told", "task found", "false alarms", *strange, "seconds"]
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for n_tasks, way in itertools.product((2, 5), ("entropy", "density")):
        start = time.process_time()
        model = taught(n_tasks, recognise=way)
        seconds = time.process_time() - start
        told, inferred, right, alarms = [], [], [], []
        for pair in PAIRS[:n_tasks]:
            test = pair_of_digits(*pair)[1]
            answer = model.predict(*test[0])
            told.append(model.evaluate(test, str(pair)))
            inferred.append(model.evaluate(test, str(pair), infer=True))
            right.append(100 * statistics.fmean(task == str(pair) for task in answer.task))
            alarms.append(100 * statistics.fmean(task == "unknown" for task in answer.task))
        called = [100 * statistics.fmean(not known for known in model.predict(x).known) for x in strange.values()]
        numbers = [*(statistics.fmean(part) for part in (told, inferred, right, alarms)), *called, seconds]
        print(f"| {n_tasks} | {way} | {' | '.join(f'{number:.1f}' for number in numbers)} |", flush=True)


PARTS = {part.__name__: part for part in (saved, thousand, room, forget, streams, unknown)}

if __name__ == "__main__":
    torch.set_num_threads(1)
    for name in sys.argv[1:] or PARTS:
        PARTS[name]()
