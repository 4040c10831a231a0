"""`ContinualModel`: for people who have a module, and data that arrive task by task."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from mnemon import interrupts
from mnemon.continual import learning
from mnemon.continual.adapters import LoRA, without_adapters
from mnemon.continual.data import collect_inputs
from mnemon.continual.drift import Drift, measure
from mnemon.continual.learned_task import UNKNOWN, LearnedTask
from mnemon.continual.lock import alone
from mnemon.continual.model_size import size_in_words
from mnemon.continual.modules import copy_module
from mnemon.continual.objective import Loss
from mnemon.continual.prediction import Prediction, evaluate, infer_tasks, predict_for_task, predict_without_task
from mnemon.continual.recognition import (
    OwnRecogniser,
    Recogniser,
    Recognition,
    Statistics,
    recognition_of,
    way_of,
)
from mnemon.continual.state import ModelSettings, State
from mnemon.errors import UsageError, reason_of
from mnemon.hypernet import HypernetConfig

if TYPE_CHECKING:
    from mnemon.continual.stream import Switch


class ContinualModel:
    """A module that learns task after task and keeps all of them, without keeping their data.

    Threads may share a model: one works on it at a time, and the others wait. Models in different threads do not
    disturb each other; each has its own random numbers.

    Example:
        >>> x, y = torch.rand(60, 4), torch.arange(60) % 3
        >>> model = mnemon.ContinualModel(nn.Linear(4, 3))
        >>> learned = model.learn((x, y), task="monday", steps=5, quiet=True)
        >>> learned = model.learn((1 - x, y), task="tuesday", steps=5, quiet=True)
        >>> model.tasks
        ['monday', 'tuesday']
        >>> model.predict(x[:2], task="monday").label.shape
        torch.Size([2])
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
        recognise: str | Statistics | Recogniser | None = "statistics",
        memory: str = "generated",
        tolerance: float | None = None,
        start: str = "kept",
    ):
        """Wrap a copy of a module; the module itself is not changed.

        Args:
            module: Any `nn.Module`. Its weights are where every task starts.
            generate: Patterns of parameter names, such as "head.*". These parameters differ from task to task; all
                others stay as they are.
            adapters: Put low-rank adapters on linear layers. Only the adapters differ from task to task.
            compression: Hypernetwork parameters per generated weight. Default: about 1, more for small modules.
            beta: Strength of the penalty that keeps earlier tasks. Higher: less forgetting, slower learning.
            lr: Learning rate of Adam.
            seed: Seed of all random numbers. The same seed, data and calls give the same model.
            hypernet: The form of the hypernetwork, if you want to choose it; `compression` is then not used.
            recognise: How the task of an input is inferred. "statistics": by sums over features of every task's
                inputs, which hold no input; `Statistics(...)` has its settings. "density": each task also learns a
                small density model of its inputs, which must lie between 0 and 1. "entropy": the task whose network
                has the lowest entropy, relative to the task's usual entropy; it costs nothing and is often wrong.
                None: not at all. Or an object with the methods of `Recogniser`.
            memory: How tasks are kept. "generated": by one hypernetwork, which a penalty holds; `compression`, `beta`
                and `hypernet` are about it. "exact": each network as a code of a few bits per weight. It is trained
                plainly, and stays the same bit for bit, whatever is learned later.
            tolerance: What a task may lose when it is coded (memory="exact"), on its training data: points of
                accuracy (default 0.2, or one example), or a share of the error (default 0.01).
            start: Where the starting weights come from after loading (memory="exact"). "kept": from the file, rounded
                to a byte each. "given": from the module given to `load`, which must have the same (pretrained) ones.

        Raises:
            UsageError: A setting is out of range, or the module cannot use generated weights.
        """
        way, statistics, own = way_of(recognise)
        settings = ModelSettings.checked(
            generate, adapters, compression, beta, lr, seed, hypernet, way, memory, tolerance, start, statistics
        )
        self.state = State(module, settings, own)
        """The state, for the other parts of mnemon. Users should not change it."""

    # Learning

    @alone
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
    ) -> LearnedTask:
        """Learn a new task from its data. Earlier tasks are kept.

        If learning fails or is stopped, the model is as it was before.

        Args:
            data: A pair (inputs, targets) of tensors or arrays, a Dataset, a DataLoader, an Avalanche experience or a
                continuum task set. If the module takes several inputs, put them into a tuple.
            task: The name of the new task.
            validation: More data of the task, which are only used to measure the score.
            epochs: How many passes over the data to learn. Default: chosen from the amount of data.
            steps: How many batches to learn, instead of `epochs`.
            batch_size: Examples per batch.
            loss: "classes", "labels" (several yes-or-no labels), "numbers" (regression), or a function of outputs and
                targets. "auto": integers are classes, booleans are labels, floats are numbers.
            quiet: Show no progress bar.

        Returns:
            What is kept of the task: its name, its classes, its score.

        Raises:
            UsageError: The data do not fit the module, or there is already a task of this name.
            TrainingError: The loss became infinite or NaN.

        Example:
            >>> print(model.learn((x * 0.5, y), task="wednesday", steps=5, quiet=True))  # doctest: +ELLIPSIS
            wednesday: classes, 60 examples, accuracy ... % on training data
        """
        options = learning.LearnOptions(validation, epochs, steps, batch_size, loss, quiet)
        return learning.learn(self.state, data, task, options)

    @alone
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
    ) -> LearnedTask:
        """Learn more of a task that was learned before, from more data of it. Other tasks are kept.

        If learning fails or is stopped, the model is as it was before.

        Args:
            data: More data of the task, as `learn` takes them.
            task: The name of the task.
            validation: As in `learn`.
            epochs: As in `learn`.
            steps: As in `learn`.
            batch_size: As in `learn`.
            loss: As in `learn`; "auto" is the loss with which the task was learned.
            quiet: Show no progress bar.

        Returns:
            What is kept of the task now.

        Raises:
            UsageError: There is no such task, or the data do not fit it.
            TrainingError: The loss became infinite or NaN.

        Example:
            >>> model.relearn((x, y), task="monday", steps=5, quiet=True).n_examples
            120
        """
        options = learning.LearnOptions(validation, epochs, steps, batch_size, loss, quiet)
        return learning.relearn(self.state, data, task, options)

    @alone
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
        """Learn from a stream of batches without task boundaries.

        The loss of each batch is measured before the batch is learned. If `patience` batches in a row have a much
        higher loss than recent ones, the task has changed: to a known task or to a new one. If the stream fails, what
        was learned before is kept. Other threads wait until the stream has ended.

        Args:
            batches: Pairs (inputs, targets). Labels are indices of the module's outputs.
            name: New tasks are called by this name and a number.
            steps: Learning steps per batch.
            recent: How many recent batches are learned again together with the new one.
            patience: How many batches in a row must have a much higher loss.
            loss: As in `learn`.

        Returns:
            The changes of task that were noticed.

        Raises:
            UsageError: A batch does not fit the module.

        Example:
            >>> streaming = mnemon.ContinualModel(nn.Linear(4, 3))
            >>> batches = [(x[i : i + 10], y[i : i + 10]) for i in range(0, 60, 10)]
            >>> [switch.task for switch in streaming.learn_stream(batches, steps=1)]
            ['task 1']
        """
        from mnemon.continual.stream import StreamLearner

        return StreamLearner(self.state, name, steps, recent, patience, loss).run(batches)

    # Answering

    @alone
    def predict(self, inputs: Any, task: str | None = None, *, vote: int = 1) -> Prediction:
        """Predict the answers to some inputs.

        Without the task, it is inferred for each input, and the network of that task answers. An input that is
        unlike the inputs of all tasks is "unknown". `recognition` says how well this works.

        To infer the task by entropy, the entropy of each task's answer is divided by the logarithm of its number of
        classes: 0 is certain, 1 is a guess.

        Args:
            inputs: A tensor or an array; several inputs of a module in a tuple.
            task: The task of the inputs. Default: infer it for each input.
            vote: How many inputs in a row are known to be of one task; their task is inferred together.

        Returns:
            Task, label and confidence for each input.

        Raises:
            UsageError: There is no such task, or the inputs do not fit the module.

        Example:
            >>> prediction = model.predict(x[:3])
            >>> len(prediction.task), prediction.confidence.shape
            (3, torch.Size([3]))
        """
        index = None if task is None else self.state.index_of(task)
        found = collect_inputs(inputs, self.device, self.state.floats)
        return (
            predict_without_task(self.state, found, vote)
            if index is None
            else predict_for_task(self.state, found, index)
        )

    @alone
    def recognise(self, inputs: Any, *, vote: int = 1) -> list[str]:
        """Infer the task of each input, without running any network.

        Args:
            inputs: Inputs of the module.
            vote: How many inputs in a row are known to be of one task; their task is inferred together.

        Returns:
            The name of a task for each input, or "unknown".

        Raises:
            UsageError: Nothing was learned yet, or the inputs do not fit the module.

        Example:
            >>> len(model.recognise(x[:3]))
            3
        """
        found = infer_tasks(self.state, collect_inputs(inputs, self.device, self.state.floats), vote)
        return [self.tasks[i] if sure else UNKNOWN for i, sure in zip(found.index, found.known, strict=True)]

    @alone
    def recognition(self) -> Recognition:
        """Return how well tasks are told apart by their inputs, measured when each was learned.

        Returns:
            For each task, the percentage of its training inputs whose task was identified (leave-one-out), and which
            tasks are hard to tell apart. Print it.

        Raises:
            UsageError: Tasks are not recognised by statistics, or nothing was learned yet.

        Example:
            >>> model.recognition().tasks == tuple(model.tasks)
            True
        """
        sums = self.state.sums
        if sums is None:
            raise UsageError("Only recognise='statistics' measures how well tasks are told apart.")
        if not self.tasks:
            raise UsageError("Nothing was learned yet.")
        return recognition_of(sums, self.tasks, [task.serial for task in self.state.tasks])

    @alone
    def evaluate(
        self, data: Any, task: str, *, infer: bool = False, loss: Loss | None = None, vote: int = 1
    ) -> float:
        """Return the accuracy in percent on data of a task, or the error of a regression.

        Args:
            data: Data of the task, as `learn` takes them.
            task: The name of the task.
            infer: Do not tell the model the task. An input whose task is inferred wrongly counts as wrong.
            loss: For a task that was learned with a loss of your own, and loaded from a file: the loss.
            vote: With infer, how many inputs in a row are known to be of one task.

        Returns:
            The accuracy in percent, or the mean error.

        Raises:
            UsageError: There is no such task, or the data do not fit it.

        Example:
            >>> 0 <= model.evaluate((x, y), task="monday") <= 100
            True
        """
        return evaluate(self.state, data, task, infer, loss, vote)

    # The tasks

    @property
    def tasks(self) -> list[str]:
        """The names of the learned tasks, in the order in which they were last learned."""
        return self.state.names

    @property
    def device(self) -> torch.device:
        """The device on which the model computes."""
        return self.state.device

    @alone
    def to(self, device: str | torch.device) -> ContinualModel:
        """Move the model to a device.

        Args:
            device: Such as "cpu" or "cuda".

        Returns:
            The model itself.

        Raises:
            UsageError: There is no such device.

        Example:
            >>> model.to("cpu").device
            device(type='cpu')
        """
        try:
            there = torch.device(device)
            if there.type == "meta":
                raise RuntimeError("it holds no values")
            torch.empty(1, device=there)  # before anything is moved
        except (RuntimeError, TypeError, ValueError, AssertionError) as error:
            raise UsageError(f"The model cannot move to {device!r}: {reason_of(error)}.") from error
        learner, here = self.state.learner, self.device
        interrupts.all_or_nothing(lambda: learner.to(there), lambda: learner.to(here))
        return self

    @alone
    def about(self, task: str) -> LearnedTask:
        """Return what is kept of a task.

        Args:
            task: The name of the task.

        Raises:
            UsageError: There is no such task.

        Example:
            >>> model.about("monday").goal.classes
            (0, 1, 2)
        """
        return self.state.about(task)

    @alone
    def drift(self) -> list[Drift]:
        """Measure how far each task's network has moved since it was learned, and what that may cost.

        With memory="exact" networks never move. With memory="generated" the penalty holds them, not always well
        enough: `learn` warns where a task may have lost more than 2 points of accuracy.

        Returns:
            For each task, in their order, how far it has moved and its expected loss.

        Example:
            >>> [drift.task for drift in model.drift()] == model.tasks
            True
        """
        return measure(self.state)

    @alone
    def forget(self, task: str) -> None:
        """Remove a task. All other tasks stay exactly as they are.

        Args:
            task: The name of the task.

        Raises:
            UsageError: There is no such task.

        Example:
            >>> model.forget("wednesday")
            >>> model.tasks
            ['tuesday', 'monday']
        """
        self.state.forget(task)

    @alone
    def rename(self, task: str, name: str) -> None:
        """Give a task another name.

        Args:
            task: The name of the task.
            name: Its new name.

        Raises:
            UsageError: There is no such task, or there is already one with the new name.

        Example:
            >>> model.rename("tuesday", "wet days")
            >>> model.rename("wet days", "tuesday")
        """
        index = self.state.index_of(task)
        if name != task:
            self.state.check_new(name)
        self.state.tasks[index] = replace(self.state.tasks[index], name=name)
        if isinstance(self.state.recogniser, OwnRecogniser):
            self.state.recogniser.rename(task, name)

    @alone
    def network(self, task: str) -> nn.Module:
        """Return the network of a task as a plain module in evaluation mode.

        Args:
            task: The name of the task.

        Returns:
            A module of the same form as yours. Adapters are merged into their layers.

        Raises:
            UsageError: There is no such task.

        Example:
            >>> model.network("monday")
            Linear(in_features=4, out_features=3, bias=True)
        """
        memory, index = self.state.learner.memory, self.state.index_of(task)
        module = copy_module(memory.target.module).eval()
        tensors = {**memory.network_weights(index), **memory.network_buffers(index)}
        own = dict(module.named_parameters()) | dict(module.named_buffers())
        with torch.no_grad():
            for name, tensor in tensors.items():
                own[name].copy_(tensor)
        for slot in memory.target.slots:
            own[slot.name].requires_grad_()
        return without_adapters(module)

    # Files

    @alone
    def save(self, path: str | Path) -> Path:
        """Write the model to one file, which `mnemon.load(path, module)` reads.

        Args:
            path: The file; without an ending, `.mnemon` is added.

        Returns:
            The path of the file.

        Raises:
            UsageError: The file cannot be written.

        Example:
            >>> model.save("memory").name
            'memory.mnemon'
        """
        from mnemon.continual.files import save

        return save(self, path)

    @alone
    def export(self, task: str, path: str | Path, example: Any = None) -> Path:
        """Write the network of a task to a file that can be used without mnemon, and check it by running it.

        Args:
            task: The name of the task.
            path: The file. Its ending is its format: .safetensors, .pt2 or .onnx.
            example: Inputs to check it with. Default: random inputs of the task's form.

        Returns:
            The path of the file.

        Raises:
            UsageError: There is no such task, or its network cannot be exported.

        Example:
            >>> model.export("monday", "monday.safetensors").name
            'monday.safetensors'
        """
        from mnemon.continual.export import export

        return export(self, task, path, example)

    @alone
    def __repr__(self) -> str:
        learner, target = self.state.learner, self.state.learner.memory.target
        whole = sum(p.numel() for p in target.module.parameters())
        part = "all" if target.size == whole else f"{target.size:,}"
        lines = [
            f"ContinualModel of {type(target.module).__name__} with {whole:,} weights, {part} of them generated",
            f"  memory {size_in_words(learner, whole)}",
        ]
        if self.state.sums is not None and self.tasks:
            lines.append(f"  recognition {self.state.sums.nbytes:,} bytes ({self.state.sums.width:,} features)")
        return "\n".join([*lines, *(f"  {task}" for task in self.state.tasks)])
