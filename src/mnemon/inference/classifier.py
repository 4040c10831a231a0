"""A task classifier, kept from forgetting by replay (HNET+TIR)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from mnemon.inference.answer import in_pieces
from mnemon.inference.base import AbstractInference, Ask
from mnemon.optimizer import descend
from mnemon.problem import Batch, Problem, Terms
from mnemon.replay.source import AbstractReplay


class TaskClassifier(AbstractInference):
    """A plain network like the target with one output per task; its softmax grows with the tasks.

    The present task's real data and replayed inputs of earlier tasks, labelled by the task that they were drawn for,
    count half each.
    """

    def __init__(self, problem: Problem, replay: AbstractReplay):
        super().__init__()
        self.problem, self.replay = problem, replay
        self.network = problem.initialise(problem.network(problem.n_tasks))

    def train_step(self, batch: Batch) -> Terms:
        terms = self.replay.train_step(batch)
        if batch.task_id == 0:
            return terms  # one task: nothing to tell apart
        replayed = self.replay.sample(len(batch), range(batch.task_id))
        assert replayed.tasks is not None
        self.network.train()
        outputs = self._seen(self.network(torch.cat([batch.inputs, replayed.like(batch.inputs)])))
        present = torch.full((len(batch),), batch.task_id, device=outputs.device)
        real = F.cross_entropy(outputs[: len(batch)], present)
        fake = F.cross_entropy(outputs[len(batch) :], replayed.tasks)
        loss = (real + fake) / 2
        descend(self.optimizers["task_classifier"], loss)
        return {**terms, "inference_loss": loss.detach()}

    @torch.no_grad()
    def scores(self, inputs: Tensor, ask: Ask) -> Tensor:
        self.network.eval()
        return self._seen(in_pieces(self.network, inputs)).log_softmax(1)

    def _seen(self, outputs: Tensor) -> Tensor:
        return outputs[:, : self.n_begun]

    def start_learning(self) -> None:
        self.optimizers = {"task_classifier": self.problem.optimizer.build(self.network.parameters())}

    def mechanisms(self) -> dict[str, str]:
        return {"inference_loss": "the loss of the task classifier"}

    def count(self) -> int:
        return sum(p.numel() for p in self.network.parameters()) + self.replay.count()

    @property
    def numel_per_task(self) -> int:
        return self.replay.numel_per_task
