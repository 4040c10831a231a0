"""How large a model is, in words."""

from __future__ import annotations

from mnemon.continual.learner import ModuleLearner
from mnemon.memory.base import AbstractMemory
from mnemon.memory.exact import ExactMemory
from mnemon.memory.networks import NetworkMemory


def size_in_words(learner: ModuleLearner, whole: int) -> str:
    """Describe the size of a memory, relative to a module with `whole` weights, and its parts."""
    memory = learner.memory
    return _of_codes(learner, memory, whole) if isinstance(memory, ExactMemory) else _of_numbers(learner, whole)


def _of_codes(learner: ModuleLearner, memory: ExactMemory, whole: int) -> str:
    kept = sum(tensor.nbytes for tensor in learner.tensors().values())
    in_codes = sum(len(code.code) for code in memory.codes)
    parts = [f"starting weights {memory.start_nbytes:,}", f"codes {in_codes:,}"]
    if learner.densities is not None:
        parts.append(f"densities {sum(t.nbytes for t in learner.densities.state_dict().values()):,}")
    if memory.codes:
        bits = 8 * in_codes / (memory.target.size * len(memory.codes))
        parts.append(f"{bits:.2f} bits per weight and task")
    return f"{kept / (4 * whole):.1f} × the module: {kept:,} bytes ({', '.join(parts)})"


def _of_numbers(learner: ModuleLearner, whole: int) -> str:
    hypernets = [memory for memory in map(_generated, learner.memories) if memory is not None]
    kept = sum(tensor.numel() for tensor in learner.tensors().values())
    start = sum(memory.own.numel() for memory in hypernets if memory.own is not None)
    parts = [f"starting weights {start:,}", f"hypernetwork {hypernets[0].hypernet.count():,}"]
    parts += [f"densities {learner.densities.count():,}"] if learner.densities is not None else []
    per_task = hypernets[0].numel_per_task + (learner.densities.numel_per_task if learner.densities else 0)
    return f"{kept / whole:.1f} × the module: {kept:,} numbers ({', '.join(parts)}, {per_task:,} per task)"


def _generated(memory: AbstractMemory) -> NetworkMemory | None:
    return memory if isinstance(memory, NetworkMemory) else None
