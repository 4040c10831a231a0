"""Models that draw inputs of earlier tasks again: one file each, one line here."""

from __future__ import annotations

from collections.abc import Callable

from mnemon.problem import Problem
from mnemon.replay.config import ReplayConfig, ReplayModel
from mnemon.replay.current_inputs import PresentData
from mnemon.replay.gan import GAN
from mnemon.replay.real import RealData
from mnemon.replay.source import AbstractReplay
from mnemon.replay.vae import VAE, PlainVAE

REPLAYS: dict[ReplayModel, Callable[[ReplayConfig, Problem], AbstractReplay]] = {
    ReplayModel.VAE: VAE,
    ReplayModel.GAN: GAN,
    ReplayModel.PLAIN_VAE: PlainVAE,
    ReplayModel.REAL: RealData,
    ReplayModel.PRESENT: PresentData,
}


def build_replay(config: ReplayConfig, problem: Problem) -> AbstractReplay:
    """Return the replay model of a run."""
    return REPLAYS[config.model](config, problem)
