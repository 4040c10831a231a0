"""Avalanche's experiences, streams and benchmarks: by their shape, and the real ones where they are installed."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import mnemon
from mnemon.interop.avalanche import ContinualStrategy

N_TASKS = 3


def clouds(n: int, seed: int) -> tuple[Tensor, Tensor]:
    """Six classes, each a cloud around an axis of its own; two of them make a task."""
    random = torch.Generator().manual_seed(seed)
    labels = torch.arange(n) % (2 * N_TASKS)
    return 3 * torch.eye(2 * N_TASKS)[labels] + 0.5 * torch.randn(n, 2 * N_TASKS, generator=random), labels


class Tripled(torch.utils.data.Dataset):
    """A data set as Avalanche's are: examples end with a task label, and there are two sets of transforms."""

    def __init__(self, inputs: Tensor, labels: Tensor, task: int):
        self.inputs, self.labels, self.task = inputs, labels, task
        self.phases: list[str] = []

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int, int]:
        return self.inputs[index], int(self.labels[index]), self.task

    def train(self) -> Tripled:
        self.phases.append("train")
        return self

    def eval(self) -> Tripled:
        self.phases.append("eval")
        return self


def stream(name: str, seed: int, with_labels: bool) -> list[SimpleNamespace]:
    inputs, labels = clouds(240, seed)
    experiences = []
    for number in range(N_TASKS):
        chosen = labels // 2 == number
        task = number if with_labels else 0
        experience = SimpleNamespace(
            dataset=Tripled(inputs[chosen], labels[chosen], task),
            current_experience=number,
            task_label=task,
            task_labels=[task],
            origin_stream=SimpleNamespace(name=name),
        )
        experiences.append(experience)
    return experiences


def benchmark(with_labels: bool) -> SimpleNamespace:
    return SimpleNamespace(train_stream=stream("train", 1, with_labels), test_stream=stream("test", 2, with_labels))


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 2))


def strategy(**settings) -> ContinualStrategy:
    model = mnemon.ContinualModel(network(), lr=0.01)
    return ContinualStrategy(model, steps=60, quiet=True, **settings)


def test_a_task_incremental_benchmark_is_learned_with_the_tasks_told():
    learner = strategy()
    rows = learner.run(benchmark(with_labels=True))
    assert learner.model.tasks == ["Task000/Exp000", "Task001/Exp001", "Task002/Exp002"]
    assert list(rows[-1]) == [
        "Top1_Acc_Epoch/train_phase/train_stream/Task002",
        "Top1_Acc_Exp/eval_phase/test_stream/Task000/Exp000",
        "Top1_Acc_Exp/eval_phase/test_stream/Task001/Exp001",
        "Top1_Acc_Exp/eval_phase/test_stream/Task002/Exp002",
        "Top1_Acc_Stream/eval_phase/test_stream/Task002",
        "Accuracy_On_Trained_Experiences/eval_phase/test_stream/Task002",
    ]
    assert all(0.95 <= accuracy <= 1 for accuracy in rows[-1].values())


def test_experiences_that_were_not_learned_yet_count_as_they_are_answered():
    first, *_ = strategy().run(benchmark(with_labels=True))
    assert first["Top1_Acc_Exp/eval_phase/test_stream/Task000/Exp000"] > 0.95
    assert first["Top1_Acc_Exp/eval_phase/test_stream/Task001/Exp001"] == 0
    assert first["Top1_Acc_Stream/eval_phase/test_stream/Task002"] == pytest.approx(1 / 3, abs=0.02)
    assert first["Accuracy_On_Trained_Experiences/eval_phase/test_stream/Task002"] > 0.95


def test_tasks_are_inferred_where_experiences_share_a_label():
    by_default, inferred, told = strategy(), strategy(infer=True), strategy(infer=False)
    found = [each.run(benchmark(with_labels=False))[-1] for each in (by_default, inferred, told)]
    assert found[0] == found[1]
    accuracies = [row["Top1_Acc_Stream/eval_phase/test_stream/Task000"] for row in found]
    assert 0.9 < accuracies[0] <= accuracies[2]  # of three clouds hardly one input is taken for another task's
    assert accuracies[2] > 0.95
    assert by_default.model.tasks == ["Task000/Exp000", "Task000/Exp001", "Task000/Exp002"]


def test_a_saved_model_is_taken_up_with_its_tasks(tmp_path):
    learner, tasks = strategy(), benchmark(with_labels=True)
    learner.train(tasks.train_stream[:2])
    before = learner.eval(tasks.test_stream)
    learner.model.save(tmp_path / "model")
    again = ContinualStrategy(mnemon.load(tmp_path / "model", network()), steps=60, quiet=True)
    assert again.eval(tasks.test_stream) == before


def test_one_experience_and_bare_shapes_will_do():
    inputs, labels = clouds(60, 1)
    bare = SimpleNamespace(dataset=TensorDataset(inputs, labels // 3), current_experience=4)
    learner = strategy()
    assert list(learner.train(bare)) == ["Top1_Acc_Epoch/train_phase/train_stream"]
    assert list(learner.eval(bare)) == [
        "Top1_Acc_Exp/eval_phase/test_stream/Exp004",
        "Top1_Acc_Stream/eval_phase/test_stream",
        "Accuracy_On_Trained_Experiences/eval_phase/test_stream",
    ]
    only_label = SimpleNamespace(dataset=bare.dataset, task_label=7)
    learner.train(only_label)
    assert learner.model.tasks == ["Exp004", "Task007/Exp007"]


def test_experiences_of_several_tasks_have_no_label():
    inputs, labels = clouds(60, 1)
    learner = strategy()
    learner.train(
        SimpleNamespace(dataset=TensorDataset(inputs, labels % 2), current_experience=0, task_labels={0, 1})
    )
    assert learner.model.tasks == ["Exp000"]


def test_transforms_are_those_of_the_phase():
    (experience, *_), learner = stream("train", 1, True), strategy()
    learner.train(experience)
    learner.eval(experience)
    assert experience.dataset.phases == ["train", "eval"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (3, "This takes an experience or a stream of Avalanche, not int."),
        ([], "The stream has no experiences."),
        (
            [SimpleNamespace(current_experience=1)],
            "An experience of Avalanche has a dataset and a number (current_experience); SimpleNamespace has not.",
        ),
        (
            SimpleNamespace(dataset=TensorDataset(*clouds(6, 1))),
            "An experience of Avalanche has a dataset and a number (current_experience); SimpleNamespace has not.",
        ),
        (
            SimpleNamespace(dataset=TensorDataset(torch.rand(0, 6), torch.rand(0)), current_experience=0),
            "experience Exp000: it is empty.",
        ),
    ],
)
def test_what_is_no_experience_is_named(given, message):
    with pytest.raises(mnemon.UsageError) as error:
        strategy().train(given)
    assert str(error.value) == message


def test_accuracies_are_of_classes():
    experience = SimpleNamespace(dataset=TensorDataset(torch.rand(4, 6), torch.rand(4)), current_experience=0)
    with pytest.raises(mnemon.UsageError, match="Classes must be whole numbers, not "):
        strategy().train(experience)


def test_an_experience_is_learned_once():
    learner, tasks = strategy(), benchmark(with_labels=True)
    learner.train(tasks.train_stream[0])
    with pytest.raises(mnemon.UsageError, match="There is a task 'Task000/Exp000' already"):
        learner.train(tasks.train_stream[0])


def test_what_is_no_benchmark_is_named():
    with pytest.raises(mnemon.UsageError) as error:
        strategy().run([1])
    assert str(error.value) == "A benchmark of Avalanche has a train_stream and a test_stream; list has not."


def test_nothing_can_be_evaluated_before_anything_was_learned():
    with pytest.raises(mnemon.UsageError, match=r"^Nothing was learned yet\.$"):
        strategy().eval(benchmark(with_labels=True).test_stream)


@pytest.mark.filterwarnings("default")
def test_real_benchmarks_are_taken_like_their_shapes():
    benchmarks = pytest.importorskip("avalanche.benchmarks", reason="avalanche-lib is not installed")
    from avalanche.benchmarks.utils import as_classification_dataset

    class Labelled(TensorDataset):
        @property
        def targets(self) -> list[int]:
            return self.tensors[1].tolist()

    data = {
        name: as_classification_dataset(Labelled(*clouds(240, seed))) for name, seed in (("train", 1), ("test", 2))
    }
    shared = benchmarks.class_incremental_benchmark(data, num_experiences=N_TASKS, class_order=range(2 * N_TASKS))
    rows = strategy(infer=False).run(shared)
    assert rows[-1]["Top1_Acc_Stream/eval_phase/test_stream"] > 0.95
    own = benchmarks.task_incremental_benchmark(shared)
    rows = strategy().run(own)
    assert rows[-1]["Top1_Acc_Stream/eval_phase/test_stream/Task002"] > 0.95
    assert rows[0]["Top1_Acc_Exp/eval_phase/test_stream/Task002/Exp002"] == 0
