"""The face for people who have a module, and data that arrives task by task."""

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
from mnemon.continual.learned_task import LearnedTask
from mnemon.continual.lock import alone
from mnemon.continual.model_size import size_in_words
from mnemon.continual.modules import copied, said
from mnemon.continual.objective import Loss
from mnemon.continual.prediction import Prediction, evaluated, inferred, told
from mnemon.continual.state import Settings, State
from mnemon.errors import UsageError
from mnemon.hypernet import HypernetConfig

if TYPE_CHECKING:
    from mnemon.continual.stream import Switch


class ContinualModel:
    """A module that learns task after task and keeps them all, without keeping their data.

    Threads may share a model: one works on it at a time, and the others wait. Models in several threads do not
    disturb each other; each has its own random numbers.

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
        memory: str = "generated",
        tolerance: float | None = None,
        start: str = "kept",
    ):
        """Wrap a copy of a module; the module itself is left alone.

        generate: patterns over parameter names, of what may differ from task to task; the rest stays as it came.
        adapters: put low-rank adapters on linear layers, and let them alone differ.
        compression: parameters of the hypernetwork per generated weight; if not given 1, and more for small modules.
        beta: how firmly earlier tasks are held.
        lr: the learning rate (of Adam).
        seed: of all random numbers; the same seed, data and calls give the same model.
        hypernet: the form of the hypernetwork, for those who want to choose it; compression is not used then.
        recognise: how a task is told by its inputs: 'entropy' (whose network is surest, beside its usual sureness;
        costs nothing, and is often wrong), or 'density' (a small model of how a task's inputs look is learned, too;
        they must lie between 0 and 1). There is no classifier of tasks: it would have to see inputs of earlier tasks
        again, and densities need not.
        memory: how tasks are kept. 'generated': all by one hypernetwork, held in place by a penalty (compression,
        beta and hypernet are about it). 'exact': each network as a code of few bits per weight; it is learned
        plainly, and stays the same bit for bit whatever is learned later.
        tolerance: what a task may lose by being coded (memory='exact'), on its training data: points of accuracy, 0.2
        if not given, or a share of the error, 0.01.
        start: where the weights that tasks start from are after loading (memory='exact'): 'kept' in the file, rounded
        to a byte each, or 'given' by the module that is given to load, which must have the same weights (pretrained
        ones, say).
        """
        settings = Settings.checked(
            generate, adapters, compression, beta, lr, seed, hypernet, recognise, memory, tolerance, start
        )
        self.state = State(module, settings)
        """What the other parts of mnemon work on; nothing here is for users to change."""

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
        """Learn a new task from its data; earlier tasks stay as they are.

        data: a pair (inputs, targets) of tensors or arrays, a Dataset, a DataLoader, an Avalanche experience or a
        continuum task set. Several inputs of a module go into a tuple.
        validation: more data, on which the score is taken; nothing is learned from them.
        epochs, steps: how long to learn, in passes over the data or in batches; if not given, as the data call for.
        loss: 'auto' (whole numbers are classes, truth values are labels, anything else numbers), 'classes', 'labels',
        'numbers', or a function of outputs and targets.
        quiet: show no progress bar.

        If it fails or is stopped, the model is as it was before.
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
        """Go on with a task that was learned, from more data of it; all others stay as they are.

        It takes what `learn` takes, and 'auto' is what the task was learned with.
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
        """Learn from batches that nobody has cut into tasks; return the changes that were noticed.

        Each batch is judged before it is learned: when `patience` batches in a row are much worse than lately, the
        stream has changed, to a task that it knows or to a new one, which is called `name` and a number. Tasks of
        earlier streams are known again. Labels are indices of the module's outputs. A batch is learned in so many
        `steps`, together with `recent` ones. If the stream breaks off, what was learned until then is kept. Other
        threads that ask the model wait until the stream has ended.
        """
        from mnemon.continual.stream import StreamLearner

        return StreamLearner(self.state, name, steps, recent, patience, loss).run(batches)

    # Answering

    @alone
    def predict(self, inputs: Any, task: str | None = None) -> Prediction:
        """Answer inputs of a task; without its name, the task that each input is taken for answers.

        By entropy, tasks of different numbers of classes are compared by the entropy divided by the logarithm of the
        number: 0 is sure, 1 is as unsure as can be, whatever the task.
        """
        index = None if task is None else self.state.index_of(task)
        found = collect_inputs(inputs, self.device, self.state.floats)
        return inferred(self.state, found) if index is None else told(self.state, found, index)

    @alone
    def evaluate(self, data: Any, task: str, *, infer: bool = False, loss: Loss | None = None) -> float:
        """Return how good the model is on data of a task: accuracy in percent, or the error.

        With infer=True the model is not told the task, and a wrong one is a wrong answer. A loss of one's own is not
        kept in a file: it has to be given again after loading.
        """
        return evaluated(self.state, data, task, infer, loss)

    # The tasks

    @property
    def tasks(self) -> list[str]:
        """The names of the tasks that are remembered, in the order in which they were learned last."""
        return self.state.names

    @property
    def device(self) -> torch.device:
        """Where the model computes."""
        return self.state.device

    @alone
    def to(self, device: str | torch.device) -> ContinualModel:
        """Move the model to a device."""
        try:
            there = torch.device(device)
            if there.type == "meta":
                raise RuntimeError("nothing is kept there")
            torch.empty(1, device=there)  # before anything is moved
        except (RuntimeError, TypeError, ValueError, AssertionError) as error:
            raise UsageError(f"The model cannot move to {device!r}: {said(error)}.") from error
        learner, here = self.state.learner, self.device
        interrupts.all_or_nothing(lambda: learner.to(there), lambda: learner.to(here))
        return self

    @alone
    def about(self, task: str) -> LearnedTask:
        """Return what is kept of a task."""
        return self.state.about(task)

    @alone
    def forget(self, task: str) -> None:
        """Drop a task: its embedding and buffers go, all others stay exactly as they are."""
        self.state.forget(task)

    @alone
    def rename(self, task: str, name: str) -> None:
        """Give a task another name."""
        index = self.state.index_of(task)
        if name != task:
            self.state.check_new(name)
        self.state.tasks[index] = replace(self.state.tasks[index], name=name)

    @alone
    def network(self, task: str) -> nn.Module:
        """Return a task's network as a plain module, in evaluation mode; adapters are added to their layers."""
        memory, index = self.state.learner.memory, self.state.index_of(task)
        module = copied(memory.target.module).eval()
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
        """Write the model to one file, from which `mnemon.load(path, module)` takes it up; return its path."""
        from mnemon.continual.files import save

        return save(self, path)

    @alone
    def export(self, task: str, path: str | Path, example: Any = None) -> Path:
        """Write a task's network to a .safetensors, .pt2 or .onnx file, checked by running it; return its path."""
        import mnemon  # not from where it is: that lies above this

        return mnemon.export(self, task, path, example)

    @alone
    def __repr__(self) -> str:
        learner, target = self.state.learner, self.state.learner.memory.target
        whole = sum(p.numel() for p in target.module.parameters())
        part = "all" if target.size == whole else f"{target.size:,}"
        lines = [
            f"ContinualModel of {type(target.module).__name__} with {whole:,} weights, {part} of them generated",
            f"  memory {size_in_words(learner, whole)}",
        ]
        return "\n".join([*lines, *(f"  {task}" for task in self.state.tasks)])
