"""Streams of tasks to learn one after another, and the data they are made of."""
