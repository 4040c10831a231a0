"""Records as the tests need them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mnemon.results.record import RunRecord


@pytest.fixture
def make_record() -> Callable[..., RunRecord]:
    def make(matrix=((90.0, None), (80.0, 95.0)), **changes) -> RunRecord:
        rows = [[float("nan") if value is None else value for value in row] for row in matrix]
        facts = {
            "preset": "some-preset",
            "config": {"preset": "some-preset", "method": {"name": "hypernet", "beta": 0.01, "hidden": [10, 10]}},
            "seed": 0,
            "metric": "accuracy",
            "task_names": [f"task {j}" for j in range(len(rows[0]) if rows else 2)],
            "counts": {"learned": 4220, "per_task": 32, "target": 1426, "n_tasks": 2, "compression": 3.0},
            "versions": {"mnemon": "0"},
            "started": "2020-01-01T00:00:00+00:00",
            "matrix": rows,
            "untrained": [float("nan")] * (len(rows[0]) if rows else 2),
            "losses": [{"task": 0, "step": 50, "task_loss": 0.5}, {"task": 1, "step": 50, "task_loss": 0.25}],
            "seconds": {"train": 1.0, "test": 0.5},
            "finished": True,
        }
        return RunRecord(**{**facts, **changes})

    return make
