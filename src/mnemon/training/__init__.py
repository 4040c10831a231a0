"""The one training loop, its batches, tests and checkpoints."""
