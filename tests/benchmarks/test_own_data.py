"""Data of one's own become tasks in a line, and what is wrong with them is said in one."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import TensorDataset

from mnemon.benchmarks.own_data import (
    stream_from_arrays,
    stream_from_csv,
    stream_from_datasets,
    stream_from_folder,
)
from mnemon.benchmarks.task import TaskKind, names
from mnemon.errors import DataError

X = np.arange(40.0).reshape(10, 4)
Y = np.arange(10) % 2


def refused(message: str):
    return pytest.raises(DataError, match=f"^{re.escape(message)}")


def labels(stream) -> list[set[int]]:
    return [set(task.train.targets.tolist()) | set(task.test.targets.tolist()) for task in stream.tasks]


# Arrays


def test_arrays_become_tasks_with_a_fifth_held_out():
    stream = stream_from_arrays({"left": (X, Y), "right": (-X, Y)})
    assert names(stream.tasks) == ["left", "right"]
    assert (stream.kind, stream.input_shape, stream.outputs_per_task) == (TaskKind.CLASSIFICATION, (4,), 2)
    for task in stream.tasks:
        assert (len(task.train), len(task.test)) == (8, 2)
        together = torch.cat([task.train.inputs, task.test.inputs])
        assert sorted(together.abs().flatten().tolist()) == X.flatten().tolist()


def test_which_examples_are_held_out_follows_from_the_seed():
    one, same, other = (stream_from_arrays([(X, Y)], seed=seed).tasks[0].test.inputs for seed in (0, 0, 1))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_test_data_that_are_given_are_taken():
    (task,) = stream_from_arrays([(X, Y, X[:3], Y[:3])]).tasks
    assert (len(task.train), len(task.test), task.name) == (10, 3, "1")
    assert torch.equal(task.test.inputs, torch.tensor(X[:3], dtype=torch.float32))


@pytest.mark.parametrize("make", [torch.tensor, list, lambda x: x, lambda x: [torch.tensor(row) for row in x]])
def test_arrays_tensors_and_lists_come_to_the_same(make):
    expected = stream_from_arrays([(X, Y)]).tasks[0].train
    train = stream_from_arrays([(make(X), make(Y) if make is not list else Y.tolist())]).tasks[0].train
    assert torch.equal(train.inputs, expected.inputs)
    assert torch.equal(train.targets, expected.targets)


def test_tasks_without_common_classes_count_their_own():
    stream = stream_from_arrays([(X, Y + 4), (X, Y + 6), (X, ["cat", "dog"] * 5)])
    assert labels(stream) == [{0, 1}] * 3
    assert stream.outputs_per_task == 2


def test_classes_that_tasks_share_have_the_same_number():
    stream = stream_from_arrays([(X, ["cat", "dog"] * 5), (X, ["dog", "eel"] * 5)])
    assert labels(stream) == [{0, 1}, {1, 2}]
    assert stream.outputs_per_task == 3


@pytest.mark.parametrize(("targets", "width"), [(X[:, 0], 1), (X[:, :3], 3)])
def test_floats_are_numbers_to_predict(targets, width):
    stream = stream_from_arrays([(X, targets)])
    assert (stream.kind, stream.outputs_per_task) == (TaskKind.REGRESSION, width)
    assert stream.tasks[0].train.targets.shape == (8, width)


def test_bytes_stay_bytes_until_they_are_used():
    train = stream_from_arrays([(np.full((10, 4), 255, np.uint8), Y)]).tasks[0].train
    assert train.inputs.dtype is torch.uint8
    assert float(train.batch(slice(0, 1))[0].max()) == 1.0


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ([], "A benchmark needs at least one task."),
        ([X], "Task '1' must be (inputs, targets), or these and (test inputs, test targets)."),
        ({"a": (X, Y, X)}, "Task 'a' must be (inputs, targets), or these and (test inputs, test targets)."),
        ({"a": (X[:0], Y[:0])}, "Task 'a' is empty."),
        ({"a": (X, Y[:9])}, "Task 'a' has 10 inputs but 9 targets."),
        ({"a": (X[:, 0], Y)}, "The inputs of task 'a' have shape (10,): a row for each is expected."),
        ({"a": ([[1.0], [1.0, 2.0]], [0, 1])}, "The inputs of task 'a' are no array of numbers of one shape: "),
        ({"a": (X + np.inf, Y)}, "The inputs of task 'a' hold values that are not finite numbers."),
        ({"a": (X, X[:, 0] * np.nan)}, "The targets of task 'a' hold values that are not finite numbers."),
        ({"a": (X, Y[:, None])}, "The targets of task 'a' have shape (10, 1): one class for each is expected."),
        ({"a": (X[:1], Y[:1])}, "Task 'a' has 1 example: too few to test on a part of them."),
        ({"a": (X, X[:, 0]), "b": (X, ["x"] * 10)}, "The targets of task 'b' are words, those of others numbers"),
    ],
)
def test_what_is_wrong_with_arrays_is_said(tasks, message):
    with refused(message):
        stream_from_arrays(tasks)


def test_tasks_have_inputs_of_one_shape():
    with pytest.raises(Exception, match=r"Inputs of task 'b', training set have shape \(3,\); \(4,\) is expected."):
        stream_from_arrays({"a": (X, Y), "b": (X[:, :3], Y)})


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1])
def test_an_impossible_share_is_refused(share):
    with refused(f"test_share must lie between 0 and 1, not {share}."):
        stream_from_arrays([(X, Y)], test_share=share)


# Torch data sets


def test_data_sets_become_tasks():
    data = TensorDataset(torch.tensor(X), torch.tensor(Y))
    stream = stream_from_datasets({"a": data, "b": (data, data)})
    assert [(len(task.train), len(task.test)) for task in stream.tasks] == [(8, 2), (10, 10)]
    assert labels(stream) == [{0, 1}, {0, 1}]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (iter([]), "Task 'a' must be a data set with a length and items, not list_iterator."),
        (TensorDataset(torch.zeros(0, 2)), "Task 'a' is empty."),
        (TensorDataset(torch.zeros(3, 2)), "The items of task 'a' must be (input, target)."),
    ],
)
def test_what_is_wrong_with_a_data_set_is_said(data, message):
    with refused(message):
        stream_from_datasets({"a": data})


# Folders of images


def picture(path: Path, mode: str = "L", size: tuple[int, int] = (6, 5), value: int = 7) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, value if mode == "L" else (value, 0, 255)).save(path)


def pictures(home: Path, mode: str = "L") -> None:
    for place in ("pets/cat", "pets/dog", "food/apple", "food/pear"):
        for i in range(3):
            picture(home / place / f"{i}.png", mode)


@pytest.mark.parametrize(("mode", "channels"), [("L", 1), ("RGB", 3)])
def test_a_folder_of_images_becomes_tasks(mode, channels, tmp_path):
    pictures(tmp_path, mode)
    (tmp_path / "pets" / "cat" / "notes.txt").write_text("no image")
    stream = stream_from_folder(tmp_path)
    assert names(stream.tasks) == ["food", "pets"]
    assert stream.input_shape == (channels, 5, 6)
    assert stream.name == tmp_path.name
    assert labels(stream) == [{0, 1}, {0, 1}]
    assert int(stream.tasks[0].train.inputs[0, 0, 0, 0]) == 7


def test_images_may_be_divided_already(tmp_path):
    for part in ("train", "test"):
        pictures(tmp_path / part)
    assert [(len(task.train), len(task.test)) for task in stream_from_folder(tmp_path).tasks] == [(6, 6), (6, 6)]


def test_images_of_different_sizes_are_scaled_or_refused(tmp_path):
    pictures(tmp_path)
    picture(tmp_path / "food" / "apple" / "9.png", size=(8, 8))
    with refused("Images are of different sizes, 5 x 6 and 8 x 8 ("):
        stream_from_folder(tmp_path)
    assert stream_from_folder(tmp_path, size=(4, 3)).input_shape == (1, 4, 3)


def test_what_is_wrong_with_a_folder_is_said(tmp_path):
    with refused(f"There is no folder {tmp_path / 'no'}."):
        stream_from_folder(tmp_path / "no")
    with refused(f"There is no folder of a task in {tmp_path}: images are in TASK/CLASS/IMAGE."):
        stream_from_folder(tmp_path)
    (tmp_path / "pets" / "cat").mkdir(parents=True)
    with refused(f"There is no image in {tmp_path / 'pets'}: images are in TASK/CLASS/IMAGE, such as 0.png."):
        stream_from_folder(tmp_path)
    (tmp_path / "pets" / "cat" / "0.png").write_text("no image")
    with refused(f"The image {tmp_path / 'pets' / 'cat' / '0.png'} cannot be read: "):
        stream_from_folder(tmp_path)


# CSV


def table(path: Path, targets: str = "01", head: str = "task,a,b,target") -> Path:
    rows = [f"{task},{i},{-i}.5,{targets[i % len(targets)]}" for task in ("may", "june") for i in range(10)]
    path.write_text("\n".join([head, *rows]) + "\n")
    return path


def test_a_csv_file_becomes_tasks(tmp_path):
    stream = stream_from_csv(table(tmp_path / "visits.csv"))
    assert (stream.name, stream.input_shape, stream.outputs_per_task) == ("visits", (2,), 2)
    assert names(stream.tasks) == ["may", "june"], "in the order in which they first occur"
    train = stream.tasks[0].train
    assert torch.equal(train.targets, train.inputs[:, 0].long() % 2)
    assert torch.equal(train.inputs[:, 1].frac().abs(), torch.full((8,), 0.5))


def test_words_are_classes_and_numbers_with_a_point_are_predicted(tmp_path):
    path = table(tmp_path / "visits.csv", targets="yn")
    assert stream_from_csv(path).kind is TaskKind.CLASSIFICATION
    path.write_text("task,a,target\n" + "x,1,0.5\nx,2,1\n" * 5)
    assert stream_from_csv(path).kind is TaskKind.REGRESSION


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tasks,a,target\nx,1,0\n", "{} has no column 'task'. Did you mean 'tasks'? It has: tasks, a, target."),
        ("task,a\nx,1\n", "{} has no column 'target'. It has: task, a."),
        ("task,target\nx,1\n", "{} has no columns of inputs beside the names of columns."),
        ("task,a,target\n", "{} has no lines beside the names of columns."),
        ("task,a,target\nx,1,0\nx,one,0\n", "{}, line 3: column 'a' holds 'one', which is no number."),
        ("task,a,target\nx\n", "{}, line 2: column 'a' holds None, which is no number."),
        ("", "{} has no column 'task'. It has: ."),
    ],
)
def test_what_is_wrong_with_a_csv_file_is_said(text, message, tmp_path):
    path = tmp_path / "it.csv"
    path.write_text(text)
    with refused(message.format(path)):
        stream_from_csv(path)


def test_a_csv_file_that_is_not_there_is_named(tmp_path):
    with refused(f"The file {tmp_path / 'no.csv'} cannot be read: "):
        stream_from_csv(tmp_path / "no.csv")
