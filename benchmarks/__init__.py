"""Measurements of speed and memory: ratios, taken side by side in one run, in CPU time on one thread."""
