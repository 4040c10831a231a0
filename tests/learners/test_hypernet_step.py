"""A step of the hypernetwork learner against a slow one, written down from the paper with plain tensors."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from mnemon.hypernet import HypernetConfig
from mnemon.learners.hypernet import Heads, HypernetLearner
from mnemon.memory.config import NewEmbedding, OldEmbeddings, PenaltyForm
from mnemon.memory.lookahead import LookaheadMode
from mnemon.models import TargetConfig

pytestmark = pytest.mark.usefixtures("double")

LR, BETA1, BETA2, EPS = 0.01, 0.8, 0.99, 1e-8


@dataclass
class Moments:
    """Adam's memory for one tensor."""

    m: Tensor
    v: Tensor
    t: int = 0

    def step(self, g: Tensor) -> Tensor:
        """What Adam adds to the tensor; a function of g that autograd can follow."""
        t = self.t + 1
        m, v = BETA1 * self.m + (1 - BETA1) * g, BETA2 * self.v + (1 - BETA2) * g * g
        return -LR * (m / (1 - BETA1**t)) / ((v / (1 - BETA2**t)).sqrt() + EPS)

    def update(self, g: Tensor) -> Tensor:
        """The same, and remember g."""
        change = self.step(g)
        self.m, self.v, self.t = BETA1 * self.m + (1 - BETA1) * g, BETA2 * self.v + (1 - BETA2) * g * g, self.t + 1
        return change


def fresh(tensors: list[Tensor]) -> list[Moments]:
    return [Moments(torch.zeros_like(t), torch.zeros_like(t)) for t in tensors]


class Reference:
    """The method for an ELU hypernetwork and a target of one hidden layer of 6 on 4 inputs."""

    def __init__(self, learner: HypernetLearner, n_tasks: int):
        hypernet = learner.memory.hypernet
        self.chunked = hasattr(hypernet, "chunk_embeddings")
        start = [hypernet.chunk_embeddings] if self.chunked else []
        for layer in hypernet.layers:
            start += [layer.weight, layer.bias]
        self.theta = [tensor.detach().clone() for tensor in [*start, hypernet.readout]]
        self.embeddings: list[Tensor] = []
        self.config, self.outputs = learner.config, 2 if learner.config.heads is Heads.OWN else 2 * n_tasks
        # A rectifier that is shut has a gradient of exactly 0, and Adam's root no second derivative there.
        differentiated = learner.config.lookahead is LookaheadMode.DIFFERENTIATED
        self.activation = torch.tanh if differentiated else torch.relu
        self.shapes = [(6, 4), (6,), (self.outputs, 6), (self.outputs,)]

    def generate(self, theta: list[Tensor], e: Tensor) -> list[Tensor]:
        """The target's tensors for one embedding."""
        rows = e[None]
        if self.chunked:
            chunk_embeddings, *theta = theta
            rows = torch.stack([torch.cat([e, c]) for c in chunk_embeddings])
        *layers, readout = theta
        for weight, bias in zip(layers[::2], layers[1::2], strict=True):
            rows = torch.nn.functional.elu(rows @ weight.T + bias)
        flat = (rows @ readout[:-1] + readout[-1]).flatten()
        borders = list(itertools.accumulate([torch.Size(s).numel() for s in self.shapes], initial=0))
        return [flat[a:b].view(s) for (a, b), s in zip(itertools.pairwise(borders), self.shapes, strict=True)]

    def own(self, tensor: Tensor, task: int) -> Tensor:
        return tensor if self.config.heads is Heads.OWN else tensor[2 * task : 2 * task + 2]

    def answer(self, theta: list[Tensor], e: Tensor, task: int, x: Tensor) -> Tensor:
        w1, b1, w2, b2 = self.generate(theta, e)
        return self.own((self.activation(x @ w1.T + b1) @ w2.T + b2).T, task).T

    def task_loss(self, theta: list[Tensor], e: Tensor, task: int, x: Tensor, y: Tensor) -> Tensor:
        return -self.answer(theta, e, task, x).log_softmax(1)[torch.arange(len(y)), y].mean()

    def penalty(self, theta: list[Tensor], embeddings: list[Tensor]) -> Tensor:
        total = torch.zeros(())
        for task, (e, e_star) in enumerate(zip(embeddings, self.embeddings_star, strict=True)):
            new, old = self.generate(theta, e), self.generate(self.theta_star, e_star)
            if self.config.penalized_heads is Heads.OWN:
                new[2:], old[2:] = ([self.own(t, task) for t in ts[2:]] for ts in (new, old))
            for a, b in zip(new, old, strict=True):
                total = total + (a - b.detach()).square().sum()
        return self.config.beta * total / len(embeddings)

    def begin_task(self, e: Tensor) -> None:
        self.theta_star = [t.clone() for t in self.theta]
        self.embeddings_star = [t.clone() for t in self.embeddings]
        self.embeddings.append(e.detach().clone())
        self.memory, self.e_memory = fresh(self.theta), fresh(self.embeddings)

    def train_step(self, task: int, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        theta = [t.detach().requires_grad_() for t in self.theta]
        e = self.embeddings[task].detach().requires_grad_()
        loss = self.task_loss(theta, e, task, x, y)
        *task_gradients, e_gradient = torch.autograd.grad(loss, [*theta, e], create_graph=True)
        terms = {"task_loss": loss.detach()}
        total = [g.detach() for g in task_gradients]
        e_gradients = [*([None] * task), e_gradient.detach()]
        if task > 0 and self.config.beta > 0:
            old = [t.detach().requires_grad_() for t in self.embeddings[:task]]
            if self.config.lookahead is LookaheadMode.OFF:
                where = at = theta
            elif self.config.lookahead is LookaheadMode.CONSTANT:
                steps = [m.step(g.detach()) for m, g in zip(self.memory, task_gradients, strict=True)]
                where = at = [(t + d).detach().requires_grad_() for t, d in zip(theta, steps, strict=True)]
            else:
                at = theta
                where = [t + m.step(g) for t, m, g in zip(theta, self.memory, task_gradients, strict=True)]
            penalty = self.penalty(where, old)
            gradients = torch.autograd.grad(penalty, [*at, *old])
            total = [a + b for a, b in zip(total, gradients, strict=False)]
            terms["penalty"] = penalty.detach()
            if self.config.old_embeddings is OldEmbeddings.PLASTIC:
                e_gradients = [*gradients[len(at) :], e_gradient.detach()]
        self.theta = [t.detach() + m.update(g) for t, m, g in zip(theta, self.memory, total, strict=True)]
        for i, gradient in enumerate(e_gradients):
            if gradient is not None:
                self.embeddings[i] = self.embeddings[i] + self.e_memory[i].update(gradient)
        return terms


CHUNKED = HypernetConfig(hidden=(5, 4), embedding_size=3, chunk=17, chunk_embedding_size=2)
FULL = HypernetConfig(form="full", hidden=(5,), embedding_size=3)
LINEAR = HypernetConfig(hidden=(), embedding_size=3, chunk=8, chunk_embedding_size=2)

CASES = {
    "as in the paper": {},
    "many rows": {"hypernet": HypernetConfig(hidden=(3,), embedding_size=3, chunk=5, chunk_embedding_size=2)},
    "linear": {"hypernet": LINEAR},
    "full": {"hypernet": FULL},
    "strong": {"beta": 50.0},
    "plain": {"penalty": PenaltyForm.PLAIN},
    "no penalty": {"beta": 0.0},
    "own heads": {"heads": Heads.OWN},
    "own heads penalised": {"penalized_heads": Heads.OWN},
    "own heads penalised, plain": {"penalized_heads": Heads.OWN, "penalty": PenaltyForm.PLAIN},
    "plastic": {"old_embeddings": OldEmbeddings.PLASTIC},
    "plastic, plain": {"old_embeddings": OldEmbeddings.PLASTIC, "penalty": PenaltyForm.PLAIN},
    "plastic, full, own heads": {"old_embeddings": OldEmbeddings.PLASTIC, "hypernet": FULL, "heads": Heads.OWN},
    "new from previous": {"new_embedding": NewEmbedding.PREVIOUS},
    "lookahead off": {"lookahead": LookaheadMode.OFF},
    "lookahead off, plastic": {"lookahead": LookaheadMode.OFF, "old_embeddings": OldEmbeddings.PLASTIC},
    # Full and with own heads: no output is unused, so that no gradient is exactly 0.
    "differentiated": {"lookahead": LookaheadMode.DIFFERENTIATED, "hypernet": FULL, "heads": Heads.OWN},
    "differentiated, plain": {
        "lookahead": LookaheadMode.DIFFERENTIATED,
        "hypernet": FULL,
        "heads": Heads.OWN,
        "penalty": PenaltyForm.PLAIN,
    },
}


@pytest.mark.parametrize("name", CASES)
def test_every_step_over_three_tasks_equals_the_slow_one(name, problem, batch_of):
    config = HypernetLearner.Config(**{"beta": 0.5, "hypernet": CHUNKED, **CASES[name]})
    optimizer = {"lr": LR, "beta1": BETA1, "beta2": BETA2}
    differentiated = config.lookahead is LookaheadMode.DIFFERENTIATED
    target = TargetConfig(hidden=(6,), activation="tanh" if differentiated else "relu")
    learner = HypernetLearner(config, problem(n_tasks=3, target=target, **optimizer))
    reference = Reference(learner, n_tasks=3)
    # A twin that counts its steps in float32 corrects its bias in float32 (see the tests of the lookahead).
    near = {"rtol": 1e-5, "atol": 1e-6} if differentiated else {"rtol": 1e-9, "atol": 1e-10}
    for task in range(3):
        learner.begin_task(task)
        reference.begin_task(learner.memory.embeddings[task])
        for step in range(5):
            batch = batch_of(task, step)
            found, wanted = learner.train_step(batch), reference.train_step(task, batch.inputs, batch.targets)
            assert list(found) == list(wanted)
            for term in found:
                torch.testing.assert_close(found[term], wanted[term], **near)
            mine = dict(learner.memory.hypernet.named_parameters())
            chunked = ["chunk_embeddings"] if reference.chunked else []
            layers = [f"layers.{i}.{kind}" for i in range(len(config.hypernet.hidden)) for kind in ("weight", "bias")]
            for parameter, theirs in zip([*chunked, *layers, "readout"], reference.theta, strict=True):
                torch.testing.assert_close(mine[parameter].detach(), theirs, **near)
            for e, theirs in zip(learner.memory.embeddings, reference.embeddings, strict=True):
                torch.testing.assert_close(e.detach(), theirs, **near)
        learner.end_task(None)
    for task in range(3):
        answer = reference.answer(reference.theta, reference.embeddings[task], task, batch.inputs)
        torch.testing.assert_close(learner.predict(batch.inputs, task), answer, **near)
    moved = not torch.equal(reference.embeddings[0], reference.embeddings_star[0])
    assert moved == (config.old_embeddings is OldEmbeddings.PLASTIC)
