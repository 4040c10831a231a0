"""A memory that stores every network exactly, each as a short code.

A task is learned without a hypernetwork, on the module's own weights. Then they are rounded to a lattice around the
weights of the original module (`lattice.py`). The difference to a prediction is coded (`code.py`). The prediction is
the original module, or the network that the task started from. Later tasks change no network.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
import torch
from torch import Tensor, nn

from mnemon.benchmarks.task import Examples
from mnemon.errors import CheckpointError
from mnemon.hypernet.target import Buffers, Target
from mnemon.hypernet.task_buffers import TaskBuffers
from mnemon.memory import fineness
from mnemon.memory.base import AbstractMemory
from mnemon.memory.buffers import BufferForm, RoundedBuffers
from mnemon.memory.cache import ROOM
from mnemon.memory.code import CodeError
from mnemon.memory.lattice import Layout, Network, decode_network, encode_network, nearest_points, nothing, step_size
from mnemon.optimizer import OptimizerConfig, forget_gradients, scale_rates
from mnemon.problem import Terms

DEEPEST = 8
"""Maximum length of a chain of predictions: all networks of the chain are decoded for the first one."""
DIGEST = 8
"""Bytes of the digest that verifies a decoded network."""
_ENTRY = struct.Struct(f"<ii{DIGEST}s")
"""A task's entry: what it is predicted from (-1: the original module), the length of its code, its digest."""
ENTRY_NBYTES = _ENTRY.size
"""Minimum bytes of a task."""


class Start(str, Enum):
    """Where the starting weights come from after loading; codes are relative to them."""

    KEPT = "kept"
    """From the file, rounded to about a byte each: the module given to `load` may have any weights."""
    GIVEN = "given"
    """From the module that is given to `load`, such as a pretrained one. They are not in the file."""


@dataclass(frozen=True)
class TaskCode:
    """The code of a network."""

    reference: int
    """The task whose network is the prediction; -1: the original module."""
    code: bytes
    digest: bytes


@dataclass
class Kept:
    """A copy of the state that is not in tensors."""

    codes: tuple[TaskCode, ...]
    origin: int
    steps: np.ndarray | None


class ExactMemory(AbstractMemory):
    """A network for each task, decoded on demand; the newest may still be learning, as plain weights."""

    def __init__(
        self, module: nn.Module, generate: Sequence[str], optimizer: OptimizerConfig, start: Start = Start.KEPT
    ):
        super().__init__()
        self.target = Target(module, generate)
        self.start, self._optimizer_config = start, optimizer
        self.buffer_form = BufferForm(module)
        sizes = tuple(slot.stop - slot.start for slot in self.target.slots)
        form = self.buffer_form
        self.layout = Layout(sizes, len(form.norms), sum(form.channels), form.n_bytes)
        self._start_layout = Layout(sizes, 0, 0, 0)
        self.register_buffer("own", self.target.own_weights(), persistent=False)
        self._start_code = self._rounded_start() if start is Start.KEPT else b""
        self.codes: tuple[TaskCode, ...] = ()
        self.weights: nn.Parameter | None = None
        """The weights of the present task."""
        self.present = TaskBuffers(module)
        """The buffers of the present task."""
        self.steps: np.ndarray | None = None
        """The step index of each tensor, once the present task's weights are rounded during learning."""
        self._sizes: Tensor | None = None
        self._origin = -1
        """The task that the present one started from."""
        self._again: tuple[Tensor, Buffers] | None = None
        """The network of the present task, if it was learned before."""
        self._cache: dict[tuple[bytes, torch.device], tuple[Tensor, Buffers]] = {}

    own: Tensor

    @property
    def n_tasks(self) -> int:
        return len(self.codes) + (self.weights is not None)

    @property
    def device(self) -> torch.device:
        return self.own.device

    @property
    def floats(self) -> torch.dtype:
        return self.own.dtype

    @property
    def moving(self) -> list[Tensor]:
        return [] if self.weights is None else [self.weights]

    # Networks

    def cached_weights(self, task_id: int) -> Tensor:
        with torch.no_grad():
            return self._present_weights() if task_id == len(self.codes) else self._decoded(task_id)[0]

    def run(self, task_id: int, *inputs: Tensor, training: bool, weights: Tensor | None = None) -> Tensor:
        if self.target.training != training:
            self.target.train(training)
        if task_id == len(self.codes):
            weights, buffers = self._present_weights() if weights is None else weights, self.present[0]
        else:
            weights, buffers = self._decoded(task_id)
        return self.target(weights, *inputs, buffers=buffers)

    @torch.no_grad()
    def network_weights(self, task_id: int) -> dict[str, Tensor]:
        return self.target.cut(self.cached_weights(task_id))

    def network_buffers(self, task_id: int) -> Buffers:
        return self.present[0] if task_id == len(self.codes) else self._decoded(task_id)[1]

    def _decoded(self, task_id: int) -> tuple[Tensor, Buffers]:
        """Return a task's network as tensors; it is cached as long as there is room."""
        key = self.codes[task_id].digest, self.device
        if (found := self._cache.get(key)) is None:
            found = self._as_tensors(self._decode_verified(task_id))
            size = sum(tensor.nbytes for tensor in (found[0], *found[1].values()))
            if (len(self._cache) + 1) * size > ROOM:
                self._cache = {}
            self._cache[key] = found
        return found

    def _decode_verified(self, task_id: int) -> Network:
        """Return a task's network as integers, after verifying its digest."""
        network = self._network(task_id)
        if self._digest(network) != self.codes[task_id].digest:
            raise CodeError("A network's code is damaged: the decoded network is not the saved one.")
        return network

    def _network(self, task_id: int) -> Network:
        line = [task_id]
        while (before := self.codes[line[-1]].reference) >= 0:
            line.append(before)
        network = nothing(self.layout)
        for each in reversed(line):
            network = decode_network(self.codes[each].code, network, self.layout)
        return network

    def _as_tensors(self, network: Network) -> tuple[Tensor, Buffers]:
        weights = network.weights(self.own.cpu().numpy(), self.layout)
        rounded = RoundedBuffers(network.moved, network.variances, network.means, network.others, network.exact)
        buffers = self.buffer_form.restored(rounded)
        there = {name: buffer.to(self.device) for name, buffer in buffers.items()}
        return torch.from_numpy(weights).to(self.device), there

    def _digest(self, network: Network) -> bytes:
        """Return a digest of a network's floats, to verify decoding on any machine."""
        weights = network.weights(self.own.cpu().numpy(), self.layout)
        found = hashlib.blake2b(weights.tobytes(), digest_size=DIGEST)
        for numbers in (network.moved, network.variances, network.means, network.others):
            found.update(numbers.astype("<i8").tobytes())
        return found.digest()

    # The step

    def advance(self, progress: float) -> None:
        for optimizer in self.optimizers.values():
            scale_rates(optimizer, fineness.rate(progress))
        if self.steps is None and progress >= fineness.ROUNDED_FROM:
            self.round_by(fineness.while_learning(*self._moved(), self.layout))

    def descend(self, loss: Tensor) -> Terms:
        assert self.weights is not None
        (gradient,) = torch.autograd.grad(loss, [self.weights])
        self.weights.grad = gradient.detach()
        for optimizer in self.optimizers.values():
            optimizer.step()
            forget_gradients(optimizer)
        return {}

    def round_by(self, steps: np.ndarray | None) -> None:
        """From now on, round the present task's weights by these steps; None: do not round."""
        self.steps, self._sizes = steps, None
        if steps is not None:
            sizes = torch.from_numpy(self.layout.expanded(step_size(steps)))
            self._sizes = sizes.to(self.own)

    def _present_weights(self) -> Tensor:
        """Return the present task's weights, rounded; gradients pass as if they were not (straight-through)."""
        weights = self.weights
        assert weights is not None
        if self._sizes is None:
            return weights
        with torch.no_grad():
            to_lattice = ((weights - self.own) / self._sizes).round_().mul_(self._sizes).add_(self.own).sub_(weights)
        return weights + to_lattice

    def finer_than_learned(self) -> Iterator[np.ndarray]:
        """Yield finer and finer steps for the present task."""
        return fineness.finer(self.steps, *self._moved(), self.layout)

    def _moved(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the differences of the present weights to their start, and to the original module."""
        assert self.weights is not None
        weights = self.weights.detach().cpu().double().numpy()
        own = self.own.cpu().double().numpy()
        start = own if self._origin < 0 else self._decoded(self._origin)[0].cpu().double().numpy()
        return weights - start, weights - own

    # Hooks of a task

    def start_learning(self) -> None:
        if self._again is not None:
            self._begin(*self._again)
        elif self._origin >= 0:
            self._begin(*self._decoded(self._origin))
        else:
            self._begin(self.own, {})

    def _begin(self, start: Tensor, buffers: Buffers) -> None:
        self.weights = nn.Parameter(start.clone())
        self.present.select_tasks([])
        self.present.add(self.device)
        for name, buffer in buffers.items():
            self.present[0][name].copy_(buffer)
        self.optimizers = {"weights": self._optimizer_config.build([self.weights])}

    def start_from(self, origin: int) -> None:
        """Restart the present task from the network of another; -1: from the original module."""
        self.round_by(None)
        self._origin = origin
        self.start_learning()

    def finish_learning(self, examples: Examples) -> None:
        if self.steps is None:
            self.round_by(next(self.finer_than_learned()))
        network, origin = self._to_whole_numbers(), self._origin
        self.stop_learning()
        self.codes = (*self.codes, self._coded(network, [-1, origin]))

    def _to_whole_numbers(self) -> Network:
        """Return the present network as integers."""
        assert self.weights is not None
        assert self.steps is not None
        weights, own = self.weights.detach().cpu().numpy(), self.own.cpu().numpy()
        rounded = self.buffer_form.rounded(self.present[0])
        points = nearest_points(weights, own, self.steps, self.layout)
        return Network(self.steps, points, **vars(rounded))

    def _coded(self, network: Network, references: Sequence[int]) -> TaskCode:
        """Return the shortest code of a network, predicted from one of these."""
        allowed = {reference for reference in references if self._depth(reference) < DEEPEST}
        digest = self._digest(network)
        found = (TaskCode(reference, self._code(network, reference), digest) for reference in sorted(allowed))
        return min(found, key=lambda each: len(each.code))

    def _code(self, network: Network, reference: int) -> bytes:
        prediction = nothing(self.layout) if reference < 0 else self._network(reference)
        return encode_network(network, prediction, self.layout)

    def _depth(self, task_id: int) -> int:
        """Return how many networks must be decoded for a task's network."""
        found = 0
        while task_id >= 0:
            task_id, found = self.codes[task_id].reference, found + 1
        return found

    def stop_learning(self) -> None:
        self.weights = self.steps = self._sizes = self._again = None
        self._origin = -1
        self.present.select_tasks([])

    def begin_again(self) -> None:
        last = len(self.codes) - 1
        again, origin = self._decoded(last), self.codes[last].reference
        self.select_tasks(range(last))
        self._again, self._origin = again, origin

    def select_tasks(self, order: Sequence[int]) -> None:
        place = {task_id: new for new, task_id in reversed(list(enumerate(order)))}
        self.codes = tuple(self._placed(task_id, place) for task_id in order)
        self._cache = {}

    def _placed(self, task_id: int, place: dict[int, int]) -> TaskCode:
        """Return a task's code with new task indices; it is coded again if its prediction is dropped."""
        reference = kept = self.codes[task_id].reference
        while kept >= 0 and kept not in place:
            kept = self.codes[kept].reference
        found = self.codes[task_id]
        if kept != reference:
            found = self._coded(self._decode_verified(task_id), [-1, kept])
        return found if found.reference < 0 else replace(found, reference=place[found.reference])

    # Saving and restoring

    @property
    def start_nbytes(self) -> int:
        """Bytes of the starting weights in a file."""
        return len(self._start_code)

    def kept(self) -> Kept:
        return Kept(self.codes, self._origin, self.steps)

    def put_back(self, kept: Kept) -> None:
        self.codes, self._origin, self._cache = kept.codes, kept.origin, {}
        self.round_by(kept.steps)

    def transient(self, name: str) -> bool:
        return name.startswith("target.")  # the module is given again by its owner

    def coded(self) -> dict[str, Tensor]:
        entries = [_ENTRY.pack(code.reference, len(code.code), code.digest) for code in self.codes]
        codes = b"".join([self._start_digest(), *entries, *(code.code for code in self.codes)])
        return {name: _as_tensor(found) for name, found in (("codes", codes), ("start", self._start_code)) if found}

    def take_coded(self, coded: dict[str, Tensor], n_tasks: int) -> None:
        found = {name: tensor.numpy(force=True).tobytes() for name, tensor in coded.items()}
        if (self.start is Start.KEPT) != ("start" in found):
            raise CheckpointError("The checkpoint does not fit this learner: the starting weights are missing.")
        if self.start is Start.KEPT:
            self._take_start(found["start"])
        codes = found.get("codes", b"")
        if codes[:DIGEST] != self._start_digest():
            raise CheckpointError(
                "The starting weights are not those of the saved model: load the same (pretrained) weights "
                "into the module first."
            )
        self.codes = _read_codes(codes[DIGEST:], n_tasks)
        self._cache = {}

    def _rounded_start(self) -> bytes:
        """Round the starting weights to about a byte each, for the file; return their code."""
        own = self.own.cpu().double().numpy()
        layout, none = self._start_layout, nothing(self._start_layout)
        steps = fineness.of_start(own, layout)
        network = replace(none, steps=steps, points=nearest_points(own, 0 * own, steps, layout))
        code = encode_network(network, none, layout)
        self._take_start(code)
        return code

    def _take_start(self, code: bytes) -> None:
        network = decode_network(code, nothing(self._start_layout), self._start_layout)
        zeros = np.zeros_like(self.own.cpu().numpy())
        self.own.copy_(torch.from_numpy(network.weights(zeros, self._start_layout)))
        self._start_code = code

    def _start_digest(self) -> bytes:
        return hashlib.blake2b(self.own.cpu().numpy().tobytes(), digest_size=DIGEST).digest()


def _as_tensor(code: bytes) -> Tensor:
    return torch.frombuffer(bytearray(code), dtype=torch.uint8)


def _read_codes(codes: bytes, n_tasks: int) -> tuple[TaskCode, ...]:
    """Return the codes of `n_tasks` tasks; refuse references that are missing or circular."""
    at, found = _ENTRY.size * n_tasks, list[TaskCode]()
    if len(codes) < at:
        raise CodeError("The codes of the networks are damaged: there are fewer codes than tasks.")
    for reference, length, digest in _ENTRY.iter_unpack(codes[:at]):
        if not -1 <= reference < n_tasks or length < 0:
            raise CodeError("The codes of the networks are damaged: one refers to a task that does not exist.")
        found.append(TaskCode(reference, codes[at : at + length], digest))
        at += length
    if at != len(codes):
        raise CodeError("The codes of the networks are damaged: their lengths do not add up.")
    for code in found:
        depth, each = 1, code
        while each.reference >= 0:
            depth, each = depth + 1, found[each.reference]
            if depth > DEEPEST:
                raise CodeError("The codes of the networks are damaged: a chain of predictions is too long.")
    return tuple(found)
