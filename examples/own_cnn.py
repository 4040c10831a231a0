"""A convolutional network with batch norm: weights and statistics of every task are kept."""

import warnings

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

import mnemon

warnings.simplefilter("ignore", mnemon.ForgettingWarning)  # without a penalty it forgets: that is what is shown

torch.manual_seed(0)
images, labels = (torch.as_tensor(part) for part in load_digits(return_X_y=True))
images = images.float().reshape(-1, 1, 8, 8) / 16
for_test = torch.arange(len(labels)) % 5 == 0


class Net(nn.Module):
    """Any module will do: it knows nothing of tasks."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 16, 3), nn.BatchNorm2d(16), nn.ReLU()
        )
        self.head = nn.Linear(16 * 4 * 4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x).flatten(1))


def learn_all(beta: float) -> list[float]:
    """Learn to tell odd from even on images that are shown in another way each time; return the accuracies."""
    views = {"upright": images, "negative": 1 - images, "on its side": images.mT}
    model = mnemon.ContinualModel(Net(), beta=beta, lr=0.003)
    for name, seen in views.items():
        model.learn((seen[~for_test], labels[~for_test] % 2), task=name, steps=80, quiet=True)
    return [model.evaluate((seen[for_test], labels[for_test] % 2), task=name) for name, seen in views.items()]


for name, beta in (("kept (beta = 0.3)", 0.3), ("not kept (beta = 0)", 0.0)):
    print(f"{name}: " + ", ".join(f"{accuracy:.1f} %" for accuracy in learn_all(beta)))
