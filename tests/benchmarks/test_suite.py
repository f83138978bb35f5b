"""The suite's registry, its data and its judgement of rows."""

import inspect
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from benchmarks.checking import WrongRowsError, compare
from benchmarks.contestants import CONTESTANTS
from benchmarks.data import Shape, make
from benchmarks.scenarios import COURSES, TITLES
from benchmarks.targets import TARGETS, Target
from benchmarks.tasks import Task


def test_scenarios_and_targets_name_contestants_and_titles_that_are_there():
    stages = [stage for course in COURSES for stage in course.stages]
    assert {name for stage in stages for name in stage.contestants} == set(CONTESTANTS)
    assert {stage.scenario for stage in stages} == set(TITLES)
    for target in TARGETS:
        if isinstance(target, Target):
            assert {target.mine, *target.theirs} <= set(CONTESTANTS)
            assert target.scenario in TITLES


@pytest.mark.parametrize("name", CONTESTANTS)
def test_what_is_bound_for_a_contestant_lacks_nothing_but_its_task(name: str) -> None:
    contestant = CONTESTANTS[name]
    for work in (
        contestant.prepare,
        contestant.before,
        contestant.command,
        contestant.after,
        contestant.written,
        contestant.windows,
    ):
        inspect.signature(work).bind(Task("map", Path(), Path(), 0, 1))


def test_the_same_seed_makes_the_same_rows(tmp_path: Path):
    shape = Shape(300, 3)
    one, other = (pq.read_table(make(shape, tmp_path / name)) for name in ("a", "b"))
    assert one.equals(other)
    assert one.num_rows == 400  # and one more day
    assert one["country"].null_count > 0


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ({"2024-01-01": [3, "7"]}, "the first is 2024-01-02: 0 rows instead of 2"),
        ({"2024-01-01": [3, "7"], "2024-01-02": [2, "9"]}, "2 rows with other values"),
        ({"2024-01-01": [3, "7"], "2024-01-02": [2, "8"], "2024-01-03": [1, "1"]}, "1 rows inst"),
    ],
)
def test_missing_changed_and_additional_rows_are_wrong(found: dict, message: str):
    right = {"2024-01-01": [3, "7"], "2024-01-02": [2, "8"]}
    compare(right, dict(right))
    with pytest.raises(WrongRowsError, match=message):
        compare(right, found)
