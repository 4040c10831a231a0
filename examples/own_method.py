"""A method that mnemon does not have, in a file of your own: dark experience replay (Buzzega et al., 2020).

mnemon compare dark-replay finetuned-target joint --scenario cl3 --plugin examples/own_method.py --workers 2
"""

from dataclasses import dataclass

import torch
from torch.nn.functional import mse_loss

import mnemon
from mnemon.learners.one_network import AbstractOneNetworkLearner, OneNetworkConfig
from mnemon.optimizer import descend


@mnemon.register_method("dark-replay")
class DarkReplay(AbstractOneNetworkLearner):
    """One network that keeps some examples with its answers to them, and goes on giving these answers."""

    @dataclass(frozen=True)
    class Config(OneNetworkConfig):
        """Settings of the method, for `--set`."""

        kept: int = 200
        """Examples that are kept, of all tasks together."""
        alpha: float = 0.5
        """Strength of the loss on kept examples."""

    def __init__(self, config: Config, problem: mnemon.Problem):
        super().__init__(problem, problem.network(problem.outputs.total))
        self.config = config
        self.register_buffer("inputs", torch.zeros(config.kept, *problem.input_shape))
        self.register_buffer("answers", torch.zeros(config.kept, problem.outputs.total))
        self.register_buffer("n_seen", torch.tensor(0))  # buffers are in checkpoints: the run can be resumed

    def train_step(self, batch: mnemon.Batch) -> dict[str, torch.Tensor]:
        outputs = self.network.train()(batch.inputs)
        loss = task_loss = self.task_loss(outputs, batch)
        terms = {"task_loss": task_loss.detach()}
        if n := min(int(self.n_seen), self.config.kept):
            drawn = torch.randint(n, (len(batch),), device=self.device)
            terms["replay_loss"] = mse_loss(self.network(self.inputs[drawn]), self.answers[drawn])
            loss = task_loss + self.config.alpha * terms["replay_loss"]
        descend(self.optimizers["target"], loss)
        self.keep(batch.inputs, outputs.detach())
        return {name: term.detach() for name, term in terms.items()}

    def keep(self, inputs: torch.Tensor, answers: torch.Tensor) -> None:
        """Keep each example that was ever seen with the same chance (reservoir sampling)."""
        seen = self.n_seen + torch.arange(len(inputs), device=self.device)
        drawn = (torch.rand(len(seen), device=self.device) * (seen + 1)).long()
        place = torch.where(seen < self.config.kept, seen, drawn)
        chosen = place < self.config.kept
        self.inputs[place[chosen]], self.answers[place[chosen]] = inputs[chosen], answers[chosen]
        self.n_seen += len(inputs)

    def counts(self) -> mnemon.Counts:
        kept = self.inputs.numel() + self.answers.numel()
        return mnemon.Counts(self.size() + kept, 0, self.size(), self.problem.n_tasks)
