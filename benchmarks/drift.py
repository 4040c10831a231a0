"""What tasks really lost, beside what `ContinualModel.drift` expects.

    python -m benchmarks.drift

Six permutations of the embedded digits, learned by a small network with memory="generated", with room and penalties
from ample to none; and a small convolutional network with batch norm. Prints means over the earlier tasks: how far
their networks have moved, the expected loss, and the real one on test data.
"""

from __future__ import annotations

import warnings

import torch
from sklearn.datasets import load_digits
from torch import nn

import mnemon

N_TASKS, STEPS, TRAIN = 6, 300, 1200
CASES: list[tuple[str, float, float | None]] = [
    ("dense", 0.1, None),
    ("dense", 0.01, None),
    ("dense", 0.01, 0.5),
    ("dense", 0.001, 0.3),
    ("dense", 0.0, None),
    ("convolutional", 1.0, None),
    ("convolutional", 0.1, None),
]
"""Network, strength of the penalty, and compression."""


def network(name: str) -> nn.Module:
    """Return a fresh network."""
    if name == "dense":
        return nn.Sequential(nn.Linear(64, 100), nn.ReLU(), nn.Linear(100, 10))
    images, head = nn.Unflatten(1, (1, 8, 8)), nn.Linear(16 * 16, 10)
    layers = nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 16, 3), nn.BatchNorm2d(16), nn.ReLU()
    return nn.Sequential(images, *layers, nn.Flatten(), head)


def run(name: str, beta: float, compression: float | None, seed: int) -> list[tuple[float, float, float]]:
    """Learn all tasks; return for each earlier one the move, the expected and the real loss."""
    digits = load_digits()
    inputs = torch.tensor(digits.data / 16, dtype=torch.float32)
    targets = torch.tensor(digits.target)
    torch.manual_seed(seed)
    orders = [torch.randperm(64) for _ in range(N_TASKS)]
    model = mnemon.ContinualModel(network(name), beta=beta, compression=compression, seed=seed, recognise=None)
    right_after = []
    for task, order in enumerate(orders):
        x = inputs[:, order]
        model.learn((x[:TRAIN], targets[:TRAIN]), task=f"{task}", steps=STEPS, quiet=True)
        right_after.append(model.evaluate((x[TRAIN:], targets[TRAIN:]), task=f"{task}"))
    found = []
    for task, drift in enumerate(model.drift()[:-1]):
        data = inputs[TRAIN:, orders[task]], targets[TRAIN:]
        found.append((drift.moved, drift.lost, right_after[task] - model.evaluate(data, task=f"{task}")))
    return found


def main() -> None:
    """Print a table."""
    warnings.simplefilter("ignore", mnemon.ForgettingWarning)
    torch.set_num_threads(1)
    print(
        "| network | beta | compression | seed | moved | expected loss | real loss |\n|---|---|---|---|---|---|---|"
    )
    for name, beta, compression in CASES:
        for seed in range(3):
            found = run(name, beta, compression, seed)
            means = [sum(values) / len(values) for values in zip(*found, strict=True)]
            cells = (name, beta, compression or "default", seed, *(f"{mean:.2f}" for mean in means))
            print("| " + " | ".join(map(str, cells)) + " |", flush=True)


if __name__ == "__main__":
    main()
