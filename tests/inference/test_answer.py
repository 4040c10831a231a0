"""How many inputs a network takes at once: it changes the time, and nothing else."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from mnemon.hypernet.statistics import Statistics
from mnemon.inference import answer
from mnemon.inference.answer import in_pieces
from mnemon.learners.hypernet import HypernetLearner
from mnemon.models import TargetConfig

SHAPE = (3, 8, 8)


class Watched(nn.Module):
    """A network that notes how many inputs it takes."""

    def __init__(self, network: nn.Module):
        super().__init__()
        self.network, self.sizes = network, []

    def forward(self, x: Tensor) -> Tensor:
        self.sizes.append(len(x))
        return self.network(x)


@pytest.mark.parametrize("n", [0, 1, 49, 50, 51, 120])
def test_pieces_of_images_give_what_the_whole_gives(n, double):
    network = Watched(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 2)))
    images = torch.randn(n, *SHAPE)
    pieces = in_pieces(network, images)
    assert max(network.sizes) <= answer.IMAGES_IN_CACHES
    assert sum(network.sizes) == n
    torch.testing.assert_close(pieces, network(images))


def test_pieces_of_vectors_give_what_the_whole_gives(double):
    network = Watched(nn.Linear(5, 2))
    vectors = torch.randn(6001, 5)
    pieces = in_pieces(network, vectors)
    assert network.sizes == [2500, 2500, 1001]
    torch.testing.assert_close(pieces, network(vectors))


@pytest.mark.parametrize("statistics", Statistics)
def test_images_of_a_batch_stay_together_only_where_batch_norm_goes_by_it(statistics, problem, monkeypatch):
    learner = HypernetLearner(
        HypernetLearner.Config(statistics=statistics),
        problem(target=TargetConfig(network="resnet32"), shape=(3, 32, 32)),
    )
    learner.begin_task(0)
    sizes = []
    run = learner.memory.run
    monkeypatch.setattr(learner.memory, "run", lambda task, x, **k: sizes.append(len(x)) or run(task, x, **k))
    outputs = learner.predict(torch.randn(52, 3, 32, 32), 0)
    assert outputs.shape == (52, 2)
    assert sizes == ([52] if statistics is Statistics.BATCH else [50, 2])
