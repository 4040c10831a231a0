"""What a run keeps beside its record: samples, predictions, maps of embeddings, event files."""
