"""mnemon: learn tasks one after another with hypernetworks, forget hardly anything, keep no old data.

`mnemon.ContinualModel` learns with any `nn.Module` of yours. The rest is for experiments: methods, benchmarks and the
records of runs. docs/reference.md lists every name in one line.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

__version__ = "0.1.0"

# A public name has a line in each of the three lists below, and one in docs/reference.md; a test compares them.
if TYPE_CHECKING:
    from mnemon.benchmarks.own_data import (
        stream_from_arrays,
        stream_from_csv,
        stream_from_datasets,
        stream_from_folder,
    )
    from mnemon.benchmarks.registry import Benchmark, register_benchmark
    from mnemon.benchmarks.scenario import Scenario
    from mnemon.benchmarks.task import Examples, Task, TaskKind, TaskStream
    from mnemon.continual.adapters import LoRA
    from mnemon.continual.drift import Drift
    from mnemon.continual.export import export
    from mnemon.continual.files import load
    from mnemon.continual.learned_task import LearnedTask
    from mnemon.continual.model import ContinualModel
    from mnemon.continual.prediction import Prediction
    from mnemon.continual.recognition import Recogniser, Recognition, Statistics
    from mnemon.continual.stream import Switch
    from mnemon.errors import CheckpointError, DataError, ForgettingWarning, Interrupted, TrainingError, UsageError
    from mnemon.experiments.api.compare import compare
    from mnemon.experiments.api.report import report
    from mnemon.experiments.api.reproduce import reproduce
    from mnemon.experiments.api.run import run
    from mnemon.experiments.api.sweep import sweep
    from mnemon.experiments.preset import register_presets
    from mnemon.experiments.reproduce.outcome import Reproduction
    from mnemon.hypernet import HypernetConfig, register_hypernet
    from mnemon.hypernet.base import AbstractHypernet
    from mnemon.hypernet.chunked import ChunkedHypernet
    from mnemon.hypernet.full import FullHypernet
    from mnemon.hypernet.target import Target
    from mnemon.inference.base import AbstractInference
    from mnemon.interop.avalanche import ContinualStrategy
    from mnemon.learners import register_method
    from mnemon.learners.base import AbstractLearner, Answer, Counts
    from mnemon.learners.hypernet import HypernetLearner
    from mnemon.lifecycle import TaskModule
    from mnemon.memory.config import MemoryConfig
    from mnemon.models import TargetConfig, register_network
    from mnemon.optimizer import OptimizerConfig
    from mnemon.problem import Batch, Problem
    from mnemon.replay import register_replay
    from mnemon.replay.config import ReplayConfig
    from mnemon.replay.source import AbstractReplay, Replayed
    from mnemon.results.comparison import ComparisonTable
    from mnemon.results.metrics import AccuracyMatrix
    from mnemon.results.record import RunRecord
    from mnemon.results.study import Study
    from mnemon.results.sweep import SweepResult
    from mnemon.training.trainer import Trainer, TrainingConfig

__all__ = [
    "AbstractHypernet",
    "AbstractInference",
    "AbstractLearner",
    "AbstractReplay",
    "AccuracyMatrix",
    "Answer",
    "Batch",
    "Benchmark",
    "CheckpointError",
    "ChunkedHypernet",
    "ComparisonTable",
    "ContinualModel",
    "ContinualStrategy",
    "Counts",
    "DataError",
    "Drift",
    "Examples",
    "ForgettingWarning",
    "FullHypernet",
    "HypernetConfig",
    "HypernetLearner",
    "Interrupted",
    "LearnedTask",
    "LoRA",
    "MemoryConfig",
    "OptimizerConfig",
    "Prediction",
    "Problem",
    "Recogniser",
    "Recognition",
    "ReplayConfig",
    "Replayed",
    "Reproduction",
    "RunRecord",
    "Scenario",
    "Statistics",
    "Study",
    "SweepResult",
    "Switch",
    "Target",
    "TargetConfig",
    "Task",
    "TaskKind",
    "TaskModule",
    "TaskStream",
    "Trainer",
    "TrainingConfig",
    "TrainingError",
    "UsageError",
    "__version__",
    "compare",
    "export",
    "load",
    "register_benchmark",
    "register_hypernet",
    "register_method",
    "register_network",
    "register_presets",
    "register_replay",
    "report",
    "reproduce",
    "run",
    "stream_from_arrays",
    "stream_from_csv",
    "stream_from_datasets",
    "stream_from_folder",
    "sweep",
]

_HOMES = {
    "AbstractHypernet": "mnemon.hypernet.base",
    "AbstractInference": "mnemon.inference.base",
    "AbstractLearner": "mnemon.learners.base",
    "AbstractReplay": "mnemon.replay.source",
    "AccuracyMatrix": "mnemon.results.metrics",
    "Answer": "mnemon.learners.base",
    "Batch": "mnemon.problem",
    "Benchmark": "mnemon.benchmarks.registry",
    "CheckpointError": "mnemon.errors",
    "ChunkedHypernet": "mnemon.hypernet.chunked",
    "ComparisonTable": "mnemon.results.comparison",
    "ContinualModel": "mnemon.continual.model",
    "ContinualStrategy": "mnemon.interop.avalanche",
    "Counts": "mnemon.learners.base",
    "DataError": "mnemon.errors",
    "Drift": "mnemon.continual.drift",
    "Examples": "mnemon.benchmarks.task",
    "ForgettingWarning": "mnemon.errors",
    "FullHypernet": "mnemon.hypernet.full",
    "HypernetConfig": "mnemon.hypernet",
    "HypernetLearner": "mnemon.learners.hypernet",
    "Interrupted": "mnemon.errors",
    "LearnedTask": "mnemon.continual.learned_task",
    "LoRA": "mnemon.continual.adapters",
    "MemoryConfig": "mnemon.memory.config",
    "OptimizerConfig": "mnemon.optimizer",
    "Prediction": "mnemon.continual.prediction",
    "Problem": "mnemon.problem",
    "ReplayConfig": "mnemon.replay.config",
    "Recogniser": "mnemon.continual.recognition",
    "Recognition": "mnemon.continual.recognition",
    "Replayed": "mnemon.replay.source",
    "Reproduction": "mnemon.experiments.reproduce.outcome",
    "RunRecord": "mnemon.results.record",
    "Statistics": "mnemon.continual.recognition",
    "Scenario": "mnemon.benchmarks.scenario",
    "Study": "mnemon.results.study",
    "SweepResult": "mnemon.results.sweep",
    "Switch": "mnemon.continual.stream",
    "Target": "mnemon.hypernet.target",
    "TargetConfig": "mnemon.models",
    "Task": "mnemon.benchmarks.task",
    "TaskKind": "mnemon.benchmarks.task",
    "TaskModule": "mnemon.lifecycle",
    "TaskStream": "mnemon.benchmarks.task",
    "Trainer": "mnemon.training.trainer",
    "TrainingConfig": "mnemon.training.trainer",
    "TrainingError": "mnemon.errors",
    "UsageError": "mnemon.errors",
    "compare": "mnemon.experiments.api.compare",
    "export": "mnemon.continual.export",
    "load": "mnemon.continual.files",
    "register_benchmark": "mnemon.benchmarks.registry",
    "register_hypernet": "mnemon.hypernet",
    "register_method": "mnemon.learners",
    "register_network": "mnemon.models",
    "register_presets": "mnemon.experiments.preset",
    "register_replay": "mnemon.replay",
    "report": "mnemon.experiments.api.report",
    "reproduce": "mnemon.experiments.api.reproduce",
    "run": "mnemon.experiments.api.run",
    "stream_from_arrays": "mnemon.benchmarks.own_data",
    "stream_from_csv": "mnemon.benchmarks.own_data",
    "stream_from_datasets": "mnemon.benchmarks.own_data",
    "stream_from_folder": "mnemon.benchmarks.own_data",
    "sweep": "mnemon.experiments.api.sweep",
}
"""The module of each public name. A name is imported when it is first used: `import mnemon` does not import torch."""

if not TYPE_CHECKING:  # a type checker would take every name for one that exists

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module 'mnemon' has no attribute '{name}'")
        value = getattr(importlib.import_module(_HOMES[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
