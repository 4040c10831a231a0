"""Methods of continual learning: one file each, one line here."""

from __future__ import annotations

from mnemon.learners.base import AbstractLearner
from mnemon.learners.bounds import FinetunedTarget, FromScratch, Joint
from mnemon.learners.from_scratch_hypernet import FromScratchHypernet
from mnemon.learners.hat import HAT
from mnemon.learners.hypernet import HypernetLearner
from mnemon.learners.hypernet_lik import HypernetLIK
from mnemon.learners.hypernet_stat import HypernetStat
from mnemon.learners.hypernet_tir import HypernetTIR
from mnemon.learners.online_ewc import OnlineEWC
from mnemon.learners.replay import ReplayLearner
from mnemon.learners.statistics import StatisticsLearner
from mnemon.learners.synaptic_intelligence import SynapticIntelligence
from mnemon.learners.xdg import XdG

LEARNERS: dict[str, type[AbstractLearner]] = {
    "hypernet": HypernetLearner,
    "hypernet-tir": HypernetTIR,
    "hypernet-lik": HypernetLIK,
    "hypernet-stat": HypernetStat,
    "replay": ReplayLearner,
    "statistics": StatisticsLearner,
    "online-ewc": OnlineEWC,
    "synaptic-intelligence": SynapticIntelligence,
    "hat": HAT,
    "xdg": XdG,
    "finetuned-target": FinetunedTarget,
    "from-scratch": FromScratch,
    "from-scratch-hypernet": FromScratchHypernet,
    "joint": Joint,
}
