r"""Guess the task of an input from how sure each task's network is of it (HNET+ENT).

$$\hat t = \arg\min_t H_t, \qquad H_t = -\sum_c p_c \log p_c$$

von Oswald et al. (2020), section 2.3. Tasks of different class counts are compared by $H_t / \log C_t$.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from mnemon.benchmarks.task import TaskKind
from mnemon.errors import UsageError
from mnemon.inference.base import AbstractInference, Ask
from mnemon.problem import Problem

ONE_CLASS = "A task of one class has no entropy: use method.name=replay, or more classes per task."


def entropy(logits: Tensor) -> Tensor:
    """Return the entropy [n] of the softmax of logits [n, classes]: 0 for a sure answer, log C for none."""
    # From log-softmax: where a probability is 0 its logarithm is still a number, and the product is 0.
    log_p = logits.log_softmax(1).clamp(min=torch.finfo(logits.dtype).min)
    return -(log_p.exp() * log_p).sum(1)


def entropies(logits: Sequence[Tensor]) -> Tensor:
    """Return the entropy [n, tasks] of each task's answers, as a share of the largest if class counts differ."""
    counts = [answers.shape[1] for answers in logits]
    if min(counts) < 2:
        raise UsageError(ONE_CLASS)
    found = torch.stack([entropy(answers) for answers in logits], dim=1)
    if len(set(counts)) > 1:
        found = found / torch.tensor([math.log(count) for count in counts]).to(found)
    return found


class EntropyInference(AbstractInference):
    """Takes the task whose own network is surest; nothing is learned for it."""

    def __init__(self, problem: Problem):
        super().__init__()
        if problem.kind is TaskKind.CLASSIFICATION and problem.outputs_per_task < 2:
            raise UsageError(ONE_CLASS)

    def scores(self, inputs: Tensor, ask: Ask) -> Tensor:
        return -entropies([ask(task_id) for task_id in range(self.n_begun)])
