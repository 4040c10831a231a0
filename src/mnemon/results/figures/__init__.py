"""Figures from records: each is a function that returns an Altair chart; `save` writes one to a file.

They need the extra `report`. Altair is imported only when a figure is drawn.
"""

from mnemon.results.figures.against import Point, Series, accuracy_against
from mnemon.results.figures.embeddings import EmbeddingMap, embedding_map
from mnemon.results.figures.files import save
from mnemon.results.figures.losses import loss_term, loss_terms, terms_of
from mnemon.results.figures.matrix import accuracy_matrix
from mnemon.results.figures.methods import methods_at_the_end, methods_per_task
from mnemon.results.figures.predictions import PredictedCurve, predictions, read_curves, write_curves
from mnemon.results.figures.tasks import average_so_far, per_task, tasks_over_time

__all__ = [
    "EmbeddingMap",
    "Point",
    "PredictedCurve",
    "Series",
    "accuracy_against",
    "accuracy_matrix",
    "average_so_far",
    "embedding_map",
    "loss_term",
    "loss_terms",
    "methods_at_the_end",
    "methods_per_task",
    "per_task",
    "predictions",
    "read_curves",
    "save",
    "tasks_over_time",
    "terms_of",
    "write_curves",
]
