"""mnemon: continual learning with task-conditioned hypernetworks."""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "AccuracyMatrix": "mnemon.results.metrics",
    "RunRecord": "mnemon.results.record",
    "Examples": "mnemon.benchmarks.task",
    "Task": "mnemon.benchmarks.task",
    "TaskStream": "mnemon.benchmarks.task",
    "Target": "mnemon.hypernet.target",
    "FullHypernet": "mnemon.hypernet.full",
    "ChunkedHypernet": "mnemon.hypernet.chunked",
    "ContinualModel": "mnemon.continual.model",
    "LoRA": "mnemon.continual.adapters",
    "load": "mnemon.continual.files",
    "export": "mnemon.interop.export",
    "HypernetLearner": "mnemon.learners.hypernet",
    "Trainer": "mnemon.training.trainer",
    "UsageError": "mnemon.errors",
}
"""Public names are imported when they are first used, so that `import mnemon` does not import torch."""

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'mnemon' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOMES[name]), name)
