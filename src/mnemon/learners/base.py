"""What every method has in common: the verbs that the trainer calls, and a state that can be put away."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mnemon.benchmarks.task import Examples, Kind
from mnemon.errors import CheckpointError, UsageError
from mnemon.learners.optimizer import OptimizerConfig
from mnemon.models import TargetConfig, build_network

Terms = dict[str, Tensor]
"""The terms of the loss that a step descended, by name."""


@dataclass(frozen=True)
class Problem:
    """What a learner has to know of the tasks before it meets them."""

    kind: Kind
    n_tasks: int
    input_shape: tuple[int, ...]
    outputs_per_task: int
    target: TargetConfig
    optimizer: OptimizerConfig
    label_smoothing: float = 0.0
    """Probability taken from the true class and spread evenly over the task's other classes."""

    def __post_init__(self) -> None:
        most = 1 - 1 / self.outputs_per_task
        if self.kind is Kind.CLASSIFICATION and self.label_smoothing > most:
            raise UsageError(
                f"training.label_smoothing must be at most {most:.4g} with {self.outputs_per_task} classes, "
                f"not {self.label_smoothing}."
            )

    def network(self, outputs: int) -> nn.Module:
        """Return a freshly initialised target network."""
        return build_network(self.target, self.input_shape, outputs)

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the mean loss of a batch, on the outputs of its own task."""
        if self.kind is Kind.REGRESSION:
            return F.mse_loss(outputs, targets)
        # torch spreads its smoothing over all classes, the true one included.
        classes = outputs.shape[1]
        smoothing = self.label_smoothing * classes / (classes - 1) if self.label_smoothing else 0.0
        return F.cross_entropy(outputs, targets, label_smoothing=smoothing)

    def own_outputs(self, outputs: Tensor, task_id: int) -> Tensor:
        """Return a task's own head from the outputs of a network that has all heads."""
        start = task_id * self.outputs_per_task
        return outputs[:, start : start + self.outputs_per_task]


@dataclass(frozen=True)
class Batch:
    """Examples of one task; `past` has some of each earlier task, for learners that may see them again."""

    task_id: int
    inputs: Tensor
    targets: Tensor
    past: tuple[Batch, ...] = ()


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

    @property
    def compression(self) -> float:
        """Everything that is kept after the last task, relative to one target network."""
        return (self.learned + self.n_tasks * self.per_task) / self.target


class AbstractLearner(nn.Module, ABC):
    """A method that learns tasks one after another.

    The trainer calls, for each task: `begin_task`, many `train_step`, `end_task`; and `predict` at any time for tasks
    that were begun. Random numbers come from torch's global generator, which the trainer seeds before each call.
    Whatever must survive a restart is in `tensors()`; `restore` on a new learner gives it back bit for bit.
    """

    Config: ClassVar[type]
    sees_past: ClassVar[bool] = False
    """Whether batches of earlier tasks' real data are handed to `train_step`: upper bounds only."""
    answers_unseen: ClassVar[bool] = False
    """Whether `predict` is defined for tasks that were not yet begun."""

    _place: Tensor
    """An empty tensor that moves with the learner, and so tells where new ones belong."""

    def __init__(self, problem: Problem):
        super().__init__()
        self.problem = problem
        self.n_begun = 0
        self.optimizers: dict[str, torch.optim.Optimizer] = {}
        self.register_buffer("_place", torch.empty(0), persistent=False)

    @property
    def device(self) -> torch.device:
        """Where the learner computes."""
        return self._place.device

    # The four verbs of the trainer

    def begin_task(self, task_id: int) -> None:
        """Get ready for a task."""
        self.add_task()
        self.n_begun = task_id + 1
        self.start_learning()
        self.derive()

    @abstractmethod
    def train_step(self, batch: Batch) -> Terms:
        """Learn from a batch; return the loss terms that were descended."""

    def end_task(self, examples: Examples) -> None:
        """Put away what is needed to remember the task just learned; `examples` are its training data."""
        self.finish_learning(examples)
        self.optimizers = {}

    @abstractmethod
    def predict(self, inputs: Tensor, task_id: int) -> Tensor:
        """Return the outputs of a task's own head."""

    @abstractmethod
    def counts(self) -> Counts:
        """Count the parameters."""

    # What a method fills in

    @abstractmethod
    def add_task(self) -> None:
        """Make room for one more task, with the values that it starts from."""

    @abstractmethod
    def start_learning(self) -> None:
        """Make what is needed only while the newest task is learned: optimizers, snapshots."""

    def finish_learning(self, examples: Examples) -> None:
        """Drop what was needed only while learning; store what the task leaves behind."""

    def derive(self) -> None:
        """Compute what follows from the state and is not kept in it."""

    def transient(self, name: str) -> bool:
        """Tell whether a tensor of `state_dict` is only a form and need not be kept."""
        return False

    # Putting away and taking back

    def tensors(self) -> dict[str, Tensor]:
        """Return the whole state: parameters, buffers and optimizers."""
        state = {f"learner/{k}": v for k, v in self.state_dict().items() if not self.transient(k)}
        for name, optimizer in self.optimizers.items():
            for i, values in optimizer.state_dict()["state"].items():
                tensors = {k: v for k, v in values.items() if isinstance(v, Tensor)}
                state |= {f"optimizer/{name}/{i}/{key}": value for key, value in tensors.items()}
        return state

    def restore(self, tensors: dict[str, Tensor], n_begun: int, learning: bool) -> None:
        """Take over the state of a learner that has begun so many tasks; it must fit exactly."""
        for _ in range(n_begun):
            self.add_task()
        self.n_begun = n_begun
        if learning:
            self.start_learning()
        own = {f"learner/{k}": v for k, v in self.state_dict().items() if not self.transient(k)}
        given = {k: v for k, v in tensors.items() if k.startswith("learner/")}
        if problem := _difference(own, given):
            raise CheckpointError(f"The checkpoint does not fit this learner: {problem}.")
        with torch.no_grad():
            for key, value in own.items():
                value.copy_(given[key])
        for name, optimizer in self.optimizers.items():
            _restore_optimizer(optimizer, tensors, f"optimizer/{name}/")
        self.derive()


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
