"""Methods of continual learning: one file each, one line here."""

from __future__ import annotations

from mnemon.learners.base import AbstractLearner
from mnemon.learners.bounds import FinetunedTarget, FromScratch, Joint
from mnemon.learners.hypernet import HypernetLearner
from mnemon.learners.hypernet_lik import HypernetLIK
from mnemon.learners.hypernet_tir import HypernetTIR
from mnemon.learners.replay import ReplayLearner

LEARNERS: dict[str, type[AbstractLearner]] = {
    "hypernet": HypernetLearner,
    "hypernet-tir": HypernetTIR,
    "hypernet-lik": HypernetLIK,
    "replay": ReplayLearner,
    "finetuned-target": FinetunedTarget,
    "from-scratch": FromScratch,
    "joint": Joint,
}
