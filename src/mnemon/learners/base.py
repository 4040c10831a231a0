"""What every method has in common: the verbs that the trainer calls, and a state that can be put away."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from mnemon.benchmarks.task import Examples
from mnemon.errors import CheckpointError
from mnemon.part import Part, parts_of
from mnemon.problem import Batch, Problem, Terms
from mnemon.replay.source import AbstractReplay


@dataclass(frozen=True)
class Counts:
    """How many numbers a learner keeps, and how many its target network has."""

    learned: int
    """Parameters shared by all tasks."""
    per_task: int
    """Numbers stored for each further task."""
    target: int
    """Weights of the target network."""
    n_tasks: int
    spared: int = 0
    """Numbers that the last task does not add, since nobody replays it."""

    @property
    def compression(self) -> float:
        """Everything that is kept after the last task, relative to one target network."""
        return (self.learned + self.n_tasks * self.per_task - self.spared) / self.target


def spared(replay: AbstractReplay | None, n_tasks: int) -> int:
    """Return the numbers that a replay model does not keep, of tasks that it does not learn."""
    return 0 if replay is None else (n_tasks - replay.n_kept) * replay.numel_per_task


class Answer(NamedTuple):
    """What a learner says of inputs whose task it was not told."""

    place: Tensor
    """The output that it chose, counted over all outputs: of the one head in CL2, of all heads in CL3."""
    task: Tensor | None
    """The task that it took them for; None if it never asked itself."""


class AbstractLearner(Part, ABC):
    """A method that learns tasks one after another.

    The trainer calls, for each task: `begin_task`, many `train_step`, `end_task`; and at any time, for tasks that
    were begun, `predict` if the task is told, `answer` if it is not. Random numbers come from torch's global
    generator, which the trainer seeds before each call. Whatever must survive a restart is in `tensors()`; `restore`
    on a new learner gives it back bit for bit.
    """

    Config: ClassVar[type]
    answers_unseen: ClassVar[bool] = False
    """Whether `predict` is defined for tasks that were not yet begun."""

    _place: Tensor
    """An empty tensor that moves with the learner, and so tells where new ones belong."""

    def __init__(self, problem: Problem):
        super().__init__()
        self.problem = problem
        self.register_buffer("_place", torch.empty(0), persistent=False)

    @property
    def device(self) -> torch.device:
        """Where the learner computes."""
        return self._place.device

    @property
    def sees_past(self) -> bool:
        """Whether batches of earlier tasks' real data are handed to `train_step`: upper bounds only."""
        return False

    @property
    def replay(self) -> AbstractReplay | None:
        """What draws inputs of earlier tasks again, if the method has such a model."""
        return None

    # The verbs of the trainer

    def begin_task(self, task_id: int) -> None:
        """Get ready for a task."""
        self._on_parts("add_task")
        self._set_begun(task_id + 1)
        self._on_parts("start_learning")
        self._on_parts("derive")

    @abstractmethod
    def train_step(self, batch: Batch) -> Terms:
        """Learn from a batch; return the loss terms that were descended."""

    def end_task(self, examples: Examples) -> None:
        """Put away what is needed to remember the task just learned; `examples` are its training data."""
        for part in parts_of(self).values():
            part.finish_learning(examples)
            part.optimizers = {}

    @abstractmethod
    def predict(self, inputs: Tensor, task_id: int) -> Tensor:
        """Return the outputs of a task's own head."""

    @abstractmethod
    def answer(self, inputs: Tensor) -> Answer:
        """Choose an output for each input, without being told the task."""

    @abstractmethod
    def counts(self) -> Counts:
        """Count the parameters."""

    # Putting away and taking back

    def tensors(self) -> dict[str, Tensor]:
        """Return the whole state: parameters, buffers and optimizers."""
        state = self._lasting()
        for name, optimizer in self._all_optimizers().items():
            for i, values in optimizer.state_dict()["state"].items():
                tensors = {k: v for k, v in values.items() if isinstance(v, Tensor)}
                state |= {f"{name}/{i}/{key}": value for key, value in tensors.items()}
        return state

    def restore(self, tensors: dict[str, Tensor], n_begun: int, learning: bool) -> None:
        """Take over the state of a learner that has begun so many tasks; it must fit exactly."""
        for _ in range(n_begun):
            self._on_parts("add_task")
        self._set_begun(n_begun)
        if learning:
            self._on_parts("start_learning")
        own = self._lasting()
        given = {k: v for k, v in tensors.items() if k.startswith("learner/")}
        if problem := _difference(own, given):
            raise CheckpointError(f"The checkpoint does not fit this learner: {problem}.")
        with torch.no_grad():
            for key, value in own.items():
                value.copy_(given[key])
        for name, optimizer in self._all_optimizers().items():
            _restore_optimizer(optimizer, tensors, f"{name}/")
        self._on_parts("derive")

    def _on_parts(self, verb: str) -> None:
        for part in parts_of(self).values():
            getattr(part, verb)()

    def _set_begun(self, n_begun: int) -> None:
        for part in parts_of(self).values():
            part.n_begun = n_begun

    def _lasting(self) -> dict[str, Tensor]:
        """Return the parameters and buffers that are not only a form."""
        form = {
            f"{path}.{name}" if path else name
            for path, part in parts_of(self).items()
            for name in part.state_dict()
            if part.transient(name)
        }
        return {f"learner/{name}": value for name, value in self.state_dict().items() if name not in form}

    def _all_optimizers(self) -> dict[str, torch.optim.Optimizer]:
        """Return the optimizers of all parts, by the part's path and their own name."""
        parts = parts_of(self).items()
        return {f"optimizer/{path}.{name}": o for path, part in parts for name, o in part.optimizers.items()}


def _difference(own: dict[str, Tensor], given: dict[str, Tensor]) -> str:
    if missing := sorted(own.keys() - given.keys()):
        return f"'{missing[0]}' is missing"
    if foreign := sorted(given.keys() - own.keys()):
        return f"'{foreign[0]}' is not known"
    for key, value in own.items():
        if value.shape != given[key].shape:
            return f"'{key}' has shape {list(given[key].shape)} instead of {list(value.shape)}"
    return ""


def _restore_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor], prefix: str) -> None:
    state: dict[int, dict[str, Any]] = {}
    for key, value in tensors.items():
        if key.startswith(prefix):
            index, name = key[len(prefix) :].split("/")
            state.setdefault(int(index), {})[name] = value.clone()
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
