"""Learn tasks with a hypernetwork whose output for earlier tasks is held in place (HNET)."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from enum import Enum

import torch
from torch import Tensor, nn

from mnemon.benchmarks.task import Examples, Kind
from mnemon.errors import UsageError
from mnemon.hypernet import HypernetConfig, build_hypernet
from mnemon.hypernet.base import AbstractHypernet
from mnemon.hypernet.init import new_embedding
from mnemon.hypernet.target import Target
from mnemon.learners.base import AbstractLearner, Batch, Counts, Problem, Terms
from mnemon.learners.task_buffers import TaskBuffers
from mnemon.regularizers.fisher import diagonal_fisher
from mnemon.regularizers.lookahead import LOOKAHEADS, AbstractLookahead, LookaheadMode
from mnemon.regularizers.output import Anchors, Draw, Range, exact_penalty, plain_penalty


class Heads(str, Enum):
    """Which output heads of the target are meant."""

    ALL = "all"
    """Those of all tasks, for every task: as the paper counts."""
    OWN = "own"
    """Only the task's own: fewer weights."""


class PenaltyForm(str, Enum):
    """How the drift of the generated weights is summed."""

    EXACT = "exact"
    """By Gram matrices: the same number, at a cost that hardly grows with the tasks."""
    PLAIN = "plain"
    """Weight by weight: slow, to compare with."""
    WEIGHTED = "weighted"
    """Weight by weight, each by its Fisher information, which is stored for every task."""


class Sample(str, Enum):
    """On which part of the earlier tasks a step takes the penalty."""

    ALL = "all"
    """On all of it."""
    TASKS = "tasks"
    """On `sample_size` tasks, drawn afresh in every step."""
    ROWS = "rows"
    """On `sample_size` rows (chunks of any tasks), drawn afresh in every step."""


class OldEmbeddings(str, Enum):
    """What happens to the embeddings of earlier tasks."""

    FIXED = "fixed"
    """They stay as they were."""
    PLASTIC = "plastic"
    """They may move, as long as the generated weights stay."""


class NewEmbedding(str, Enum):
    """Where the embedding of a new task starts."""

    RANDOM = "random"
    """Drawn from N(0, 1)."""
    PREVIOUS = "previous"
    """A copy of the previous task's."""


class HypernetLearner(AbstractLearner):
    """A hypernetwork maps a task's embedding to the target's weights; a penalty keeps the earlier ones."""

    @dataclass(frozen=True)
    class Config:
        """Settings of the method."""

        beta: float = 0.01
        """Strength of the penalty on changes of what is generated for earlier tasks; 0 is fine-tuning."""
        heads: Heads = Heads.ALL
        """Heads that are generated for a task: all (as the paper counts) or own (fewer weights)."""
        generate: tuple[str, ...] = ("*",)
        """Patterns over the target's parameter names: what is generated; the rest stays at its initial values."""
        penalty: PenaltyForm = PenaltyForm.EXACT
        """How the penalty is summed: exact (fast), plain (slow twin) or weighted (by Fisher information)."""
        penalized_heads: Heads = Heads.ALL
        """Heads that the penalty of a task holds in place: all, or only the task's own."""
        sample: Sample = Sample.ALL
        """What the penalty is taken on in a step: all, a sample of tasks, or a sample of rows."""
        sample_size: int = 32
        """Number of tasks or rows in a sample."""
        lookahead: LookaheadMode = LookaheadMode.CONSTANT
        """Whether the penalty looks ahead by the step of the task gradient: constant, off or differentiated."""
        old_embeddings: OldEmbeddings = OldEmbeddings.FIXED
        """Embeddings of earlier tasks: fixed or plastic."""
        new_embedding: NewEmbedding = NewEmbedding.RANDOM
        """Start of a new task's embedding: random or previous."""
        fisher_examples: int = 200
        """Examples on which the Fisher information is taken (weighted penalty only)."""
        hypernet: HypernetConfig = field(default_factory=HypernetConfig)
        """The hypernetwork."""

        def __post_init__(self) -> None:
            if not 0 <= self.beta < float("inf"):
                raise UsageError(f"method.beta must be a finite number of at least 0, not {self.beta}.")
            for name in ("sample_size", "fisher_examples"):
                if getattr(self, name) < 1:
                    raise UsageError(f"method.{name} must be at least 1, not {getattr(self, name)}.")

    def __init__(self, config: Config, problem: Problem):
        super().__init__(problem)
        self.config = config
        outputs = problem.outputs_per_task * (problem.n_tasks if config.heads is Heads.ALL else 1)
        self.target = Target(problem.network(outputs), config.generate)
        # Computing only the task's own head saves a tenth of a step for 10 tasks and half of one for 250.
        self.cuts_outputs = self.target.can_cut_outputs(torch.ones(2, *problem.input_shape))
        self.hypernet = build_hypernet(config.hypernet, self.target)
        self.embeddings = nn.ParameterList()
        self.buffers_of = TaskBuffers(self.target)
        self.snapshot: Snapshot | None = None
        self.importances = nn.ParameterList()
        self._anchors: Anchors | None = None
        self._lookahead: AbstractLookahead | None = None

    @property
    def protects(self) -> bool:
        """Whether the present task is learned under a penalty."""
        return self.config.beta > 0 and self.n_begun > 1

    # The step

    def train_step(self, batch: Batch) -> Terms:
        theta, embedding = list(self.hypernet.parameters()), self.embeddings[batch.task_id]
        task_loss = self.problem.loss(self._run(batch.inputs, batch.task_id, training=True), batch.targets)
        second_order = self.protects and self._lookahead is not None and self._lookahead.second_order
        *gradients, embedding.grad = torch.autograd.grad(task_loss, [*theta, embedding], create_graph=second_order)
        for parameter, gradient in zip(theta, gradients, strict=True):
            parameter.grad = gradient.detach()
        terms = {"task_loss": task_loss.detach()}
        if self.protects:
            terms["penalty"] = self._add_penalty(gradients)
        for optimizer in self.optimizers.values():
            optimizer.step()
            optimizer.zero_grad()
        return terms

    @torch.no_grad()
    def predict(self, inputs: Tensor, task_id: int) -> Tensor:
        return self._run(inputs, task_id, training=False)

    def weights(self, task_id: int) -> Tensor:
        """Return what the hypernetwork generates for a task, as a flat vector."""
        return self.hypernet(self.embeddings[task_id])

    def _run(self, inputs: Tensor, task_id: int, training: bool) -> Tensor:
        """Return the outputs of a task's own head."""
        if self.target.training != training:
            self.target.train(training)
        return self._own_outputs(self.hypernet.padded(self.embeddings[task_id]), inputs, task_id)

    def _own_outputs(self, weights: Tensor, inputs: Tensor, task_id: int) -> Tensor:
        buffers, count = self.buffers_of[task_id], self.problem.outputs_per_task
        own = None if self.config.heads is Heads.OWN else (task_id * count, (task_id + 1) * count)
        if own is None or self.cuts_outputs:
            return self.target(weights, inputs, buffers=buffers, outputs=own)
        return self.target(weights, inputs, buffers=buffers)[:, slice(*own)]

    def _add_penalty(self, task_gradients: list[Tensor]) -> Tensor:
        assert self._anchors is not None
        assert self._lookahead is not None
        anchors, draw = self._anchors, self._draw(self._anchors)
        old = list(self.embeddings[: self.n_begun - 1]) if self._plastic else []
        embeddings = torch.stack(old) if old else None
        # A differentiated lookahead needs the readout's gradient itself, to take it back through the step.
        add_to = None if self._lookahead.second_order else self.hypernet.readout.grad

        def penalty(hypernet: AbstractHypernet) -> Tensor:
            if self.config.penalty is PenaltyForm.EXACT:
                return self.config.beta * exact_penalty(hypernet, anchors, draw, embeddings, add_to)
            return self.config.beta * plain_penalty(hypernet, anchors, draw, embeddings)

        return self._lookahead.add_gradient(penalty, task_gradients, old)

    def _draw(self, anchors: Anchors) -> Draw:
        if self.config.sample is Sample.TASKS:
            return anchors.draw_tasks(self.config.sample_size)
        if self.config.sample is Sample.ROWS:
            return anchors.draw_rows(self.config.sample_size)
        return anchors.everything()

    # The life of a task

    def add_task(self) -> None:
        like = self.hypernet.readout
        self.embeddings.append(nn.Parameter(self._start_of_embedding().to(like)))
        self.buffers_of.add(like.device)
        if self.config.penalty is PenaltyForm.WEIGHTED:
            self.importances.append(nn.Parameter(like.new_zeros(self.target.size), requires_grad=False))

    def start_learning(self) -> None:
        *old, new = self.embeddings
        self.snapshot = Snapshot(self.hypernet, old) if self.protects else None
        for embedding in old:
            embedding.requires_grad_(self._plastic)
        movable = [*old, new] if self._plastic and self.protects else [new]
        self.optimizers = {
            "hypernet": self.problem.optimizer.build(self.hypernet.parameters()),
            "embedding": self.problem.optimizer.build(movable),
        }

    def derive(self) -> None:
        if self.snapshot is None:
            return
        n_old = self.n_begun - 1
        importance = torch.stack(list(self.importances[:n_old])) if len(self.importances) else None
        kept = [self._kept(task_id) for task_id in range(n_old)]
        self._anchors = Anchors(self.snapshot.hypernet, self.snapshot.embeddings, kept, importance)
        self._lookahead = LOOKAHEADS[self.config.lookahead](self.hypernet, self.optimizers["hypernet"])

    def finish_learning(self, examples: Examples) -> None:
        if self.config.penalty is PenaltyForm.WEIGHTED:
            task_id = self.n_begun - 1
            with torch.no_grad():
                self.importances[task_id].copy_(self._fisher(task_id, examples))
        self.snapshot = self._anchors = self._lookahead = None

    @property
    def _plastic(self) -> bool:
        return self.config.old_embeddings is OldEmbeddings.PLASTIC

    def _start_of_embedding(self) -> Tensor:
        if self.config.new_embedding is NewEmbedding.PREVIOUS and len(self.embeddings):
            return self.embeddings[-1].detach().clone()
        return new_embedding(self.hypernet.embedding_size)

    def _kept(self, task_id: int) -> list[Range]:
        """Return the ranges of flat weights that the penalty holds in place for a task."""
        if self.config.penalized_heads is Heads.ALL or self.config.heads is Heads.OWN:
            return [(0, self.target.size)]
        outputs, total = self.problem.outputs_per_task, self.problem.outputs_per_task * self.problem.n_tasks
        ranges, start = [], 0
        for slot in (slot for slot in self.target.head_slots() if slot.shape[:1] == (total,)):
            per_output = (slot.stop - slot.start) // slot.shape[0]
            own = slot.start + task_id * outputs * per_output
            ranges += [(start, slot.start), (own, own + outputs * per_output)]
            start = slot.stop
        return [r for r in [*ranges, (start, self.target.size)] if r[0] < r[1]]

    def _fisher(self, task_id: int, examples: Examples) -> Tensor:
        picked = torch.randperm(len(examples))[: self.config.fisher_examples]
        inputs, targets = examples.batch(picked.to(examples.inputs.device))
        self.target.eval()

        def log_likelihood(weights: Tensor, x: Tensor, y: Tensor) -> Tensor:
            outputs = self._own_outputs(weights, x, task_id)
            if self.problem.kind is Kind.REGRESSION:
                return -0.5 * (outputs - y).square().sum()
            return outputs.log_softmax(1).gather(1, y[:, None]).sum()

        with torch.no_grad():
            weights = self.weights(task_id)
        return diagonal_fisher(log_likelihood, weights, inputs, targets)

    # Keeping

    def counts(self) -> Counts:
        kept = self.hypernet.embedding_size + self.buffers_of.numel_per_task
        if self.config.penalty is PenaltyForm.WEIGHTED:
            kept += self.target.size
        return Counts(self.hypernet.count(), kept, self.target.size, self.problem.n_tasks)

    def transient(self, name: str) -> bool:
        return name.startswith("target.")


class Snapshot(nn.Module):
    """The hypernetwork and the old embeddings as they were when the present task began."""

    def __init__(self, hypernet: AbstractHypernet, embeddings: list[Tensor]):
        super().__init__()
        self.hypernet = copy.deepcopy(hypernet).eval()
        self.embeddings = nn.Parameter(torch.stack(embeddings).detach())
        self.requires_grad_(False)
