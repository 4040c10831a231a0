"""Penalties that keep a network from forgetting."""
