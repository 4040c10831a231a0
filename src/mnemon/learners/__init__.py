"""Methods of continual learning: one file each, one line here."""

from __future__ import annotations

from mnemon.learners.base import AbstractLearner
from mnemon.learners.bounds import FinetunedTarget, FromScratch, Joint
from mnemon.learners.hypernet import HypernetLearner

LEARNERS: dict[str, type[AbstractLearner]] = {
    "hypernet": HypernetLearner,
    "finetuned-target": FinetunedTarget,
    "from-scratch": FromScratch,
    "joint": Joint,
}
