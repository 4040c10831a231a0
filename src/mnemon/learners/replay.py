r"""One network that learns the present task and, on replayed inputs, what it used to answer (HNET+R, DGR, RPL-UB).

$$L = \tfrac12 L_{task}(x, y) + \tfrac12 \tau^2 \, H\big( \sigma(f^*(\tilde x)/\tau), \sigma(f(\tilde x)/\tau) \big)$$

with the network $f^*$ as it was before the task, and $\tau = 2$. What it is called follows from where the inputs
come: a protected VAE (HNET+R), a plain one (DGR), the real data (RPL-UB).
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from enum import Enum

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mnemon.benchmarks.scenario import OutputRange, Scenario
from mnemon.benchmarks.task import Examples, TaskKind
from mnemon.errors import UsageError
from mnemon.learners.base import Counts, count_spared
from mnemon.learners.one_network import AbstractOneNetworkLearner, OneNetworkConfig
from mnemon.optimizer import descend
from mnemon.problem import Batch, Problem, Terms
from mnemon.replay import ReplayConfig, build_replay
from mnemon.replay.source import AbstractReplay
from mnemon.replay.vae import VAE


class Shares(str, Enum):
    """How much the present task's data count beside replayed ones."""

    HALF = "half"
    """Half of the loss: the paper's choice."""
    EVEN = "even"
    """As much as each earlier task: 1/t of the loss in task t, as deep generative replay has it."""


class NewOutputs(str, Enum):
    """What the network should say of outputs that came after a replayed input's task (cl3)."""

    NOTHING = "nothing"
    """That they have no share."""
    ZERO = "zero"
    """What it would say if their logit were 0 beside those of the earlier network, as in the published code."""


class ReplayLearner(AbstractOneNetworkLearner):
    """One network for all tasks, on real data of the present and replayed data of earlier ones."""

    @dataclass(frozen=True)
    class Config(OneNetworkConfig):
        """Settings of the method."""

        temperature: float = 2.0
        """Temperature of the soft targets."""
        shares: Shares = Shares.HALF
        """How much the present task counts in the loss: half, or even (as much as each earlier task)."""
        new_outputs: NewOutputs = NewOutputs.NOTHING
        """The soft targets of outputs that an earlier network did not have (cl3): nothing, or zero (a logit of 0)."""
        replay: ReplayConfig = field(default_factory=VAE.Config)
        """Where inputs of earlier tasks come from."""

        def __post_init__(self) -> None:
            if not 0 < self.temperature < float("inf"):
                raise UsageError(f"method.temperature must be a finite number above 0, not {self.temperature}.")

    config: Config

    def __init__(self, config: Config, problem: Problem):
        if problem.kind is not TaskKind.CLASSIFICATION:
            raise UsageError(
                "Replay with soft targets is for classification: use method.name=hypernet for regression."
            )
        super().__init__(problem, problem.initialise(problem.network(problem.outputs.total)))
        self.config = config
        self.before: nn.Module | None = None
        """The network as it was when the present task began."""
        self._replay = build_replay(config.replay, problem)

    @property
    def sees_past(self) -> bool:
        return self._replay.sees_past

    @property
    def replay(self) -> AbstractReplay:
        return self._replay

    def train_step(self, batch: Batch) -> Terms:
        terms = self._replay.train_step(batch)
        self.network.train()
        n_tasks = self.n_begun
        if n_tasks == 1:
            loss = task_loss = self.task_loss(self.network(batch.inputs), batch)
        else:
            assert self.before is not None
            replayed = self._replay.sample(len(batch), range(n_tasks - 1))
            outputs = self.network(torch.cat([batch.inputs, replayed.like(batch.inputs)]))
            task_loss = self.task_loss(outputs[: len(batch)], batch)
            with torch.no_grad():
                wanted = self.before(replayed.like(batch.inputs))
            replay_loss = self._replay_loss(outputs[len(batch) :], wanted, replayed.tasks)
            share = 0.5 if self.config.shares is Shares.HALF else 1 / n_tasks
            loss = share * task_loss + (1 - share) * replay_loss
            terms["replay_loss"] = replay_loss.detach()
        descend(self.optimizers["target"], loss)
        return {"task_loss": task_loss.detach(), **terms}

    def _replay_loss(self, outputs: Tensor, wanted: Tensor, tasks: Tensor | None) -> Tensor:
        """Return how far the outputs for replayed inputs are from those of the earlier network."""
        heads, n_old = self.problem.outputs, self.n_begun - 1
        if self.problem.scenario is not Scenario.CL1:
            return self._distill(outputs, wanted, heads.competing(n_old, n_old + 1), heads.seen(n_old))
        if tasks is None:  # of no known task: all earlier heads have to stay
            each = [self._distill(outputs, wanted, heads.head(t), heads.head(t)) for t in range(n_old)]
            return torch.stack(each).mean()
        # Rows of one head each, side by side: one softmax for the whole batch.
        own, whole = heads.columns(tasks), (0, heads.per_task)
        return self._distill(outputs.gather(1, own), wanted.gather(1, own), whole, whole)

    def _distill(self, outputs: Tensor, wanted: Tensor, among: OutputRange, known: OutputRange) -> Tensor:
        """Return the cross entropy to the old answers among the known outputs; see `NewOutputs` for the others."""
        t = self.config.temperature
        log_p = (outputs[:, slice(*among)] / t).log_softmax(1)
        old = wanted[:, slice(*known)] / t
        if self.config.new_outputs is NewOutputs.ZERO:
            old = F.pad(old, (0, log_p.shape[1] - old.shape[1]))
        return -(t**2) * (old.softmax(1) * log_p[:, : old.shape[1]]).sum(1).mean()

    def start_learning(self) -> None:
        super().start_learning()
        if self.n_begun > 1:
            self.before = copy.deepcopy(self.network).requires_grad_(False).eval()

    def finish_learning(self, examples: Examples) -> None:
        self.before = None

    def mechanisms(self) -> dict[str, str]:
        return {"replay_loss": "the loss on replayed inputs"}

    def counts(self) -> Counts:
        n_tasks, replay, size = self.problem.n_tasks, self._replay, self.size()
        return Counts(size + replay.count(), replay.numel_per_task, size, n_tasks, count_spared(replay, n_tasks))
