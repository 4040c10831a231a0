"""The penalty on changes of generated weights: what its exact form saves, and whether the cheaper way is chosen."""

from __future__ import annotations

import copy
import statistics

import torch
from torch import nn

from benchmarks.timing import Action, Rounds, cpu_seconds
from mnemon.experiments.preset import load_preset
from mnemon.experiments.run_config import resolve
from mnemon.hypernet import build_hypernet
from mnemon.hypernet.chunked import ChunkedHypernet
from mnemon.hypernet.target import Target
from mnemon.memory import penalty
from mnemon.memory.penalty import Anchors, exact_penalty, plain_penalty
from mnemon.models import build_network


def plain_and_exact(preset: str, n_tasks: int, old: int) -> tuple[Action, Action]:
    """Return plain and exact penalty, with gradients, of a preset's hypernetwork after so many old tasks."""
    config = resolve(load_preset(preset))
    target = Target(build_network(config.target, (1024,), 10 * n_tasks))
    frozen = build_hypernet(config.method.hypernet, target).requires_grad_(False)
    anchors = Anchors(frozen, torch.randn(old, frozen.embedding_size))
    moved = copy.deepcopy(frozen).requires_grad_(True)
    with torch.no_grad():
        for parameter in moved.parameters():
            parameter.add_(1e-3 * torch.randn_like(parameter))
    parameters, draw = list(moved.parameters()), anchors.everything()
    return (
        lambda: torch.autograd.grad(plain_penalty(moved, anchors, draw), parameters),
        lambda: exact_penalty(moved, anchors, draw),
    )


def chosen_and_better(width: int, chunk: int, rounds: int = 5) -> Rounds:
    """Return the times of the way that is chosen and of the better one, over numbers of rows."""
    found = [_of_rows(rows, width, chunk, rounds) for rows in (width // 4, width // 2, width, 2 * width, 4 * width)]
    chosen, better = zip(*found, strict=True)
    return Rounds(list(chosen), list(better))


def _of_rows(rows: int, width: int, chunk: int, rounds: int) -> tuple[float, float]:
    hypernet = ChunkedHypernet(rows * chunk - chunk // 3, 8, (width,), nn.ReLU, chunk, 8)
    for parameter in hypernet.parameters():
        nn.init.normal_(parameter, std=0.1)
    anchors, chooser = Anchors(hypernet, torch.randn(1, 8)), penalty.gram_is_cheaper
    draw = anchors.everything()

    def milliseconds(by_gram: bool) -> float:
        penalty.gram_is_cheaper = lambda n_rows, width: by_gram
        return 1000 * cpu_seconds(lambda: exact_penalty(hypernet, anchors, draw), 3)

    try:
        milliseconds(True), milliseconds(False)
        pairs = [(milliseconds(True), milliseconds(False)) for _ in range(rounds)]
    finally:
        penalty.gram_is_cheaper = chooser
    gram, direct = (statistics.median(column) for column in zip(*pairs, strict=True))
    return gram if chooser(rows, width) else direct, min(gram, direct)
