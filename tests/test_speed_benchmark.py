"""`make bench`: what it counts, compares and says; the numbers themselves are for an idle machine."""

from __future__ import annotations

import dataclasses
import json

import pytest
import torch
import torch.nn.functional as F

from benchmarks import speed, subjects, timing
from benchmarks.cases import CASES, Bar, Case
from benchmarks.timing import Measured, Rounds, gflop_of, summary


def product(n: int, k: int, m: int):
    left, right = torch.ones(n, k, requires_grad=True), torch.ones(k, m)
    return lambda: left @ right


COUNTED = {
    "a product": (product(3, 5, 7), 2 * 3 * 5 * 7),
    "with its gradient": (lambda: product(3, 5, 7)().sum().backward(), 2 * 2 * 3 * 5 * 7),
    "in place": (lambda: torch.zeros(3, 7).addmm_(torch.ones(3, 5), torch.ones(5, 7)), 2 * 3 * 5 * 7),
    "a convolution": (lambda: F.conv2d(torch.ones(1, 2, 6, 6), torch.ones(4, 2, 3, 3)), 2 * 4 * 4 * 4 * 2 * 9),
    "nothing": (lambda: torch.ones(5).add(1), 0),
}


@pytest.mark.parametrize("name", COUNTED)
def test_operations_are_those_of_products_and_convolutions(name):
    action, operations = COUNTED[name]
    assert gflop_of(action) * 1e9 == pytest.approx(operations)


def test_ratios_and_shares_are_taken_within_rounds():
    whole = Rounds([2.0, 4.0], [1.0, 1.0], gflop=1.0, speed=[1000.0, 500.0])
    found = summary(whole.and_those_of(Rounds([6.0], [2.0], speed=[1000.0])))
    assert (found.first[1], found.second[1], found.ratio[1]) == (4, 1, 3)
    assert found.share is not None
    assert found.share == pytest.approx(timing.quartiles([0.5, 0.5, 1 / 6]))


def test_both_sides_are_read_as_often(monkeypatch):
    for name, value in (("AT_LEAST", 0.001), ("SECONDS", 0.02), ("EDGE", 64)):
        monkeypatch.setattr(timing, name, value)
    calls = {"first": 0, "second": 0}

    def side(name: str):
        def action():
            calls[name] += 1
            torch.ones(300, 300) @ torch.ones(300, 300)

        return action

    rounds = timing.in_turns(side("first"), side("second"))
    assert len(rounds.first) == len(rounds.second) == len(rounds.speed or [])
    assert rounds.gflop == pytest.approx(2e-9 * 300**3)
    assert min(rounds.first) > 0
    assert min(calls.values()) > 2


NOW = Measured((1.0, 2.0, 3.0), (1.0, 1.0, 1.0), (1.0, 2.0, 3.0))
BEFORE = Measured((4.0, 5.0, 6.0), (1.0, 1.0, 1.0), (4.0, 5.0, 6.0))


@pytest.mark.parametrize(
    ("bar", "met"),
    [
        (Bar("ratio", 2.0), True),
        (Bar("ratio", 1.9), False),
        (Bar("ratio", at_least=2.1), False),
        (Bar("first", 2.5), True),
        (Bar("change", 0.4), True),
        (Bar("change", 0.3), False),
    ],
)
def test_a_bar_is_met_or_missed(bar, met):
    assert bar.met(NOW, BEFORE) is met


def test_without_a_version_before_nothing_is_said_of_the_change():
    assert Bar("change", 0.4).met(NOW, None) is None


def test_words_stand_for_cases_and_for_those_that_begin_with_them(capsys):
    assert speed._chosen([]) == list(CASES)
    assert speed._chosen(["toy-run", "p10"]) == ["p10-2", "p10-10", "p10-growth", "toy-run"]
    with pytest.raises(SystemExit, match=r"There is no case 'p1000'; --list shows all\."):
        speed._chosen(["p1000"])
    assert speed.main(["--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(CASES)


def test_the_kept_numbers_are_of_cases_that_there_are():
    kept = json.loads(speed.BEFORE.read_text())
    assert kept["cases"].keys() <= CASES.keys()
    assert {"machine", "versions", "date"} <= kept.keys()
    for values in kept["cases"].values():
        found = speed._known(values)
        assert found is not None
        assert all(low <= middle <= high for low, middle, high in (found.first, found.second, found.ratio))


@pytest.fixture
def one_case(monkeypatch):
    """Leave one case, whose rounds are known, in place of processes that measure."""
    case = Case("first", "second", lambda: Rounds([2.0], [1.0]), (Bar("ratio", 1.5), Bar("change", 0.9)), processes=2)
    monkeypatch.setattr(speed, "CASES", {"some": case})
    monkeypatch.setattr(speed, "_one_process", lambda name, source: speed._measured_here(speed.CASES[name]))


def test_what_was_measured_stands_beside_the_version_before_and_is_kept(one_case, tmp_path, capsys):
    path = tmp_path / "kept.json"
    path.write_text(json.dumps({"cases": {"other": dataclasses.asdict(NOW), "some": dataclasses.asdict(BEFORE)}}))
    assert speed.main(["some", "--before", str(path), "--keep"]) == 1
    printed = capsys.readouterr().out
    assert "some: first / second\n    2.00 / 1.00 ms = 2.00\n" in printed
    assert "before: 5.00 (4.00 to 6.00) / 1.00 ms = 5.00 (4.00 to 6.00); now / before 0.400" in printed
    assert "ratio at most 1.5: MISSED\n    now / before at most 0.9: met\n" in printed
    kept = json.loads(path.read_text())
    assert kept["cases"]["some"]["ratio"] == [2, 2, 2]
    assert kept["cases"]["other"] == json.loads(json.dumps(dataclasses.asdict(NOW)))
    assert kept["versions"]["torch"] == torch.__version__


def test_without_the_word_nothing_is_kept(one_case, tmp_path):
    speed.main(["some", "--before", str(tmp_path / "kept.json")])
    assert not list(tmp_path.iterdir())


def test_another_version_is_measured_in_turns(one_case, monkeypatch, tmp_path, capsys):
    asked = []

    def process(name, source):
        asked.append(source.name)
        return Rounds([1.0 if source.name == "src" else 3.0], [1.0])

    monkeypatch.setattr(speed, "_one_process", process)
    assert speed.main(["some", "--against", str(tmp_path / "earlier"), "--before", str(tmp_path / "none.json")]) == 0
    assert asked == ["src", "earlier"] * 2
    assert "now / before 0.333" in capsys.readouterr().out


def test_a_case_runs_in_a_process_of_its_own(monkeypatch):
    monkeypatch.setattr(speed.subprocess, "run", (run := Run()))
    found = speed._one_process("toy", speed.Path("elsewhere"))
    assert found == Rounds([1.0], [2.0])
    assert run.command[1:] == ["-m", "benchmarks.speed", "--one", "toy"]
    assert run.environment["PYTHONPATH"].split(":")[0] == "elsewhere"
    assert run.environment["OMP_NUM_THREADS"] == "1"


class Run:
    """Takes the place of `subprocess.run`."""

    def __call__(self, command, env, **_):
        self.command, self.environment, self.stdout = command, env, '{"first": [1.0], "second": [2.0]}'
        return self


@pytest.mark.parametrize(
    "make", [lambda: subjects.subject("toy", 3, 2), lambda: subjects.subject("split-digits", 5, 3)]
)
def test_a_subject_steps_in_its_task_beside_a_plain_network(make):
    made = make()
    assert made.learner.n_begun == made.batch.task_id + 1
    assert "penalty" in made.step()
    made.plain_step()()


def test_the_sides_of_a_test_and_of_a_run_can_be_run():
    for first, second in (
        subjects.tests(subjects.subject("split-digits", 5, 2, n_test=30), 10),
        subjects.runs("toy", 1),
        subjects.continual_steps(2),
    ):
        first(), second()


def test_the_peak_of_memory_stays_when_it_is_given_back():
    whole = torch.ones(2**24)  # 64 MB
    peak = timing.peak_memory()
    del whole
    assert timing.peak_memory() > peak - 8  # the system counts a little late
    assert peak > 64
