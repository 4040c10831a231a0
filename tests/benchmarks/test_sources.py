"""Finding data sets: which folder wins, whose file it is, and what is said of a missing or damaged set."""

from __future__ import annotations

import gzip
import re
import subprocess
import sys

import numpy as np
import pytest
import sklearn.datasets
import torch

from mnemon.benchmarks import sources
from mnemon.errors import DataError, UsageError


def refused(*args) -> str:
    with pytest.raises(DataError) as error:
        sources.load(*args)
    assert "\n" not in str(error.value)
    return str(error.value)


def same(images: sources.ImageSet, tiny) -> bool:
    """Whether a loaded set holds what was written."""
    content = tiny.contents["train-images-idx3-ubyte"][16:]
    return images.train_images.numpy().tobytes() == content


PLACES = ["mnist", "MNIST/raw", "."]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("zipped", [True, False])
def test_a_set_is_found_in_each_layout(mnist_files, tmp_path, place, zipped):
    mnist_files.write(tmp_path / "data" / place, zipped)
    images = sources.load("mnist", tmp_path / "data")
    assert same(images, mnist_files)
    assert images.train_images.shape == (40, 4, 4)
    assert images.train_images.dtype == torch.uint8
    assert images.train_labels.dtype == images.test_labels.dtype == torch.int64
    assert (images.name, images.n_classes) == ("mnist", 10)


def test_zipped_and_plain_files_may_stand_side_by_side(mnist_files, tmp_path):
    for i, name in enumerate(mnist_files.contents):
        mnist_files.write(tmp_path / "data/mnist", zipped=i % 2 == 0, only=name)
    assert same(sources.load("mnist", tmp_path / "data"), mnist_files)


def test_sets_of_the_same_file_names_are_told_apart_by_content(mnist_files, fashion_files, tmp_path):
    fashion_files.write(tmp_path / "data")
    mnist_files.write(tmp_path / "data", zipped=True)
    assert same(sources.load("mnist", tmp_path / "data"), mnist_files)
    assert same(sources.load("fashion-mnist", tmp_path / "data"), fashion_files)


def test_a_loose_file_of_another_set_is_passed_over(mnist_files, fashion_files, cache, tmp_path):
    fashion_files.write(tmp_path / "data")
    mnist_files.write(cache / "mnist")
    assert same(sources.load("mnist", tmp_path / "data"), mnist_files)


def test_a_foreign_file_in_a_set_s_own_folder_is_an_error(mnist_files, fashion_files, tmp_path):
    fashion_files.write(tmp_path / "data/mnist")
    message = refused("mnist", tmp_path / "data")
    expected, found = mnist_files.dataset.files[0].md5, fashion_files.dataset.files[0].md5
    assert f"{tmp_path}/data/mnist/train-images-idx3-ubyte' should have md5 {expected} and has {found}" in message


def test_a_loose_file_that_no_set_knows_is_an_error(mnist_files, tmp_path):
    folder = mnist_files.write(tmp_path / "data")
    path = folder / "t10k-labels-idx1-ubyte"
    path.write_bytes(path.read_bytes()[:-1] + b"\x09")
    assert f"The content of '{path}' should have md5" in refused("mnist", folder)


def test_a_damaged_file_is_named_even_where_the_cache_has_a_good_one(mnist_files, cache, tmp_path):
    mnist_files.write(cache / "mnist")
    folder = mnist_files.write(tmp_path / "data/mnist")
    path = folder / "train-labels-idx1-ubyte"
    path.write_bytes(path.read_bytes()[:30])
    assert f"'{path}' should hold 48 bytes and holds 30." in refused("mnist", tmp_path / "data")


def test_the_named_folder_comes_before_the_variable_and_the_variable_before_the_cache(
    mnist_files, cache, tmp_path, monkeypatch
):
    monkeypatch.setenv("MNEMON_DATA", str(mnist_files.write(tmp_path / "variable")))
    mnist_files.write(tmp_path / "named")
    mnist_files.write(cache / "mnist")
    file = mnist_files.dataset.files[0]

    def found_in(data):
        path, _ = sources.locate(mnist_files.dataset, file, sources.search_folders(data))
        return path.parent

    assert found_in(tmp_path / "named") == tmp_path / "named"
    assert found_in(None) == tmp_path / "variable"
    monkeypatch.delenv("MNEMON_DATA")
    assert found_in(None) == cache / "mnist"


def test_an_empty_variable_names_no_folder(cache, monkeypatch):
    monkeypatch.setenv("MNEMON_DATA", "")
    assert sources.search_folders(None) == [cache]


def test_a_named_folder_may_begin_with_a_tilde(cache, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "sets").mkdir()
    assert sources.search_folders("~/sets") == [tmp_path / "sets", cache]


def test_a_set_that_is_absent_from_the_named_folder_is_taken_from_the_cache(mnist_files, cache, tmp_path):
    (tmp_path / "empty").mkdir()
    mnist_files.write(cache / "mnist", zipped=True)
    assert same(sources.load("mnist", tmp_path / "empty"), mnist_files)


@pytest.mark.parametrize("name", ["mnist", "digits"])
def test_a_named_folder_that_does_not_exist_is_refused_at_once(cache, tmp_path, name):
    message = refused(name, tmp_path / "nowhere")
    assert f"The data folder '{tmp_path}/nowhere' (--data) does not exist. Name a folder" in message


def test_a_variable_that_leads_nowhere_is_refused_at_once(cache, tmp_path, monkeypatch):
    monkeypatch.setenv("MNEMON_DATA", str(tmp_path / "nowhere"))
    message = f"The data folder '{tmp_path}/nowhere' (MNEMON_DATA) does not exist. Name a folder"
    assert message in refused("mnist")
    with pytest.raises(DataError, match=r"\(MNEMON_DATA\) does not exist"):
        sources.status()


def test_a_variable_that_leads_nowhere_does_not_stop_what_needs_no_file(cache, tmp_path, monkeypatch):
    monkeypatch.setenv("MNEMON_DATA", str(tmp_path / "nowhere"))
    assert len(sources.load("digits").train_images) == 1352


def test_an_unknown_set_is_answered_with_the_nearest_name():
    with pytest.raises(UsageError, match=r"Unknown data set 'minst'\. Did you mean 'mnist'\? Choose one of: digits,"):
        sources.load("minst")


def test_a_set_out_of_reach_is_answered_with_what_was_searched_and_how_to_get_it(mnist_files, cache, tmp_path):
    (tmp_path / "empty").mkdir()
    message = refused("mnist", tmp_path / "empty")
    assert message == (
        f"MNIST is not in '{tmp_path}/empty' or '{cache}', and train-images-idx3-ubyte.gz could not be "
        f"downloaded (127.0.0.1:9: no connection). Name a folder that holds it with "
        f"--data FOLDER or MNEMON_DATA, or save the files of https://127.0.0.1:9/data/ in '{cache}/mnist'."
    )
    assert list(cache.rglob("*.*")) == []


def states(data=None) -> dict[str, sources.DataStatus]:
    return {state.name: state for state in sources.status(data)}


def test_status_names_every_set_and_downloads_nothing(cache):
    found = states()
    assert list(found) == ["digits", "mnist", "fashion-mnist", "cifar-10", "cifar-100"]
    assert found["digits"] == sources.DataStatus(
        "digits", True, True, "scikit-learn", None, "part of scikit-learn, no download needed"
    )
    for name in list(found)[1:]:
        how = "downloaded on first use from https://127.0.0.1:9/data/, or --data FOLDER or MNEMON_DATA"
        assert found[name] == sources.DataStatus(name, False, False, None, None, how)
    assert not cache.exists()


def test_status_says_where_a_good_set_is(mnist_files, tmp_path):
    folder = mnist_files.write(tmp_path / "data/mnist")
    state = states(tmp_path / "data")["mnist"]
    assert (state.present, state.verified, state.where, state.problem) == (True, True, str(folder), None)


def test_status_says_what_is_damaged(mnist_files, tmp_path):
    folder = mnist_files.write(tmp_path / "data/mnist")
    path = folder / "t10k-images-idx3-ubyte"
    path.write_bytes(b"")
    state = states(tmp_path / "data")["mnist"]
    assert (state.present, state.verified) == (True, False)
    assert state.problem is not None
    assert f"'{path}' should hold 336 bytes and holds 0." in state.problem


def test_status_says_what_is_missing(mnist_files, tmp_path):
    folder = mnist_files.write(tmp_path / "data/mnist")
    (folder / "t10k-images-idx3-ubyte").unlink()
    state = states(tmp_path / "data")["mnist"]
    assert (state.present, state.verified, state.where) == (False, False, str(folder))
    assert state.problem == "missing: t10k-images-idx3-ubyte"


def test_status_says_when_scikit_learn_holds_other_digits(cache, monkeypatch):
    monkeypatch.setattr(sources, "DIGITS_MD5", "0" * 32)
    state = states()["digits"]
    assert not state.verified
    assert state.problem is not None
    assert f"should have md5 {'0' * 32} and have 7696c07daa6d85010f8268703ab8b067." in state.problem


def test_names_and_places_are_known_without_torch():
    code = "import sys, mnemon.benchmarks.sources; assert not {'torch', 'numpy', 'sklearn'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


MNIST_SIZES = [47_040_016, 60_008, 7_840_016, 10_008]
SIZES = {
    "mnist": MNIST_SIZES,
    "fashion-mnist": MNIST_SIZES,
    "cifar-10": [30_730_000] * 6,
    "cifar-100": [153_700_000, 30_740_000],
}


def test_every_set_of_files_has_its_sizes_a_place_and_https_first():
    assert {name: [f.size for f in dataset.files] for name, dataset in sources.DATASETS.items()} == {
        "digits": [],
        **SIZES,
    }
    for name in SIZES:
        dataset = sources.DATASETS[name]
        assert dataset.name in dataset.places
        assert len(dataset.mirrors) >= 2
        assert dataset.mirrors[0].startswith("https://")
        assert not any(mirror.endswith("/") for mirror in dataset.mirrors)


def test_digits_are_split_by_class_in_a_fixed_way(digits):
    assert (len(digits.train_images), len(digits.test_images)) == (1352, 445)
    train, test = digits.train_labels.bincount(), digits.test_labels.bincount()
    assert torch.equal(test, (train + test) // 4)


def test_the_digits_are_those_that_scikit_learn_loads(monkeypatch):
    images, labels = sources.digits_arrays()
    loaded = sklearn.datasets.load_digits()
    assert np.array_equal(images, loaded.images)
    assert np.array_equal(labels, loaded.target)
    monkeypatch.setattr(sources, "_digits_file", lambda: None)
    for ours, theirs in zip((images, labels), sources.digits_arrays(), strict=True):
        assert ours.dtype == theirs.dtype
        assert np.array_equal(ours, theirs)


def test_the_digits_are_read_without_scikit_learn():
    code = "import sys; from mnemon.benchmarks.sources import digits_arrays; digits_arrays()"
    code += "; assert not {'sklearn', 'scipy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


# With names: zipped bytes hold the time, and processes that collect at two times would have two names of one test.
@pytest.mark.parametrize(
    "content",
    [b"", b"no gzip", gzip.compress(b"1,2\n3,x\n"), gzip.compress(b"1,2\n" * 99)[:-9]],
    ids=["empty", "no gzip", "no numbers", "cut"],
)
def test_a_damaged_file_of_digits_is_said(content, tmp_path, monkeypatch):
    path = tmp_path / "digits.csv.gz"
    path.write_bytes(content)
    monkeypatch.setattr(sources, "_digits_file", lambda: path)
    with pytest.raises(DataError) as caught:
        sources.digits_arrays()
    assert re.fullmatch(rf"'{path}' cannot be read: .+\. Install scikit-learn again\.", str(caught.value))


def test_every_fourth_digit_of_a_class_is_for_testing():
    _, labels = sources.digits_arrays()
    seen = [0] * 10
    for label, chosen in zip(labels, sources.digits_test_mask(labels), strict=True):
        seen[label] += 1
        assert chosen == (seen[label] % 4 == 0)


def test_digits_keep_every_image_once(digits):
    both = torch.cat([digits.train_images, digits.test_images]).flatten(1).numpy() * 16
    images, _ = sources.digits_arrays()

    def in_order(rows):
        return rows[np.lexsort(rows.T)]

    assert np.array_equal(in_order(both), in_order(images.reshape(-1, 64)))


def test_digits_are_sixteenths_from_0_to_1(digits):
    values = digits.train_images
    assert values.dtype == torch.get_default_dtype()
    assert torch.equal(values.unique(), torch.arange(17) / 16)


def test_mnist_has_its_published_counts(mnist):
    assert mnist.train_images.shape == (60_000, 28, 28)
    counts = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert mnist.train_labels.bincount().tolist() == counts
    assert mnist.test_labels.bincount().tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert float(mnist.train_images.double().mean() / 255) == pytest.approx(0.1307, abs=5e-5)


def test_fashion_mnist_has_its_published_counts(fashion):
    assert fashion.train_images.shape == (60_000, 28, 28)
    assert fashion.train_labels.bincount().tolist() == [6000] * 10
    assert fashion.test_labels.bincount().tolist() == [1000] * 10
    assert float(fashion.train_images.double().mean() / 255) == pytest.approx(0.2860, abs=5e-5)


def test_a_set_without_files_in_reach_is_not_half_loaded(mnist_files, cache, tmp_path):
    folder = mnist_files.write(tmp_path / "data/mnist")
    (folder / "t10k-labels-idx1-ubyte").unlink()
    assert "t10k-labels-idx1-ubyte.gz could not be downloaded" in refused("mnist", tmp_path / "data")
    mnist_files.write(cache / "mnist", only="t10k-labels-idx1-ubyte")
    assert same(sources.load("mnist", tmp_path / "data"), mnist_files)
