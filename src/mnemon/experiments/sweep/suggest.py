"""Between the ranges of a space and what Optuna knows: there a choice is a word or a number, not a list."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from mnemon.experiments.sweep.space import Sampler, SearchRange, Space

if TYPE_CHECKING:
    import optuna


def _coded(choice: Any) -> Any:
    return json.dumps(choice) if isinstance(choice, list | tuple) else choice


def value_of(searched: SearchRange, param: Any) -> Any:
    """Return the value of a setting, given what the study calls it."""
    return next((choice for choice in searched.choices if _coded(choice) == param), param)


def suggest(trial: optuna.Trial, path: str, searched: SearchRange) -> Any:
    """Let the study choose the value of a setting."""
    if searched.choices:
        param: Any = trial.suggest_categorical(path, [_coded(choice) for choice in searched.choices])
    elif isinstance(searched.low, int) and isinstance(searched.high, int):
        step = int(searched.step or 1)
        param = trial.suggest_int(path, searched.low, searched.high, step=step, log=searched.log)
    else:
        assert searched.low is not None
        assert searched.high is not None
        param = trial.suggest_float(path, searched.low, searched.high, step=searched.step, log=searched.log)
    return value_of(searched, param)


def sampler(space: Space, seed: int, number: int) -> optuna.samplers.BaseSampler:
    """Return what chooses the settings of a trial."""
    import optuna

    spread = int(np.random.SeedSequence([seed, number]).generate_state(1)[0])
    if space.sampler is Sampler.RANDOM:
        return optuna.samplers.RandomSampler(seed=spread)
    return optuna.samplers.TPESampler(seed=spread)
