"""The losses of the replay models against slow twins, and what the penalty leaves alone."""

from __future__ import annotations

import math
import re

import pytest
import torch
from torch import Tensor

from mnemon.errors import UsageError
from mnemon.replay.generator import Condition

pytestmark = pytest.mark.usefixtures("double")


def bernoulli_twin(logits: Tensor, pixels: Tensor) -> float:
    """Binary cross entropy, mean over pixels and batch."""
    total = 0.0
    for row, wanted in zip(logits.tolist(), pixels.tolist(), strict=True):
        for logit, pixel in zip(row, wanted, strict=True):
            p = 1 / (1 + math.exp(-logit))
            total -= pixel * math.log(p) + (1 - pixel) * math.log(1 - p)
    return total / pixels.numel()


def divergence_twin(mean: Tensor, log_variance: Tensor) -> float:
    """KL to N(0, I), summed over latents, mean over the batch."""
    total = 0.0
    for m_row, l_row in zip(mean.tolist(), log_variance.tolist(), strict=True):
        for m, log_v in zip(m_row, l_row, strict=True):
            total += 0.5 * (math.exp(log_v) + m * m - 1 - log_v)
    return total / len(mean)


def encoded(encoder, pixels: Tensor, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Mean, log variance and the latent vectors that a step with this seed draws."""
    with torch.no_grad():
        mean, log_variance = encoder(pixels)[:, :3], encoder(pixels)[:, 3:]
    torch.manual_seed(seed)
    return mean, log_variance, mean + torch.randn(len(pixels), 3) * (log_variance / 2).exp()


@pytest.mark.parametrize("condition", Condition)
def test_the_loss_of_the_vae_equals_a_slow_twin(condition, alone, learn, picture_batch):
    learner = learn(alone(condition=condition), (0, 0), (1, 2))
    vae, batch = learner.replay, picture_batch(1, 2)
    mean, log_variance, latent = encoded(vae.partner, batch.inputs, seed=8)
    memory = vae.generator.memory
    inputs = torch.cat([latent, vae.generator.conditions[1].expand(16, -1)], dim=1)
    with torch.no_grad():
        logits = memory.target(memory.weights(1), inputs)
    torch.manual_seed(8)
    terms = learner.train_step(batch)
    assert list(terms) == ["reconstruction", "prior", "replay_penalty"]
    assert terms["reconstruction"].item() == pytest.approx(bernoulli_twin(logits, batch.inputs), rel=1e-10)
    assert terms["prior"].item() == pytest.approx(divergence_twin(mean, log_variance) / 9, rel=1e-10)


def test_the_vae_descends_both_terms(alone, learn, picture_batch):
    learner = learn(alone({"name": "sgd", "lr": 0.1}), (0, 0), (1, 0))
    learner.begin_task(1)
    vae, pixels = learner.replay, picture_batch(1, 0).inputs
    parameters = [*vae.partner.parameters(), vae.generator.memory.embeddings[1]]
    torch.manual_seed(8)
    out = vae.partner(pixels)
    mean, log_variance = out[:, :3], out[:, 3:]
    logits = vae.generator.present(mean + torch.randn(16, 3) * (log_variance / 2).exp())
    reconstruction = -(pixels * logits.sigmoid().log() + (1 - pixels) * (1 - logits.sigmoid()).log()).mean()
    divergence = 0.5 * (log_variance.exp() + mean**2 - 1 - log_variance).sum(1).mean()
    gradients = torch.autograd.grad(reconstruction + divergence / 9, parameters)
    wanted = [p.detach() - 0.1 * g for p, g in zip(parameters, gradients, strict=True)]
    torch.manual_seed(8)
    learner.train_step(picture_batch(1, 0))
    for parameter, value in zip(parameters, wanted, strict=True):
        torch.testing.assert_close(parameter.detach(), value)


def test_the_plain_vae_weighs_every_task_alike(alone, learn, picture_batch):
    learner = learn(alone({"name": "sgd", "lr": 0.1}, model="plain-vae", learn_last=True), (0, 0), (2, 1))
    vae, pixels = learner.replay, picture_batch(2, 1).inputs
    parameters = [*vae.encoder.parameters(), *vae.decoder.parameters()]
    torch.manual_seed(8)

    def losses(pixels: Tensor) -> tuple[Tensor, Tensor]:
        out = vae.encoder(pixels)
        mean, log_variance = out[:, :3], out[:, 3:]
        p = vae.decoder(mean + torch.randn(len(pixels), 3) * (log_variance / 2).exp()).sigmoid()
        divergence = 0.5 * (log_variance.exp() + mean**2 - 1 - log_variance).sum(1).mean()
        return -(pixels * p.log() + (1 - pixels) * (1 - p).log()).mean(), divergence / 9

    real = losses(pixels)
    with torch.no_grad():
        drawn = vae.before(torch.randn(16, 3)).sigmoid()
    replayed = losses(drawn)
    gradients = torch.autograd.grad(sum(real) / 3 + 2 * sum(replayed) / 3, parameters)
    wanted = [p.detach() - 0.1 * g for p, g in zip(parameters, gradients, strict=True)]
    torch.manual_seed(8)
    terms = learner.train_step(picture_batch(2, 1))
    names = ("reconstruction", "prior", "replayed_reconstruction", "replayed_prior")
    torch.testing.assert_close(terms, dict(zip(names, (x.detach() for x in (*real, *replayed)), strict=True)))
    for parameter, value in zip(parameters, wanted, strict=True):
        torch.testing.assert_close(parameter.detach(), value)


def test_the_losses_of_the_gan_are_those_of_the_formula(alone, learn, picture_batch):
    learner = learn(alone(model="gan", dropout=0.0), (0, 0), (1, 2))
    gan, batch = learner.replay, picture_batch(1, 2)
    torch.manual_seed(8)
    noise = torch.randn(16, 3)
    with torch.no_grad():
        inputs = torch.cat([noise, gan.generator.conditions[1].expand(16, -1)], dim=1)
        fake = gan.generator.memory.target(gan.generator.memory.weights(1), inputs).tanh()
        of_real, of_fake = gan.partner(2 * batch.inputs - 1), gan.partner(fake)
    torch.manual_seed(8)
    terms = learner.train_step(batch)
    real_part = sum((d - 1) ** 2 for d in of_real[:, 0].tolist()) / 16
    fake_part = sum((d + 1) ** 2 for d in of_fake[:, 0].tolist()) / 16
    assert terms["discriminator_loss"].item() == pytest.approx((real_part + fake_part) / 2, rel=1e-10)
    with torch.no_grad():
        then = gan.partner(fake)[:, 0].tolist()  # the generator answers the discriminator after its step
    assert terms["generator_loss"].item() == pytest.approx(sum(d * d for d in then) / 32, rel=1e-10)


def test_the_images_of_a_gan_are_scaled_back(alone, learn):
    learner = learn(alone(model="gan"), (0, 0), (1, 1))
    noise = torch.randn(5, 3)
    raw = learner.replay.generator.frozen(0, noise)
    torch.testing.assert_close(learner.replay.decode(0, noise), (raw.tanh() + 1) / 2)


def test_the_discriminator_leaves_units_out_while_it_learns(alone, learn):
    learner = learn(alone(model="gan", dropout=0.4), (0, 0), (0, 1))
    left_out = [module for module in learner.modules() if isinstance(module, torch.nn.Dropout)]
    assert [module.p for module in left_out] == [0.4]
    assert all(module.training for module in left_out)


@pytest.mark.parametrize("model", ["vae", "gan"])
def test_the_penalty_holds_the_hypernetwork_of_the_decoder_alone(model, alone, learn):
    states = {}
    # A first step has no drift: only a lookahead sees one.
    for beta in (0.0, 10.0):
        torch.manual_seed(1)
        learner = learn(alone(model=model, beta=beta), (0, 0), (1, 1))
        states[beta] = {name: p.detach().clone() for name, p in learner.replay.named_parameters()}
    moved = {name for name, value in states[0.0].items() if not torch.equal(value, states[10.0][name])}
    moved = {name for name in moved if "snapshot" not in name}
    assert moved, "the penalty has an effect"
    assert all(".hypernet." in name for name in moved)
    assert any(name.startswith("partner") for name in states[0.0])


def test_a_decoder_is_told_its_task_in_four_ways(alone):
    by = {condition: alone(condition=condition).replay.generator.conditions for condition in Condition}
    assert by[Condition.NOISE].shape == (2, 2)
    assert not torch.equal(by[Condition.NOISE][0], by[Condition.NOISE][1])
    assert torch.equal(by[Condition.ONE_HOT], torch.eye(2))
    assert torch.equal(by[Condition.ONE_HOT_WIDE], torch.eye(2)), "of two numbers here, as many as tasks"
    wide = alone(condition=Condition.ONE_HOT_WIDE, condition_size=5).replay.generator.conditions
    assert wide.tolist() == [[1, 0, 0, 0, 0], [0, 1, 0, 0, 0]]
    assert by[Condition.NONE].shape == (2, 0)


def test_a_one_hot_condition_too_short_for_the_tasks_is_refused(alone):
    message = "replay.condition_size must be at least 4 to tell so many tasks by one number each, not 2."
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        alone(n_tasks=5, condition=Condition.ONE_HOT_WIDE)


def test_a_plain_vae_may_keep_its_optimizer_until_the_last_task_that_it_learns(alone, learn):
    learner = learn(alone(model="plain-vae", keep_optimizer=True), (0, 0), (1, 0))
    first = learner.replay.optimizers["vae"]
    learn(learner, (1, 0), (1, 1))
    assert learner.replay.optimizers["vae"] is first
    assert {float(state["step"]) for state in first.state.values()} == {5.0}
    learn(learner, (1, 1), (2, 0))
    assert learner.replay.optimizers == {}, "the last task is not learned"


def test_a_plain_vae_starts_each_task_with_a_new_optimizer_unless_told_otherwise(alone, learn):
    learner = learn(alone(model="plain-vae"), (0, 0), (1, 0))
    assert learner.replay.optimizers == {}
    learn(learner, (1, 0), (1, 1))
    assert {float(state["step"]) for state in learner.replay.optimizers["vae"].state.values()} == {1.0}


def test_the_condition_reaches_the_decoder(alone, learn):
    learner = learn(alone(), (0, 0), (1, 0))
    noise = torch.randn(4, 3)
    before = learner.replay.decode(0, noise)
    learner.replay.generator.conditions[1] += 1
    assert torch.equal(learner.replay.decode(0, noise), before), "that of another task does not"
    learner.replay.generator.conditions[0] += 1
    assert not torch.equal(learner.replay.decode(0, noise), before)
