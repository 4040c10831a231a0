"""A network learns digits on three days, keeps no data, and forgets none of them."""

import tempfile
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import nn

import mnemon

torch.manual_seed(0)
digits, labels = (torch.as_tensor(part) for part in load_digits(return_X_y=True))
digits = digits.float() / 16
days = {"monday": [0, 1, 2, 3], "tuesday": [4, 5, 6], "wednesday": [7, 8, 9]}


def some(classes: list[int], test: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the images of some digits; every fifth one is for testing."""
    chosen = torch.isin(labels, torch.tensor(classes)) & ((torch.arange(len(labels)) % 5 == 0) == test)
    return digits[chosen], labels[chosen]


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))


model = mnemon.ContinualModel(network())
for day, classes in days.items():
    learned = model.learn(some(classes, test=False), task=day, validation=some(classes, test=True), steps=200)
    print(f"{day}: digits {classes}, {learned.score:.1f} % right after learning")

with tempfile.TemporaryDirectory() as folder:
    model.save(Path(folder) / "memory")  # one file; the days' data are not in it
    model = mnemon.load(Path(folder) / "memory", network())

for day, classes in days.items():
    print(f"{day} at the end: {model.evaluate(some(classes, test=True), task=day):.1f} %")

images, wanted = some(days["monday"], test=True)
answer = model.predict(images)  # nobody says which day they are of
print(f"task inferred: {100 * sum(task == 'monday' for task in answer.task) / len(images):.1f} % of monday's images")
print(model)
