"""The data sets that benchmarks are made of: where they are looked for, checked, and read as tensors."""

from __future__ import annotations

import gzip
import importlib.metadata
import importlib.util
import os
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mnemon.benchmarks import cifar, files, idx
from mnemon.benchmarks.cifar import RecordFile
from mnemon.benchmarks.files import DataFile
from mnemon.benchmarks.idx import IdxFile
from mnemon.errors import DataError, choose

# torch, numpy, scikit-learn and pooch are imported where they are used: what is known here comes at once.
if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

ENVIRONMENT_VARIABLE = "MNEMON_DATA"
DIGITS_MD5 = "7696c07daa6d85010f8268703ab8b067"
DIGITS_TEST_EVERY = 4


@dataclass(frozen=True)
class DataSet:
    """What a data set consists of and where it can be got."""

    name: str
    title: str
    """Its name in sentences."""
    short: str
    """Its name within those of benchmarks: split-fashion."""
    image_shape: tuple[int, ...]
    n_classes: int = 10
    files: tuple[DataFile, ...] = ()
    """What holds training images and labels, then test images and labels; none if the set comes with scikit-learn."""
    places: tuple[str, ...] = ()
    """Where in a data folder it may lie: under its own name, or as others leave it."""
    mirrors: tuple[str, ...] = ()
    archive: Archive | None = None
    """What the mirrors have, if not the files one by one."""


@dataclass(frozen=True)
class Archive:
    """A tar archive with all files of a set."""

    name: str
    md5: str
    folder: str
    """Where in the archive the files are."""


@dataclass(frozen=True)
class ImageSet:
    """A data set in memory: images (n, height, width) or (n, channels, height, width) as bytes or floats from 0 to 1,
    labels as integers.
    """

    name: str
    n_classes: int
    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor


@dataclass(frozen=True)
class DataStatus:
    """What `mnemon data` says of a data set."""

    name: str
    present: bool
    """All of its files were found; whether they are good is `verified`."""
    verified: bool
    where: str | None
    problem: str | None
    """What is damaged or missing, in one line."""
    how: str
    """How to get it."""


def mnist_like(train_images: str, train_labels: str, test_images: str, test_labels: str) -> tuple[IdxFile, ...]:
    """Return the four files that MNIST and its successors consist of, given the md5 of each."""
    return (
        IdxFile("train-images-idx3-ubyte", (60_000, 28, 28), train_images),
        IdxFile("train-labels-idx1-ubyte", (60_000,), train_labels),
        IdxFile("t10k-images-idx3-ubyte", (10_000, 28, 28), test_images),
        IdxFile("t10k-labels-idx1-ubyte", (10_000,), test_labels),
    )


TORONTO = ("https://www.cs.toronto.edu/~kriz", "https://cave.cs.toronto.edu/kriz")

DATASETS: dict[str, DataSet] = {
    "digits": DataSet(name="digits", title="Digits", short="digits", image_shape=(8, 8)),
    "mnist": DataSet(
        name="mnist",
        title="MNIST",
        short="mnist",
        image_shape=(28, 28),
        files=mnist_like(
            train_images="6bbc9ace898e44ae57da46a324031adb",
            train_labels="a25bea736e30d166cdddb491f175f624",
            test_images="2646ac647ad5339dbf082846283269ea",
            test_labels="27ae3e4e09519cfbb04c329615203637",
        ),
        places=("mnist", "MNIST/raw"),
        mirrors=(
            "https://ossci-datasets.s3.amazonaws.com/mnist",
            "https://storage.googleapis.com/cvdf-datasets/mnist",
        ),
    ),
    "fashion-mnist": DataSet(
        name="fashion-mnist",
        title="Fashion-MNIST",
        short="fashion",
        image_shape=(28, 28),
        files=mnist_like(
            train_images="f4a8712d7a061bf5bd6d2ca38dc4d50a",
            train_labels="9018921c3c673c538a1fc5bad174d6f9",
            test_images="8181f5470baa50b63fa0f6fddb340f0a",
            test_labels="15d484375f8d13e6eb1aabb0c3f46965",
        ),
        places=("fashion-mnist", "FashionMNIST/raw"),
        mirrors=(
            "https://storage.googleapis.com/tensorflow/tf-keras-datasets",
            "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion",
        ),
    ),
    "cifar-10": DataSet(
        name="cifar-10",
        title="CIFAR-10",
        short="cifar-10",
        image_shape=cifar.SHAPE,
        files=(
            RecordFile("data_batch_1.bin", 10_000, 1, "5dd7e06a14cb22eb9f671a540d1b7c25"),
            RecordFile("data_batch_2.bin", 10_000, 1, "5ea93a67294ea407fff1d09f752e9692"),
            RecordFile("data_batch_3.bin", 10_000, 1, "942cd6a4bcdd0dd3c604fbe906cb4421"),
            RecordFile("data_batch_4.bin", 10_000, 1, "ae636b3ba5c66a11e91e8cb52e771fcb"),
            RecordFile("data_batch_5.bin", 10_000, 1, "53f37980c15c3d472c316c40844f3f0d"),
            RecordFile("test_batch.bin", 10_000, 1, "803d5f7f4d78ea53de84dbe85f74fb6d"),
        ),
        places=("cifar-10-batches-bin", "cifar-10"),
        mirrors=(*TORONTO, "https://apache-mxnet.s3-accelerate.dualstack.amazonaws.com/gluon/dataset/cifar10"),
        archive=Archive("cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530", "cifar-10-batches-bin"),
    ),
    "cifar-100": DataSet(
        name="cifar-100",
        title="CIFAR-100",
        short="cifar-100",
        image_shape=cifar.SHAPE,
        n_classes=100,
        files=(
            RecordFile("train.bin", 50_000, 2, "6172c7755cfe09b2fe270c85cebc1b15"),
            RecordFile("test.bin", 10_000, 2, "4499cfba6c016c1be1438163640a0898"),
        ),
        places=("cifar-100-binary", "cifar-100"),
        mirrors=(*TORONTO, "https://apache-mxnet.s3-accelerate.dualstack.amazonaws.com/gluon/dataset/cifar100"),
        archive=Archive("cifar-100-binary.tar.gz", "03b5dce01913d631647c71ecec9e9cb8", "cifar-100-binary"),
    ),
}


def load(name: str, data: Path | None = None) -> ImageSet:
    """Return a data set from the folder `data`, else MNEMON_DATA, else the cache, else the network."""
    dataset = choose("data set", name, DATASETS)
    if not dataset.files:
        # A wrong --data is a mistake even where no file is needed; a stale variable must not stop such a run.
        check_named_folder(data)
        return load_digits(dataset)
    folders = search_folders(data)
    contents = [content_of(dataset, file, folders) for file in dataset.files]
    tensors: Any = cifar.tensors if dataset.archive else idx.tensors
    train_images, train_labels, test_images, test_labels = tensors(contents, dataset.files)
    return ImageSet(
        dataset.short, dataset.n_classes, train_images, train_labels.long(), test_images, test_labels.long()
    )


def cache_folder() -> Path:
    """Return the folder for downloads, the one that the operating system provides for such things."""
    import pooch

    return Path(pooch.os_cache("mnemon"))


def check_named_folder(data: Path | str | None, origin: str = "--data") -> None:
    """Refuse a folder that the user names and that is not there."""
    if data is not None and not os.path.isdir(os.path.expanduser(data)):
        raise DataError(
            f"The data folder '{data}' ({origin}) does not exist. "
            f"Name a folder that holds the data sets, or none to use the cache."
        )


def search_folders(data: Path | str | None) -> list[Path]:
    """Return the folders to look in: the one that the user names, if any, and the cache."""
    variable = os.environ.get(ENVIRONMENT_VARIABLE)
    named, origin = (variable or None, ENVIRONMENT_VARIABLE) if data is None else (data, "--data")
    if named is None:
        return [cache_folder()]
    check_named_folder(named, origin)
    return [Path(named).expanduser(), cache_folder()]


def content_of(dataset: DataSet, file: DataFile, folders: list[Path]) -> bytearray:
    """Return the verified content of a file, downloaded if no folder has it."""
    found = locate(dataset, file, folders)
    return found[1] if found else download_missing(dataset, file, folders)


def locate(dataset: DataSet, file: DataFile, folders: list[Path]) -> tuple[Path, bytearray] | None:
    """Return where a file is and its verified content, or None; a damaged file on the way is an error."""
    for folder in folders:
        for place in dataset.places if dataset.archive else (*dataset.places, "."):
            for name in (file.name, f"{file.name}.gz"):
                path = folder / place / name
                if not os.path.isfile(path):
                    continue
                content = files.read(path, file)
                # Sets share file names: outside a folder of its own, only the content tells whose a file is.
                if place == "." and files.digest(content) in foreign_md5s(dataset):
                    continue
                files.check_md5(content, path, file)
                return path, content
    return None


def foreign_md5s(dataset: DataSet) -> set[str]:
    """Return the md5 sums of all files of the other data sets."""
    return {file.md5 for other in DATASETS.values() if other.name != dataset.name for file in other.files}


def download_missing(dataset: DataSet, file: DataFile, folders: list[Path]) -> bytearray:
    """Download a file into the cache and return its content, or say how else to get it."""
    from mnemon.benchmarks.download import download, download_archive

    folder = cache_folder() / dataset.name
    try:
        if dataset.archive is not None:
            download_archive(dataset.archive, dataset.files, dataset.mirrors, folder)
            path = folder / file.name
        else:
            path = download(file, dataset.mirrors, folder)
    except DataError as error:
        searched = " or ".join(f"'{place}'" for place in folders)
        what = (
            f"unpack {dataset.mirrors[0]}/{dataset.archive.name}"
            if dataset.archive
            else (f"save the files of {dataset.mirrors[0]}/")
        )
        raise DataError(
            f"{dataset.title} is not in {searched}, and {error}. Name a folder that holds it with "
            f"--data FOLDER or {ENVIRONMENT_VARIABLE}, or {what} in '{folder}'."
        ) from error
    return files.read(path, file)


def digits_arrays() -> tuple[np.ndarray, np.ndarray]:
    """Return scikit-learn's 1,797 images of 8 x 8 values from 0 to 16 and their labels, as bytes."""
    import numpy as np

    table = _digits_table().astype(np.uint8)
    images, labels = table[:, :-1], table[:, -1]
    found = files.digest(images.tobytes() + labels.tobytes())
    if found != DIGITS_MD5:
        raise DataError(
            f"The digits of scikit-learn {importlib.metadata.version('scikit-learn')} should have md5 {DIGITS_MD5} "
            f"and have {found}. Install another version of scikit-learn."
        )
    return images.reshape(-1, 8, 8), labels


def _digits_table() -> np.ndarray:
    """Return a row for each digit: 64 values and the label.

    They are read from scikit-learn's own file, without scikit-learn, whose import takes as long as torch's.
    """
    import numpy as np

    path = _digits_file()
    if path is None:  # another version may keep them elsewhere
        from sklearn.datasets import load_digits

        return np.column_stack(load_digits(return_X_y=True))
    try:
        with gzip.open(path, "rt", encoding="ascii") as file:
            lines = file.readlines()
        if not lines:
            raise ValueError("it is empty")
        return np.loadtxt(lines, delimiter=",", ndmin=2)
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise DataError(f"'{path}' cannot be read: {error}. Install scikit-learn again.") from error


def _digits_file() -> Path | None:
    """Return where scikit-learn keeps its digits, if it is there."""
    found = importlib.util.find_spec("sklearn")  # imports nothing
    homes = found.submodule_search_locations if found else None
    paths = [Path(home, "datasets", "data", "digits.csv.gz") for home in homes or ()]
    return next((path for path in paths if path.is_file()), None)


def digits_test_mask(labels: np.ndarray) -> np.ndarray:
    """Mark the test images: within each class, in the order of the set, every fourth one.

    The set has no official split. This one is the same for every seed, keeps the classes' shares, and mixes
    the writers, whose images lie side by side: 1,352 images to learn from and 445 to be tested on.
    """
    import numpy as np

    mask = np.zeros(len(labels), dtype=bool)
    for label in np.unique(labels):
        places = np.flatnonzero(labels == label)
        mask[places[DIGITS_TEST_EVERY - 1 :: DIGITS_TEST_EVERY]] = True
    return mask


def load_digits(dataset: DataSet) -> ImageSet:
    """Return the digits with values from 0 to 1 in steps of 1/16, which bytes over 255 cannot hold."""
    import torch

    images, labels = digits_arrays()
    test = torch.from_numpy(digits_test_mask(labels))
    values = torch.from_numpy(images).to(torch.get_default_dtype()) / 16
    targets = torch.from_numpy(labels).long()
    return ImageSet(dataset.short, dataset.n_classes, values[~test], targets[~test], values[test], targets[test])


def status(data: Path | None = None) -> list[DataStatus]:
    """Say of every data set whether it is at hand and good; nothing is downloaded."""
    return [file_status(s, search_folders(data)) if s.files else digits_status(s) for s in DATASETS.values()]


def digits_status(dataset: DataSet) -> DataStatus:
    """Check the set that comes with scikit-learn."""
    how = "part of scikit-learn, no download needed"
    try:
        digits_arrays()
    except DataError as error:
        return DataStatus(dataset.name, True, False, "scikit-learn", str(error), how)
    return DataStatus(dataset.name, True, True, "scikit-learn", None, how)


def file_status(dataset: DataSet, folders: list[Path]) -> DataStatus:
    """Look for a set's files and check those that are found."""
    how = f"downloaded on first use from {dataset.mirrors[0]}/, or --data FOLDER or {ENVIRONMENT_VARIABLE}"
    try:
        found = {file.name: locate(dataset, file, folders) for file in dataset.files}
    except DataError as error:
        return DataStatus(dataset.name, True, False, None, str(error), how)
    where = ", ".join(dict.fromkeys(str(place[0].parent) for place in found.values() if place)) or None
    missing = [name for name, place in found.items() if place is None]
    if not missing:
        return DataStatus(dataset.name, True, True, where, None, how)
    problem = f"missing: {', '.join(missing)}" if where else None
    return DataStatus(dataset.name, False, False, where, problem, how)
