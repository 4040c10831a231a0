"""A pretrained network stays as it is; every task adds low-rank adapters, which one small hypernetwork remembers."""

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

import mnemon

torch.manual_seed(0)
digits, labels = (torch.as_tensor(part) for part in load_digits(return_X_y=True))
digits = digits.float() / 16
for_test = torch.arange(len(labels)) % 5 == 0


def some(classes: list[int], test: bool) -> tuple[Tensor, Tensor]:
    chosen = torch.isin(labels, torch.tensor(classes)) & (for_test == test)
    return digits[chosen], labels[chosen] - min(classes)


network = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 4))
optimizer = torch.optim.Adam(network.parameters(), lr=0.003)
inputs, targets = some([0, 1, 2, 3], test=False)
for _ in range(60):  # this is the pretraining: it knows 0 to 3
    optimizer.zero_grad()
    nn.functional.cross_entropy(network(inputs), targets).backward()
    optimizer.step()

model = mnemon.ContinualModel(network, adapters=mnemon.LoRA(rank=8), lr=0.003)
print(model)
tasks = {"4 to 6": [4, 5, 6], "7 to 9": [7, 8, 9]}
for name, classes in tasks.items():
    before = (network(some(classes, test=True)[0]).argmax(1) == some(classes, test=True)[1]).double().mean()
    learned = model.learn(some(classes, test=False), task=name, validation=some(classes, test=True), steps=150)
    print(f"{name}: {100 * before:.1f} % as it came, {learned.score:.1f} % with adapters")
for name, classes in tasks.items():
    print(f"{name} at the end: {model.evaluate(some(classes, test=True), task=name):.1f} %")

inputs, targets = some([0, 1, 2, 3], test=True)
print(f"0 to 3, the network itself: {100 * (network(inputs).argmax(1) == targets).double().mean():.1f} %")
