"""One run by several processes (torchrun): each takes its part of every batch, and gradients are averaged.

All processes hold the same learner, draw the same random numbers and see the same whole batches. Each learns from its
part. Hooks on the parameters average every gradient over the processes as soon as it is computed. So the rest of a
step (penalty, lookahead, optimizer) uses the gradient of the whole batch. Only the first process writes files and
messages.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import NoReturn, TypeVar

import torch
from torch import Tensor, distributed, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd
from torch.utils.hooks import RemovableHandle

from mnemon.errors import UsageError
from mnemon.learners import METHODS
from mnemon.learners.base import AbstractLearner
from mnemon.problem import Batch
from mnemon.training.batches import past_share

T = TypeVar("T")
joined = False
"""Whether this process has joined a group of processes."""


class Crew:
    """The processes that share a run; a single one without torchrun."""

    def __init__(self, rank: int = 0, size: int = 1):
        self.rank, self.size = rank, size
        self._hooks: list[RemovableHandle] = []

    @property
    def leads(self) -> bool:
        """Whether this is the process that writes files and messages."""
        return self.rank == 0

    def check(self, learner: AbstractLearner, batch_size: int) -> None:
        """Refuse a learner whose result changes if a batch is divided."""
        if self.size == 1:
            return
        if not learner.shares_batches:
            method = METHODS.name_of(type(learner)) or type(learner).__name__
            shared = ", ".join(name for name, kind in METHODS.all().items() if kind.shares_batches)
            raise UsageError(f"Processes can share {shared}, but not {method}: run it without torchrun.")
        learner.check_shared()
        with torch.device("meta"):
            network = learner.problem.network(learner.problem.outputs_per_task)
        for module in network.modules():
            if isinstance(module, _BatchNorm | _DropoutNd):
                name = type(module).__name__
                raise UsageError(f"{name} depends on the whole batch and is not shared: run it without torchrun.")
        if batch_size < self.size:
            raise UsageError(f"training.batch_size is {batch_size}: too small for {self.size} processes.")
        n_past = learner.problem.n_tasks - 1 if learner.sees_past else 0
        share = past_share(batch_size, n_past)
        if share < self.size:
            raise UsageError(
                f"training.batch_size is {batch_size}: a step has {share} examples of each of {n_past} earlier "
                f"tasks, too few for {self.size} processes; use at least {(self.size - 1) * n_past + 1}."
            )

    def part(self, batch: Batch) -> Batch:
        """Return this process's part of a batch, weighted so that the mean over processes is that of the batch."""
        if self.size == 1:
            return batch
        if len(batch) < self.size:
            raise UsageError(f"{len(batch)} examples of a task are too few for {self.size} processes.")
        inputs, targets = (tensor.tensor_split(self.size)[self.rank] for tensor in (batch.inputs, batch.targets))
        past = tuple(self.part(earlier) for earlier in batch.past)
        return replace(batch, inputs=inputs, targets=targets, past=past, weight=len(inputs) * self.size / len(batch))

    def average_gradients(self, module: nn.Module) -> None:
        """From now on, average the gradient of every parameter as soon as it is computed."""
        for hook in self._hooks:
            hook.remove()
        if self.size > 1:
            self._hooks = [p.register_hook(self._mean) for p in module.parameters() if p.requires_grad]

    def mean(self, terms: dict[str, float]) -> dict[str, float]:
        """Return the terms of a step, averaged."""
        if self.size == 1 or not terms:
            return terms
        values = self._mean(torch.tensor(list(terms.values()), dtype=torch.float64))
        return dict(zip(terms, values.tolist(), strict=True))

    def any(self, asked: bool) -> bool:
        """Return whether `asked` is true in any process."""
        return asked if self.size == 1 else bool(self._mean(torch.tensor([float(asked)])) > 0)

    def share(self, begin: Callable[[], T]) -> T:
        """Run a function in the first process; return its result, or raise its error, in all."""
        if self.size == 1:
            return begin()
        found: list[object] = [None]
        if self.leads:
            try:
                found = [begin()]
            except UsageError as error:
                found = [error]
        distributed.broadcast_object_list(found)
        if isinstance(found[0], UsageError):
            raise found[0]
        return found[0]  # type: ignore[return-value]

    def together(self, do: Callable[[], T]) -> T:
        """Run a function in every process; an error in one is raised in all of them."""
        if self.size == 1:
            return do()
        done: T | None = None
        error: UsageError | None = None
        try:
            done = do()
        except UsageError as failure:
            error = failure
        for one in self.words(error):
            if one is not None:
                raise one
        return done  # type: ignore[return-value]

    def words(self, word: T) -> list[T]:
        """Return the values of all processes."""
        said = [word] * self.size
        if self.size > 1:
            distributed.all_gather_object(said, word)
        return said

    def _mean(self, tensor: Tensor) -> Tensor:
        on_gpu = distributed.get_backend() == "nccl"
        total = tensor.detach().to("cuda" if on_gpu else "cpu").contiguous().clone()
        distributed.all_reduce(total)
        return (total / self.size).to(tensor.device)


ALONE = Crew()


def is_shared() -> bool:
    """Tell whether torchrun has started several processes."""
    return "TORCHELASTIC_RUN_ID" in os.environ and int(os.environ.get("WORLD_SIZE", 1)) > 1


def leads() -> bool:
    """Tell whether this process writes messages; works before the processes have joined."""
    return not is_shared() or os.environ.get("RANK", "0") == "0"


def check_gpus(device: str) -> None:
    """Refuse a device if a process on this machine would have no GPU."""
    if ":" in device:
        raise UsageError(
            f"--device {device} is one GPU for all processes: use --device cuda, and each process gets its own."
        )
    processes, there = int(os.environ["LOCAL_WORLD_SIZE"]), torch.cuda.device_count()
    if processes > there:
        fewer = f"torchrun --nproc-per-node {there}, or " if there else ""
        raise UsageError(f"This machine has GPUs for {there} of its {processes} processes: use {fewer}--device cpu.")


@contextmanager
def crew(device: str) -> Iterator[Crew]:
    """Join the processes that torchrun has started, if it has."""
    if not is_shared():
        yield ALONE
        return
    on_gpu = device.startswith("cuda") or (device == "auto" and torch.cuda.is_available())
    if on_gpu:
        check_gpus(device)
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    distributed.init_process_group("nccl" if on_gpu else "gloo")
    global joined
    joined = True
    try:
        yield Crew(distributed.get_rank(), distributed.get_world_size())
    finally:
        distributed.destroy_process_group()


def leave(code: int) -> NoReturn:
    """End the process; one of several ends at once, because threads of gloo sometimes abort a normal shutdown."""
    if joined:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)
