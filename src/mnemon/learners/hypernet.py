"""Learn tasks with a hypernetwork whose output for earlier tasks is held in place (HNET)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

import torch
from torch import Tensor

from mnemon.benchmarks.scenario import Scenario
from mnemon.benchmarks.task import Examples
from mnemon.errors import UsageError
from mnemon.hypernet.statistics import Statistics
from mnemon.inference.answer import answer_by_task, at_once, in_pieces
from mnemon.inference.base import AbstractInference
from mnemon.inference.entropy import EntropyInference
from mnemon.learners.base import AbstractLearner, Answer, Counts, count_spared
from mnemon.memory.config import MemoryConfig, PenaltyForm
from mnemon.memory.fisher import diagonal_fisher
from mnemon.memory.lookahead import LookaheadMode
from mnemon.memory.networks import NetworkMemory
from mnemon.memory.penalty import WeightRange
from mnemon.problem import Batch, Problem, Terms


class Heads(str, Enum):
    """Which output heads of the target are meant."""

    ALL = "all"
    """Those of all tasks, for every task: as the paper counts."""
    OWN = "own"
    """Only the task's own: fewer weights."""


class HypernetLearner(AbstractLearner):
    """A hypernetwork generates the target's weights from a task embedding; a penalty keeps those of earlier tasks.

    Where the task of an input is not told, the task whose network has the lowest entropy answers (HNET+ENT).

    Example:
        >>> problem = mnemon.Problem(
        ...     mnemon.TaskKind.CLASSIFICATION, n_tasks=2, input_shape=(4,), outputs_per_task=2,
        ...     target=mnemon.TargetConfig(hidden=(6,)), optimizer=mnemon.OptimizerConfig(),
        ... )
        >>> learner = mnemon.HypernetLearner(mnemon.HypernetLearner.Config(beta=0.1), problem)
        >>> learner.begin_task(0)
        >>> list(learner.train_step(mnemon.Batch(0, torch.rand(8, 4), torch.zeros(8).long())))
        ['task_loss']
        >>> learner.predict(torch.rand(3, 4), task_id=0).shape
        torch.Size([3, 2])
    """

    @dataclass(frozen=True)
    class Config(MemoryConfig):
        """Settings of the method."""

        heads: Heads = Heads.ALL
        """Heads that are generated for a task: all (as the paper counts) or own (fewer weights)."""
        generate: tuple[str, ...] = ("*",)
        """Patterns over the target's parameter names: what is generated; the rest stays at its initial values."""
        penalized_heads: Heads = Heads.ALL
        """Heads that the penalty of a task holds in place: all, or only the task's own."""
        statistics: Statistics = Statistics.PER_TASK
        """What batch norm goes by at test time: per-task (kept for each), shared (one set), batch or generated."""
        fisher_examples: int = 200
        """Examples on which the Fisher information is taken (weighted penalty only)."""
        vote: int = 1
        """Test inputs in a row that are known to be of one task, and are inferred by one vote (cl2, cl3)."""

        def __post_init__(self) -> None:
            super().__post_init__()
            for name in ("fisher_examples", "vote"):
                if getattr(self, name) < 1:
                    raise UsageError(f"method.{name} must be at least 1, not {getattr(self, name)}.")

    config: Config
    shares_batches = True
    maps_embeddings = True

    def __init__(self, config: Config, problem: Problem):
        """Make the hypernetwork.

        Args:
            config: The settings.
            problem: What has to be learned.

        Raises:
            UsageError: Settings contradict the problem.
        """
        super().__init__(problem)
        if config.vote > 1 and problem.scenario is Scenario.CL1:
            raise UsageError(
                f"In cl1 the task is given and there is nothing to vote on: method.vote is {config.vote}."
            )
        self.config = config
        # A single head (CL2) is everybody's own.
        self._has_all_heads = config.heads is Heads.ALL and problem.scenario is not Scenario.CL2
        outputs = problem.outputs.total if self._has_all_heads else problem.outputs_per_task
        self.memory = NetworkMemory(
            problem.network(outputs),
            config,
            problem.optimizer,
            config.generate,
            self._kept_ranges,
            problem.n_tasks,
            statistics=config.statistics,
        )
        # Computing only the task's own head saves a tenth of a step for 10 tasks and half of one for 250.
        self.cuts_outputs = self.memory.target.can_cut_outputs(torch.ones(2, *problem.input_shape))
        self.inference = self._make_inference()

    @property
    def task_embeddings(self) -> Sequence[Tensor]:
        return list(self.memory.embeddings)

    def check_shared(self) -> None:
        if self.config.lookahead is LookaheadMode.DIFFERENTIATED:
            raise UsageError("Processes cannot share a differentiated lookahead: use lookahead=constant.")

    def _make_inference(self) -> AbstractInference:
        return EntropyInference(self.problem)

    def train_step(self, batch: Batch) -> Terms:
        outputs = self._run(batch.inputs, batch.task_id, training=True)
        task_loss = batch.weight * self.problem.loss(outputs, batch.targets)
        terms = {"task_loss": task_loss.detach(), **self.memory.descend(task_loss)}
        return {**terms, **self.inference.train_step(batch)}

    def predict(self, inputs: Tensor, task_id: int) -> Tensor:
        return self.predictor(task_id)(inputs)

    @torch.no_grad()
    def predictor(self, task_id: int) -> Callable[[Tensor], Tensor]:
        weights = self.memory.weights(task_id)
        return lambda inputs: self._predict(inputs, task_id, weights)

    @torch.no_grad()
    def answer(self, inputs: Tensor) -> Answer:
        def predict(some: Tensor, task_id: int) -> Tensor:
            return self._predict(some, task_id, self.memory.cached_weights(task_id))

        return Answer(*answer_by_task(self.inference, inputs, predict, self.problem.outputs, self.config.vote))

    @torch.no_grad()
    def _predict(self, inputs: Tensor, task_id: int, weights: Tensor) -> Tensor:
        # What goes by the batch's own statistics depends on what is taken at once.
        size = at_once(inputs) if self.config.statistics is Statistics.BATCH else None
        return in_pieces(lambda piece: self._run(piece, task_id, training=False, weights=weights), inputs, size)

    def _run(self, inputs: Tensor, task_id: int, training: bool, weights: Tensor | None = None) -> Tensor:
        """Return the outputs of a task's own head."""
        own = self.problem.outputs.head(task_id) if self._has_all_heads else None
        if own is None or self.cuts_outputs:
            return self.memory.run(task_id, inputs, training=training, outputs=own, weights=weights)
        return self.memory.run(task_id, inputs, training=training, weights=weights)[:, slice(*own)]

    def _kept_ranges(self, task_id: int) -> list[WeightRange]:
        """Return the ranges of flat weights that the penalty holds in place for a task."""
        target = self.memory.target
        if self.config.penalized_heads is Heads.ALL or not self._has_all_heads:
            return [(0, target.size)]
        first, last = self.problem.outputs.head(task_id)
        ranges, start = [], 0
        for slot in (slot for slot in target.head_slots() if slot.shape[:1] == (self.problem.outputs.total,)):
            per_output = (slot.stop - slot.start) // slot.shape[0]
            ranges += [(start, slot.start), (slot.start + first * per_output, slot.start + last * per_output)]
            start = slot.stop
        return [r for r in [*ranges, (start, target.size)] if r[0] < r[1]]

    def finish_learning(self, examples: Examples) -> None:
        if self.config.penalty is PenaltyForm.WEIGHTED:
            task_id = self.n_begun - 1
            with torch.no_grad():
                self.memory.importances[task_id].copy_(self._fisher(task_id, examples))

    def _fisher(self, task_id: int, examples: Examples) -> Tensor:
        picked = torch.randperm(len(examples))[: self.config.fisher_examples]
        inputs, targets = examples.batch(picked.to(examples.inputs.device))

        def log_likelihood(weights: Tensor, x: Tensor, y: Tensor) -> Tensor:
            return self.problem.log_likelihood(self._run(x, task_id, training=False, weights=weights), y)

        with torch.no_grad():
            weights = self.memory.weights(task_id)
        return diagonal_fisher(log_likelihood, weights, inputs, targets)

    def mechanisms(self) -> dict[str, str]:
        return {"penalty": "the penalty on changes of generated weights"} if self.config.beta else {}

    def counts(self) -> Counts:
        memory, inference = self.memory, self.inference
        return Counts(
            memory.numel_shared + inference.count(),
            memory.numel_per_task + inference.numel_per_task,
            memory.target.n_weights,
            self.problem.n_tasks,
            count_spared(self.replay, self.problem.n_tasks),
            memory.nbytes_per_task + inference.nbytes_per_task,
            memory.nbytes_shared + inference.nbytes_shared,
        )


def check_untold(problem: Problem) -> None:
    """Refuse to infer tasks where they are told."""
    if problem.scenario is Scenario.CL1:
        raise UsageError("In cl1 the task is given and there is nothing to infer: use method.name=hypernet.")
