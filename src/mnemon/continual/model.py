"""The face for people who have a module, and data that arrives task by task."""

from __future__ import annotations

import math
import numbers
import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from mnemon.continual.adapters import LoRA
from mnemon.continual.data import Data, Inputs, collect, collect_inputs
from mnemon.continual.kinds import IGNORED, Goal, Kind, Loss, goal_for
from mnemon.continual.learner import ModuleLearner
from mnemon.continual.modules import check_functional, copied, float_type, form_of, listed, prepared, said
from mnemon.continual.sizes import hypernet_for
from mnemon.errors import TrainingError, UsageError, choose, suggest
from mnemon.hypernet import HypernetConfig
from mnemon.inference.entropy import entropy
from mnemon.inference.likelihood import DensityConfig, LikelihoodInference
from mnemon.models.vae import DensityVAE
from mnemon.optimizer import OptimizerConfig
from mnemon.problem import pixels_of
from mnemon.regularizers.protected import NewEmbedding, Protection
from mnemon.seeding import derive, own_random_numbers, seed_all
from mnemon.training.batches import Shuffled

if TYPE_CHECKING:
    from mnemon.continual.stream import Switch

Signature = tuple[tuple[tuple[int, ...], str], ...]
"""Shape (without the number of examples) and type of some tensors."""
UNKNOWN = "unknown"
"""What an input is taken for that no task is sure of."""
DENSITY = DensityConfig(encoder=(64, 64), decoder=(64, 64), latent=8, clip=100.0)
"""The model of how a task's inputs look."""
FALSE_ALARMS = 0.05
"""Share of a task's own training inputs that would be called unknown."""
CALIBRATION = 2000
"""Training inputs on which that is measured."""


@dataclass(frozen=True)
class Remembered:
    """What is kept of a task beside its embedding."""

    name: str
    goal: Goal
    inputs: Signature
    """Shape and type of each input of the module."""
    n_examples: int
    """Examples that it was learned from, whenever that was."""
    steps: int
    score: float
    """On the validation data if there were any, else on the training data, right after it was learned."""
    ceiling: float = math.inf
    """Entropy above which an input is not taken for one of this task (classes only)."""
    serial: int = 0
    """Tasks learned before it, forgotten ones too: its random numbers follow from it."""
    losses: tuple[float, ...] = ()
    """Losses on the last batches of a stream, by which the task is known again when it comes back."""


@dataclass(frozen=True)
class Prediction:
    """What the model says of some inputs."""

    task: list[str]
    """The task of each input, as told or as inferred; 'unknown' where no task is sure."""
    label: Tensor
    """The class of each input as the user labels it; truth values, or numbers."""
    confidence: Tensor
    """Probability of the class; NaN where there are no classes."""
    outputs: Tensor | None
    """What the module returned; None where inputs were answered by modules of different tasks."""

    @property
    def known(self) -> Tensor:
        """Whether some task was sure of each input."""
        return torch.tensor([name != UNKNOWN for name in self.task])


@dataclass(frozen=True)
class Settings:
    """How a model learns; all of it is kept in its file."""

    generate: tuple[str, ...] = ("*",)
    adapters: LoRA | None = None
    compression: float | None = None
    beta: float = 0.1
    lr: float = 2e-3
    seed: int = 0
    hypernet: HypernetConfig | None = None
    recognise: str = "entropy"


class ContinualModel:
    """A module that learns task after task and keeps them all, without keeping their data.

    >>> model = ContinualModel(my_module)
    >>> model.learn((inputs, labels), task="monday")
    >>> model.predict(inputs, task="monday").label
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        generate: str | Sequence[str] = "*",
        adapters: LoRA | None = None,
        compression: float | None = None,
        beta: float = 0.1,
        lr: float = 2e-3,
        seed: int = 0,
        hypernet: HypernetConfig | None = None,
        recognise: str = "entropy",
    ):
        """Wrap a copy of a module; the module itself is left alone.

        generate: patterns over parameter names, of what may differ from task to task; the rest stays as it came.
        adapters: put low-rank adapters on linear layers, and let them alone differ.
        compression: parameters of the hypernetwork per generated weight; if not given 1, and more for small modules.
        beta: how firmly earlier tasks are held.
        recognise: how a task is told by its inputs: 'entropy' (whose network is surest; costs nothing), or 'density'
        (a small model of how each task's inputs look is learned beside it; they must lie between 0 and 1).
        """
        patterns = (generate,) if isinstance(generate, str) else tuple(generate)
        choose("way to recognise tasks", recognise, {"entropy": None, "density": None})
        self._settings = Settings(patterns, adapters, compression, beta, lr, _seed(seed), hypernet, recognise)
        self._tasks: list[Remembered] = []
        self._n_learned = 0
        self._n_inputs: int | None = None
        """Numbers in an input, if tasks are recognised by how their inputs look."""
        with own_random_numbers(derive(self._settings.seed, "weights")):
            own, names = prepared(module, patterns, adapters)
            self._form, self._floats = form_of(module), float_type(module)
            size = sum(p.numel() for name, p in own.named_parameters() if name in names)
            protection = Protection(
                beta=beta, new_embedding=NewEmbedding.RANDOM, hypernet=hypernet or hypernet_for(size, compression)
            )
            device = next(iter(own.parameters())).device
            self._learner = ModuleLearner(own, names, protection, OptimizerConfig(lr=lr)).to(device)

    # Learning

    def learn(
        self,
        data: Any,
        task: str,
        *,
        validation: Any = None,
        epochs: float | None = None,
        steps: int | None = None,
        batch_size: int = 64,
        loss: str | Loss = "auto",
        quiet: bool = False,
    ) -> Remembered:
        """Learn a new task from its data; earlier tasks stay as they are.

        loss: 'auto' (whole numbers are classes, truth values are labels, anything else numbers), 'classes', 'labels',
        'numbers', or a function of outputs and targets.
        """
        self._check_new(task)
        found = self._collected(data, loss, task)
        plan = _plan(len(found.data), epochs, steps, batch_size, quiet)
        with self._all_or_nothing():
            self._check_fit(task, found, plan.batch_size)
            tested = self._tested(validation, found.goal, task)
            self._make_densities(found.data)
            self._seed(self._n_learned, 0)
            self._learner.begin_task(len(self._tasks))
            return self._train(task, found, tested, plan)

    def relearn(
        self,
        data: Any,
        task: str,
        *,
        validation: Any = None,
        epochs: float | None = None,
        steps: int | None = None,
        batch_size: int = 64,
        loss: str | Loss = "auto",
        quiet: bool = False,
    ) -> Remembered:
        """Go on with a task that was learned, from more data of it; all others stay as they are."""
        earlier = self.about(task)
        found = self._collected(data, loss, task, earlier.goal)
        plan = _plan(len(found.data), epochs, steps, batch_size, quiet)
        with self._all_or_nothing():
            self._check_fit(task, found, plan.batch_size)
            tested = self._tested(validation, found.goal, task)
            self._seed(self._n_learned, 0)
            self._begin_again(task)
            return self._train(task, found, tested, plan, earlier)

    def _collected(
        self, data: Any, loss: str | Loss, task: str, earlier: Goal | None = None, what: str = "data"
    ) -> Found:
        """Return data as tensors on the model's device, with the goal that follows from them."""
        found = collect(data, what).to(self.device, self._floats)
        goal = goal_for(found.targets, loss)
        if earlier is None:
            if goal.kind is Kind.CLASSES and len(goal.classes) < 2:
                only = f"only class {goal.classes[0]}" if goal.classes else "no class"
                raise UsageError(f"Task '{task}' has {only}: there is nothing to tell apart.")
        elif goal.kind is not earlier.kind:
            remedy = f"these are {goal.kind.value}"
            if Kind.OWN in (goal.kind, earlier.kind):
                remedy = "give it again" if earlier.kind is Kind.OWN else "leave out the loss"
            raise UsageError(f"Task '{task}' was learned with {earlier.kind.in_words}: {remedy}.")
        elif new := sorted({*goal.classes} - {*earlier.classes}):
            raise UsageError(
                f"Task '{task}' has no class {', '.join(str(c) for c in new)}: give a new task the new classes."
            )
        elif goal.kind is not Kind.OWN:
            goal = earlier
        return Found(replace(found, targets=goal.places(found.targets)), goal)

    def _tested(self, validation: Any, goal: Goal, task: str) -> Data | None:
        """Return the validation data, if there are any."""
        if validation is None:
            return None
        found = self._collected(validation, goal.own_loss or goal.kind.value, task, goal, "validation data")
        self._check_fit(task, found)
        return found.data

    def _train(
        self, task: str, found: Found, tested: Data | None, plan: _Plan, earlier: Remembered | None = None
    ) -> Remembered:
        data, serial = found.data, self._n_learned
        batches = Shuffled(data, self._settings.seed, "batches", serial)
        with _progress(task, plan.steps, plan.quiet) as show:
            for step in range(plan.steps):
                self._seed(serial, step + 1)
                inputs, targets = batches.take(step * plan.batch_size, plan.batch_size)
                terms = self._learner.train_step(inputs, targets, found.goal, step / plan.steps)
                loss = float(terms["task_loss"])
                if not math.isfinite(loss):
                    raise TrainingError(
                        f"The loss of task '{task}' became {loss} in step {step + 1}: try a smaller lr. "
                        "The model is as it was before."
                    )
                show(step + 1, loss)
        if not self._learner.is_finite():
            raise TrainingError(
                f"The gradient of task '{task}' became infinite: try a smaller lr. The model is as it was before."
            )
        before = earlier.n_examples if earlier else 0
        return self._finish(task, found, plan.steps, serial, before + len(data), tested)

    def _finish(
        self,
        task: str,
        found: Found,
        steps: int,
        serial: int,
        n_examples: int,
        tested: Data | None = None,
        losses: Iterable[float] = (),
    ) -> Remembered:
        """Put a task away that was learned, with what is known of it."""
        data, goal = found.data, found.goal
        self._seed(serial, steps + 1)
        self._learner.end_task(data.to(self.device, self._learner.floats))
        place = len(self._tasks)
        score = self._score(data if tested is None else tested, place, goal)
        ceiling = self._ceiling(data, place, goal)
        form = signature(data.inputs)
        self._tasks.append(Remembered(task, goal, form, n_examples, steps, score, ceiling, serial, tuple(losses)))
        self._n_learned += 1
        return self._tasks[-1]

    def _begin_again(self, task: str) -> None:
        """Get ready to go on with a task that was learned."""
        place = self._place(task)
        self._learner.begin_again(place)
        del self._tasks[place]

    def learn_stream(
        self,
        batches: Iterable[Any],
        *,
        name: str = "task",
        steps: int = 10,
        recent: int = 8,
        patience: int = 2,
        loss: str | Loss = "auto",
    ) -> list[Switch]:
        """Learn from batches that nobody has cut into tasks; return the changes that were noticed.

        Each batch is judged before it is learned: when `patience` batches in a row are much worse than lately, the
        stream has changed, to a task that it knows or to a new one, which is called `name` and a number. Labels are
        places among the module's outputs. A batch is learned in so many `steps`, together with `recent` ones.
        """
        from mnemon.continual.stream import StreamLearner

        return StreamLearner(self, name, steps, recent, patience, loss).run(batches)

    def _check_fit(self, task: str, found: Found, batch_size: int | None = None) -> None:
        """Try the module on some examples, so that what does not fit is said in words."""
        found.goal.check(self._tried(task, found.data, batch_size), found.data.targets[:2], task)
        if not self._tasks:
            inputs, _ = found.data.batch(slice(2))
            check_functional(self._learner.memory.target, inputs, lambda: self._seed(0, 0))

    def _tried(self, task: str, data: Data, batch_size: int | None = None) -> Any:
        """Return what the module says of two examples; with a size, see that it can learn from batches, too."""
        inputs, _ = data.batch(slice(2))
        try:
            outputs = self._learner.start(inputs, training=False)
            if batch_size is not None:  # batch norm, for one, learns from several examples only
                self._learner.start(data.batch(slice(batch_size))[0], training=True)
        except Exception as error:
            raise UsageError(
                f"The module cannot take the inputs of task '{task}' ({in_words(signature(inputs))}): {said(error)}"
            ) from error
        return outputs

    # Answering

    def predict(self, inputs: Any, task: str | None = None) -> Prediction:
        """Answer inputs of a task; without its name, the task that is surest of each input answers."""
        places = self._all_with_classes() if task is None else [self._place(task)]
        found = collect_inputs(inputs, self.device, self._floats)
        each = [self._told(found, place) for place in places]
        return each[0] if task is not None else self._picked(found, each)

    def _outputs(self, inputs: Inputs, place: int) -> Tensor:
        """Return what a task's network says of inputs."""
        try:
            with own_random_numbers(0):
                return self._learner.outputs(inputs, place)
        except Exception as error:
            learned = self._tasks[place].inputs if place < len(self._tasks) else signature(inputs)
            raise UsageError(
                f"The module cannot take these inputs ({in_words(signature(inputs))}; it was learned with "
                f"{in_words(learned)}): {said(error)}"
            ) from error

    def _told(self, inputs: Inputs, place: int) -> Prediction:
        remembered, outputs = self._tasks[place], self._outputs(inputs, place)
        goal, names = remembered.goal, [remembered.name] * len(inputs[0])
        if goal.kind is Kind.CLASSES:
            outputs = goal.cut(outputs)
            confidence, chosen = outputs.float().softmax(-1).max(-1)
            return Prediction(names, goal.labels(chosen), confidence, outputs)
        nothing = torch.full(outputs.shape[:1], math.nan, device=outputs.device)
        return Prediction(names, outputs > 0 if goal.kind is Kind.LABELS else outputs, nothing, outputs)

    def _picked(self, inputs: Inputs, each: Sequence[Prediction]) -> Prediction:
        """Return for each input the answer of the task that it is taken for."""
        best, sure = self._recognised(inputs, each)
        names = [self.tasks[i] if known else UNKNOWN for i, known in zip(best.tolist(), sure.tolist(), strict=True)]
        rows = torch.arange(len(best), device=best.device)
        label = torch.stack([answer.label for answer in each])[best, rows]
        confidence = torch.stack([answer.confidence for answer in each])[best, rows]
        return Prediction(names, label, confidence, None)

    def _recognised(self, inputs: Inputs, each: Sequence[Prediction]) -> tuple[Tensor, Tensor]:
        """Return the task that each input is taken for, and whether it is likely to be of any."""
        if self._learner.densities is not None:
            scores = self._learner.likelihoods(inputs)
            return scores.argmax(1), self._learner.densities.known(scores)
        lowest, best = torch.stack([_entropy(answer.outputs) for answer in each]).min(0)
        ceilings = torch.tensor([task.ceiling for task in self._tasks], device=best.device)
        return best, lowest <= ceilings[best]

    def _make_densities(self, data: Data) -> None:
        """Make the models of how inputs look, if tasks are recognised by them; their size follows from the inputs."""
        if self._settings.recognise != "density":
            return
        inputs, _ = data.batch(slice(1))
        if not inputs[0].is_floating_point():
            kind = str(inputs[0].dtype).removeprefix("torch.")
            raise UsageError(f"recognise='density' needs inputs of floats or bytes, not {kind}.")
        pixels_of(data.batch(slice(None))[0][0])  # refuses what does not lie between 0 and 1
        self._make_densities_for(inputs[0].numel())

    def _make_densities_for(self, n_inputs: int) -> None:
        settings = self._settings
        if self._n_inputs is not None:
            if n_inputs != self._n_inputs:
                raise UsageError(
                    f"recognise='density' needs inputs of one size: these have {n_inputs} numbers, and not "
                    f"{self._n_inputs}."
                )
            return
        self._n_inputs = n_inputs
        with own_random_numbers(derive(settings.seed, "weights", 1)):
            form = DensityVAE(n_inputs, 1, DENSITY.encoder, DENSITY.decoder, DENSITY.latent)
            hypernet = hypernet_for(sum(p.numel() for p in form.parameters()), settings.compression)
            densities = LikelihoodInference(
                replace(DENSITY, beta=settings.beta, hypernet=hypernet),
                n_inputs,
                1,
                OptimizerConfig(lr=settings.lr),
                from_own=True,
            )
            self._learner.densities = densities.to(self.device)

    def _all_with_classes(self) -> list[int]:
        """Return all tasks, if an input's task can be inferred among them."""
        if not self._tasks:
            raise UsageError("Nothing was learned yet.")
        others = [t.name for t in self._tasks if t.goal.kind is not Kind.CLASSES]
        if others:
            raise UsageError(f"Only tasks of classes can be inferred; say which task it is (such as '{others[0]}').")
        return list(range(len(self._tasks)))

    def evaluate(self, data: Any, task: str, *, infer: bool = False, loss: Loss | None = None) -> float:
        """Return how good the model is on data of a task: accuracy in percent, or the error.

        With infer=True the model is not told the task, and a wrong one is a wrong answer. A loss of one's own is not
        kept in a file: it has to be given again after loading.
        """
        place, goal = self._place(task), self.about(task).goal
        if goal.kind is Kind.OWN:
            goal = replace(goal, own_loss=loss or goal.own_loss)
            if goal.own_loss is None:
                raise UsageError(
                    f"Task '{task}' was learned with a loss of your own, which no file holds: give loss=."
                )
        elif loss is not None:
            raise UsageError(f"Task '{task}' was learned with {goal.kind.value}: it takes no other loss.")
        found = collect(data).to(self.device, self._floats)
        if goal.kind is Kind.CLASSES and found.targets.dtype != torch.long:
            raise UsageError(f"Classes must be whole numbers, not {found.targets.dtype}.")
        found = replace(found, targets=goal.places(found.targets))
        return self._score_inferred(found, task) if infer else self._score(found, place, goal)

    def _score_inferred(self, data: Data, task: str) -> float:
        inputs, targets = data.batch(slice(None))
        answer = self.predict(inputs)
        of_task = torch.tensor([name == task for name in answer.task], device=targets.device)
        counts = targets != IGNORED
        right = self.about(task).goal.places(answer.label) == targets
        right &= of_task.view(-1, *[1] * (targets.ndim - 1))
        return 100.0 * float(right[counts].double().mean())

    def _score(self, data: Data, place: int, goal: Goal) -> float:
        inputs, targets = data.batch(slice(None))
        outputs = self._outputs(inputs, place)
        name = self._tasks[place].name if place < len(self._tasks) else ""
        if goal.kind is not Kind.OWN:
            goal.check(outputs, targets, name)
        return goal.score(outputs, targets)

    def _ceiling(self, data: Data, place: int, goal: Goal) -> float:
        if goal.kind is not Kind.CLASSES:
            return math.inf
        picked = torch.randperm(len(data))[:CALIBRATION].to(data.device)
        inputs, _ = data.batch(picked)
        found = _entropy(goal.cut(self._outputs(inputs, place)))
        return float(found.quantile(1 - FALSE_ALARMS))

    # The tasks

    @property
    def tasks(self) -> list[str]:
        """The names of the tasks that are remembered, in the order in which they were learned last."""
        return [remembered.name for remembered in self._tasks]

    @property
    def device(self) -> torch.device:
        """Where the model computes."""
        return self._learner.device

    def to(self, device: str | torch.device) -> ContinualModel:
        """Move the model to a device."""
        self._learner.to(device)
        return self

    def about(self, task: str) -> Remembered:
        """Return what is kept of a task."""
        return self._tasks[self._place(task)]

    def forget(self, task: str) -> None:
        """Drop a task: its embedding and buffers go, all others stay exactly as they are."""
        place = self._place(task)
        self._learner.arrange([t for t in range(len(self._tasks)) if t != place])
        del self._tasks[place]

    def rename(self, task: str, name: str) -> None:
        """Give a task another name."""
        place = self._place(task)
        if name != task:
            self._check_new(name)
        self._tasks[place] = replace(self._tasks[place], name=name)

    def network(self, task: str) -> nn.Module:
        """Return a task's network as a plain module, in evaluation mode."""
        memory, place = self._learner.memory, self._place(task)
        module = copied(memory.target.module).eval()
        tensors = {**memory.network_weights(place), **memory.buffers_of[place]}
        own = dict(module.named_parameters()) | dict(module.named_buffers())
        with torch.no_grad():
            for name, tensor in tensors.items():
                own[name].copy_(tensor)
        for slot in memory.target.slots:
            own[slot.name].requires_grad_()
        return module

    def save(self, path: str | Path) -> Path:
        """Write the model to one file, from which `mnemon.load(path, module)` takes it up; return its path."""
        from mnemon.continual.files import save

        return save(self, path)

    def export(self, task: str, path: str | Path, example: Any = None) -> Path:
        """Write a task's network to a .safetensors, .pt2 or .onnx file, checked by running it; return its path."""
        import mnemon  # not from where it is: that lies above this

        return mnemon.export(self, task, path, example)

    def _check_new(self, name: str) -> None:
        if not isinstance(name, str) or not name.strip() or name == UNKNOWN:
            raise UsageError(f"A task's name must be some text other than '{UNKNOWN}', not {name!r}.")
        if name in self.tasks:
            raise UsageError(f"There is a task '{name}' already: take another name, relearn it, or forget it first.")

    def _place(self, name: str) -> int:
        if not self._tasks:
            raise UsageError(f"There is no task '{name}': nothing was learned yet.")
        if name not in self.tasks:
            hint = suggest(str(name), self.tasks)
            raise UsageError(f"Unknown task '{name}'.{hint} Choose one of: {listed(self.tasks)}.")
        return self.tasks.index(name)

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Make the model what it was before if what is done within fails, or is stopped."""
        learner, tasks, numbers = self._learner, list(self._tasks), (self._n_learned, self._n_inputs)
        n_tasks, densities, kept = learner.n_tasks, learner.densities, learner.kept()
        with own_random_numbers(0):
            try:
                yield
            except BaseException:
                learner.densities = densities
                learner.give_up()
                learner.arrange(range(n_tasks))
                learner.put_back(kept)
                self._tasks, (self._n_learned, self._n_inputs) = tasks, numbers
                raise

    def _seed(self, serial: int, moment: int) -> None:
        seed_all((derive(self._settings.seed, "step", serial, 0) + moment) % 2**63, self.device)

    def __repr__(self) -> str:
        memory = self._learner.memory
        whole = sum(p.numel() for p in memory.target.module.parameters())
        size, shared = memory.target.size, memory.hypernet.count()
        part = "all" if size == whole else f"{size:,}"
        name, per_task = type(memory.target.module).__name__, memory.numel_per_task
        lines = [
            f"ContinualModel of {name} with {whole:,} weights, {part} of them generated",
            f"  hypernetwork {shared:,} parameters (compression {shared / size:.3f}), {per_task:,} numbers per task",
        ]
        for t in self._tasks:
            unit = " %" if t.goal.kind.higher_is_better else ""
            lines.append(f"  {t.name}: {t.goal.kind.value}, {t.n_examples:,} examples, score {t.score:.4g}{unit}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Found:
    """Data, their targets as places among the outputs, and what is asked of them."""

    data: Data
    goal: Goal


@dataclass(frozen=True)
class _Plan:
    steps: int
    batch_size: int
    quiet: bool


def signature(inputs: Inputs) -> Signature:
    """Return shape (without the number of examples) and type of tensors."""
    return tuple((tuple(part.shape[1:]), str(part.dtype).removeprefix("torch.")) for part in inputs)


def in_words(form: Signature) -> str:
    """Return shapes and types for an error."""
    return " and ".join(f"{shape} {dtype}" for shape, dtype in form)


def _entropy(outputs: Tensor | None) -> Tensor:
    """Return the entropy of each answer, relative to that of a guess; of a sequence, the mean over its steps."""
    assert outputs is not None
    found = entropy(outputs.float().flatten(0, -2)) / math.log(outputs.shape[-1])
    return found.view(len(outputs), -1).mean(1)


def _seed(seed: int) -> int:
    try:
        found = operator.index(seed)
    except TypeError:
        found = -1
    if found < 0:
        raise UsageError(f"seed must be a whole number of at least 0, not {seed!r}.")
    return found


def _plan(n: int, epochs: float | None, steps: int | None, batch_size: int, quiet: bool) -> _Plan:
    """Return how long to learn from n examples; some hundred steps at least if nothing is wanted."""
    if epochs is not None and steps is not None:
        raise UsageError("Give epochs or steps, not both.")
    for name, value in (("steps", steps), ("batch_size", batch_size)):
        if value is not None and (not isinstance(value, numbers.Integral) or value < 1):
            raise UsageError(f"{name} must be a whole number of at least 1, not {value!r}.")
    if epochs is not None and (not isinstance(epochs, numbers.Real) or not 0 < epochs < math.inf):
        raise UsageError(f"epochs must be a number above 0, not {epochs!r}.")
    batch_size = min(int(batch_size), n)
    if steps is None:
        per_epoch = n / batch_size
        steps = min(5000, max(600, round(30 * per_epoch))) if epochs is None else max(1, round(epochs * per_epoch))
    return _Plan(int(steps), batch_size, quiet)


@contextmanager
def _progress(task: str, steps: int, quiet: bool) -> Iterator[Callable[[int, float], None]]:
    if quiet or not sys.stderr.isatty():
        yield lambda step, loss: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[loss]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        shown = bar.add_task(f"learning {task}", total=steps, loss="")
        yield lambda step, loss: bar.update(shown, completed=step, loss=f"loss {loss:.4f}")
