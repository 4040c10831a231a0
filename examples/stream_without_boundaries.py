"""A stream of batches that nobody has cut into tasks: changes are noticed, and what comes back is recognised.

(Most of the time: with some seeds a change is missed, or seen where there is none.)
"""

from collections.abc import Iterator

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

import mnemon

torch.manual_seed(0)
images, labels = (torch.as_tensor(part)[:900] for part in load_digits(n_class=5, return_X_y=True))
images = images.float().reshape(-1, 8, 8) / 16
views = {"plain": images, "negative": 1 - images, "turned": images.rot90(1, (1, 2))}
order, length = ["plain", "negative", "plain", "turned", "negative"], 20
for_test = torch.arange(len(labels)) % 5 == 0


def batches() -> Iterator[tuple[Tensor, Tensor]]:
    """Yield 20 batches of one view after another, without a word of which it is."""
    seen_in_training = (~for_test).nonzero()[:, 0]
    for view in order:
        for _ in range(length):
            chosen = seen_in_training[torch.randint(len(seen_in_training), (100,))]
            yield views[view][chosen].flatten(1), labels[chosen]


model = mnemon.ContinualModel(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 5)), lr=0.005)
task_of: dict[str, str] = {}
for switch in model.learn_stream(batches(), steps=5):
    view = order[switch.batch // length]
    task_of.setdefault(view, switch.task)
    print(f"from batch {switch.batch}: {'new,' if switch.new else 'back to'} {switch.task}  ({view})")
for view, task in task_of.items():
    right = model.evaluate((views[view][for_test].flatten(1), labels[for_test]), task=task)
    print(f"{view}: {right:.1f} % at the end")
