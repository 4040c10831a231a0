"""The face for people who have a module, and data that arrives task by task."""

from __future__ import annotations

import copy
import fnmatch
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from mnemon.continual.adapters import LoRA, adapt
from mnemon.continual.data import Data, Inputs, collect, collect_inputs
from mnemon.continual.kinds import Goal, Kind, Loss, goal_for
from mnemon.continual.learner import ModuleLearner
from mnemon.continual.sizes import hypernet_for
from mnemon.errors import TrainingError, UsageError, choose, suggest
from mnemon.hypernet import HypernetConfig
from mnemon.inference.entropy import entropy
from mnemon.inference.likelihood import DensityConfig, LikelihoodInference
from mnemon.models.vae import DensityVAE
from mnemon.optimizer import OptimizerConfig
from mnemon.problem import pixels_of
from mnemon.regularizers.protected import NewEmbedding, Protection
from mnemon.seeding import derive, seed_all
from mnemon.training.batches import Shuffled

if TYPE_CHECKING:
    from mnemon.continual.stream import Switch

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
    inputs: tuple[tuple[tuple[int, ...], str], ...]
    """Shape (without the number of examples) and type of each input of the module."""
    n_examples: int
    steps: int
    score: float
    """On the validation data if there were any, else on the training data, right after it was learned."""
    ceiling: float = math.inf
    """Entropy above which an input is not taken for one of this task (classes only)."""
    serial: int = 0
    """Tasks learned before it, forgotten ones too: its random numbers follow from it."""


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
    compression: float = 1.0
    beta: float = 0.1
    lr: float = 1e-3
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
        compression: float = 1.0,
        beta: float = 0.1,
        lr: float = 1e-3,
        seed: int = 0,
        hypernet: HypernetConfig | None = None,
        recognise: str = "entropy",
    ):
        """Wrap a copy of a module; the module itself is left alone.

        generate: patterns over parameter names, of what may differ from task to task; the rest stays as it came.
        adapters: put low-rank adapters on linear layers, and let them alone differ.
        compression: parameters of the hypernetwork per generated weight.
        beta: how firmly earlier tasks are held.
        recognise: how a task is told by its inputs: 'entropy' (whose network is surest; costs nothing), or 'density'
        (a small model of how each task's inputs look is learned beside it; they must lie between 0 and 1).
        """
        patterns = (generate,) if isinstance(generate, str) else tuple(generate)
        choose("way to recognise tasks", recognise, {"entropy": None, "density": None})
        self._settings = Settings(patterns, adapters, compression, beta, lr, seed, hypernet, recognise)
        self._tasks: list[Remembered] = []
        self._n_learned = 0
        with _own_random_numbers(derive(seed, "weights")):
            module, names = _prepared(module, patterns, adapters)
            size = sum(p.numel() for name, p in module.named_parameters() if name in names)
            protection = Protection(
                beta=beta, new_embedding=NewEmbedding.RANDOM, hypernet=hypernet or hypernet_for(size, compression)
            )
            device = next(iter(module.parameters())).device
            self._learner = ModuleLearner(module, names, protection, OptimizerConfig(lr=lr)).to(device)

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
        serial = self._n_learned
        self._make_densities(found.data.inputs[0][0].numel())
        with self._all_or_nothing(found.data):
            self._seed(serial, 0)
            self._learner.begin_task(len(self._tasks))
            return self._train(task, found, serial, validation, epochs, steps, batch_size, quiet)

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
        place = self._place(task)
        found = self._collected(data, loss, task, self._tasks[place].goal)
        # First to the end, so that all is in its place again if learning fails.
        self._tasks.append(self._tasks.pop(place))
        self._learner.arrange([t for t in range(len(self._tasks)) if t != place] + [place])
        serial = self._n_learned
        with self._all_or_nothing(found.data):
            self._seed(serial, 0)
            self._begin_again(task)
            return self._train(task, found, serial, validation, epochs, steps, batch_size, quiet)

    def _collected(self, data: Any, loss: str | Loss, task: str, earlier: Goal | None = None) -> _Found:
        """Return data as tensors on the model's device, with the goal that follows from them."""
        found = collect(data).to(self.device)
        if self._tasks and len(found.inputs) != len(self._tasks[0].inputs):
            before = len(self._tasks[0].inputs)
            raise UsageError(f"Task '{task}' has {len(found.inputs)} inputs; earlier tasks have {before}.")
        goal = goal_for(found.targets, loss)
        if earlier is not None:
            if not callable(loss) and goal.kind is not earlier.kind:
                raise UsageError(f"Task '{task}' was learned with {earlier.kind.value}; these are {goal.kind.value}.")
            both = tuple(sorted({*earlier.classes, *goal.classes}))
            if both != earlier.classes and not callable(loss):
                new = ", ".join(str(c) for c in sorted({*goal.classes} - {*earlier.classes}))
                raise UsageError(f"Task '{task}' has no class {new}: give a new task the new classes.")
            goal = goal if callable(loss) else earlier
        return _Found(Data(found.inputs, goal.places(found.targets)), goal)

    def _train(
        self,
        task: str,
        found: _Found,
        serial: int,
        validation: Any,
        epochs: float | None,
        steps: int | None,
        batch_size: int,
        quiet: bool,
    ) -> Remembered:
        data, goal = found
        self._check_fit(task, data, goal)
        batch_size, steps = min(batch_size, len(data)), _n_steps(len(data), batch_size, epochs, steps)
        told = goal.own_loss or goal.kind.value
        checked = None if validation is None else self._collected(validation, told, task, goal)
        batches = Shuffled(data, self._settings.seed, "batches", serial)
        with _progress(task, steps, quiet) as show:
            for step in range(steps):
                self._seed(serial, step + 1)
                inputs, targets = batches.take(step * batch_size, batch_size)
                terms = self._learner.train_step(inputs, targets, goal, step / steps)
                loss = float(terms["task_loss"])
                if not math.isfinite(loss):
                    raise TrainingError(
                        f"The loss of task '{task}' became {loss} in step {step + 1}: try a smaller lr. "
                        "The model is as it was before."
                    )
                show(step + 1, loss)
        return self._finish(task, data, goal, steps, serial, len(data), checked)

    def _finish(
        self,
        task: str,
        data: Data,
        goal: Goal,
        steps: int,
        serial: int,
        n_examples: int,
        tested: _Found | None = None,
    ) -> Remembered:
        """Put a task away that was learned, with what is known of it."""
        self._seed(serial, steps + 1)
        self._learner.end_task(data)
        place = len(self._tasks)
        score = self._score(tested.data if tested else data, place, goal)
        ceiling = self._ceiling(data, place, goal)
        self._tasks.append(Remembered(task, goal, _signature(data.inputs), n_examples, steps, score, ceiling, serial))
        self._n_learned += 1
        return self._tasks[-1]

    def _begin_again(self, task: str) -> None:
        """Get ready to go on with a task that was learned."""
        self._learner.begin_again(self._place(task))
        del self._tasks[self._place(task)]

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

        with _own_random_numbers(0):
            return StreamLearner(self, name, steps, recent, patience, loss).run(batches)

    def _check_fit(self, task: str, data: Data, goal: Goal) -> None:
        """Try the module on two examples, so that what does not fit is said in words."""
        inputs, targets = data.batch(slice(2))
        if not len(self._tasks):
            self._check_module(inputs)
        try:
            with torch.no_grad():
                outputs = self._learner.memory.run(len(self._tasks), *inputs, training=False)
        except (RuntimeError, TypeError, ValueError, IndexError) as error:
            shapes = ", ".join(str(tuple(part.shape[1:])) for part in inputs)
            reason = str(error).strip().splitlines()[0]
            raise UsageError(
                f"The module cannot take the inputs of task '{task}' (shape {shapes}): {reason}"
            ) from error
        goal.check(outputs, targets, task)

    def _check_module(self, inputs: Inputs) -> None:
        """Refuse a module that does not compute with the weights that it is given."""
        memory = self._learner.memory
        module = copy.deepcopy(memory.target.module).eval()
        try:
            with torch.no_grad():
                wanted = module(*inputs)
        except Exception:
            return
        moved = memory.target.own_weights() * 1.5 + 0.01
        memory.target.eval()
        with torch.no_grad():
            same = memory.target(memory.target.own_weights(), *inputs, buffers=memory.target.fresh_buffers())
            other = memory.target(moved, *inputs, buffers=memory.target.fresh_buffers())
        if isinstance(wanted, Tensor) and (not torch.allclose(same, wanted, atol=1e-4) or torch.equal(same, other)):
            raise UsageError(
                f"{type(module).__name__} does not compute with the weights that it is given; hooks or copies of its "
                "parameters may be the reason."
            )

    # Answering

    def predict(self, inputs: Any, task: str | None = None) -> Prediction:
        """Answer inputs of a task; without its name, the task that is surest of each input answers."""
        found = tuple(part.to(self.device) for part in collect_inputs(inputs))
        if task is not None:
            place = self._place(task)
            return self._told(found, place, self._learner.outputs(found, place))
        return self._inferred(found)

    def _told(self, inputs: Inputs, place: int, outputs: Tensor) -> Prediction:
        remembered = self._tasks[place]
        goal, names = remembered.goal, [remembered.name] * len(inputs[0])
        if goal.kind is Kind.CLASSES:
            confidence, chosen = goal.cut(outputs).float().softmax(-1).max(-1)
            return Prediction(names, goal.labels(chosen), confidence, goal.cut(outputs))
        nothing = torch.full(outputs.shape[:1], math.nan, device=outputs.device)
        return Prediction(names, outputs > 0 if goal.kind is Kind.LABELS else outputs, nothing, outputs)

    def _inferred(self, inputs: Inputs) -> Prediction:
        places = self._with_classes()
        each = [self._told(inputs, place, self._learner.outputs(inputs, place)) for place in places]
        best, sure = self._recognised(inputs, each)
        names = [
            self._tasks[places[i]].name if known else UNKNOWN
            for i, known in zip(best.tolist(), sure.tolist(), strict=True)
        ]
        rows = torch.arange(len(best), device=best.device)
        label = torch.stack([answer.label for answer in each])[best, rows]
        confidence = torch.stack([answer.confidence for answer in each])[best, rows]
        return Prediction(names, label, confidence, None)

    def _recognised(self, inputs: Inputs, each: Sequence[Prediction]) -> tuple[Tensor, Tensor]:
        """Return the task that each input is taken for, and whether it is likely to be of any."""
        densities = self._learner.densities
        if densities is not None:
            scores = densities.scores(pixels_of(inputs[0]), lambda task_id: each[task_id].label)
            return scores.argmax(1), densities.known(scores)
        entropies = torch.stack([_entropy(answer.outputs) for answer in each])
        best = entropies.argmin(0)
        ceilings = torch.tensor([task.ceiling for task in self._tasks], device=best.device)
        return best, entropies.gather(0, best[None])[0] <= ceilings[best]

    def _make_densities(self, n_inputs: int) -> None:
        """Make the models of how inputs look, if tasks are recognised by them; their size follows from the inputs."""
        settings = self._settings
        if settings.recognise != "density" or self._learner.densities is not None:
            return
        with _own_random_numbers(derive(settings.seed, "weights", 1)):
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

    def _with_classes(self) -> list[int]:
        """Return the tasks among which an input's task can be inferred."""
        if not self._tasks:
            raise UsageError("Nothing was learned yet.")
        others = [t.name for t in self._tasks if t.goal.kind is not Kind.CLASSES]
        if others:
            raise UsageError(f"Only tasks of classes can be inferred; say which task it is (such as '{others[0]}').")
        return list(range(len(self._tasks)))

    def evaluate(self, data: Any, task: str, *, infer: bool = False) -> float:
        """Return how good the model is on data of a task: accuracy in percent, or the error.

        With infer=True the model is not told the task, and a wrong one is a wrong answer.
        """
        place = self._place(task)
        remembered = self._tasks[place]
        found = collect(data).to(self.device)
        if not infer:
            return self._score(Data(found.inputs, remembered.goal.places(found.targets)), place, remembered.goal)
        answer = self.predict(found.inputs)
        of_task = torch.tensor([name == task for name in answer.task], device=self.device)
        return 100.0 * float((of_task & (answer.label == found.targets)).double().mean())

    def _score(self, data: Data, place: int, goal: Goal) -> float:
        inputs, targets = data.batch(slice(None))
        return goal.score(self._learner.outputs(inputs, place), targets)

    def _ceiling(self, data: Data, place: int, goal: Goal) -> float:
        if goal.kind is not Kind.CLASSES or data.targets.ndim > 1:
            return math.inf
        picked = torch.randperm(len(data))[:CALIBRATION].to(data.device)
        inputs, _ = data.batch(picked)
        found = _entropy(goal.cut(self._learner.outputs(inputs, place)))
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
        module = copy.deepcopy(memory.target.module).requires_grad_(True).eval()
        tensors = {**memory.network_weights(place), **memory.buffers_of[place]}
        own = dict(module.named_parameters()) | dict(module.named_buffers())
        with torch.no_grad():
            for name, tensor in tensors.items():
                own[name].copy_(tensor)
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
        return choose("task", name, {task: i for i, task in enumerate(self.tasks)})

    @contextmanager
    def _all_or_nothing(self, data: Data) -> Iterator[None]:
        """Make the model what it was before if what is done within fails, or is stopped."""
        tasks, n_learned, order = list(self._tasks), self._n_learned, range(self._learner.n_tasks)
        state = {name: tensor.clone() for name, tensor in self._learner.tensors().items()}
        with _own_random_numbers(0):
            try:
                yield
            except BaseException:
                self._learner.end_task(data)
                self._learner.arrange(order)
                with torch.no_grad():
                    for name, tensor in self._learner.tensors().items():
                        tensor.copy_(state[name])
                self._tasks, self._n_learned = tasks, n_learned
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
class _Found:
    data: Data
    goal: Goal

    def __iter__(self) -> Iterator[Any]:
        return iter((self.data, self.goal))


def _prepared(module: nn.Module, patterns: Sequence[str], adapters: LoRA | None) -> tuple[nn.Module, list[str]]:
    """Return a copy of the module and the names of the parameters that are generated."""
    if not isinstance(module, nn.Module):
        raise UsageError(f"ContinualModel takes an nn.Module, not {type(module).__name__}.")
    if any(isinstance(p, nn.parameter.UninitializedParameter) for p in module.parameters()):
        raise UsageError("The module has lazy parameters: run it once on an example before.")
    module = copy.deepcopy(module)
    if adapters is not None:
        if tuple(patterns) != ("*",):
            raise UsageError("With adapters nothing else is generated: leave out generate.")
        return module, adapt(module, adapters)
    parameters = dict(module.named_parameters())
    if not parameters:
        raise UsageError(f"{type(module).__name__} has no parameters: there is nothing to learn.")
    for pattern in patterns:
        if not fnmatch.filter(parameters, pattern):
            raise UsageError(
                f"No parameter of {type(module).__name__} is called like '{pattern}'.{suggest(pattern, parameters)} "
                f"It has: {', '.join(list(parameters)[:8])}{', …' if len(parameters) > 8 else ''}."
            )
    names = [name for name in parameters if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)]
    free = [name for name in names if parameters[name].requires_grad]
    if not free:
        raise UsageError("All parameters that could be generated are frozen (requires_grad is False).")
    return module, free


def _signature(inputs: Inputs) -> tuple[tuple[tuple[int, ...], str], ...]:
    return tuple((tuple(part.shape[1:]), str(part.dtype).removeprefix("torch.")) for part in inputs)


def _entropy(outputs: Tensor | None) -> Tensor:
    """Return the entropy of each answer, relative to that of a guess among the task's classes."""
    assert outputs is not None
    return entropy(outputs.float()) / math.log(max(2, outputs.shape[-1]))


def _n_steps(n: int, batch_size: int, epochs: float | None, steps: int | None) -> int:
    if batch_size < 1:
        raise UsageError(f"batch_size must be at least 1, not {batch_size}.")
    if epochs is not None and steps is not None:
        raise UsageError("Give epochs or steps, not both.")
    for name, value in (("epochs", epochs), ("steps", steps)):
        if value is not None and not value > 0:
            raise UsageError(f"{name} must be above 0, not {value}.")
    if steps is not None:
        return int(steps)
    per_epoch = n / min(batch_size, n)
    if epochs is not None:
        return max(1, round(epochs * per_epoch))
    return int(min(5000, max(600, 30 * per_epoch)))


@contextmanager
def _own_random_numbers(seed: int) -> Iterator[None]:
    """Let the user's random numbers go on afterwards as if nothing had been drawn."""
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_available() else []
    with torch.random.fork_rng(devices=devices):
        seed_all(seed, torch.device("cpu"))
        yield


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
