"""Downloading from a server of the test's own: only whole and verified files arrive, and failures say why."""

from __future__ import annotations

import gzip
import io
import multiprocessing
import os
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from rich.progress import Progress

from mnemon.benchmarks import download, sources
from mnemon.errors import DataError
from mnemon.whole_files import replacing


@pytest.fixture
def served(server, mnist_files, monkeypatch):
    """Tiny MNIST on the mirror `good`, after a mirror `first` that has nothing yet."""
    for name, content in mnist_files.contents.items():
        server.pages[f"/good/{name}.gz"] = gzip.compress(content)
    mirrors = (server.mirror("first"), server.mirror("good"))
    served = replace(mnist_files, dataset=replace(mnist_files.dataset, mirrors=mirrors))
    monkeypatch.setitem(sources.DATASETS, "mnist", served.dataset)
    return served


def everything_under(folder) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_a_missing_set_is_downloaded_once_and_then_found_in_the_cache(server, served, cache):
    first = sources.load("mnist")
    assert everything_under(cache) == sorted(f"{name}.gz" for name in served.contents)
    server.asked.clear()
    again = sources.load("mnist")
    assert server.asked == []
    assert first.train_images.equal(again.train_images)
    assert first.train_images.numpy().tobytes() == served.contents["train-images-idx3-ubyte"][16:]


def test_only_what_is_missing_is_downloaded(server, served, cache, tmp_path):
    folder = served.write(tmp_path / "data/mnist")
    (folder / "t10k-labels-idx1-ubyte").unlink()
    sources.load("mnist", tmp_path / "data")
    assert everything_under(cache) == ["t10k-labels-idx1-ubyte.gz"]


def test_a_mirror_may_send_other_gzip_headers_or_plain_bytes(server, served, cache):
    for name, content in served.contents.items():
        server.pages[f"/good/{name}.gz"] = content if "labels" in name else gzip.compress(content, 1, mtime=5)
    assert len(sources.load("mnist").train_images) == 40


NAME = "train-images-idx3-ubyte.gz"


@pytest.mark.parametrize("fault", ["login page", "cut short", "connection lost"])
def test_a_mirror_with_a_bad_answer_is_passed_over(server, served, cache, fault):
    good = server.pages[f"/good/{NAME}"]
    bad = {"login page": b"<html>Please log in.</html>", "cut short": good[:50], "connection lost": good[:50]}
    server.pages[f"/first/{NAME}"] = bad[fault]
    if fault == "connection lost":
        server.announced[f"/first/{NAME}"] = len(good)
    sources.load("mnist")
    assert server.asked[:2] == [f"/first/{NAME}", f"/good/{NAME}"]
    assert everything_under(cache) == sorted(f"{name}.gz" for name in served.contents)


def test_when_all_mirrors_fail_each_reason_is_given_and_nothing_is_left(server, served, cache):
    server.pages[f"/good/{NAME}"] = b"something else"
    host = served.dataset.mirrors[0].split("/")[2]
    with pytest.raises(DataError) as error:
        sources.load("mnist")
    reasons = f"({host}: HTTP status 404; {host}: the content is not the published one)"
    assert f"and {NAME} could not be downloaded {reasons}. Name a folder that holds it" in str(error.value)
    assert "\n" not in str(error.value)
    assert everything_under(cache) == []


def test_an_interrupted_download_leaves_nothing(served, cache, monkeypatch):
    def interrupted(url, path, most):
        path.write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(download, "fetch", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sources.load("mnist")
    assert everything_under(cache) == []


def _killed_while_it_downloads(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(folder / NAME) as partial:
        partial.write_bytes(b"half")
        os._exit(9)


def test_what_a_killed_download_left_goes_with_the_next_one(served, cache):
    process = multiprocessing.get_context("spawn").Process(target=_killed_while_it_downloads, args=(cache / "mnist",))
    process.start()
    process.join()
    assert [path.name for path in (cache / "mnist").glob(".*/*")] == [NAME]
    sources.load("mnist")
    assert everything_under(cache) == sorted(f"{name}.gz" for name in served.contents)
    assert not list((cache / "mnist").glob(".*"))


def test_a_cache_that_cannot_be_written_is_named(served, cache):
    cache.write_bytes(b"a file where the folder should be")
    with pytest.raises(DataError, match=rf"and the cache folder '{cache}/mnist' cannot be written \(.+\)\. Name"):
        sources.load("mnist")


def test_a_server_that_is_silent_is_given_up(served, cache, monkeypatch):
    import socket

    monkeypatch.setattr(download, "TIMEOUT", (0.2, 0.2))
    monkeypatch.setattr(download, "SCHEMES", ("http",))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        mirror = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(DataError, match="no answer in time"):
            download.download(served.dataset.files[0], (mirror,), cache)


def test_the_bar_follows_what_pooch_tells_it():
    progress = Progress(console=Console(file=io.StringIO()), disable=True)
    bar = download.DownloadBar(progress, "a file", 1000)
    assert bar.total is None
    bar.total = 200
    bar.update(150)
    bar.update(150)
    bar.reset()
    bar.update(200)
    bar.close()
    assert (bar.total, progress.tasks[0].completed) == (200, 200)


def test_every_mirror_is_secure():
    mirrors = [mirror for dataset in sources.DATASETS.values() for mirror in dataset.mirrors]
    assert len(mirrors) == 10
    for mirror in mirrors:
        download.check_secure(mirror)


def refused(mirror: str, served, cache) -> str:
    with pytest.raises(DataError) as error:
        download.download(served.dataset.files[0], (mirror,), cache)
    return str(error.value)


def test_an_insecure_address_is_not_asked(server, served, cache, monkeypatch):
    monkeypatch.undo()
    assert "http is not secure" in refused(server.mirror("good"), served, cache)
    assert server.asked == []


def test_nobody_is_sent_on_to_an_insecure_address(server, served, cache):
    server.moved[f"/first/{NAME}"] = "ftp://127.0.0.1/x"
    assert "127.0.0.1" in refused(server.mirror("first"), served, cache)
    server.moved[f"/first/{NAME}"] = server.mirror("good") + f"/{NAME}"
    assert download.download(served.dataset.files[0], (server.mirror("first"),), cache).exists()


def test_every_address_to_which_a_server_sends_us_on_is_checked(server, served, cache, monkeypatch):
    def check(url: str) -> None:
        if "/good/" in url:
            raise download.RefusedError("not this one")

    server.moved[f"/first/{NAME}"] = server.mirror("good") + f"/{NAME}"
    monkeypatch.setattr(download, "check_secure", check)
    assert "not this one" in refused(server.mirror("first"), served, cache)
    assert everything_under(cache) == []


def test_more_bytes_than_a_file_can_have_are_not_taken(server, served, cache):
    server.pages[f"/good/{NAME}"] = bytes(300_000)
    assert "bytes)" in refused(server.mirror("good"), served, cache)
    assert everything_under(cache) == []


@pytest.mark.parametrize("length", ["many", "-5", "9" * 5000, "1e3"])
def test_a_size_that_is_no_number_is_refused(server, served, cache, length):
    server.announced[f"/good/{NAME}"] = length
    assert "its content-length is not a number" in refused(server.mirror("good"), served, cache)
    assert everything_under(cache) == []


def test_the_bar_stops_what_comes_without_end():
    bar = download.DownloadBar(Progress(console=Console(file=io.StringIO()), disable=True), "a file", 1000)
    for _ in range(11):
        bar.update(100)
    with pytest.raises(OSError, match="more than 1,000 bytes"):
        bar.update(100)
