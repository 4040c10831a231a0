"""Runs, studies and presets: what the command line calls."""
