"""What the exact memory promises beside all that holds for both memories."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from clouds import Net, answers, assert_same, clouds, make, refused, two_days

import mnemon
from mnemon.memory import fineness

pytestmark = pytest.mark.only_memory("exact")


def test_whatever_is_learned_later_changes_no_answer(tmp_path):
    model = two_days()
    before = answers(model)
    for number in range(20):
        model.learn(clouds(number % 4, seed=number), task=f"task {number}", steps=3, quiet=True)
        if number in (0, 19):
            found = answers(model)
            assert_same(before, {task: found[task] for task in before})
    for number in range(0, 20, 2):
        model.forget(f"task {number}")
    model.relearn(clouds(1), task="task 1", steps=3, quiet=True)
    loaded = mnemon.load(model.save(tmp_path / "memory"), Net())
    found = answers(loaded)
    assert_same(before, {task: found[task] for task in before})


def test_weights_to_start_from_are_in_the_file_or_are_given(tmp_path):
    paths = {start: two_days(start=start).save(tmp_path / start) for start in ("kept", "given")}
    assert paths["given"].stat().st_size + 150 < paths["kept"].stat().st_size
    torch.manual_seed(9)
    assert mnemon.load(paths["kept"], Net()).tasks == ["monday", "tuesday"]
    assert "The starting weights are not those of the saved model" in refused(
        lambda: mnemon.load(paths["given"], Net())
    )
    torch.manual_seed(1)
    assert_same(answers(mnemon.load(paths["given"], Net())), answers(two_days(start="given")))


def test_a_model_says_how_many_bits_it_needs(learned):
    _, memory, *_ = repr(learned).splitlines()
    codes = sum(len(code.code) for code in learned.state.learner.memory.codes)
    kept = sum(tensor.nbytes for tensor in learned.state.learner.tensors().values())
    assert memory == (
        f"  memory {kept / 163 / 4:.1f} × the module: {kept:,} bytes (starting weights "
        f"{learned.state.learner.memory.start_nbytes}, codes {codes}, {4 * codes / 163:.2f} bits per weight and task)"
    )


def test_the_bytes_that_it_counts_are_those_of_the_file(learned, tmp_path):
    learned.state.recogniser = None  # its sums are counted by themselves
    learned.state.settings = replace(learned.state.settings, recognise="none")
    kept = sum(tensor.nbytes for tensor in learned.state.learner.tensors().values())
    size = learned.save(tmp_path / "memory").stat().st_size
    assert kept < size < kept + 1700  # the header, the form of the module, what is known of two tasks


def test_nothing_of_a_forgotten_task_is_left_in_the_file(learned, tmp_path):
    codes = learned.state.learner.memory.codes
    traces = {"code": codes[0].code, "digest": codes[0].digest}
    traces |= {f"part {at}": codes[0].code[at : at + 16] for at in range(0, len(codes[0].code) - 16, 16)}
    before = learned.save(tmp_path / "with").read_bytes()
    assert [name for name, trace in traces.items() if trace not in before] == []
    learned.forget("monday")
    after = learned.save(tmp_path / "without").read_bytes()
    assert [name for name, trace in traces.items() if trace in after] == []


def test_a_tolerance_that_cannot_be_met_is_said_and_16_bits_are_kept(monkeypatch):
    monkeypatch.setattr(fineness, "loses", lambda *arguments: True)
    model = make()
    with pytest.warns(UserWarning, match="Task 'one' is kept with 16 bits per weight"):
        model.learn(clouds(0), task="one", steps=3, quiet=True)
    assert model.evaluate(clouds(0), "one") == model.about("one").score


def test_a_network_that_was_damaged_is_not_answered_with(learned):
    memory = learned.state.learner.memory
    first = memory.codes[0]
    changed = type(first)(
        first.reference, first.code[:60] + bytes([first.code[60] ^ 1]) + first.code[61:], first.digest
    )
    memory.put_back(type(memory.kept())((changed, *memory.codes[1:]), -1, None))
    message = refused(lambda: learned.predict(clouds(0)[0], "monday"))
    assert message.startswith("A network's code is damaged: ")
    assert learned.predict(clouds(0)[0], "tuesday").outputs.isfinite().all()
