"""A fresh hypernetwork for every task: what learning from scratch means in the paper's CIFAR figures."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from mnemon.benchmarks.scenario import OutputRange, Scenario
from mnemon.hypernet import HypernetConfig, build_hypernet
from mnemon.hypernet.init import new_embedding
from mnemon.hypernet.target import Target
from mnemon.learners.base import Counts
from mnemon.learners.bounds import AbstractFromScratch
from mnemon.learners.hypernet import Heads
from mnemon.problem import Problem


class GeneratedNetwork(nn.Module):
    """A network whose weights its own hypernetwork generates, from an embedding that is learned with it.

    Of its outputs it gives those of a head, if one is named. The parameters of the network itself are only a form.
    """

    def __init__(self, network: nn.Module, config: HypernetConfig, head: OutputRange | None):
        super().__init__()
        self.target, self.head = Target(network), head
        self.hypernet = build_hypernet(config, self.target)
        self.embedding = nn.Parameter(new_embedding(self.hypernet.embedding_size))

    def forward(self, x: Tensor) -> Tensor:
        """Map inputs to outputs."""
        outputs = self.target(self.hypernet.padded(self.embedding), x)
        return outputs if self.head is None else outputs[:, slice(*self.head)]

    def kept(self) -> list[Tensor]:
        """Return all that lasts: what is learned, and the statistics of batch norm."""
        return [*self.hypernet.parameters(), self.embedding, *self.target.module.buffers()]


class FromScratchHypernet(AbstractFromScratch):
    """A fresh hypernetwork for every task."""

    @dataclass(frozen=True)
    class Config:
        """Settings of the method."""

        heads: Heads = Heads.ALL
        """Heads that are generated for a task: all (as the paper counts) or own (fewer weights)."""
        hypernet: HypernetConfig = field(default_factory=HypernetConfig)
        """The hypernetwork, of which every task has its own."""

    def __init__(self, config: Config, problem: Problem):
        super().__init__(problem)
        self.config = config

    def new_network(self) -> GeneratedNetwork:
        outputs, head = self.problem.outputs_per_task, None
        # A single head (CL2) is everybody's own.
        if self.config.heads is Heads.ALL and self.problem.scenario is not Scenario.CL2:
            outputs, head = self.problem.outputs.total, self.problem.outputs.head(len(self.networks))
        return GeneratedNetwork(self.problem.network(outputs), self.config.hypernet, head)

    def transient(self, name: str) -> bool:
        form = name.partition(".target.module.")[2]
        return bool(form) and form in dict(self.networks[-1].get_submodule("target.module").named_parameters())

    def counts(self) -> Counts:
        with torch.device("meta"):
            network = self.new_network()
        return self.count_kept(network.kept(), network.target.n_weights)
