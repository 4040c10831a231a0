"""A memory of networks whose weights a hypernetwork generates; a penalty protects those of earlier tasks.

The networks are classifiers, decoders or generators. One step, by `descend`: gradient of the task loss →
lookahead → gradient of the penalty there, added → one step of the optimizers.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from mnemon.benchmarks.task import Examples
from mnemon.errors import UsageError
from mnemon.hypernet import build_hypernet
from mnemon.hypernet.base import AbstractHypernet
from mnemon.hypernet.excerpt import Excerpt, excerpt
from mnemon.hypernet.init import new_embedding, simplex_corner
from mnemon.hypernet.statistics import Statistics
from mnemon.hypernet.target import Buffers, Target
from mnemon.hypernet.task_buffers import TaskBuffers
from mnemon.memory.base import AbstractMemory
from mnemon.memory.cache import WeightCache
from mnemon.memory.config import MemoryConfig, NewEmbedding, OldEmbeddings, PenaltyForm, Sample, Start, Unit
from mnemon.memory.lookahead import LOOKAHEADS, AbstractLookahead, Gradients, by_autograd
from mnemon.memory.penalty import Anchors, Draw, WeightRange, exact_penalty, plain_penalty
from mnemon.optimizer import OptimizerConfig, forget_gradients
from mnemon.problem import Terms

NEARBY = 0.1
"""Standard deviation of the noise of a nearby embedding."""
RAMP = 50
"""Steps in which the factor of generated weights rises from 0 to 1, if a task starts from the module's weights."""


class NetworkMemory(AbstractMemory):
    """A memory of networks of one architecture.

    With `start=own`, generated weights are added to the module's own weights; otherwise the module is a placeholder.
    `from_own` adds them, too, and every task starts from the original module: generated weights are multiplied by a
    factor per task that rises from 0 to 1 in its first steps.
    `kept` returns the ranges of a task's flat weights that the penalty protects (default: all). Tasks from `capacity`
    on are not learned: the memory does not change. With `keeps_snapshot`, there is a frozen copy while a task is
    learned, even without a penalty; `frozen_weights` come from it. `statistics` says which statistics batch norm
    uses; if they are generated, a step also pulls them towards those measured so far.
    """

    def __init__(
        self,
        module: nn.Module,
        config: MemoryConfig,
        optimizer: OptimizerConfig,
        generate: Sequence[str] = ("*",),
        kept: Callable[[int], list[WeightRange]] | None = None,
        capacity: int | None = None,
        keeps_snapshot: bool = False,
        from_own: bool = False,
        statistics: Statistics = Statistics.PER_TASK,
    ):
        super().__init__()
        self.config, self._optimizer_config = config, optimizer
        room = config.hypernet.embedding_size + 1
        if config.new_embedding is NewEmbedding.APART and capacity is not None and capacity > room:
            raise UsageError(
                f"{config.section}.hypernet.embedding_size must be at least {capacity - 1} for {capacity} embeddings "
                f"with new_embedding=apart, not {room - 1}."
            )
        if statistics is Statistics.GENERATED and config.penalty is PenaltyForm.WEIGHTED:
            raise UsageError(
                f"{config.section}.penalty=weighted has no importance for generated statistics: use "
                f"{config.section}.statistics=per-task, or another penalty."
            )
        self.target = Target(module, generate, statistics)
        self.hypernet = build_hypernet(config.hypernet, self.target)
        self.embeddings = nn.ParameterList()
        self.factors = nn.ParameterList()
        """How much of what is generated is added, for each task; empty unless it rises."""
        self.rises = from_own
        """Whether what is generated is multiplied by a factor of the task."""
        around_own = from_own or config.start is Start.OWN
        self.own = nn.Parameter(self.target.own_weights(), requires_grad=False) if around_own else None
        if around_own:
            nn.init.zeros_(self.hypernet.readout)  # a random one would add noise that has to be unlearned first
        generated = self.target.statistics.buffers
        shared = statistics is Statistics.SHARED
        self.buffers_of = TaskBuffers(module, lambda name: name not in generated, shared)
        self.measured = TaskBuffers(module, lambda name: name in generated)
        """What the present task's statistics are led to; of use only while it is learned."""
        size = self.target.statistics.size
        self.first_statistics = nn.Parameter(torch.zeros(size), requires_grad=False) if size else None
        """Those of the first task, from which generated ones are deviations."""
        self._distance: Tensor | None = None
        self.snapshot: Snapshot | None = None
        self.importances = nn.ParameterList()
        self.capacity, self.keeps_snapshot = capacity, keeps_snapshot
        self._kept = kept
        self._anchors: Anchors | None = None
        self._lookahead: AbstractLookahead | None = None
        self._cache, self._before = WeightCache(), WeightCache()
        self._own_rows, self._unit_rows = WeightCache(), WeightCache()
        self._excerpts: dict[tuple[WeightRange, torch.device], Excerpt | None] = {}
        """Only the last one used."""

    @property
    def learning(self) -> bool:
        """Whether the present task is learned (see `capacity`)."""
        return self.n_begun > 0 and (self.capacity is None or self.n_begun <= self.capacity)

    @property
    def protects(self) -> bool:
        """Whether the present task is learned under a penalty."""
        return self.config.beta > 0 and self.n_begun > 1 and self.learning

    @property
    def n_tasks(self) -> int:
        return len(self.embeddings)

    @property
    def device(self) -> torch.device:
        return self.hypernet.readout.device

    @property
    def floats(self) -> torch.dtype:
        return self.hypernet.readout.dtype

    @property
    def moving(self) -> list[Tensor]:
        return [*self.hypernet.parameters(), *self.embeddings]

    # Generated networks

    def weights(self, task_id: int) -> Tensor:
        """Return the weights that the hypernetwork generates for a task, as a flat vector."""
        return self.hypernet(self.embeddings[task_id])

    def frozen_weights(self, task_id: int) -> Tensor:
        """Return the weights generated for an earlier task when the present one began; cached."""
        if self.snapshot is None:
            return self.cached_weights(task_id)
        hypernet, embeddings = self.snapshot.hypernet, self.snapshot.embeddings
        return self._before.get(task_id, self.snapshot.parameters(), lambda: hypernet.padded(embeddings[task_id]))

    def cached_weights(self, task_id: int) -> Tensor:
        """Return the weights generated for a task; cached until a parameter changes."""
        embedding = self.embeddings[task_id]
        moved = (*self.hypernet.parameters(), embedding)  # not all embeddings: there may be thousands
        return self._cache.get(task_id, moved, lambda: self.hypernet.padded(embedding))

    def run(
        self,
        task_id: int,
        *inputs: Tensor,
        training: bool,
        outputs: WeightRange | None = None,
        weights: Tensor | None = None,
    ) -> Tensor:
        """Run a task's network, with the given weights, or with weights generated now."""
        if self.target.training != training:
            self.target.train(training)
        if weights is None and outputs is not None and (part := self._excerpt(outputs)) is not None:
            found = self.hypernet.excerpt(self.embeddings[task_id], part.row)
            return self.target(found, *inputs, buffers=self.buffers_of[task_id], slots=part.slots)
        weights = self._network(task_id, weights)
        buffers, statistics = self.buffers_of[task_id], self.target.statistics
        if self.first_statistics is None:
            return self.target(weights, *inputs, buffers=buffers, outputs=outputs)
        before, deviations, after = weights.tensor_split((self.target.n_weights, self.target.size))
        if not training:
            whole = torch.cat([before, statistics.around(self.first_statistics, deviations), after])
            return self.target(whole, *inputs, buffers=buffers, outputs=outputs)
        measured = self.measured[0]
        answers = self.target(weights, *inputs, buffers={**buffers, **measured}, outputs=outputs)
        if self.n_begun == 1:
            self.first_statistics.copy_(statistics.flat(measured))
        self._distance = statistics.distance(statistics.around(self.first_statistics, deviations), measured)
        return answers

    def _excerpt(self, outputs: WeightRange) -> Excerpt | None:
        """Return the rows that a network with these outputs needs, if that is faster."""
        if self.own is not None or self.first_statistics is not None:
            return None
        key = outputs, self.hypernet.readout.device
        if key not in self._excerpts:
            self._excerpts = {key: excerpt(self.target, self.hypernet, outputs)}
        return self._excerpts[key]

    def _network(self, task_id: int, generated: Tensor | None) -> Tensor:
        """Return the weights of a task's network, from given generated weights, or from ones generated now."""
        embedding = self.embeddings[task_id]
        if generated is not None:
            return self._started(task_id, generated)
        one_type = self.own is not None and self.own.dtype == self.hypernet.readout.dtype
        if not one_type or not self.hypernet.rows_are_full or self.config.unit is Unit.LAYER:
            return self._started(task_id, self.hypernet.padded(embedding))
        return self.hypernet.around(self._padded_own(), embedding, self.factors[task_id] if self.rises else None)

    def _padded_own(self) -> Tensor:
        """Return the module's own weights, padded with zeros for the unused columns of the last row; cached."""
        own = self.own
        assert own is not None
        return self._own_rows.get(0, [own], lambda: self._padded(own))

    def _padded_units(self) -> Tensor:
        """Return the unit of each generated weight, padded like the own weights; cached."""
        own = self.own
        assert own is not None
        return self._unit_rows.get(0, [own], lambda: self._padded(self.target.deviations(own)))

    def _padded(self, flat: Tensor) -> Tensor:
        room = self.hypernet.n_rows * self.hypernet.chunk - len(flat) if self.hypernet.rows_are_full else 0
        return nn.functional.pad(flat, (0, room))

    def _started(self, task_id: int, generated: Tensor) -> Tensor:
        """Return the weights of a task's network, from its generated weights."""
        if self.own is None:
            return generated
        own, n = self._padded_own(), len(generated)
        if self.rises:
            return torch.addcmul(own[:n], generated, self.factors[task_id])
        if self.config.unit is Unit.LAYER:
            return torch.addcmul(own[:n], generated, self._padded_units()[:n])
        return own[:n] + generated

    @torch.no_grad()
    def network_weights(self, task_id: int) -> dict[str, Tensor]:
        """Return the weights of a task's network by the names of the module's parameters."""
        return self.target.cut(self._started(task_id, self.cached_weights(task_id)))

    def network_buffers(self, task_id: int) -> Buffers:
        return self.buffers_of[task_id]

    # The step

    def descend(self, loss: Tensor, others: Sequence[Tensor] = ()) -> Terms:
        """Take one optimizer step on loss and penalty; return the penalty, if there is one.

        The gradients of `others` are only stored in their `.grad`; the caller takes their step.
        """
        terms: Terms = {}
        if self._distance is not None:
            terms["statistics"] = self._distance.detach()
            loss, self._distance = loss + self._distance, None
        theta, embedding = list(self.hypernet.parameters()), self.embeddings[self.n_begun - 1]
        second_order = self.protects and self._lookahead is not None and self._lookahead.second_order
        everything = [*theta, embedding, *others]
        found = torch.autograd.grad(loss, everything, create_graph=second_order)
        if self.config.clip is not None:
            found = _clip(found, self.config.clip)
        for parameter, gradient in zip(everything, found, strict=True):
            parameter.grad = gradient.detach()
        if self.protects:
            terms["penalty"] = self._add_penalty(list(found[: len(theta)]))
        for optimizer in self.optimizers.values():
            optimizer.step()
            forget_gradients(optimizer)
        self._cache.drop()
        self._take_more()
        return terms

    @torch.no_grad()
    def _take_more(self) -> None:
        """Raise the present task's factor of generated weights a little, up to 1."""
        if len(self.factors):
            self.factors[self.n_begun - 1].add_(1 / RAMP).clamp_(max=1.0)

    def _add_penalty(self, task_gradients: list[Tensor]) -> Tensor:
        assert self._anchors is not None
        assert self._lookahead is not None
        anchors, draw = self._anchors, self._draw(self._anchors)
        old = list(self.embeddings[: self.n_begun - 1]) if self._plastic else []
        if self.config.penalty is not PenaltyForm.EXACT:
            plain = by_autograd(lambda moved: self.config.beta * plain_penalty(moved, anchors, draw, old), old)
            return self._lookahead.add_gradient(plain, task_gradients, old)
        # A differentiated lookahead needs the readout's gradient itself, to propagate it back through the step.
        add_to = None if self._lookahead.second_order else self.hypernet.readout.grad

        def penalty(moved: AbstractHypernet) -> tuple[Tensor, Gradients]:
            return exact_penalty(moved, anchors, draw, old, self.config.beta, add_to)

        return self._lookahead.add_gradient(penalty, task_gradients, old)

    def _draw(self, anchors: Anchors) -> Draw:
        if self.config.sample is Sample.TASKS:
            return anchors.draw_tasks(self.config.sample_size)
        if self.config.sample is Sample.ROWS and anchors.n_tasks * anchors.n_rows > self.config.sample_above:
            return anchors.draw_rows(self.config.sample_size)
        return anchors.everything()

    # Hooks of a task

    def add_task(self) -> None:
        if self.capacity is not None and len(self.embeddings) >= self.capacity:
            return
        like = self.hypernet.readout
        self.embeddings.append(nn.Parameter(self._start_of_embedding().to(like)))
        if self.rises:
            self.factors.append(nn.Parameter(like.new_zeros(()), requires_grad=False))
        self.buffers_of.add(like.device)
        self.measured.select_tasks([])
        self.measured.add(like.device)
        if self.config.penalty is PenaltyForm.WEIGHTED:
            self.importances.append(nn.Parameter(like.new_zeros(self.target.size), requires_grad=False))

    def start_learning(self) -> None:
        if not self.learning:
            return
        old = list(self.embeddings[:-1])
        self._cache.drop()
        self._before.drop()
        keeps = bool(old) and (self.protects or self.keeps_snapshot)
        self.snapshot = Snapshot(self.hypernet, old) if keeps else None
        for embedding in old:
            embedding.requires_grad_(self._plastic)
        new = self.embeddings[self.n_begun - 1].requires_grad_()
        movable = [*old, new] if self._plastic and self.protects else [new]
        self.optimizers = {
            "hypernet": self._optimizer_config.build(self.hypernet.parameters()),
            "embedding": self._optimizer_config.build(movable),
        }

    def rebuild(self) -> None:
        self._before.drop()
        if self.snapshot is None or not self.protects:
            return
        n_old = self.n_begun - 1
        importance = torch.stack(list(self.importances[:n_old])) if len(self.importances) else None
        kept = [self._kept(task_id) for task_id in range(n_old)] if self._kept else None
        self._anchors = Anchors(self.snapshot.hypernet, self.snapshot.embeddings, kept, importance)
        self._lookahead = LOOKAHEADS[self.config.lookahead](self.hypernet, self.optimizers["hypernet"])

    def finish_learning(self, examples: Examples) -> None:
        self.stop_learning()

    def stop_learning(self) -> None:
        """Drop what is needed only while a task is learned."""
        self.snapshot = self._anchors = self._lookahead = self._distance = None
        self._before.drop()

    def select_tasks(self, order: Sequence[int]) -> None:
        for name in ("embeddings", "factors", "importances"):
            values = getattr(self, name)
            setattr(self, name, nn.ParameterList(values[task_id] for task_id in order if len(values)))
        self.buffers_of.select_tasks(order)
        self._cache.drop()

    @property
    def _plastic(self) -> bool:
        return self.config.old_embeddings is OldEmbeddings.PLASTIC

    def _start_of_embedding(self) -> Tensor:
        size, task_id = self.hypernet.embedding_size, len(self.embeddings)
        if self.config.new_embedding is NewEmbedding.APART:
            return self.config.embedding_scale * simplex_corner(size, task_id)
        fresh = new_embedding(size, self.config.embedding_scale)
        if self.config.new_embedding is NewEmbedding.RANDOM or not len(self.embeddings):
            return fresh
        noise = NEARBY if self.config.new_embedding is NewEmbedding.NEARBY else 0.0
        return self.embeddings[-1].detach() + noise * fresh.to(self.embeddings[-1])

    # Sizes and saving

    @property
    def numel_shared(self) -> int:
        """Numbers that all tasks share."""
        return self.hypernet.count() + self.target.statistics.size + self.buffers_of.numel_shared

    @property
    def numel_per_task(self) -> int:
        """Numbers that each further task adds."""
        importance = self.target.size if self.config.penalty is PenaltyForm.WEIGHTED else 0
        return self.hypernet.embedding_size + self.buffers_of.numel_per_task + importance + self.rises

    @property
    def nbytes_shared(self) -> int:
        """Bytes that all tasks share."""
        numbers = self.numel_shared - self.buffers_of.numel_shared
        return numbers * self.hypernet.readout.element_size() + self.buffers_of.nbytes_shared

    @property
    def nbytes_per_task(self) -> int:
        """Bytes that each further task adds."""
        numbers = self.numel_per_task - self.buffers_of.numel_per_task
        return numbers * self.hypernet.readout.element_size() + self.buffers_of.nbytes_per_task

    def transient(self, name: str) -> bool:
        if name.startswith("target."):
            # A module that tasks start from is given again by its owner, frozen part and all.
            return self.rises or name.removeprefix("target.module.") not in self.target.frozen
        return name.startswith("measured.") and not self.optimizers


def _clip(gradients: Sequence[Tensor], most: float) -> tuple[Tensor, ...]:
    """Return gradients scaled down to a joint norm of at most `most`."""
    norm = torch.stack([gradient.detach().norm() for gradient in gradients]).norm()
    factor = (most / norm).clamp(max=1.0)
    return tuple(gradient * factor for gradient in gradients)


class Snapshot(nn.Module):
    """The hypernetwork and the old embeddings as they were when the present task began."""

    def __init__(self, hypernet: AbstractHypernet, embeddings: list[Tensor]):
        super().__init__()
        self.hypernet = copy.deepcopy(hypernet).eval()
        self.embeddings = nn.Parameter(torch.stack(embeddings).detach())
        self.requires_grad_(False)
