"""A checkpoint is whole or it is refused, and a failure to write one leaves the earlier one."""

from __future__ import annotations

import errno
import hashlib
import os

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from mnemon import whole_files
from mnemon.errors import CheckpointError
from mnemon.training import checkpoint

TENSORS = {
    "a": torch.tensor([[1.5, float("nan")], [float("inf"), -0.0]]),
    "b/step": torch.tensor(7),
    "c": torch.arange(5, dtype=torch.float64),
    "none": torch.empty(0, 3),
}
FACTS = {"step": 3, "matrix": [[90.0, float("nan")]], "identity": {"method": {"hidden": [10, 10]}}}


def refused(folder) -> str:
    with pytest.raises(CheckpointError) as error:
        checkpoint.load(folder)
    return str(error.value)


def same(one: dict, other: dict) -> bool:
    return one.keys() == other.keys() and all(
        one[k].dtype == other[k].dtype
        and one[k].shape == other[k].shape
        and one[k].numpy().tobytes() == other[k].numpy().tobytes()
        for k in one
    )


@pytest.fixture
def saved(tmp_path):
    checkpoint.save(tmp_path, TENSORS, FACTS)
    return tmp_path


def test_what_was_saved_is_loaded_bit_for_bit(saved):
    tensors, facts = checkpoint.load(saved)
    assert same(tensors, TENSORS)
    assert repr({key: facts[key] for key in FACTS}) == repr(FACTS)
    assert [path.name for path in saved.iterdir()] == [checkpoint.FILE]


def test_tensors_that_share_memory_or_are_transposed_are_saved(tmp_path):
    whole = torch.arange(6.0).reshape(2, 3)
    shared = {"whole": whole, "row": whole[0], "turned": whole.T, "expanded": whole[:, :1].expand(2, 3)}
    checkpoint.save(tmp_path, shared, {})
    assert same(checkpoint.load(tmp_path)[0], {k: v.contiguous() for k, v in shared.items()})


def test_a_missing_checkpoint_is_named(tmp_path):
    assert refused(tmp_path) == f"There is no checkpoint in {tmp_path} (checkpoint.safetensors is missing)."


def test_a_checkpoint_cut_short_anywhere_is_refused(saved):
    path = saved / checkpoint.FILE
    content = path.read_bytes()
    for length in range(0, len(content), 7):
        path.write_bytes(content[:length])
        assert refused(saved).startswith(f"{path} is damaged: "), length


@given(st.data())
@settings(max_examples=80)
def test_a_checkpoint_with_a_changed_tensor_byte_is_refused(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("flip")
    checkpoint.save(folder, TENSORS, FACTS)
    path = folder / checkpoint.FILE
    content = bytearray(path.read_bytes())
    start = 8 + int.from_bytes(content[:8], "little")
    output_index = data.draw(st.integers(start, len(content) - 1))
    content[output_index] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    assert refused(folder) == f"{path} is damaged: its content has changed since it was saved."


def test_a_file_of_another_program_is_refused(tmp_path):
    save_file({"weight": torch.ones(3)}, tmp_path / checkpoint.FILE, metadata={"format": "pt"})
    assert refused(tmp_path) == (
        f"{tmp_path / checkpoint.FILE} was not written by mnemon: its header is not that of a run."
    )


@pytest.mark.parametrize("facts", ["not json", "{"])
def test_a_header_that_is_no_json_is_refused(tmp_path, facts):
    save_file({"weight": torch.ones(3)}, tmp_path / checkpoint.FILE, metadata={"mnemon": facts})
    assert refused(tmp_path).startswith(f"{tmp_path / checkpoint.FILE} is damaged: ")


def test_a_checkpoint_of_another_format_is_refused(tmp_path):
    save_file({"weight": torch.ones(3)}, tmp_path / checkpoint.FILE, metadata={"mnemon": '{"format": 99}'})
    assert (
        refused(tmp_path)
        == f"{tmp_path / checkpoint.FILE} has format 99; this version reads format {checkpoint.FORMAT}."
    )


@pytest.mark.parametrize("broken", ["save_file", "replace", "fsync"])
def test_a_full_disk_leaves_the_earlier_checkpoint(saved, monkeypatch, broken):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(checkpoint if broken == "save_file" else whole_files.os, broken, full)
    with pytest.raises(CheckpointError) as error:
        checkpoint.save(saved, {"a": torch.zeros(2)}, {"step": 4})
    assert str(error.value) == (
        f"Could not save the checkpoint in {saved}: No space left on device. The last good one is kept. "
        "Free some space or make the folder writable, then resume."
    )
    monkeypatch.undo()
    tensors, facts = checkpoint.load(saved)
    assert same(tensors, TENSORS)
    assert facts["step"] == 3
    assert [path.name for path in saved.iterdir()] == [checkpoint.FILE]


def test_no_earlier_checkpoint_is_promised_where_there_is_none(tmp_path):
    with pytest.raises(CheckpointError) as error:
        checkpoint.save(tmp_path / "gone", TENSORS, FACTS)
    assert "The last good one" not in str(error.value)


def test_the_file_is_synced_through_a_handle_that_may_write(tmp_path, monkeypatch):
    fcntl = pytest.importorskip("fcntl")
    modes = []
    monkeypatch.setattr(whole_files.os, "fsync", lambda file: modes.append(fcntl.fcntl(file, fcntl.F_GETFL)))
    checkpoint.save(tmp_path, TENSORS, FACTS)
    assert [mode & os.O_ACCMODE for mode in modes] == [os.O_RDWR]


def test_colleagues_can_read_what_the_umask_lets_them_read(saved):
    other = saved / "other"
    other.touch()
    assert (saved / checkpoint.FILE).stat().st_mode == other.stat().st_mode


# The digest covers every byte


@given(st.data())
@settings(max_examples=80)
def test_a_checkpoint_with_any_byte_changed_is_refused(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("flip")
    checkpoint.save(folder, TENSORS, FACTS)
    path = folder / checkpoint.FILE
    content = bytearray(path.read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    assert refused(folder).startswith(f"{path} ")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'"dtype":"F64"', b'"dtype":"I64"'),
        (b'"shape":[2,2]', b'"shape":[4,1]'),
        (b'"shape":[0,3]', b'"shape":[3,0]'),
        (b'"b/step"', b'"b/stop"'),
        (b'\\"step\\": 3', b'\\"step\\": 4'),
    ],
)
def test_a_header_that_says_something_else_of_the_same_bytes_is_refused(saved, before, after):
    path = saved / checkpoint.FILE
    content = path.read_bytes()
    assert content.count(before) == 1
    path.write_bytes(content.replace(before, after))
    assert refused(saved) == f"{path} is damaged: its content has changed since it was saved."


def test_the_digest_cannot_be_left_out(saved):
    path = saved / checkpoint.FILE
    path.write_bytes(path.read_bytes().replace(b'"digest"', b'"digett"'))
    assert refused(saved) == f"{path} is damaged: its content has changed since it was saved."


def test_the_digest_of_a_known_file_is_the_sha_256_of_its_bytes_with_zeros_in_its_place(saved):
    content = (saved / checkpoint.FILE).read_bytes()
    found = content[content.index(b'"digest":"') + 10 :][:64]
    assert hashlib.sha256(content.replace(found, b"0" * 64)).hexdigest().encode() == found


def test_facts_nested_too_deep_are_refused(tmp_path):
    save_file({"a": torch.ones(1)}, tmp_path / checkpoint.FILE, metadata={"mnemon": "[" * 100_000})
    assert refused(tmp_path) == f"{tmp_path / checkpoint.FILE} is damaged: JSON nested more than 40 deep."


def test_a_pipe_and_a_folder_are_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / checkpoint.FILE)
    assert refused(tmp_path) == f"{tmp_path / checkpoint.FILE} is damaged: it is not a regular file."
    (tmp_path / "folder" / checkpoint.FILE).mkdir(parents=True)
    wanted = f"{tmp_path / 'folder' / checkpoint.FILE} is damaged: it is a folder, not a file."
    assert refused(tmp_path / "folder") == wanted
