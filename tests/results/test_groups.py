"""Runs that belong together: seeds whose tasks are drawn are one experiment, and stand apart from natural tasks."""

from __future__ import annotations

from mnemon.results.groups import gather


def test_seeds_that_draw_their_own_tasks_are_one_experiment_apart_from_those_with_natural_ones(make_record, tmp_path):
    for pairs, seed, names in (
        ("natural", 0, ["0,1", "2,3"]),
        ("natural", 1, ["0,1", "2,3"]),
        ("shuffled", 0, ["0,7", "2,3"]),
        ("shuffled", 1, ["4,1", "8,9"]),
    ):
        config = {**make_record().config, "benchmark": {"name": "split-digits", "pairs": pairs}}
        folder = tmp_path / pairs / f"seed-{seed}"
        folder.mkdir(parents=True)
        make_record(config=config, task_names=names, seed=seed).write(folder)
    natural, drawn = gather([tmp_path])
    assert [group.title for group in (natural, drawn)] == ["split-digits", "split-digits, tasks drawn by seed"]
    for group in (natural, drawn):
        (experiment,) = group.experiments
        assert sorted(record.seed for record in experiment.records) == [0, 1]
