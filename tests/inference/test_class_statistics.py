"""Tasks recognised by sums over features."""

from __future__ import annotations

import math

import pytest
import torch

from mnemon.benchmarks.scenario import Scenario
from mnemon.benchmarks.task import Examples
from mnemon.errors import UsageError
from mnemon.inference.calibration import best_weights
from mnemon.inference.features import ConvolutionalFeatures, RandomFeatures, features_for, is_image
from mnemon.inference.gaussian import SharedGaussian, strength
from mnemon.inference.statistics import StatisticsInference, SumsConfig
from mnemon.inference.sums import ClassSums
from mnemon.learners.statistics import StatisticsLearner


def blobs(task: int, n: int = 120, seed: int = 0) -> Examples:
    """Two classes of points around places of the task's own."""
    random = torch.Generator().manual_seed(100 * task + seed)
    targets = torch.arange(n) % 2
    inputs = 0.5 * torch.randn(n, 6, generator=random)
    inputs[torch.arange(n), 2 * task + targets] += 3
    return Examples(inputs, targets)


@pytest.fixture
def learner(problem):
    made = StatisticsLearner(
        StatisticsLearner.Config(SumsConfig(width=60)), problem(shape=(6,), scenario=Scenario.CL3)
    )
    for task in range(3):
        made.begin_task(task)
        made.end_task(blobs(task))
    return made


def test_classes_and_tasks_are_told_apart_with_nothing_trained(learner):
    for task in range(3):
        test = blobs(task, seed=1)
        answer = learner.answer(test.inputs)
        assert float((answer.task == task).double().mean()) > 0.97
        assert float((answer.output_index == 2 * task + test.targets).double().mean()) > 0.95


def test_probabilities_are_of_all_classes_and_about_as_sure_as_right(learner):
    test = blobs(1, n=2000, seed=1)
    likely = learner.inference.class_scores(test.inputs).exp()
    torch.testing.assert_close(likely.sum(1), torch.ones(2000, dtype=torch.float64))
    sure, chosen = likely.max(1)
    assert float(sure.mean()) == pytest.approx(float((chosen == 2 + test.targets).double().mean()), abs=0.05)


def test_sums_stay_in_float64_on_the_cpu_whatever_becomes_of_the_learner(learner):
    learner.half()
    assert learner.inference.kept.gram.dtype == torch.float64
    assert learner.inference.features.mean.dtype == torch.float16


def test_a_ridge_is_chosen_by_what_it_leaves_out():
    # Many features of few examples want a strong one; few features of many examples a weak one.
    random = torch.Generator().manual_seed(0)

    def found(n: int, width: int) -> float:
        features = torch.randn(n, width, generator=random).double()
        classes = (features[:, 0] + 0.3 * torch.randn(n, generator=random) > 0).long()
        return strength(ClassSums.of(features, classes, 2))

    assert found(60, 50) > found(20_000, 5)


def test_a_task_of_any_classes_is_as_likely_as_all_of_them_together():
    sums = ClassSums.of(torch.randn(30, 4), torch.arange(30) % 5, 5)
    gaussian = SharedGaussian(sums, [2, 3])
    classes = gaussian.log_probability(gaussian.distances(torch.randn(7, 4)), 1.0)
    expected = torch.stack([classes[:, :2].logsumexp(1), classes[:, 2:].logsumexp(1)], dim=1)
    torch.testing.assert_close(gaussian.by_task(classes), expected)


def test_patches_tell_images_apart_that_are_alike_in_every_pixel():
    # Stripes of two directions at random places: no pixel says anything.
    random = torch.Generator().manual_seed(0)
    places = torch.randint(4, (600,), generator=random)
    stripes = ((torch.arange(16)[None] + places[:, None]) % 4 < 2).float()
    images = stripes[:, None, None, :].expand(-1, 1, 16, 16).clone()
    turned = torch.arange(600) % 2
    images[turned == 1] = images[turned == 1].transpose(2, 3)
    features = ConvolutionalFeatures((1, 16, 16), 40)
    features.fit((images[:300],))
    sums = ClassSums.of(features.of((images[:300],)), turned[:300], 2)
    chosen = SharedGaussian(sums, [2]).distances(features.of((images[300:],))).argmin(1)
    assert float((chosen == turned[300:]).double().mean()) == 1.0


def test_one_convolution_finds_what_standardised_and_whitened_patches_say():
    images = torch.rand(50, 2, 9, 8, generator=torch.Generator().manual_seed(0))
    features = ConvolutionalFeatures((2, 9, 8), 12)
    features.fit((images,))
    patch = images[3, :, 2:8, 1:7].flatten()
    normal = (patch - patch.mean()) / (patch.var(correction=0) + 0.01).sqrt()
    expected = (features.weight.flatten(1) @ normal + features.bias - 0.25).relu()
    wide = torch.nn.functional.conv2d(images[3:4], features.weight)
    assert wide.shape[2:] == (4, 3)
    from mnemon.inference.features import _deviations

    found = (wide / _deviations(images[3:4], (6, 6)) + (features.bias - 0.25)[:, None, None]).relu()
    torch.testing.assert_close(found[0, :, 2, 1], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("shape", "image"), [((3, 32, 32), True), ((1, 28, 28), True), ((2, 50), True), ((9,), False), ((3, 4, 4), False)]
)
def test_images_and_series_are_taken_by_their_patches(shape, image):
    assert is_image(shape) is image
    features = features_for(shape, 400)
    inputs = torch.rand(30, *shape)
    features.fit((inputs,))
    found = features.of((inputs,))
    assert found.shape == (30, 400)
    assert torch.isfinite(found).all()
    assert isinstance(features, RandomFeatures) is not image


def test_inputs_may_be_longer_than_what_random_features_look_at():
    features = RandomFeatures(10_000, 7)
    inputs = torch.randn(5, 10_000)
    features.fit((inputs,))
    assert features.of((inputs,)).shape == (5, 7)
    assert features.directions.shape == (4096, 7)


def test_random_features_follow_from_the_seed_that_is_kept():
    one, other = RandomFeatures(6, 9, seed=3), RandomFeatures(6, 9, seed=4)
    inputs = torch.randn(5, 6)
    assert not torch.equal(one((inputs,)), other((inputs,)))
    other.load_state_dict(one.state_dict())
    other.rebuild()
    assert torch.equal(one((inputs,)), other((inputs,)))


def test_a_score_that_says_nothing_weighs_nothing_beside_one_that_does():
    random = torch.Generator().manual_seed(0)
    right = torch.randint(3, (500,), generator=random)
    noise = torch.randn(500, 3, generator=random).double()
    useful = torch.randn(500, 3, generator=random).double()
    useful[torch.arange(500), right] += 2
    useless, weight = best_weights(torch.stack([noise, useful]), right).tolist()
    assert useless == pytest.approx(0, abs=0.2)
    assert weight == pytest.approx(2, abs=0.5)  # of unit normals 2 apart, the log ratio is twice the value


def test_where_all_is_told_apart_weights_stay_where_they_are():
    scores = torch.zeros(2, 10, 2)
    scores[:, :, 0] = 100
    assert best_weights(scores, 0).tolist() == pytest.approx([1, 1])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"width": 0}, "method.sums.width must be at least 1, not 0."),
        ({"image": (28,)}, "method.sums.image must be [channels, height, width] or [channels, length], not [28]."),
    ],
)
def test_wrong_settings_are_named(settings, message):
    with pytest.raises(UsageError) as error:
        SumsConfig(**settings)
    assert str(error.value) == message


def test_an_image_of_another_size_than_the_inputs_is_refused():
    with pytest.raises(UsageError, match=r"method\.sums\.image is \[1, 5, 5\], and an input has shape \[6\]"):
        StatisticsInference(SumsConfig(image=(1, 5, 5)), (6,), 2)


def test_numbers_are_not_for_statistics_alone(problem):
    from dataclasses import replace

    from mnemon.benchmarks.task import TaskKind

    made = replace(problem(shape=(6,), scenario=Scenario.CL1), kind=TaskKind.REGRESSION)
    with pytest.raises(UsageError, match=r"is a regression: use method\.name=hypernet"):
        StatisticsLearner(StatisticsLearner.Config(), made)


def test_before_a_task_has_ended_all_are_alike(problem):
    made = StatisticsLearner(StatisticsLearner.Config(SumsConfig(width=5)), problem(shape=(6,)))
    made.begin_task(0)
    assert torch.equal(made.predict(torch.randn(3, 6), 0), torch.zeros(3, 2))
    assert math.isfinite(float(made.inference.class_scores(torch.randn(3, 6)).sum()))
