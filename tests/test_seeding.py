"""Random numbers of our own leave those of the user alone, on every device."""

from __future__ import annotations

import pytest
import torch

from mnemon.seeding import with_random_numbers


def test_numbers_go_on_as_if_none_had_been_drawn_within():
    torch.manual_seed(3)
    wanted = torch.rand(4)
    torch.manual_seed(3)
    with_random_numbers(5, lambda: torch.rand(9))
    assert torch.equal(torch.rand(4), wanted)


def test_numbers_within_are_those_of_the_seed():
    found = with_random_numbers(5, lambda: torch.rand(4))
    assert torch.equal(found, torch.rand(4, generator=torch.Generator().manual_seed(5)))


def test_the_generator_of_an_apple_gpu_is_seeded_and_put_back(monkeypatch):
    state = {"mps": torch.tensor([7])}
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(torch.mps, "get_rng_state", lambda: state["mps"])
    monkeypatch.setattr(torch.mps, "set_rng_state", lambda new: state.update(mps=new))
    monkeypatch.setattr(torch.mps, "manual_seed", lambda seed: state.update(mps=torch.tensor([seed])))
    assert with_random_numbers(5, lambda: int(state["mps"])) == 5
    assert state["mps"] == 7
    with pytest.raises(ZeroDivisionError):
        with_random_numbers(5, lambda: 1 / 0)
    assert state["mps"] == 7


def test_the_generators_of_all_gpus_are_seeded(monkeypatch):
    seeds = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeds.append)
    assert with_random_numbers(5, lambda: list(seeds)) == [5]
