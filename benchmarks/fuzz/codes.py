"""Damaged codes of networks: each is decoded to the very network that was kept, or refused by our error."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from mnemon.errors import CheckpointError
from mnemon.memory.exact import ExactMemory, TaskCode
from mnemon.optimizer import OptimizerConfig

N_TASKS = 4


def prepare(folder: Path) -> tuple[ExactMemory, list[dict[str, Tensor]]]:
    """Make a memory of networks, each of which is coded beside the one before."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(6, 50), nn.BatchNorm1d(50), nn.ReLU(), nn.Linear(50, 3))
    memory = ExactMemory(module, ["*"], OptimizerConfig(lr=0.01))
    inputs, targets = torch.randn(40, 6), torch.randint(0, 3, (40,))
    for task in range(N_TASKS):
        memory.n_begun = task + 1
        memory.start_learning()
        memory.start_from(task - 1)
        for step in range(20):
            memory.advance(step / 20)
            memory.descend(nn.functional.cross_entropy(memory.run(task, inputs, training=True), targets.roll(task)))
        memory.finish_learning(None)
    return memory, [_network(memory, task) for task in range(N_TASKS)]


def case(prepared: tuple[ExactMemory, list[dict[str, Tensor]]], number: int) -> str:
    """Damage the code of one network, or the list of all codes, and ask for the network."""
    memory, wanted = prepared
    chance, codes = np.random.default_rng(number), memory.codes
    task, kind = int(chance.integers(N_TASKS)), ("bytes", "cut", "drawn", "list")[int(chance.integers(4))]
    try:
        if kind == "list":
            coded = {name: tensor.numpy().tobytes() for name, tensor in memory.coded().items()}
            coded["codes"] = _damaged(coded["codes"], "bytes", chance)
            tensors = {name: torch.frombuffer(bytearray(code), dtype=torch.uint8) for name, code in coded.items()}
            memory.take_coded(tensors, N_TASKS)
        else:
            code = TaskCode(codes[task].reference, _damaged(codes[task].code, kind, chance), codes[task].digest)
            memory.put_back(type(memory.kept())((*codes[:task], code, *codes[task + 1 :]), -1, None))
        found = _network(memory, task)
        same = all(torch.equal(found[name], wanted[task][name]) for name in found)
        assert same, "another network"
        return "the network"
    except CheckpointError:
        return "refused"
    finally:
        memory.put_back(type(memory.kept())(codes, -1, None))


def _network(memory: ExactMemory, task: int) -> dict[str, Tensor]:
    return {**memory.network_weights(task), **memory.network_buffers(task)}


def _damaged(code: bytes, kind: str, chance: np.random.Generator) -> bytes:
    """Return a code with some bytes changed, cut short, or drawn anew."""
    if kind == "cut":
        return code[: int(chance.integers(len(code)))]
    if kind == "drawn":
        return chance.integers(0, 256, int(chance.integers(2 * len(code))), dtype=np.uint8).tobytes()
    changed = bytearray(code)
    for at in chance.integers(0, len(code), int(chance.integers(1, 4))):
        changed[at] = int(chance.integers(256))
    return bytes(changed)
