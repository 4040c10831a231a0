"""The first steps of ten presets are those of an earlier version, whatever was made faster since.

They are taken in double precision, in which rounding, and with it the processor, makes no difference worth a name.
`python -m tests.experiments.test_steps_as_before` writes the numbers anew: only after a change that is meant to
change them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch

from mnemon.errors import DataError
from mnemon.experiments.compute import Compute
from mnemon.experiments.preset import load_preset
from mnemon.experiments.run import build_learner, build_stream
from mnemon.experiments.run_config import resolve
from mnemon.training.trainer import Progress, Stopped, Trainer, Watcher

NUMBERS = Path(__file__).with_name("steps_as_before.json")
STEPS = 20
PRESETS = [
    "toy",
    "split-digits",
    "split-digits-cl2-hnet-ent",
    "split-digits-cl3-hnet-r",
    "split-digits-cl3-hnet-lik",
    "split-digits-online-ewc",
    "split-mnist",
    "split-mnist-cl3-hnet-tir",
    "permuted-10",
    "permuted-100",
]


class Losses(Watcher):
    """Keeps the terms of each step."""

    def __init__(self) -> None:
        self.terms: list[dict[str, float]] = []

    def on_step(self, progress: Progress, terms: Mapping[str, float]) -> None:
        self.terms.append({name: float(value) for name, value in terms.items()})


def losses(preset: str, folder: Path) -> list[dict[str, float]]:
    """The losses of some steps, half of them in the second task; the folder is empty."""
    config = resolve(load_preset(preset), [f"training.steps={STEPS // 2}", "training.batch_size=32"])
    stream = build_stream(config, 0, Compute())
    learner, watcher = build_learner(config, stream, 0), Losses()
    trainer = Trainer(
        learner, stream, config.training, 0, folder, config.plain(), watcher, lambda: len(watcher.terms) >= STEPS
    )
    with pytest.raises(Stopped):
        trainer.run()
    return watcher.terms[:STEPS]


@pytest.mark.parametrize("preset", PRESETS)
def test_the_first_steps_of_a_preset_are_as_before(preset, tmp_path, double):
    try:
        found = losses(preset, tmp_path)
    except DataError as error:
        pytest.skip(str(error))
    before = json.loads(NUMBERS.read_text())[preset]
    assert len(found) == len(before) == STEPS
    for step, (now, then) in enumerate(zip(found, before, strict=True)):
        assert now == pytest.approx(then, rel=1e-5, abs=1e-9), f"step {step + 1}"


def test_ten_presets_are_compared():
    assert list(json.loads(NUMBERS.read_text())) == PRESETS
    assert len(PRESETS) == 10


if __name__ == "__main__":
    import tempfile

    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    numbers = {}
    for name in PRESETS:
        with tempfile.TemporaryDirectory() as home:
            numbers[name] = losses(name, Path(home))
    NUMBERS.write_text(json.dumps(numbers, indent=0) + "\n")
