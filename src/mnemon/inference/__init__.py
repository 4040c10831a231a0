"""Ways to tell from an input alone which task it belongs to."""
