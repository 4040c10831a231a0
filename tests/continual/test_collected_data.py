"""Data of every kind become the same whole tensors, and what is wrong with them is said in one line."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from mnemon.continual.data import KINDS, Data, collect, collect_inputs
from mnemon.errors import UsageError

X = torch.arange(24.0).reshape(6, 4) / 24
Y = torch.tensor([4, 5, 4, 5, 4, 5])


class Examples(Dataset):
    """Pairs of a tensor and a plain number."""

    def __len__(self):
        return len(X)

    def __getitem__(self, i):
        return X[i], int(Y[i])


class Endless(IterableDataset):
    """The same, but one after another only."""

    def __iter__(self):
        return iter(Examples()[i] for i in range(len(X)))


class Experience:
    """The shape of an Avalanche experience."""

    classes_in_this_experience = (4, 5)

    def __init__(self):
        self.dataset = [(x, int(y), 3) for x, y in zip(X, Y, strict=True)]


class TaskSet(Examples):
    """The shape of a continuum task set."""

    nb_classes = 2

    def get_raw_samples(self, indexes=None):
        raise AssertionError("raw samples are not transformed")

    def __getitem__(self, i):
        return X[i].numpy(), int(Y[i]), 0


class Frame:
    """Something that numpy can read, as a pandas frame."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.values, dtype)


GOOD = {
    "tensors": lambda: (X, Y),
    "a list of two tensors": lambda: [X, Y],
    "arrays": lambda: (X.numpy(), Y.numpy()),
    "double arrays": lambda: (X.numpy().astype(np.float64), Y.numpy().astype(np.int32)),
    "turned arrays": lambda: (X.numpy()[::-1], Y.numpy()[::-1]),
    "arrays of the other byte order": lambda: (X.numpy().astype(">f4"), Y.numpy().astype(">i8")),
    "plain lists": lambda: (X.tolist(), Y.tolist()),
    "frames": lambda: (Frame(X.numpy()), Frame(Y.numpy())),
    "one input in a tuple": lambda: ((X,), Y),
    "unsigned labels": lambda: (X, Y.to(torch.uint8)),
    "tensors with gradients": lambda: (X.clone().requires_grad_(), Y),
    "a list of examples": lambda: [(x, int(y)) for x, y in zip(X, Y, strict=True)],
    "Dataset": Examples,
    "IterableDataset": Endless,
    "TensorDataset": lambda: TensorDataset(X, Y),
    "DataLoader": lambda: DataLoader(Examples(), batch_size=4),
    "DataLoader of arrays": lambda: DataLoader(
        Examples(),
        batch_size=4,
        collate_fn=lambda some: (np.stack([x for x, _ in some]), np.array([y for _, y in some])),
    ),
    "Avalanche experience": Experience,
    "continuum task set": TaskSet,
}


@pytest.mark.parametrize("kind", GOOD)
def test_data_of_every_kind_become_the_same_tensors(kind):
    data = collect(GOOD[kind]()).to(torch.device("cpu"))
    order = torch.arange(6).flip(0) if kind == "turned arrays" else slice(None)
    ((inputs,), targets) = data.batch(slice(None))
    assert len(data) == 6
    assert torch.equal(inputs, X[order])
    assert torch.equal(targets, Y[order])
    assert (inputs.dtype, targets.dtype) == (torch.float32, torch.int64)
    assert not inputs.requires_grad


SEVERAL = {
    "tuple": lambda: ((X, X + 1), Y),
    "list": lambda: ([X.numpy(), (X + 1).numpy()], Y),
    "TensorDataset": lambda: TensorDataset(X, X + 1, Y),
    "flat examples": lambda: [(x, x + 1, int(y)) for x, y in zip(X, Y, strict=True)],
    "nested examples": lambda: [((x, x + 1), int(y)) for x, y in zip(X, Y, strict=True)],
}


@pytest.mark.parametrize("kind", SEVERAL)
def test_a_module_may_have_several_inputs(kind):
    first, second = collect(SEVERAL[kind]()).inputs
    assert torch.equal(first, X)
    assert torch.equal(second, X + 1)


def test_two_examples_in_a_list_are_examples_and_no_pair_of_inputs_and_targets():
    data = collect([(X[0], 4), (X[1], 5)])
    assert torch.equal(data.inputs[0], X[:2])
    assert data.targets.tolist() == [4, 5]


def test_bytes_become_floats_from_0_to_1_when_a_batch_is_taken():
    images = torch.tensor([[0, 51, 255]], dtype=torch.uint8).repeat(6, 1)
    data = collect((images, Y))
    assert data.inputs[0].dtype == torch.uint8
    (inputs,), _ = data.batch(torch.tensor([2, 0]))
    assert torch.equal(inputs, torch.tensor([[0.0, 0.2, 1.0]]).repeat(2, 1))
    assert torch.equal(collect_inputs(images)[0], torch.tensor([[0.0, 0.2, 1.0]]).repeat(6, 1))
    assert images[0].tolist() == [0, 51, 255]


@pytest.mark.parametrize("floats", [torch.bfloat16, torch.float16, torch.float32, torch.float64, None])
def test_floats_are_of_the_type_that_the_module_takes(floats):
    images = (X * 255).to(torch.uint8)
    data = collect(((X.double(), images, torch.arange(6)), X.double())).to(torch.device("cpu"), floats)
    inputs, targets = data.batch(slice(None))
    assert [part.dtype for part in inputs] == [floats or torch.float32] * 2 + [torch.int64]
    assert targets.dtype == (torch.float64 if floats is torch.float64 else torch.float32)
    (predicted,) = collect_inputs(X.double(), torch.device("cpu"), floats)
    assert torch.equal(predicted, inputs[0])


def test_truth_values_stay_and_whole_numbers_become_long():
    assert collect((X, Y == 4)).targets.dtype == torch.bool
    assert collect((X, Y.to(torch.int16))).targets.dtype == torch.int64


@pytest.mark.parametrize("kind", ["Dataset", "DataLoader", "shuffled"])
def test_reading_data_draws_no_random_numbers_of_the_user(kind):
    data = DataLoader(Examples(), batch_size=4, shuffle=True) if kind == "shuffled" else GOOD[kind]()
    before = torch.random.get_rng_state()
    first = collect(data)
    assert torch.equal(before, torch.random.get_rng_state())
    torch.rand(3)
    assert torch.equal(first.inputs[0], collect(data).inputs[0])


def test_moving_data_gives_data():
    data = collect((X, Y)).to(torch.device("cpu"))
    assert isinstance(data, Data)
    assert data.device == torch.device("cpu")


def with_value(value: float) -> torch.Tensor:
    return torch.where(torch.arange(24).reshape(6, 4) == 14, value, X)


EXAMPLE = "data: an example must be (inputs …, target) of tensors, arrays or numbers."
BAD = [
    (lambda: "text", f"data must be {KINDS}, not str."),
    (lambda: None, f"data must be {KINDS}, not NoneType."),
    (lambda: X, f"data must be {KINDS}, not Tensor."),
    (lambda: X.numpy(), f"data must be {KINDS}, not ndarray."),
    (lambda: {"x": X, "y": Y}, f"data must be {KINDS}, not dict."),
    (lambda: iter([(X, Y)]), f"data must be {KINDS}, not list_iterator."),
    (
        lambda: (X, X, Y),
        "data must be a pair (inputs, targets), not 3 values; several inputs go into a tuple: "
        "((first, second), targets).",
    ),
    (
        lambda: (X,),
        "data must be a pair (inputs, targets), not 1 values; several inputs go into a tuple: "
        "((first, second), targets).",
    ),
    (lambda: (X[:0], Y[:0]), "data: it is empty."),
    (list, "data: it is empty."),
    (lambda: DataLoader(TensorDataset(X[:0], Y[:0])), "data: it is empty."),
    (lambda: TensorDataset(Y), "data: there are targets but no inputs."),
    (lambda: ((), Y), "data: there are targets but no inputs."),
    (lambda: (X, Y[1:]), "data: there are 6 inputs but 5 targets."),
    (lambda: ((X, X[2:]), Y), "data: there are 4 inputs but 6 targets."),
    (lambda: (with_value(float("nan")), Y), "data: inputs hold a value that is not finite, first in example 3."),
    (lambda: (with_value(float("-inf")), Y), "data: inputs hold a value that is not finite, first in example 3."),
    (
        lambda: (X, with_value(float("nan"))[:, 2]),
        "data: targets hold a value that is not finite, first in example 3.",
    ),
    (lambda: (X, np.array(["a"] * 6)), "data: targets must be numbers, not <U1."),
    (lambda: (np.array([None] * 6), Y), "data: inputs must be numbers, not object."),
    (lambda: (X, ["a"] * 6), "data: targets must be tensors or arrays of numbers: too many dimensions 'str'."),
    (lambda: (X, 3), "data: targets must hold one entry per example, not a single number."),
    (lambda: (X + 1j, Y), "data: inputs must be real numbers, not complex64."),
    (lambda: [(x, "a") for x in X], EXAMPLE),
    (lambda: [(x,) for x in X], EXAMPLE),
    (lambda: DataLoader([{"x": x} for x in X]), EXAMPLE),
    (
        lambda: [(X[0], 1), (X[1, :2], 1)],
        "data: its examples cannot be combined: stack expects each tensor to be equal size, but got [4] at entry "
        "0 and [2] at entry 1.",
    ),
    (
        lambda: DataLoader([(X[0], 1), (X[1, :2], 1)], batch_size=1),
        "data: its batches cannot be combined: Sizes of tensors must match except in dimension 0. Expected size 4"
        " but got size 2 for tensor number 1 in the list.",
    ),
    (
        lambda: DataLoader([(X[0], 1), (X[1], X[1], 1)], batch_size=1),
        "data: some batches have 2 parts and others 3.",
    ),
    (
        lambda: DataLoader([(X[0], 1)], batch_size=None),
        EXAMPLE,
    ),
]


@pytest.mark.parametrize(("make", "message"), BAD, ids=[f"{i}: {m[:50]}" for i, (_, m) in enumerate(BAD)])
def test_bad_data_are_named_in_one_line(make, message):
    with pytest.raises(UsageError) as error:
        collect(make())
    assert str(error.value) == message


def test_examples_that_cannot_be_joined_are_named():
    with pytest.raises(UsageError, match=r"^data: its examples cannot be combined: default_collate: .*object"):
        collect([(object(), 1), (object(), 2)])


def test_an_error_of_the_users_own_data_set_is_theirs():
    class Broken(Examples):
        def __getitem__(self, i):
            raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        collect(Broken())


BAD_INPUTS = [
    (lambda: X[:0], "There are no inputs."),
    (lambda: (), "There are no inputs."),
    (lambda: (X, X[1:]), "The inputs have different lengths: 6, 5."),
    (lambda: with_value(float("nan")), "inputs hold a value that is not finite, first in example 3."),
    (lambda: "text", "inputs must be tensors or arrays of numbers: new(): invalid data type 'str'."),
    (lambda: 3.0, "inputs must hold one entry per example, not a single number."),
]


@pytest.mark.parametrize(("make", "message"), BAD_INPUTS, ids=[message for _, message in BAD_INPUTS])
def test_bad_inputs_are_named_in_one_line(make, message):
    with pytest.raises(UsageError) as error:
        collect_inputs(make())
    assert str(error.value) == message
