"""What all tests share: one thread, fixed random numbers, and tasks that are learned in a blink."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import hypothesis
import pytest
import torch
from torch import Tensor, nn

from mnemon.benchmarks.scenario import Scenario
from mnemon.benchmarks.task import Examples, Task, TaskKind, TaskStream
from mnemon.hypernet import target
from mnemon.models import NETWORKS, TargetConfig
from mnemon.optimizer import OptimizerConfig
from mnemon.problem import Batch, Problem

torch.set_num_threads(1)
hypothesis.settings.register_profile("mnemon", derandomize=True, deadline=None, max_examples=60, database=None)
hypothesis.settings.load_profile("mnemon")


@pytest.fixture(autouse=True, scope="session")
def own_cut() -> None:
    """Small networks, too, take the backward pass that is meant for large ones, so that it is tested."""
    target.LARGE = 0


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Every test starts from the same random numbers, in whatever order the tests run."""
    torch.manual_seed(20)


@pytest.fixture
def double() -> Iterator[None]:
    """Compute in float64, in which slow twins agree to many digits."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


class NormalizedNet(nn.Module):
    """A small network with batch norm, and so with buffers."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.first = nn.Linear(inputs, 8)
        self.norm = nn.BatchNorm1d(8)
        self.last = nn.Linear(8, outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.norm(self.first(x)).relu())


@pytest.fixture
def normalized_net(monkeypatch) -> type[nn.Module]:
    """Register a network with batch norm under the name 'normalized'."""
    monkeypatch.setitem(NETWORKS, "normalized", lambda config, shape, outputs: NormalizedNet(shape[0], outputs))
    return NormalizedNet


@pytest.fixture
def problem() -> Callable[..., Problem]:
    """Make the problem of the blobs below; settings of the optimizer and of the target may be given.

    With shape = (9,) it is the problem of the pictures.
    """

    def make(
        n_tasks: int = 3,
        target: TargetConfig | None = None,
        kind: TaskKind = TaskKind.CLASSIFICATION,
        label_smoothing: float = 0.0,
        outputs: int = 2,
        shape: tuple[int, ...] = (4,),
        scenario: Scenario = Scenario.CL1,
        **optimizer,
    ) -> Problem:
        target, moves = target or TargetConfig(hidden=(6,)), OptimizerConfig(**optimizer)
        return Problem(kind, n_tasks, shape, outputs, target, moves, label_smoothing, scenario)

    return make


@pytest.fixture
def blobs() -> TaskStream:
    """Three tasks to tell two clouds apart that lie in other directions for each task."""
    random = torch.Generator().manual_seed(3)

    def examples(axis: int, n: int) -> Examples:
        targets = torch.arange(n) % 2
        inputs = 0.4 * torch.randn(n, 4, generator=random, dtype=torch.float64)
        inputs[:, axis] += 2.0 * targets - 1
        return Examples(inputs.to(torch.get_default_dtype()), targets)

    tasks = (Task(f"axis {axis}", examples(axis, 64), examples(axis, 64)) for axis in range(3))
    return TaskStream("blobs", TaskKind.CLASSIFICATION, tuple(tasks), (4,), 2)


@pytest.fixture
def batch_of(blobs) -> Callable[[int, int], Batch]:
    """Make the batch of a task and a step, with some of each earlier task beside it."""
    return batches_of(blobs)


@pytest.fixture
def pictures() -> TaskStream:
    """Three tasks of two classes; each class has a bright pixel of its own among nine, from 0 to 1."""
    random = torch.Generator().manual_seed(4)

    def examples(task: int, n: int) -> Examples:
        targets = torch.arange(n) % 2
        inputs = 0.2 * torch.rand(n, 9, generator=random, dtype=torch.float64)
        inputs[torch.arange(n), 2 * task + targets] += 0.8
        return Examples(inputs.to(torch.get_default_dtype()), targets)

    tasks = (Task(f"picture {task}", examples(task, 64), examples(task, 32)) for task in range(3))
    return TaskStream("pictures", TaskKind.CLASSIFICATION, tuple(tasks), (9,), 2)


@pytest.fixture
def noisy() -> TaskStream:
    """Three tasks to tell a dark pixel of their own from a bright one, amid eight pixels of noise.

    What one task needs is noise to the others, and so it is unlearned with them, unless it is protected.
    """
    random = torch.Generator().manual_seed(4)

    def examples(task: int, n: int) -> Examples:
        targets = torch.arange(n) % 2
        inputs = 0.5 + 0.15 * torch.randn(n, 9, generator=random, dtype=torch.float64)
        inputs[:, task] += 0.3 * (2 * targets - 1)
        return Examples(inputs.clamp(0, 1).to(torch.get_default_dtype()), targets)

    tasks = (Task(f"noisy {task}", examples(task, 64), examples(task, 64)) for task in range(3))
    return TaskStream("noisy", TaskKind.CLASSIFICATION, tuple(tasks), (9,), 2)


@pytest.fixture
def picture_batch(pictures) -> Callable[[int, int], Batch]:
    """Make the batch of a task of pictures and a step, with some of each earlier task beside it."""
    return batches_of(pictures)


@pytest.fixture
def noisy_batch(noisy) -> Callable[[int, int], Batch]:
    """Make the batch of a noisy task and a step."""
    return batches_of(noisy)


def batches_of(stream: TaskStream) -> Callable[[int, int], Batch]:
    def take(task_id: int, step: int, past: bool = True) -> Batch:
        index = (torch.arange(16) * 5 + 7 * step) % 64
        earlier = tuple(take(t, step, past=False) for t in range(task_id)) if past else ()
        return Batch(task_id, *stream.tasks[task_id].train.batch(index), earlier)

    return take
