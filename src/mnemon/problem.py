"""What has to be learned: the tasks as a learner sees them, and the batches that it is given."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn

from mnemon.benchmarks.scenario import Outputs, Scenario
from mnemon.benchmarks.task import TaskKind
from mnemon.errors import UsageError
from mnemon.models import TargetConfig, build_network
from mnemon.models.init import InitialValues, give_values
from mnemon.optimizer import OptimizerConfig

Terms = dict[str, Tensor]
"""The terms of the loss that a step descended, by name."""


@dataclass(frozen=True)
class Problem:
    """What a learner has to know of the tasks before it meets them.

    Example:
        >>> problem = mnemon.Problem(
        ...     mnemon.TaskKind.CLASSIFICATION, n_tasks=3, input_shape=(4,), outputs_per_task=2,
        ...     target=mnemon.TargetConfig(hidden=(6,)), optimizer=mnemon.OptimizerConfig(),
        ... )
        >>> network = problem.network(outputs=6)
        >>> network(torch.rand(5, 4)).shape
        torch.Size([5, 6])
    """

    kind: TaskKind
    n_tasks: int
    input_shape: tuple[int, ...]
    outputs_per_task: int
    target: TargetConfig
    optimizer: OptimizerConfig
    label_smoothing: float = 0.0
    """Probability taken from the true class and spread evenly over the other classes that compete with it."""
    scenario: Scenario = Scenario.CL1

    def __post_init__(self) -> None:
        if self.kind is TaskKind.REGRESSION:
            if self.scenario is not Scenario.CL1:
                raise UsageError(f"Scenario {self.scenario.value} needs classes, and this is a regression: use cl1.")
            return
        if self.outputs_per_task < 2 and self.scenario is not Scenario.CL3:
            raise UsageError(
                f"With one class per task there is nothing to distinguish in {self.scenario.value}: use scenario=cl3."
            )
        most = 1 - 1 / self.outputs_per_task
        if self.label_smoothing > most > 0:
            raise UsageError(
                f"training.label_smoothing must be at most {most:.4g} with {self.outputs_per_task} classes, "
                f"not {self.label_smoothing}."
            )

    @property
    def n_inputs(self) -> int:
        """Numbers in one input."""
        return math.prod(self.input_shape)

    @property
    def outputs(self) -> Outputs:
        """The outputs of a network that serves all tasks."""
        return Outputs(self.scenario, self.n_tasks, self.outputs_per_task)

    def network(self, outputs: int) -> nn.Module:
        """Return a new target network with its initial values.

        Args:
            outputs: The number of outputs.
        """
        return build_network(self.target, self.input_shape, outputs)

    def initialise(self, network: nn.Module) -> nn.Module:
        """Give a plain network of a replay method its initial values: Xavier-uniform, unless others are set.

        Args:
            network: The network.

        Returns:
            The network itself.
        """
        return give_values(network, self.target.initial_values, usual=InitialValues.XAVIER)

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the mean loss of a batch.

        Args:
            outputs: The outputs that compete for the answers.
            targets: The targets, as indices among these outputs; numbers in a regression.
        """
        if self.kind is TaskKind.REGRESSION:
            return F.mse_loss(outputs, targets)
        # torch spreads its smoothing over all classes, the true one included.
        classes = outputs.shape[1]
        smoothing = self.label_smoothing * classes / (classes - 1) if self.label_smoothing and classes > 1 else 0.0
        return F.cross_entropy(outputs, targets, label_smoothing=smoothing)

    def log_likelihood(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the log-likelihood of a batch, summed over its examples.

        Args:
            outputs: The outputs that compete for the answers.
            targets: The targets, as indices among these outputs; numbers in a regression.
        """
        if self.kind is TaskKind.REGRESSION:
            return -0.5 * (outputs - targets).square().sum()
        return outputs.log_softmax(1).gather(1, targets[:, None]).sum()

    def competing_targets(self, targets: Tensor, task_id: int, n_seen: int) -> Tensor:
        """Return the targets of a task as indices among the outputs that compete for its answers.

        Args:
            targets: The task's own targets.
            task_id: The number of the task.
            n_seen: Tasks begun so far.
        """
        if self.kind is TaskKind.REGRESSION:
            return targets
        return self.outputs.output_index(targets, task_id) - self.outputs.competing(task_id, n_seen)[0]

    def competing_outputs(self, outputs: Tensor, task_id: int, n_seen: int) -> Tensor:
        """Return those outputs that compete for the answers of a task.

        Args:
            outputs: All outputs of a network that serves all tasks.
            task_id: The number of the task.
            n_seen: Tasks begun so far.
        """
        return outputs[:, slice(*self.outputs.competing(task_id, n_seen))]

    def loss_among_all(self, outputs: Tensor, targets: Tensor, task_id: int, n_seen: int) -> Tensor:
        """Return the mean loss of a batch, given all outputs of a network that serves all tasks.

        Args:
            outputs: All outputs.
            targets: The task's own targets.
            task_id: The number of the task.
            n_seen: Tasks begun so far.

        Example:
            >>> loss = problem.loss_among_all(network(torch.rand(5, 4)), torch.zeros(5).long(), task_id=1, n_seen=2)
            >>> loss.shape
            torch.Size([])
        """
        targets = self.competing_targets(targets, task_id, n_seen)
        return self.loss(self.competing_outputs(outputs, task_id, n_seen), targets)

    def own_outputs(self, outputs: Tensor, task_id: int) -> Tensor:
        """Return the outputs of a task's own head.

        Args:
            outputs: All outputs of a network that serves all tasks.
            task_id: The number of the task.
        """
        return outputs[:, slice(*self.outputs.head(task_id))]


@dataclass(frozen=True)
class Batch:
    """Examples of one task. `past` has examples of each earlier task, for learners that may see them again.

    Example:
        >>> len(mnemon.Batch(task_id=0, inputs=torch.rand(8, 4), targets=torch.zeros(8).long()))
        8
    """

    task_id: int
    inputs: Tensor
    targets: Tensor
    past: tuple[Batch, ...] = ()
    progress: float = 0.0
    """Share of the task's steps that were taken before this one."""
    weight: float = 1.0
    """What the mean loss over these examples counts; other than 1 in a part of a batch that processes share."""

    def __len__(self) -> int:
        return len(self.inputs)


def pixels_of(inputs: Tensor) -> Tensor:
    """Return images as vectors, refusing values that are no grey values."""
    if not inputs.numel():
        return inputs.flatten(1)
    low, high = float(inputs.min()), float(inputs.max())
    if not (low >= 0 and high <= 1):
        raise UsageError(
            f"Images must have values from 0 to 1; these run from {low:.4g} to {high:.4g}: scale them "
            "(in experiments with CIFAR: benchmark.scaling=unit)."
        )
    return inputs.flatten(1)
