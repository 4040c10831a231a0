"""Runs of a blink, silent."""

from __future__ import annotations

SMALL = {"steps": 4, "n_tasks": 2, "target.hidden": [20], "chunk": 300}
"""Of split-digits with a hypernetwork."""
FEW = {"steps": 4, "n_tasks": 2}
"""What all methods know."""
QUIETLY = {"quiet": True, "report": False, "device": "cpu"}
