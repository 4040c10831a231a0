"""A module of the user's that learns task after task."""
