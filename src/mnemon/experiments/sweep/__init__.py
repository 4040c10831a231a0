"""Search for good settings: trials are runs, Optuna chooses their settings."""
