"""Published rows are not replaced by nothing, nor by far more or fewer, where a step says so."""

import pytest

from logdriven_dagster.errors import InvalidProjectError
from logdriven_dagster.execution.arguments import RunArguments
from logdriven_dagster.execution.events import WindowFailed, WindowSucceeded
from tests.builders import day
from tests.execution.conftest import NOW

TARGETS = {
    "iceberg": "{type: iceberg}",
    "iceberg, by a column": "{type: iceberg, window_column: at}",
    "append": "{type: iceberg, mode: append}",
    "whole": "{type: iceberg, mode: overwrite}",
    "parquet": "{type: parquet}",
    "jdbc": "{type: jdbc, connection: lite, table: t}",
}
TABLE = """
    table: ods.t
    period: 1 day
    default_start: 2022-01-01
    end: 2022-01-02
    variables: {{rows: 0}}
    steps:
      - step: load
        sql: SELECT id, :data_range_start AS at FROM range(CAST(:rows AS INT))
        target: {target}
        {guard}
"""


class Guarded:
    """A table of one window, which can be run with any number of rows."""

    def __init__(self, world, target):
        self.world, self.target = world, target
        world.write("logdriven.yaml", "project: w\nconnections: {lite: {url: 'sqlite:///lite.db'}}")

    def run(self, rows, guard=""):
        self.world.write("tables/t.yaml", TABLE.format(target=self.target, guard=guard))
        arguments = RunArguments({"rows": str(rows)})
        (event,) = [
            event
            for event in self.world.runner.refresh("ods.t", day(1), NOW, arguments)
            if isinstance(event, (WindowFailed, WindowSucceeded))
        ]
        return event

    @property
    def count(self):
        return len(self.world.rows("ods.t"))


@pytest.fixture(params=TARGETS)
def guarded(request, world):
    return Guarded(world, TARGETS[request.param])


@pytest.mark.sampled
def test_nothing_never_replaces_rows(spark, guarded):
    guard = "never_empty: true"
    assert isinstance(guarded.run(0, guard), WindowSucceeded)  # there is nothing to replace yet
    assert isinstance(guarded.run(4, guard), WindowSucceeded)
    failed = guarded.run(0, guard)
    assert failed.error.startswith(
        "never_empty: no rows would replace 4 published rows; nothing is"
    )
    assert guarded.count == 4
    assert isinstance(guarded.run(0), WindowSucceeded)
    assert guarded.count == 0


@pytest.mark.sampled
def test_the_number_of_rows_changes_by_no_more_than_a_step_allows(spark, guarded):
    guard = "change_at_most: 50 %"
    assert isinstance(guarded.run(10, guard), WindowSucceeded)
    for rows, change in ((16, "60.0%"), (4, "60.0%"), (0, "100.0%")):
        error = f"change_at_most is 50 %: {rows} rows would replace 10, a change of {change}; "
        assert guarded.run(rows, guard).error.startswith(error)
    assert guarded.count == 10
    assert isinstance(guarded.run(15, guard), WindowSucceeded)
    assert guarded.count == 15


@pytest.mark.parametrize(
    ("step", "text"),
    [
        ("change_at_most: half", "'half' must be a percentage, such as 50 %"),
        ("change_at_most: -1", "change_at_most"),
        ("target: {type: iceberg, mode: upsert, key: [id]}, never_empty: true", "not the mode"),
        ("never_empty: true", "need a target whose published rows are replaced"),
    ],
)
def test_where_it_cannot_be_judged_it_is_refused(world, step, text):
    head = "table: ods.t\nperiod: 1 day\ndefault_start: 2022-01-01\n"
    world.write("tables/t.yaml", f"{head}steps: [{{step: s, sql: SELECT 1 AS id, {step}}}]")
    with pytest.raises(InvalidProjectError, match=text):
        _ = world.runner


def test_windows_that_compare_what_they_replace_run_one_by_one(world):
    from logdriven_dagster.config import load_project
    from logdriven_dagster.config.sql.stretching import find_stretch_obstacle

    Guarded(world, "{type: iceberg, window_column: at}")
    target = "{type: iceberg, window_column: at}"
    world.write("tables/t.yaml", TABLE.format(target=target, guard="never_empty: true"))
    project = load_project(world.root)
    reason = find_stretch_obstacle(project, project.table("ods.t"))
    assert reason == "step load: never_empty and change_at_most compare each window separately"
