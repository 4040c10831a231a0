"""A benchmark from data of your own: each task is to tell two moons apart, which are turned from task to task.

mnemon compare hypernet finetuned-target --benchmark moons --plugin examples/own_benchmark.py --workers 2

`mnemon.stream_from_csv`, `stream_from_folder` and `stream_from_datasets` read other data.
"""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.datasets import make_moons

import mnemon


@mnemon.register_benchmark("moons")
@dataclass(frozen=True)
class Moons:
    """Two moons, turned by an equal angle from task to task."""

    n_tasks: int = 3
    """Tasks in the stream."""
    noise: float = 0.1
    """Standard deviation of the noise on the points."""

    def build(self, data: Path | None, seed: int) -> mnemon.TaskStream:
        points, moons = make_moons(1000, noise=self.noise, random_state=seed)
        tasks = {}
        for degrees in range(0, 180, 180 // self.n_tasks):
            c, s = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
            tasks[f"turned by {degrees}°"] = points @ np.array([[c, -s], [s, c]]), moons
        return mnemon.stream_from_arrays(tasks, name="moons", seed=seed)
