"""CIFAR: the records, where they are looked for, how they are fetched, and the published sets themselves."""

from __future__ import annotations

import errno
import io
import os
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from mnemon.benchmarks import files, sources
from mnemon.errors import DataError


def archive_of(tiny) -> bytes:
    """The archive of a tiny set, with a file in it that nobody asks for."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as tar:
        for name, data in {**tiny.contents, "../readme.html": b"hello"}.items():
            member = tarfile.TarInfo(f"{tiny.dataset.archive.folder}/{name}")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return content.getvalue()


@pytest.mark.parametrize("place", ["cifar-100-binary", "cifar-100"])
def test_records_are_read_in_each_place_with_the_fine_label(cifar_files, tmp_path, place):
    tiny = cifar_files["cifar-100"]
    tiny.write(tmp_path / place)
    images = sources.load("cifar-100", tmp_path)
    assert images.train_images.shape == images.test_images.shape == (200, 3, 32, 32)
    assert images.train_images.dtype == torch.uint8
    assert images.train_labels.bincount().tolist() == [2] * 100
    record = tiny.contents["train.bin"][7 * 3074 : 8 * 3074]
    assert int(images.train_labels[7]) == record[1]
    assert images.train_images[7].numpy().tobytes() == record[2:]


def test_training_batches_are_joined_in_order(cifar_files, tmp_path):
    tiny = cifar_files["cifar-10"]
    tiny.write(tmp_path / "cifar-10-batches-bin")
    images = sources.load("cifar-10", tmp_path)
    contents = [tiny.contents[f"data_batch_{i}.bin"] for i in range(1, 6)]
    assert images.train_images.shape == (100, 3, 32, 32)
    assert images.train_labels.tolist() == [content[3073 * i] for content in contents for i in range(20)]
    assert images.train_images[45].numpy().tobytes() == contents[2][5 * 3073 + 1 : 6 * 3073]
    assert images.test_images[0].numpy().tobytes() == tiny.contents["test_batch.bin"][1:3073]


def test_a_loose_file_of_such_a_common_name_is_nobody_s(cifar_files, tmp_path):
    (tmp_path / "train.bin").write_bytes(b"of something else")
    assert not next(s for s in sources.status(tmp_path) if s.name == "cifar-100").present


def test_a_damaged_file_is_named(cifar_files, tmp_path):
    folder = cifar_files["cifar-10"].write(tmp_path / "cifar-10")
    (folder / "data_batch_4.bin").write_bytes(b"short")
    with pytest.raises(DataError, match=r"data_batch_4.bin' should hold 61,460 bytes and holds 5\."):
        sources.load("cifar-10", tmp_path)


def test_a_missing_set_is_answered_with_its_archive(cifar_files, cache, tmp_path):
    with pytest.raises(DataError) as error:
        sources.load("cifar-10", tmp_path)
    assert str(error.value) == (
        f"CIFAR-10 is not in '{tmp_path}' or '{cache}', and cifar-10-binary.tar.gz could not be downloaded "
        "(127.0.0.1:9: no connection). Name a folder that holds it with --data FOLDER or MNEMON_DATA, or unpack "
        f"https://127.0.0.1:9/data/cifar-10-binary.tar.gz in '{cache}/cifar-10'."
    )


def test_an_archive_is_fetched_once_and_only_its_known_files_are_taken_out(cifar_files, cache, server, monkeypatch):
    tiny = cifar_files["cifar-10"]
    content = archive_of(tiny)
    server.pages["/good/cifar-10-binary.tar.gz"] = content
    server.pages["/bad/cifar-10-binary.tar.gz"] = content[:500]
    mirrors = (server.mirror("none"), server.mirror("bad"), server.mirror("good"))
    archive = replace(tiny.dataset.archive, md5=files.digest(content))
    monkeypatch.setitem(sources.DATASETS, "cifar-10", replace(tiny.dataset, mirrors=mirrors, archive=archive))
    first = sources.load("cifar-10")
    assert len(server.asked) == 3
    assert sorted(p.name for p in cache.rglob("*") if p.is_file()) == sorted(tiny.contents)
    assert torch.equal(sources.load("cifar-10").train_images, first.train_images)
    assert len(server.asked) == 3


@pytest.mark.parametrize("broken", ["write_bytes", "replace"])
def test_a_disk_that_is_full_while_unpacking_is_named(cifar_files, cache, server, monkeypatch, broken):
    tiny = cifar_files["cifar-10"]
    content = archive_of(tiny)
    server.pages["/good/cifar-10-binary.tar.gz"] = content
    archive = replace(tiny.dataset.archive, md5=files.digest(content))
    served = replace(tiny.dataset, mirrors=(server.mirror("good"),), archive=archive)
    monkeypatch.setitem(sources.DATASETS, "cifar-10", served)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path if broken == "write_bytes" else os, broken, full)
    with pytest.raises(DataError) as error:
        sources.load("cifar-10")
    assert f"and the cache folder '{cache}/cifar-10' cannot be written (No space left on device). Name" in str(
        error.value
    )
    assert not [path for path in cache.rglob("*") if path.is_file()]


def test_cifar_10_has_its_published_counts_and_colours(cifar_10):
    assert cifar_10.train_images.shape == (50_000, 3, 32, 32)
    assert cifar_10.train_labels.bincount().tolist() == [5000] * 10
    assert cifar_10.test_labels.bincount().tolist() == [1000] * 10
    assert cifar_10.train_labels[:10].tolist() == [6, 9, 9, 4, 1, 1, 2, 7, 8, 3]
    values = cifar_10.train_images[::10].float() / 255
    assert values.mean((0, 2, 3)).tolist() == pytest.approx([0.4914, 0.4822, 0.4465], abs=5e-3)
    assert values.std((0, 2, 3)).tolist() == pytest.approx([0.2470, 0.2435, 0.2616], abs=5e-3)


def test_cifar_100_has_its_published_counts(cifar_100):
    assert cifar_100.train_images.shape == (50_000, 3, 32, 32)
    assert cifar_100.train_labels.bincount().tolist() == [500] * 100
    assert cifar_100.test_labels.bincount().tolist() == [100] * 100
    assert cifar_100.train_labels[:5].tolist() == [19, 29, 0, 11, 1]
