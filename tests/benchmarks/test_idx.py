"""Reading IDX files: what is good is read, what is not is named with what was expected and found."""

from __future__ import annotations

import gzip
import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemon.benchmarks import files, idx
from mnemon.errors import DataError

VALUES = torch.arange(24, dtype=torch.uint8).reshape(2, 3, 4)
HEADER = bytes([0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4])
CONTENT = HEADER + VALUES.numpy().tobytes()
FILE = idx.IdxFile("values-idx3-ubyte", (2, 3, 4), files.digest(CONTENT))


def written(tmp_path, content: bytes, name: str = FILE.name):
    path = tmp_path / name
    path.write_bytes(content)
    return path


def refused(path, check=lambda path: files.read(path, FILE)) -> str:
    with pytest.raises(DataError) as error:
        check(path)
    message = str(error.value)
    assert "\n" not in message
    assert str(path) in message
    return message


def test_header_and_size_follow_from_the_shape():
    assert FILE.header == HEADER
    assert FILE.size == len(CONTENT) == 40


@pytest.mark.parametrize("name", [FILE.name, f"{FILE.name}.gz"])
@pytest.mark.parametrize("zipped", [True, False])
def test_content_not_name_tells_whether_a_file_is_zipped(tmp_path, name, zipped):
    path = written(tmp_path, gzip.compress(CONTENT) if zipped else CONTENT, name)
    content = files.read(path, FILE)
    files.check_md5(content, path, FILE)
    assert torch.equal(idx.tensor(content, FILE), VALUES)


@settings(max_examples=30, deadline=None)
@given(shape=st.lists(st.integers(1, 6), min_size=1, max_size=3), zipped=st.booleans(), data=st.data())
def test_whatever_is_written_is_read_back(tmp_path_factory, shape, zipped, data):
    size = int(torch.tensor(shape).prod())
    values = data.draw(st.binary(min_size=size, max_size=size))
    file = idx.IdxFile("any-ubyte", tuple(shape), "")
    path = tmp_path_factory.mktemp("idx") / file.name
    path.write_bytes(gzip.compress(file.header + values) if zipped else file.header + values)
    read = idx.tensor(files.read(path, file), file)
    assert tuple(read.shape) == tuple(shape)
    assert read.numpy().tobytes() == values


def test_a_short_file_is_refused_with_both_sizes(tmp_path):
    assert "should hold 40 bytes and holds 25. Put a good copy" in refused(written(tmp_path, CONTENT[:25]))


@pytest.mark.parametrize("zip_it", [bytes, gzip.compress])
def test_a_long_file_is_refused_without_being_read_whole(tmp_path, zip_it):
    path = written(tmp_path, zip_it(CONTENT + bytes(5_000_000)))
    assert "should hold 40 bytes and holds more than 40." in refused(path)


@settings(max_examples=30, deadline=None)
@given(kept=st.integers(2, len(gzip.compress(CONTENT)) - 1))
def test_a_zipped_file_cut_anywhere_is_refused(tmp_path_factory, kept):
    path = written(tmp_path_factory.mktemp("cut"), gzip.compress(CONTENT)[:kept])
    message = refused(path)
    assert re.search(r"is damaged or truncated: \d+ of 40 bytes could be decompressed\. Put a good copy", message)


def test_a_zipped_file_with_a_flipped_bit_is_refused(tmp_path):
    zipped = bytearray(gzip.compress(CONTENT))
    zipped[-6] ^= 1
    assert "is damaged or truncated: " in refused(written(tmp_path, bytes(zipped)))


def test_an_empty_file_is_refused(tmp_path):
    assert "should hold 40 bytes and holds 0." in refused(written(tmp_path, b""))


def test_another_header_is_refused_with_both_headers(tmp_path):
    message = refused(written(tmp_path, b"<html>" + CONTENT[6:]))
    assert f"should begin with {HEADER.hex()} (IDX) and begins with 3c68746d6c3e" in message


def test_another_content_is_refused_with_both_sums(tmp_path):
    changed = bytearray(CONTENT)
    changed[-1] += 1
    path = written(tmp_path, bytes(changed))
    message = refused(path, lambda path: files.check_md5(files.read(path, FILE), path, FILE))
    assert f"should have md5 {FILE.md5} and has {files.digest(changed)}. Put a good copy" in message


def test_what_cannot_be_opened_is_refused(tmp_path):
    assert "cannot be read: Is a directory. Put a readable copy" in refused(tmp_path)
