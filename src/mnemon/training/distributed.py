"""One run by several processes (torchrun): each takes its part of every batch, and gradients are averaged.

All processes hold the same learner, draw the same random numbers and see the same whole batches, of which each learns
from its part. Hooks on the parameters average every gradient over the processes the moment it is found, so a step of
any learner goes on, with penalty, lookahead and optimizer, from the gradient of the whole batch. The first process
alone writes and speaks.
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
"""Whether this process was ever one of several."""


class Crew:
    """The processes that share a run; of one process, unless torchrun says otherwise."""

    def __init__(self, rank: int = 0, size: int = 1):
        self.rank, self.size = rank, size
        self._hooks: list[RemovableHandle] = []

    @property
    def leads(self) -> bool:
        """Whether this is the process that writes and speaks."""
        return self.rank == 0

    def check(self, learner: AbstractLearner, batch_size: int) -> None:
        """Refuse what does not come to the same when a batch is divided."""
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
                f"training.batch_size is {batch_size}: of each of {n_past} earlier tasks a step has {share}, too few "
                f"for {self.size} processes; take at least {(self.size - 1) * n_past + 1}."
            )

    def part(self, batch: Batch) -> Batch:
        """Return this process's part of a batch, with the weight that makes the mean over processes that of all."""
        if self.size == 1:
            return batch
        if len(batch) < self.size:
            raise UsageError(f"{len(batch)} examples of a task are too few for {self.size} processes.")
        inputs, targets = (tensor.tensor_split(self.size)[self.rank] for tensor in (batch.inputs, batch.targets))
        past = tuple(self.part(earlier) for earlier in batch.past)
        return replace(batch, inputs=inputs, targets=targets, past=past, weight=len(inputs) * self.size / len(batch))

    def average_gradients(self, module: nn.Module) -> None:
        """From now on, average the gradient of every parameter as it is found."""
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
        """Return whether one of the processes says yes."""
        return asked if self.size == 1 else bool(self._mean(torch.tensor([float(asked)])) > 0)

    def share(self, begin: Callable[[], T]) -> T:
        """Let the first process do something, and give what it returns, or its error, to all."""
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
        """Do something in every process, each on its own machine; an error of one is raised in all of them."""
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
        """Return what every process says."""
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
    """Tell whether torchrun has started this process beside others."""
    return "TORCHELASTIC_RUN_ID" in os.environ and int(os.environ.get("WORLD_SIZE", 1)) > 1


def leads() -> bool:
    """Tell whether this process is the one that speaks, where those that torchrun has started need not be joined."""
    return not is_shared() or os.environ.get("RANK", "0") == "0"


def check_gpus(device: str) -> None:
    """Refuse what leaves a process on this machine without a GPU of its own."""
    if ":" in device:
        raise UsageError(
            f"--device {device} is one GPU for all processes: use --device cuda, and each process gets its own."
        )
    processes, there = int(os.environ["LOCAL_WORLD_SIZE"]), torch.cuda.device_count()
    if processes > there:
        fewer = f"torchrun --nproc-per-node {there}, or " if there else ""
        raise UsageError(f"This machine has GPUs for {there} of its {processes} processes: take {fewer}--device cpu.")


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
    """End the process; one of several at once, since threads of gloo now and then abort it while it is torn down."""
    if joined:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)
