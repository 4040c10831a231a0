"""What every method has in common: the verbs that the trainer calls, and a state that can be put away."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from mnemon.lifecycle import CheckpointedModule
from mnemon.problem import Batch, Problem, Terms
from mnemon.replay.source import AbstractReplay


@dataclass(frozen=True)
class Counts:
    """How many numbers a learner keeps, and for how many weights of its target network.

    Example:
        >>> mnemon.Counts(learned=900, per_task=20, target=500, n_tasks=5).compression
        2.0
    """

    learned: int
    """Parameters shared by all tasks."""
    per_task: int
    """Numbers stored for each further task."""
    target: int
    """Weights of the target network that are learned or generated; what stays frozen is counted nowhere."""
    n_tasks: int
    spared: int = 0
    """Numbers that the last task does not add, since nobody replays it."""
    bytes_per_task: int = -1
    """Bytes of the numbers stored for each further task; unless given, four for each number."""
    bytes_learned: int = -1
    """Bytes of what all tasks share; unless given, four for each number."""

    def __post_init__(self) -> None:
        for name, numbers in (("bytes_per_task", self.per_task), ("bytes_learned", self.learned)):
            if getattr(self, name) < 0:
                object.__setattr__(self, name, 4 * numbers)

    @property
    def compression(self) -> float:
        """Everything that is kept after the last task, relative to the weights of one target network."""
        return (self.learned + self.n_tasks * self.per_task - self.spared) / self.target


def count_spared(replay: AbstractReplay | None, n_tasks: int) -> int:
    """Return the numbers that a replay model does not keep, of tasks that it does not learn."""
    return 0 if replay is None else (n_tasks - replay.n_kept) * replay.numel_per_task


class Answer(NamedTuple):
    """What a learner answers if it is not told the task.

    Example:
        >>> answer = mnemon.Answer(output_index=torch.tensor([3, 0]), task=torch.tensor([1, 0]))
        >>> answer.task.tolist()
        [1, 0]
    """

    output_index: Tensor
    """The output that it chose, counted over all outputs: of the one head in CL2, of all heads in CL3."""
    task: Tensor | None
    """The task that it took them for; None if it never asked itself."""


class AbstractLearner(CheckpointedModule, ABC):
    """A method that learns tasks one after another.

    The trainer calls for each task: `begin_task`, many times `train_step`, then `end_task`. At any time it may call
    `predict` (the task is told) or `answer` (it is not) for tasks that were begun. Random numbers come from torch's
    global generator, which the trainer seeds before each call. What must survive a restart is in `tensors()`;
    `restore` on a new learner gives it back bit for bit.

    Example:
        >>> issubclass(mnemon.HypernetLearner, mnemon.AbstractLearner)
        True
    """

    Config: ClassVar[type]
    answers_unseen: ClassVar[bool] = False
    """Whether `predict` is defined for tasks that were not yet begun."""
    shares_batches: ClassVar[bool] = False
    """Whether processes can share its batches: its steps draw no random numbers per example, so that parts of a batch
    add up to the whole."""
    maps_embeddings: ClassVar[bool] = False
    """Whether each task is solved from a place in a space of embeddings, of which a map can be drawn."""

    _device_marker: Tensor
    """An empty tensor that moves with the learner, and so tells where new ones belong."""

    def __init__(self, problem: Problem):
        """Take note of the problem.

        Args:
            problem: What the learner has to know of the tasks.
        """
        super().__init__()
        self.problem = problem
        self.register_buffer("_device_marker", torch.empty(0), persistent=False)

    @property
    def device(self) -> torch.device:
        """Where the learner computes."""
        return self._device_marker.device

    @property
    def sees_past(self) -> bool:
        """Whether batches of earlier tasks' real data are handed to `train_step`: upper bounds only."""
        return False

    @property
    def replay(self) -> AbstractReplay | None:
        """What draws inputs of earlier tasks again, if the method has such a model."""
        return None

    @property
    def task_embeddings(self) -> Sequence[Tensor]:
        """The embedding of each task that was begun: what is written into one changes the task's answers."""
        return ()

    def check_shared(self) -> None:
        """Refuse settings with which processes cannot share a batch, where the method as such allows it."""

    # The verbs of the trainer

    @abstractmethod
    def train_step(self, batch: Batch) -> Terms:
        """Learn from a batch.

        Args:
            batch: A batch of the present task.

        Returns:
            The loss terms that were descended, by name.
        """

    @abstractmethod
    def predict(self, inputs: Tensor, task_id: int) -> Tensor:
        """Return the outputs of a task's own head.

        Args:
            inputs: The inputs.
            task_id: The number of the task.

        Returns:
            The outputs [inputs, outputs of the task].
        """

    def predictor(self, task_id: int) -> Callable[[Tensor], Tensor]:
        """Return `predict` for one task, to be called many times before anything else is learned.

        Args:
            task_id: The number of the task.
        """
        return lambda inputs: self.predict(inputs, task_id)

    @abstractmethod
    def answer(self, inputs: Tensor) -> Answer:
        """Choose an output for each input, without being told the task.

        Args:
            inputs: The inputs.

        Returns:
            The chosen output of each input, and the inferred task.
        """

    @abstractmethod
    def counts(self) -> Counts:
        """Count the parameters."""
