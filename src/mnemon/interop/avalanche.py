"""Learn and evaluate Avalanche's experiences and benchmarks; avalanche itself is not needed.

An experience has a `dataset`, its number `current_experience` and often a `task_label`; a stream is a sequence of
experiences, a benchmark has a `train_stream` and a `test_stream`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from mnemon.continual.data import Inputs, collect
from mnemon.continual.model import ContinualModel
from mnemon.errors import UsageError

Metrics = dict[str, float]
"""Accuracies from 0 to 1 by the names that Avalanche gives them."""


class ContinualStrategy:
    """Learns experiences of Avalanche with a `ContinualModel`. Avalanche itself is not needed.

    Example:
        >>> from types import SimpleNamespace
        >>> def experience(number):
        ...     dataset = [(torch.rand(4), int(i) % 2) for i in range(20)]
        ...     return SimpleNamespace(dataset=dataset, current_experience=number, task_label=number)
        >>> strategy = mnemon.ContinualStrategy(mnemon.ContinualModel(nn.Linear(4, 2)), steps=3, quiet=True)
        >>> list(strategy.train(experience(0)))
        ['Top1_Acc_Epoch/train_phase/train_stream/Task000']
    """

    def __init__(
        self,
        model: ContinualModel,
        *,
        infer: bool | None = None,
        epochs: float | None = None,
        steps: int | None = None,
        batch_size: int = 64,
        quiet: bool = False,
    ):
        """Learn with a model, as `ContinualModel.learn` does. The model keeps what was learned.

        Args:
            model: The model.
            infer: Infer the task of test inputs. Default: the task is told if every experience has a task label of
                its own, and inferred if they share one, as in class-incremental benchmarks.
            epochs: How many passes over the data to learn.
            steps: How many batches to learn, instead of `epochs`.
            batch_size: Examples per batch.
            quiet: Show no progress bar.
        """
        self.model, self.infer = model, infer
        self.epochs, self.steps, self.batch_size, self.quiet = epochs, steps, batch_size, quiet

    def train(self, experiences: Any) -> Metrics:
        """Learn one experience or several, each as a new task.

        Args:
            experiences: An experience or a stream of them.

        Returns:
            The training accuracies, by Avalanche's names.

        Raises:
            UsageError: This is no experience, or the data do not fit the module.
        """
        found: Metrics = {}
        for experience in _list_experiences(experiences):
            learned = self.model.learn(
                experience.examples("train"),
                experience.task_name,
                epochs=self.epochs,
                steps=self.steps,
                batch_size=self.batch_size,
                loss="classes",
                quiet=self.quiet,
            )
            found[experience.metric("Top1_Acc_Epoch", "train")] = learned.score / 100
        return found

    def eval(self, experiences: Any) -> Metrics:
        """Measure the accuracy on one experience or several.

        Experiences that were not learned yet count, too; they are answered by the tasks that were learned.

        Args:
            experiences: An experience or a stream of them.

        Returns:
            The accuracies, by Avalanche's names.

        Raises:
            UsageError: This is no experience, or nothing was learned yet.

        Example:
            >>> "Accuracy_On_Trained_Experiences/eval_phase/test_stream/Task000" in strategy.eval([experience(0)])
            True
        """
        found: Metrics = {}
        all_right, trained_right = [], []
        for experience in _list_experiences(experiences):
            right = self._right(experience)
            found[f"{experience.metric('Top1_Acc_Exp', 'eval')}/{experience.exp}"] = _mean([right])
            all_right.append(right)
            if experience.task_name in self.model.tasks:
                trained_right.append(right)
        # As Avalanche does it, the whole stream is named after its last experience.
        found[experience.metric("Top1_Acc_Stream", "eval")] = _mean(all_right)
        if trained_right:
            found[experience.metric("Accuracy_On_Trained_Experiences", "eval")] = _mean(trained_right)
        return found

    def run(self, benchmark: Any) -> list[Metrics]:
        """Learn the training stream of a benchmark, and evaluate on its test stream after every experience.

        Args:
            benchmark: It has a `train_stream` and a `test_stream`.

        Returns:
            The accuracies after each experience.

        Raises:
            UsageError: This is no benchmark of Avalanche.
        """
        if not (hasattr(benchmark, "train_stream") and hasattr(benchmark, "test_stream")):
            name = type(benchmark).__name__
            raise UsageError(f"A benchmark of Avalanche has a train_stream and a test_stream; {name} has not.")
        found = []
        for experience in benchmark.train_stream:
            learned = self.train(experience)
            found.append({**learned, **self.eval(benchmark.test_stream)})
        return found

    def _right(self, experience: _Experience) -> Tensor:
        """Tell for each input whether its predicted class is right."""
        inputs, targets = experience.examples("eval")
        return self.model.predict(inputs, task=self._told(experience)).label.cpu() == targets

    def _told(self, experience: _Experience) -> str | None:
        """Return the task of an experience, if it is told and was learned."""
        if self.infer:
            return None
        if experience.task is not None:
            alike = [name for name in self.model.tasks if name.split("/")[0] == experience.task]
            if len(alike) == 1:
                return alike[0]
        return experience.task_name if self.infer is False and experience.task_name in self.model.tasks else None


@dataclass(frozen=True)
class _Experience:
    """The parts of an experience that are used."""

    dataset: Any
    exp: str
    """Its number, as Avalanche writes it in names."""
    task: str | None
    """Its task label likewise; None if there is none, or more than one."""
    stream: str | None

    @property
    def task_name(self) -> str:
        """The name of the task that it is learned as."""
        return self.exp if self.task is None else f"{self.task}/{self.exp}"

    def metric(self, name: str, phase: str) -> str:
        """Return the name of a metric of this experience's task."""
        stream = self.stream or {"train": "train", "eval": "test"}[phase]
        end = "" if self.task is None else f"/{self.task}"
        return f"{name}/{phase}_phase/{stream}_stream{end}"

    def examples(self, phase: str) -> tuple[Inputs, Tensor]:
        """Return its inputs and classes, with the transforms that are meant for training or for evaluation."""
        chosen = getattr(self.dataset, phase, None)
        found = collect(_Pairs(chosen() if callable(chosen) else self.dataset), f"experience {self.task_name}")
        return found.inputs, found.targets


class _Pairs:
    """A data set of inputs and classes, without the task labels that may follow them."""

    def __init__(self, dataset: Any):
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        inputs, target, *_ = self.dataset[index]
        return inputs, target


def _list_experiences(experiences: Any) -> list[_Experience]:
    """Return one experience or many as a list."""
    if hasattr(experiences, "dataset"):
        return [_read(experiences)]
    if not isinstance(experiences, Iterable):
        raise UsageError(f"This takes an experience or a stream of Avalanche, not {type(experiences).__name__}.")
    found = [_read(experience) for experience in experiences]
    if not found:
        raise UsageError("The stream has no experiences.")
    return found


def _read(experience: Any) -> _Experience:
    label = _task_label(experience)
    number = getattr(experience, "current_experience", label)
    if number is None or not hasattr(experience, "dataset"):
        name = type(experience).__name__
        raise UsageError(
            f"An experience of Avalanche has a dataset and a number (current_experience); {name} has not."
        )
    stream = getattr(getattr(experience, "origin_stream", None), "name", None)
    task = None if label is None else f"Task{label:03}"
    return _Experience(experience.dataset, f"Exp{number:03}", task, stream)


def _task_label(experience: Any) -> int | None:
    labels = getattr(experience, "task_labels", None)
    if labels is None:
        label = getattr(experience, "task_label", None)
        return None if label is None else int(label)
    return int(next(iter(labels))) if len(labels) == 1 else None


def _mean(rights: list[Tensor]) -> float:
    """Return the share of right answers among all inputs."""
    return sum(int(right.sum()) for right in rights) / sum(len(right) for right in rights)
