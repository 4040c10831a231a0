"""Recognise the task of an input by sums over features of the inputs of every task.

For each task there are the sums of its classes, and the products of deviations within its classes. Together they give
a Gaussian for each class, with one shared covariance (`inference/gaussian.py`). Later tasks do not change a task's
sums. No input is stored. Forgetting a task removes its sums; the rest is as if it had never been learned.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from mnemon.continual.adapters import AdaptedLinear
from mnemon.continual.data import Data, Inputs
from mnemon.continual.learned_task import Signature, signature
from mnemon.continual.learner import ModuleLearner
from mnemon.continual.objective import Goal, ObjectiveKind
from mnemon.errors import UsageError, choose
from mnemon.inference.base import vote as averaged
from mnemon.inference.features import (
    FITTED_ON,
    AbstractFeatures,
    LayerFeatures,
    RandomFeatures,
    features_for,
    n_numbers_of,
)
from mnemon.inference.gaussian import SharedGaussian, best_sharpness
from mnemon.inference.sums import ClassSums, packed, side_by_side, unpacked, width_within

CALIBRATED_ON = 2000
"""Training inputs of a task with which its recognition is measured (leave-one-out)."""
BATCH = 2000
"""Inputs that are added up at once."""
PER_NUMBER = 16
"""Maximum features per number of an input: more would add no information."""
OWN_RIDGE = 0.01
"""Ridge of a task's own Gaussian, as a share of the mean variance."""
WIDEST = 20_000
"""Features at most: their Gram matrix would take 1.6 GB."""
LEAST, HARDLY = 64, 0.2
"""Minimum number of features; share of a task's inputs assigned to another task above which both are reported."""


@dataclass(frozen=True)
class Statistics:
    """How tasks are recognised by sums over features of their inputs.

    Example:
        >>> recognise = mnemon.Statistics(width=500, false_alarms=0.01)
        >>> model = mnemon.ContinualModel(nn.Linear(4, 3), recognise=recognise)
    """

    width: int = 1000
    """Maximum number of features."""
    room: int = 32_000_000
    """Maximum bytes of the sums: the more tasks there are, the fewer features are kept."""
    false_alarms: float = 0.05
    """Share of a task's own inputs that may be called unknown."""
    layer: str = ""
    """Name of the layer of the original module whose outputs are the features. If empty: random features of the
    inputs, or the inputs of the last layer if adapters or generate leave the rest of the module frozen."""
    features: Callable[[Inputs], Tensor] | None = None
    """Your own function from inputs to features [n, any]; it is not saved in files: give it to `load` again."""

    def __post_init__(self) -> None:
        for name, least in (("width", 1), ("room", 1000)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise UsageError(f"{name} must be a whole number of at least {least}, not {value!r}.")
        if self.width > WIDEST:
            raise UsageError(f"width must be at most {WIDEST:,}, not {self.width:,}.")
        if not isinstance(self.false_alarms, (int, float)) or not 0 < self.false_alarms < 1:
            raise UsageError(f"false_alarms must be above 0 and below 1, not {self.false_alarms!r}.")
        if not isinstance(self.layer, str):
            raise UsageError(f"layer must be the name of a layer, not {self.layer!r}.")
        if self.features is not None and (self.layer or not callable(self.features)):
            raise UsageError("features must be a function of the inputs; layer must be empty then.")


class Way(str, Enum):
    """How tasks are recognised."""

    STATISTICS = "statistics"
    """By sums over features of their inputs."""
    FEATURES = "features"
    """The same, with a function of the user's for the features."""
    DENSITY = "density"
    """By a density of each task's inputs."""
    ENTROPY = "entropy"
    """By the network with the lowest entropy, relative to the task's usual entropy."""
    OWN = "own"
    """By the user's own object."""
    NONE = "none"
    """Not at all."""


def way_of(recognise: Any) -> tuple[str, Statistics, Any]:
    """Return how the user chose to recognise tasks, the settings, and the user's own object or function."""
    if recognise is None:
        return Way.NONE.value, Statistics(), None
    if isinstance(recognise, Statistics):
        way = Way.STATISTICS if recognise.features is None else Way.FEATURES
        return way.value, recognise, recognise.features
    if isinstance(recognise, str):
        ways = dict.fromkeys(way.value for way in (Way.STATISTICS, Way.DENSITY, Way.ENTROPY))
        choose("way to recognise tasks", recognise, ways)
        return recognise, Statistics(), None
    return Way.OWN.value, Statistics(), recognise


class Recogniser(Protocol):
    """Your own object that recognises tasks: these two methods.

    Example:
        >>> class ByBrightness:
        ...     def __init__(self):
        ...         self.usual = {}
        ...
        ...     def learn(self, inputs, targets, task):
        ...         self.usual[task] = inputs[0].mean()
        ...
        ...     def scores(self, inputs):
        ...         bright = inputs[0].mean(1)
        ...         return {task: -(bright - usual).abs() for task, usual in self.usual.items()}
        >>> model = mnemon.ContinualModel(nn.Linear(4, 3), recognise=ByBrightness())
        >>> x, y = torch.rand(60, 4), torch.arange(60) % 3
        >>> dim = model.learn((x / 9, y), task="dim", steps=5, quiet=True)
        >>> bright = model.learn((x, y), task="bright", steps=5, quiet=True)
        >>> model.recognise(torch.zeros(1, 4))
        ['dim']
    """

    def learn(self, inputs: Inputs, targets: Tensor, task: str) -> None:
        """Learn from the training examples of a task that was just learned."""

    def scores(self, inputs: Inputs) -> dict[str, Tensor]:
        """Return a score [n] for each task by its name: the larger, the likelier. 'unknown' may be among them."""


@dataclass(frozen=True)
class Recognised:
    """The inferred tasks of some inputs."""

    index: Tensor
    """Index of the inferred task [n]."""
    known: Tensor
    """Whether the input is like those of the task [n]."""
    probability: Tensor | None = None
    """Probability of each class of each task [n, classes of all tasks]."""


@dataclass(frozen=True)
class Strangeness:
    """How unusual an input of a task may be: median and spread of two measures, and an upper bound."""

    middle: tuple[float, float]
    spread: tuple[float, float]
    bound: float

    @classmethod
    def from_measures(cls, measures: Tensor, false_alarms: float) -> Strangeness:
        """Compute median and spread of measures [n, 2], and the bound that only a share of `false_alarms` exceeds."""
        middle = measures.quantile(0.5, dim=0)
        spread = (measures.quantile(0.95, dim=0) - middle).clamp_min(1e-6)
        found = cls(_pair(middle), _pair(spread), math.inf)
        return replace(found, bound=float(found.of(measures).quantile(1 - false_alarms)))

    def of(self, measures: Tensor) -> Tensor:
        """Return how unusual inputs are [n]: the larger of both measures."""
        return ((measures - torch.tensor(self.middle).to(measures)) / torch.tensor(self.spread).to(measures)).amax(1)


@dataclass(frozen=True)
class TaskSums:
    """The sums of a task, and what was measured when it was learned."""

    counts: Tensor
    sums: Tensor
    within: Tensor
    """Products of deviations from the own class's mean, packed, in float32."""
    sharpness: float
    strangeness: Strangeness
    right: float
    """Share of its training inputs whose task was identified (leave-one-out) when it was learned."""
    rivals: tuple[tuple[int, float], ...]
    """Serial numbers of other tasks, and the share of inputs assigned to them."""

    @property
    def nbytes(self) -> int:
        """The bytes that it takes."""
        return self.counts.nbytes + self.sums.nbytes + self.within.nbytes

    def class_sums(self) -> ClassSums:
        """Return it as sums that can be added to others."""
        width = self.sums.shape[1]
        means = self.sums / self.counts.clamp_min(1)[:, None]
        square = unpacked(self.within.double(), width) + self.sums.T @ means
        return ClassSums(self.counts, self.sums, packed(square))

    def narrowed(self, width: int) -> TaskSums:
        """Return it for the first features alone."""
        if width >= self.sums.shape[1]:
            return self
        return replace(
            self, sums=self.sums[:, :width].clone(), within=self.within[: width * (width + 1) // 2].clone()
        )


@dataclass(frozen=True)
class KeptRecognition:
    """The state of a recogniser, to restore."""

    features: AbstractFeatures | None
    inputs: Signature
    tasks: tuple[TaskSums, ...]


class OwnGaussian:
    r"""The Gaussian of one task alone. It detects inputs that are of no task.

    The two measures are $D / w$ and $\log D - \log B$, for w features. D is the distance to the nearest class of the
    task, and B the distance to the mean of all its inputs. The second measure detects inputs that are near to all
    classes but typical of none, such as a faint image.
    """

    def __init__(self, sums: ClassSums):
        self.gaussian = SharedGaussian(sums, [len(sums.counts)], OWN_RIDGE)
        self.width = sums.width

    def measures(self, features: Tensor) -> Tensor:
        """Return both measures of inputs [n, 2]."""
        return self._measures(self.gaussian.distances(features), self.gaussian.from_centre(features))

    def measures_left_out(self, features: Tensor, classes: Tensor) -> Tensor:
        """Return both measures of training inputs, each left out of the sums (leave-one-out)."""
        distances = self.gaussian.distances_left_out(features, classes)
        return self._measures(distances, self.gaussian.from_centre_left_out(features))

    def _measures(self, distances: Tensor, centre: Tensor) -> Tensor:
        far = distances.amin(1).clamp_min(1e-12)
        return torch.stack([far / self.width, far.log() - centre.clamp_min(1e-12).log()], dim=1)


class StatisticsRecogniser:
    """Infers tasks from the sums of all tasks, which are in the order of the tasks."""

    def __init__(self, settings: Statistics, seed: int, run: Callable[[Inputs], Tensor] | None):
        """Take the settings, and the function that computes the features; None for random features of the inputs."""
        self.settings, self.seed, self.run = settings, seed, run
        self.features: AbstractFeatures | None = None
        self.inputs: Signature = ()
        """Form of the inputs of the first task."""
        self.tasks: list[TaskSums] = []
        self._again: TaskSums | None = None
        """The sums of a task that is learned again."""
        self._asked: SharedGaussian | None = None
        self._owns: dict[int, OwnGaussian] = {}
        self._whole: ClassSums | None = None

    # Learning

    def learn(self, data: Data, goal: Goal, serials: Sequence[int]) -> None:
        """Add the sums of a task, the last of those with these serial numbers."""
        self._make_features(data)
        classes, n_classes = classes_of(data, goal)
        index = torch.arange(len(data), device=data.device)
        batches = ((self._of(data.batch(part)[0]), classes[part]) for part in index.split(BATCH))
        found = ClassSums.over(batches, n_classes)
        again, self._again = self._again, None
        if again is not None and len(again.counts) == n_classes:
            width = min(found.width, again.sums.shape[1])
            found = found.narrowed(width) + again.narrowed(width).class_sums()
        unmeasured = Strangeness((0.0, 0.0), (1.0, 1.0), math.inf)
        within = packed(found.scatter_within()).float()
        self._add(TaskSums(found.counts, found.sums, within, 1.0, unmeasured, 1.0, ()))
        picked = torch.randperm(len(data))[:CALIBRATED_ON].to(data.device)
        measured = self._measure(data.batch(picked)[0], classes[picked], serials)
        self.tasks[-1] = measured

    def begin_again(self, index: int) -> None:
        """Remove the sums of a task that is learned again; they are added to its new sums later."""
        self._again = self.tasks[index]
        self.select([t for t in range(len(self.tasks)) if t != index])

    def select(self, order: Sequence[int]) -> None:
        """Keep these tasks, in this order."""
        self._set([self.tasks[index] for index in order])

    def kept(self) -> KeptRecognition:
        """Return a copy of the state."""
        return KeptRecognition(self.features, self.inputs, tuple(self.tasks))

    def put_back(self, kept: KeptRecognition) -> None:
        """Restore a copy of the state."""
        self.features, self.inputs, self._again = kept.features, kept.inputs, None
        self._set(list(kept.tasks))

    def _add(self, task: TaskSums) -> None:
        whole = self._whole
        self._set([*self.tasks, task])
        if whole is not None and whole.width == self.width:  # not all of them again for each new one
            self._whole = side_by_side([whole, self.tasks[-1].class_sums()])

    def _set(self, tasks: list[TaskSums]) -> None:
        """Keep the sums of these tasks, with as many features as there is room for."""
        width = self.width_for([len(task.counts) for task in tasks]) if tasks else 0
        self.tasks = [task.narrowed(min(width, *(len(t.sums[0]) for t in tasks))) for task in tasks]
        self._whole, self._asked, self._owns = None, None, {}

    def width_for(self, n_classes: Sequence[int]) -> int:
        """Return how many features the sums may have, given the number of classes of each task."""
        assert self.features is not None
        return width_within(self.settings.room, self.features.width, sum(n_classes), len(n_classes), 4)

    def give_up(self, n_tasks: int) -> None:
        """Keep only the first tasks; drop a task that was to be learned again."""
        self._again = None
        self.select(range(min(n_tasks, len(self.tasks))))

    # Answering

    def recognise(self, inputs: Inputs, allowed: Sequence[bool], vote: int = 1) -> Recognised:
        """Infer the task of each input among the allowed tasks; `vote` inputs in a row get the same task."""
        gaussian, features = self.gaussian(), self._of(inputs)
        distances = gaussian.distances(features)
        likely = gaussian.log_probability(distances, self.sharpness())
        by_task = gaussian.by_task(likely)
        by_task[:, ~torch.tensor(allowed)] = -math.inf
        index = averaged(by_task, vote).argmax(1)
        strange = torch.zeros(len(index), dtype=torch.float64)
        bound = torch.tensor([task.strangeness.bound for task in self.tasks], dtype=torch.float64)[index]
        for task in index.unique().tolist():
            of = index == task
            strange[of] = self.tasks[task].strangeness.of(self._own(task).measures(features[of]))
        return Recognised(index, averaged(strange[:, None], vote)[:, 0] <= bound, likely.exp())

    def gaussian(self) -> SharedGaussian:
        """Return the Gaussians of all classes, computed at the first call."""
        if self._asked is None:
            if self._whole is None:
                self._whole = side_by_side(task.class_sums() for task in self.tasks)
            self._asked = SharedGaussian(self._whole, [len(task.counts) for task in self.tasks])
        return self._asked

    def sharpness(self) -> float:
        """Return the sharpness of the probabilities: the geometric mean over all tasks."""
        return math.exp(sum(math.log(task.sharpness) for task in self.tasks) / len(self.tasks))

    @property
    def width(self) -> int:
        """Number of features."""
        return self.tasks[0].sums.shape[1] if self.tasks else 0

    @property
    def nbytes(self) -> int:
        """The bytes that the sums take."""
        return sum(task.nbytes for task in self.tasks)

    # Measuring

    def _measure(self, inputs: Inputs, classes: Tensor, serials: Sequence[int]) -> TaskSums:
        """Return the newest task's sums with measurements on some of its inputs (leave-one-out)."""
        gaussian, features, newest = self.gaussian(), self._of(inputs), len(self.tasks) - 1
        own = classes.cpu() + sum(gaussian.n_classes[:-1])
        distances = gaussian.distances_left_out(features, own)
        sharpness = best_sharpness(gaussian, distances, own)
        taken_for = gaussian.by_task(gaussian.log_probability(distances, sharpness)).argmax(1)
        shares = (taken_for.bincount(minlength=newest + 1).double() / len(taken_for)).tolist()
        measures = self._own(newest).measures_left_out(features, classes)
        return replace(
            self.tasks[-1],
            sharpness=sharpness,
            strangeness=Strangeness.from_measures(measures, self.settings.false_alarms),
            right=shares[newest],
            rivals=tuple((serial, share) for serial, share in zip(serials[:-1], shares, strict=False) if share),
        )

    def _own(self, task: int) -> OwnGaussian:
        """Return the Gaussian of a task alone, computed at the first call."""
        if task not in self._owns:
            self._owns[task] = OwnGaussian(self.tasks[task].class_sums())
        return self._owns[task]

    # Features

    def _of(self, inputs: Inputs) -> Tensor:
        assert self.features is not None
        found = self.features.to(inputs[0].device).of(inputs)
        return found[:, : self.width] if self.tasks else found

    def _make_features(self, data: Data) -> None:
        if self.features is not None:
            return
        picked = torch.randperm(len(data))[:FITTED_ON].to(data.device)
        inputs, _ = data.batch(picked)
        self.inputs = signature(inputs)
        self.features = self.form_of_features().to(data.device)
        self.features.fit(inputs)

    def form_of_features(self) -> AbstractFeatures:
        """Return features for inputs like the first task's, not yet fitted to data."""
        if self.run is not None:
            return LayerFeatures(self.run, self.settings.width, self.seed, isinstance(self.run, LayerOutputs))
        shapes = [shape for shape, _ in self.inputs]
        whole = [is_whole(dtype) for _, dtype in self.inputs]
        if len(shapes) == 1 and not whole[0]:
            return features_for(shapes[0], self._width(math.prod(shapes[0])), self.seed)
        n_numbers = sum(n_numbers_of(shape, w) for shape, w in zip(shapes, whole, strict=True))
        return RandomFeatures(n_numbers, self._width(n_numbers), self.seed)

    def _width(self, n_numbers: int) -> int:
        return min(self.settings.width, max(LEAST, PER_NUMBER * n_numbers))


class LayerOutputs:
    """The inputs or outputs of a layer of the original module."""

    def __init__(self, learner: ModuleLearner, name: str, before: bool):
        self.learner, self.name, self.before = learner, name, before

    def __call__(self, inputs: Inputs) -> Tensor:
        """Run the module and return the inputs or outputs of the layer."""
        layer, caught = self.learner.memory.target.module.get_submodule(self.name), list[Any]()
        if self.before:
            handle = layer.register_forward_pre_hook(lambda _, given: caught.append(given[0]))
        else:
            handle = layer.register_forward_hook(lambda _, given, found: caught.append(found))
        try:
            self.learner.start(inputs, training=False)
        finally:
            handle.remove()
        if not caught or not isinstance(caught[-1], Tensor):
            raise UsageError(f"Layer '{self.name}' returns no tensor when the module runs: choose another layer.")
        return caught[-1].detach()


def layer_of(learner: ModuleLearner, name: str) -> LayerOutputs | None:
    """Return the layer of a module whose outputs are the features; None if they are of the inputs.

    Without a name, and if a part of the module is frozen, they are the inputs of the last linear layer.
    """
    target = learner.memory.target
    layers = dict(target.module.named_modules())
    if name:
        choose("layer", name, {key: None for key in layers if key})
        return LayerOutputs(learner, name, before=False)
    free = {slot.name for slot in target.slots}
    if all(key in free for key, _ in target.module.named_parameters()):
        return None
    linear = [key for key, layer in layers.items() if key and isinstance(layer, (nn.Linear, AdaptedLinear))]
    outer = [key for key in linear if not isinstance(layers.get(key.rpartition(".")[0]), AdaptedLinear)]
    return LayerOutputs(learner, outer[-1], before=True) if outer else None


def classes_of(data: Data, goal: Goal) -> tuple[Tensor, int]:
    """Return each example's class and the number of classes; one class for all if examples have no single class."""
    if goal.kind is ObjectiveKind.CLASSES and data.targets.ndim == 1 and bool((data.targets >= 0).all()):
        return data.targets, len(goal.classes)
    return torch.zeros(len(data), dtype=torch.long, device=data.device), 1


def is_whole(dtype: str) -> bool:
    """Tell whether inputs of a type are integers, such as token ids."""
    return dtype.startswith(("int", "uint")) and dtype != "uint8"


def _pair(values: Tensor) -> tuple[float, float]:
    first, second = values.tolist()
    return first, second


class OwnRecogniser:
    """The user's own object, and the names by which it knows the tasks."""

    def __init__(self, recogniser: Any):
        for name in ("learn", "scores"):
            if not callable(getattr(recogniser, name, None)):
                raise UsageError(
                    "recognise must be 'statistics', 'density', 'entropy', None, Statistics(...) or an object with "
                    f"the methods learn and scores; {type(recogniser).__name__} has no {name}."
                )
        self.recogniser = recogniser
        self.called: dict[str, str] = {}
        """The original name of each task that was renamed."""

    def learn(self, inputs: Inputs, targets: Tensor, task: str) -> None:
        """Show it the training examples of a task."""
        self.recogniser.learn(inputs, targets, task)

    def rename(self, task: str, name: str) -> None:
        """Remember the new name of a task."""
        self.called[name] = self.called.pop(task, task)

    def recognise(self, inputs: Inputs, names: Sequence[str], allowed: Sequence[bool], vote: int) -> Recognised:
        """Infer the task of each input among the allowed tasks."""
        scores, n = self.recogniser.scores(inputs), len(inputs[0])
        if not isinstance(scores, dict):
            raise UsageError(
                f"scores must return a dict from names of tasks to tensors, not {type(scores).__name__}."
            )
        columns = [
            torch.as_tensor(scores[self.called.get(name, name)]).cpu().double().reshape(n)
            if self.called.get(name, name) in scores and may
            else torch.full((n,), -math.inf, dtype=torch.float64)
            for name, may in zip(names, allowed, strict=True)
        ]
        by_task = averaged(torch.stack(columns, dim=1), vote)
        best, index = by_task.max(1)
        known = best > -math.inf
        if "unknown" in scores:
            known &= best >= averaged(torch.as_tensor(scores["unknown"]).cpu().double().reshape(n, 1), vote)[:, 0]
        return Recognised(index, known)


# The summary for users


@dataclass(frozen=True)
class Recognition:
    """How well tasks are told apart by their inputs, measured when each was learned.

    Example:
        >>> model = mnemon.ContinualModel(nn.Linear(4, 2))
        >>> x, y = torch.rand(60, 4), torch.arange(60) % 2
        >>> for task, inputs in (("one", x), ("far", x + 5), ("same", x)):
        ...     learned = model.learn((inputs, y), task=task, steps=5, quiet=True)
        >>> [(task, other) for task, other, share in model.recognition().confused]
        [('same', 'one')]
    """

    tasks: tuple[str, ...]
    right: tuple[float, ...]
    """Task identification accuracy in percent on each task's training inputs (leave-one-out), when it was learned."""
    confused: tuple[tuple[str, str, float], ...]
    """A task, another task, and the percentage of its inputs that were assigned to the other one, if above 20 %."""
    features: int
    """Number of features."""
    n_bytes: int
    """Bytes that the sums take."""

    def __str__(self) -> str:
        """Return lines of text; tasks that are hard to tell apart come first."""
        lines = [
            f"'{task}' is hard to tell from '{other}': {share:.0f} % of its inputs were assigned to "
            f"'{other}'. Give the "
            "task, or several inputs of one task: vote=10."
            for task, other, share in self.confused
        ]
        width = max(len(task) for task in self.tasks)
        lines += [
            f"{task:<{width}}  {right:5.1f} % recognised" for task, right in zip(self.tasks, self.right, strict=True)
        ]
        return "\n".join([*lines, f"{self.features:,} features, {self.n_bytes:,} bytes"])


def recognition_of(sums: StatisticsRecogniser, names: Sequence[str], serials: Sequence[int]) -> Recognition:
    """Return how well tasks of these names and serial numbers are told apart."""
    name_of = dict(zip(serials, names, strict=True))
    confused = tuple(
        (name, name_of[serial], 100 * share)
        for name, task in zip(names, sums.tasks, strict=True)
        for serial, share in task.rivals
        if serial in name_of and share >= HARDLY
    )
    right = tuple(100 * task.right for task in sums.tasks)
    return Recognition(tuple(names), right, confused, sums.width, sums.nbytes)
