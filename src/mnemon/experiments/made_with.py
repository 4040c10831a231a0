"""What a run is made with: versions, the commit, the processor and the number of threads.

Names of machines and folders are not among it: records are made to be shared.
"""

from __future__ import annotations

import functools
import os
import platform
import re
import subprocess
from pathlib import Path

import numpy as np
import torch

import mnemon
from mnemon import allocator

PACKAGE = Path(mnemon.__file__).resolve().parent
PROCESSORS = Path("/proc/cpuinfo")
PATIENCE = 5.0
"""Seconds after which git is not waited for."""
_COMMIT = re.compile(r"[0-9a-f]{40,64}(-dirty)?")


def made_with(device: str) -> dict[str, str]:
    """Return what results may depend on beside the settings; what is not known is left out."""
    found = {
        "mnemon": mnemon.__version__,
        "commit": commit(PACKAGE),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "system": f"{platform.system()} {platform.machine()}",
        "processor": processor(PROCESSORS),
        "threads": str(torch.get_num_threads()),
        "device": device,
        "allocator": allocator.in_words(),
    }
    return {name: value for name, value in found.items() if value}


@functools.cache
def commit(package: Path) -> str:
    """Return the commit of the source tree that a package is in; nothing if it was installed.

    It ends in "-dirty" if files of the tree differ from it.
    """
    tree = package.parent.parent
    if package.parent.name != "src" or not (tree / ".git").exists():
        return ""
    elsewhere = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    words = ["git", "-C", str(tree), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        said = subprocess.run(
            words,
            capture_output=True,
            env={**elsewhere, "GIT_OPTIONAL_LOCKS": "0"},
            stdin=subprocess.DEVNULL,
            timeout=PATIENCE,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):  # no git, or none that reads this tree
        return ""
    found = said.stdout.decode(errors="replace").strip()
    return found if _COMMIT.fullmatch(found) else ""


@functools.cache
def processor(listed: Path) -> str:
    """Return the name of the processor, from the system's list of them where there is one."""
    try:
        text = listed.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor()
    named = re.search(r"^model name\s*:[ \t]*(.+)$", text, re.MULTILINE)
    return " ".join(named[1].split()) if named else platform.processor()
