"""Numbers instead of classes: one small network keeps three curves."""

import torch
from torch import Tensor, nn

import mnemon

torch.manual_seed(0)
curves = {
    "wave": lambda x: torch.sin(3 * x),
    "bowl": lambda x: x**2 - 1,
    "step": lambda x: torch.tanh(5 * x),
}


def points(name: str, n: int) -> tuple[Tensor, Tensor]:
    x = 4 * torch.rand(n, 1) - 2
    return x, curves[name](x)  # targets that are not whole numbers: mean squared error


network = nn.Sequential(nn.Linear(1, 50), nn.Tanh(), nn.Linear(50, 50), nn.Tanh(), nn.Linear(50, 1))
model = mnemon.ContinualModel(network, lr=0.003)
right_after = {name: model.learn(points(name, 500), task=name, steps=250).score for name in curves}
for name in curves:
    print(
        f"{name}: error {right_after[name]:.4f} right after, {model.evaluate(points(name, 200), name):.4f} at the end"
    )

x = torch.tensor([[0.5]])
print("at 0.5: " + ", ".join(f"{name} {float(model.predict(x, task=name).label):+.2f}" for name in curves))
model.forget("bowl")
print(f"after forgetting the bowl: {', '.join(model.tasks)}")
