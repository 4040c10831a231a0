"""Attacks on mnemon: damaged files and records, odd command lines, kills, interrupts. `python -m benchmarks.fuzz`."""
