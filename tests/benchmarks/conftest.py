"""Data sets for the tests: small ones written by the tests themselves, and MNIST where it is at hand."""

from __future__ import annotations

import gzip
import http.server
import os
import subprocess
import sys
import threading
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch

from mnemon.benchmarks import cifar, download, files, idx, sources

SHAPES = {
    "train-images-idx3-ubyte": (40, 4, 4),
    "train-labels-idx1-ubyte": (40,),
    "t10k-images-idx3-ubyte": (20, 4, 4),
    "t10k-labels-idx1-ubyte": (20,),
}


@dataclass(frozen=True)
class TinySet:
    """A data set under a real one's name, with a content that the tests write."""

    dataset: sources.DataSet
    contents: dict[str, bytes]

    def write(self, folder: Path, zipped: bool = False, only: str | None = None) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in self.contents.items():
            if only in (None, name):
                path = folder / (f"{name}.gz" if zipped else name)
                path.write_bytes(gzip.compress(content) if zipped else content)
        return folder


def tiny_set(name: str, seed: int) -> TinySet:
    random = torch.Generator().manual_seed(seed)
    found, contents = [], {}
    for file_name, shape in SHAPES.items():
        if len(shape) == 1:
            values = torch.arange(shape[0], dtype=torch.uint8) % 10
        else:
            values = torch.randint(256, shape, generator=random, dtype=torch.uint8)
        values = (values + seed) % 10 if len(shape) == 1 else values
        blank = idx.IdxFile(file_name, shape, "")
        contents[file_name] = blank.header + values.numpy().tobytes()
        found.append(replace(blank, md5=files.digest(contents[file_name])))
    return TinySet(replace(sources.DATASETS[name], files=tuple(found), image_shape=(4, 4)), contents)


def tiny_records(name: str, seed: int) -> TinySet:
    """CIFAR made tiny: two images of every class in every file, in no order."""
    random = torch.Generator().manual_seed(seed)
    dataset, found, contents = sources.DATASETS[name], [], {}
    for file in dataset.files:
        assert isinstance(file, cifar.RecordFile)
        n = 2 * dataset.n_classes
        images = torch.randint(256, (n, cifar.PIXELS), generator=random, dtype=torch.uint8)
        labels = torch.randperm(n, generator=random).div(2, rounding_mode="floor").to(torch.uint8)[:, None]
        coarse = labels // 5  # what stands before the class must not be taken for it
        columns = [coarse, labels, images] if file.n_labels == 2 else [labels, images]
        contents[file.name] = torch.cat(columns, dim=1).numpy().tobytes()
        found.append(replace(file, n_images=n, md5=files.digest(contents[file.name])))
    return TinySet(replace(dataset, files=tuple(found)), contents)


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    """A cache of its own, no folder named by the environment, and mirrors that refuse at once."""
    monkeypatch.delenv(sources.ENVIRONMENT_VARIABLE, raising=False)
    monkeypatch.setenv("NO_PROXY", "*")
    folder = tmp_path / "cache"
    monkeypatch.setattr(sources, "cache_folder", lambda: folder)
    for name, dataset in list(sources.DATASETS.items()):
        monkeypatch.setitem(sources.DATASETS, name, replace(dataset, mirrors=("https://127.0.0.1:9/data",)))
    return folder


@pytest.fixture
def mnist_files(cache, monkeypatch) -> TinySet:
    """MNIST made tiny."""
    tiny = tiny_set("mnist", seed=1)
    monkeypatch.setitem(sources.DATASETS, "mnist", tiny.dataset)
    return tiny


@pytest.fixture
def fashion_files(cache, monkeypatch) -> TinySet:
    """Fashion-MNIST made tiny, with the file names and sizes of MNIST."""
    tiny = tiny_set("fashion-mnist", seed=2)
    monkeypatch.setitem(sources.DATASETS, "fashion-mnist", tiny.dataset)
    return tiny


@pytest.fixture
def cifar_files(cache, monkeypatch) -> dict[str, TinySet]:
    """CIFAR-10 and CIFAR-100 made tiny."""
    tiny = {name: tiny_records(name, seed) for seed, name in enumerate(("cifar-10", "cifar-100"))}
    for name, one in tiny.items():
        monkeypatch.setitem(sources.DATASETS, name, one.dataset)
    return tiny


@pytest.fixture(scope="session")
def digits() -> sources.ImageSet:
    return sources.load("digits")


def real(name: str, data: Path | None = None) -> sources.ImageSet:
    states = {state.name: state for state in sources.status(data)}
    if not states[name].present:
        pytest.skip(f"{sources.DATASETS[name].title} is not at hand: let MNEMON_DATA name a folder that holds it")
    return sources.load(name, data)


@pytest.fixture(scope="session")
def mnist() -> sources.ImageSet:
    return real("mnist")


@pytest.fixture(scope="session")
def fashion() -> sources.ImageSet:
    return real("fashion-mnist")


@pytest.fixture(scope="session")
def unpacked_cifar(tmp_path_factory) -> Path | None:
    """A folder with CIFAR, if the one of MNEMON_DATA has it only in another form and a program to unpack it."""
    program = Path(os.environ.get(sources.ENVIRONMENT_VARIABLE, "")) / "unpack_cifar"
    if not program.is_file():
        return None
    folder = tmp_path_factory.mktemp("cifar")
    subprocess.run([sys.executable, program, folder], check=True)
    return folder


@pytest.fixture(scope="session")
def cifar_10(unpacked_cifar) -> sources.ImageSet:
    return real("cifar-10", unpacked_cifar)


@pytest.fixture(scope="session")
def cifar_100(unpacked_cifar) -> sources.ImageSet:
    return real("cifar-100", unpacked_cifar)


class Server:
    """Answers with what stands in `pages`; a page may announce more bytes than it has."""

    def __init__(self) -> None:
        self.pages: dict[str, bytes] = {}
        self.announced: dict[str, int] = {}
        self.moved: dict[str, str] = {}
        self.asked: list[str] = []
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self.handler())
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def handler(server):  # noqa: N805
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.asked.append(self.path)
                page = server.pages.get(self.path)
                moved = server.moved.get(self.path)
                self.send_response(302 if moved else 404 if page is None else 200)
                if moved:
                    self.send_header("Location", moved)
                self.send_header("Content-Length", str(server.announced.get(self.path, len(page or b""))))
                self.end_headers()
                self.wfile.write(page or b"")

            def log_message(self, *args) -> None:
                pass

        return Handler

    def mirror(self, name: str) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/{name}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join(timeout=5)


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(download, "SCHEMES", ("http",))  # a server of the test's own has no certificate
    server = Server()
    yield server
    server.close()
