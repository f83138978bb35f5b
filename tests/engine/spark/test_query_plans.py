"""What the runs of stages say of how often a query read its sources."""

import pytest

from logdriven_dagster.engine.spark.query_plans import StageRun, times_run


def run(*rdds: int, tasks: int = 4, done: int | None = None, records: int = 100) -> StageRun:
    return StageRun(frozenset(rdds), tasks, tasks if done is None else done, records)


@pytest.mark.parametrize(
    ("runs", "times"),
    [
        ([], 1),
        ([run(1, 2), run(3, 4)], 1),
        ([run(1, 2), run(1, 2, 3), run(4)], 2),
        ([run(1, 2), run(1, 2), run(1, 5), run(7)], 3),
        ([run(1, done=0), run(1)], 1),  # skipped: what it makes is there
    ],
)
def test_stages_that_share_what_they_compute_ran_again(runs: list[StageRun], times: int):
    assert times_run(runs) == times


@pytest.mark.parametrize(
    "runs",
    [
        [run(1), run(1, tasks=1, records=25)],  # the tasks of a lost executor
        [run(1, done=3), run(1)],
        [run(1), run(1, records=99)],
        [run(1), run(1), run(2), run(2), run(2)],  # which scan ran how often?
    ],
)
def test_the_count_is_unknown_where_only_some_did_so_or_differently(runs: list[StageRun]):
    assert times_run(runs) is None
