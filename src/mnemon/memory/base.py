"""The interface of a memory of networks, however it stores them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor

from mnemon.hypernet.target import Buffers, Target
from mnemon.lifecycle import TaskModule
from mnemon.problem import Terms


class AbstractMemory(TaskModule, ABC):
    """Networks of one architecture, one for each task; the newest may still be learning.

    Besides the hooks of a task module, it has hooks for what is not in its `state_dict`: codes.
    """

    target: Target
    own: Tensor | None
    """The flat weights of the original module, if tasks start from them."""

    @property
    @abstractmethod
    def n_tasks(self) -> int:
        """Number of tasks, the present one included."""

    @property
    @abstractmethod
    def device(self) -> torch.device:
        """The device on which it computes."""

    @property
    @abstractmethod
    def floats(self) -> torch.dtype:
        """The type of its own numbers, whatever the module's."""

    @property
    @abstractmethod
    def moving(self) -> list[Tensor]:
        """The tensors that steps change."""

    @abstractmethod
    def cached_weights(self, task_id: int) -> Tensor:
        """Return a task's weights as `run` takes them, cached for many calls in a row."""

    @abstractmethod
    def run(self, task_id: int, *inputs: Tensor, training: bool, weights: Tensor | None = None) -> Tensor:
        """Run a task's network, with its weights or with those that `cached_weights` returned."""

    @abstractmethod
    def network_weights(self, task_id: int) -> dict[str, Tensor]:
        """Return the weights of a task's network by the names of the module's parameters."""

    @abstractmethod
    def network_buffers(self, task_id: int) -> Buffers:
        """Return the buffers of a task's network."""

    @abstractmethod
    def descend(self, loss: Tensor) -> Terms:
        """Take one optimizer step on the loss of the present task; return the terms that were added to it."""

    @abstractmethod
    def stop_learning(self) -> None:
        """Drop what is needed only while a task is learned."""

    def advance(self, progress: float) -> None:
        """Called before each step with the share of the task's steps already taken."""

    def begin_again(self) -> None:
        """Prepare to learn more of the last task."""

    def kept(self) -> Any:
        """Return the state that is not in tensors, for `put_back`."""

    def put_back(self, kept: Any) -> None:
        """Restore what `kept` returned."""

    def coded(self) -> dict[str, Tensor]:
        """Return what a file holds besides the `state_dict`."""
        return {}

    def take_coded(self, coded: dict[str, Tensor], n_tasks: int) -> None:
        """Load what `coded` returned."""
