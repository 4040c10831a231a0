"""What is shown of runs: the right numbers, in the width of the terminal, and never a mean of unlike runs."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from mnemon.errors import UsageError
from mnemon.results.terminal.tables import check_same_experiment, matrix_table, summary


def shown(renderable, width: int = 80) -> str:
    text = io.StringIO()
    Console(file=text, width=width).print(renderable)
    assert max(len(line) for line in text.getvalue().splitlines()) <= width
    return text.getvalue()


def line(text: str, start: str) -> list[str]:
    """Return the cells of the one line that begins so."""
    rows = [row.strip(" │") for row in text.splitlines()]
    (row,) = [row for row in rows if row.startswith(start)]
    return [cell.strip() for cell in re.split(r"\s{2,}|│", row) if cell.strip()]


def test_one_seed_is_shown_without_an_error(make_record):
    text = shown(summary([make_record()]))
    assert "some-preset  hypernet, seed 0" in text
    assert line(text, "1: task 0") == ["1: task 0", "90.00", "80.00", "-10.00"]
    assert line(text, "mean") == ["mean", "92.50", "87.50", "-5.00"]
    assert line(text, "bwt_gem") == ["bwt_gem", "-10.00"]
    assert "±" not in text


def test_several_seeds_are_shown_as_mean_and_standard_error(make_record):
    first, second = make_record(), make_record(((94.0, None), (90.0, 97.0)), seed=1)
    text = shown(summary([first, second]))
    assert "some-preset  hypernet, 2 seeds, mean ± SEM" in text
    # Of two values the error is half their distance: 90 and 94, 80 and 90, -10 and -4.
    assert line(text, "1: task 0") == ["1: task 0", "92.00 ± 2.00", "85.00 ± 5.00", "-7.00 ± 3.00"]
    assert line(text, "2: task 1") == ["2: task 1", "96.00 ± 1.00", "96.00 ± 1.00", "0.00 ± 0.00"]
    # Final 87.5 and 93.5; during 92.5 and 95.5.
    assert line(text, "final") == ["final", "90.50 ± 3.00"]
    assert line(text, "during") == ["during", "94.00 ± 1.50"]
    assert line(text, "forgetting_avalanche") == ["forgetting_avalanche", "7.00 ± 3.00"]


def test_seeds_that_draw_their_own_tasks_are_averaged_by_the_order_of_the_tasks(make_record):
    config = {**make_record().config, "benchmark": {"name": "split-digits", "pairs": "shuffled"}}
    first = make_record(config=config, task_names=["0,7", "2,3"])
    second = make_record(((94.0, None), (90.0, 97.0)), config=config, task_names=["4,1", "2,3"], seed=1)
    text = shown(summary([first, second]))
    assert line(text, "1: ") == ["1: drawn by seed", "92.00 ± 2.00", "85.00 ± 5.00", "-7.00 ± 3.00"]
    assert line(text, "2: ") == ["2: 2,3", "96.00 ± 1.00", "96.00 ± 1.00", "0.00 ± 0.00"]
    assert line(shown(summary([second])), "1: ")[0] == "1: 4,1"
    check_same_experiment([first, second])
    with pytest.raises(UsageError, match=r"^There are runs with the same settings and different tasks here\."):
        check_same_experiment([make_record(), make_record(task_names=["0,7", "2,3"], seed=1)])


def test_a_missing_metric_is_shown_with_its_reason(make_record):
    text = " ".join(shown(summary([make_record()])).split())
    assert "fwt_gem none: the learner has no answer for a task before it is begun" in text


def test_there_is_no_minus_zero(make_record):
    text = shown(summary([make_record(((90.0, 10.0), (90.0, 95.0)))]))
    assert "-0.00" not in text
    assert line(text, "forgetting_avalanche") == ["forgetting_avalanche", "0.00"]


def test_errors_are_shown_with_four_digits(make_record):
    text = shown(summary([make_record(((0.00421, None), (0.00523, 0.0061)), metric="mse")]))
    assert "Mean squared error on each task" in text
    assert line(text, "1: task 0") == ["1: task 0", "0.0042", "0.0052", "0.0010"]
    assert line(text, "bwt_gem") == ["bwt_gem", "none: it is defined for accuracies, not for errors"]


def test_a_published_number_stands_beside(make_record):
    assert line(shown(summary([make_record(published="97.57 ± 0.02")])), "published")[1] == "97.57 ± 0.02"


def test_an_unfinished_run_says_so(make_record):
    text = shown(summary([make_record(((90.0, None),), finished=False)]))
    assert "(1 not finished)" in text
    assert line(text, "1: task 0") == ["1: task 0", "90.00", "·", "·"]


def test_of_several_seeds_the_finished_ones_are_counted(make_record):
    half = {"matrix": ((50.0, None),), "finished": False, "seconds": {}}
    text = shown(summary([make_record(seed=1), make_record(seed=2), make_record(**half)]))
    assert "some-preset  hypernet, 2 of 3 seeds, mean ± SEM  (1 not finished)" in text
    assert line(text, "1: task 0") == ["1: task 0", "90.00 ± 0.00", "80.00 ± 0.00", "-10.00 ± 0.00"]
    assert line(text, "final") == ["final", "87.50 ± 0.00"]
    assert "time         1.0 s training, 0.5 s testing per seed" in text
    assert "some-preset  hypernet, 1 of 2 seeds  (1 not finished)" in shown(
        summary([make_record(seed=1), make_record(**half)])
    )


def test_of_seeds_of_which_none_is_finished_what_is_there_is_shown(make_record):
    half = {"matrix": ((50.0, None),), "finished": False, "seconds": {}}
    text = shown(summary([make_record(**half), make_record(**half, seed=1)]))
    assert "some-preset  hypernet, 2 seeds, mean ± SEM  (2 not finished)" in text
    assert line(text, "1: task 0") == ["1: task 0", "50.00 ± 0.00", "·", "·"]
    assert "time         · s training, · s testing per seed" in text


def test_alarms_are_shown_once_for_all_seeds(make_record):
    one, other = "The penalty had no effect.", "The gates had no effect."
    text = shown(summary([make_record(alarms=[one]), make_record(alarms=[one, other], seed=1), make_record(seed=2)]))
    assert [row for row in text.splitlines() if row.startswith("alarm")] == [
        f"alarm        {one}",
        f"alarm        {other}",
    ]


def test_without_an_alarm_none_is_shown(make_record):
    assert "alarm" not in shown(summary([make_record()]))


def test_a_long_alarm_fits_into_the_terminal(make_record):
    alarm = (
        "The penalty on changes of important weights had no effect: 'penalty' was 0 in every step from the second."
    )
    text = shown(summary([make_record(alarms=[alarm])]), width=60)
    assert alarm in " ".join(text.split())


@pytest.mark.parametrize(
    ("training", "said"),
    [({"held_out": 0.2}, ", tested on held-out training data"), ({"held_out": 0.0}, ""), ({}, "")],
)
def test_the_title_says_if_it_was_not_the_test_data_that_was_tested_on(make_record, training, said):
    record = make_record()
    record.config["training"] = training
    title, _, _ = shown(summary([record])).partition("┏")
    assert " ".join(title.split()) == f"some-preset hypernet, seed 0 Accuracy (%) on each task{said}"


def test_runs_of_different_experiments_are_not_averaged(make_record):
    with pytest.raises(UsageError, match="runs of different experiments here: some-preset and another"):
        summary([make_record(), make_record(preset="another", seed=1)])


def test_runs_with_different_settings_are_not_averaged(make_record):
    other = make_record(seed=1)
    other.config["method"] = {**other.config["method"], "beta": 1.0}
    with pytest.raises(UsageError, match=r"runs with different settings here: method\.beta \(0\.01 and 1\.0\)"):
        summary([make_record(), other])


def test_the_same_seed_is_not_counted_twice(make_record):
    with pytest.raises(UsageError, match="two runs of some-preset with seed 0 here"):
        summary([make_record(), make_record()])


@pytest.mark.parametrize("n_tasks", [2, 10, 11, 100])
def test_the_matrix_fits_into_80_columns(make_record, n_tasks):
    rows = [[100.0 if j <= i else None for j in range(n_tasks)] for i in range(n_tasks)]
    text = shown(matrix_table(make_record(rows)))
    rows = [row for row in text.splitlines() if re.match(r"\d|…", row)]
    assert len(rows) == (n_tasks if n_tasks <= 10 else 11)
    assert text.splitlines()[3].split()[:3] == ["1", "100.00", "·"]
    assert ("…" in text) == (n_tasks > 10)


def test_the_matrix_of_a_run_under_way_has_the_rows_so_far(make_record):
    text = shown(matrix_table(make_record(((90.0, None),), finished=False)))
    assert [row.split() for row in text.splitlines()[2:]] == [["after", "1", "2"], ["1", "90.00", "·"]]
