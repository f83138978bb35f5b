"""The day of many tables: every window succeeds once, whatever failed or came late on the way."""

from collections import Counter
from datetime import datetime, timezone
from pathlib import Path

import pytest

from benchmarks.many_tables import Day, make_project
from benchmarks.null_runs import cheap_runner
from logdriven_dagster.execution.definitions.registering import register
from logdriven_dagster.execution.events import WindowFailed, WindowSucceeded

DAY = Day(tables=36, hours=3, workers=2, start=datetime(2022, 1, 2, tzinfo=timezone.utc))
"""Which windows fail first depends on their times; of these, some do."""


def test_half_of_the_tables_are_in_chains_of_three_that_a_worker_has_as_a_whole(tmp_path: Path):
    make_project(tmp_path, DAY, f"sqlite:///{tmp_path / 'log.db'}")
    tables = register(tmp_path).project.tables
    upstream = {
        name: table.depends_on[0].table for name, table in tables.items() if table.depends_on
    }
    thirds = [name for name, up in upstream.items() if up in upstream]
    assert len(thirds) * 3 * 2 == DAY.tables == len(tables)
    assert all(
        tables[name].worker_group == tables[up].worker_group for name, up in upstream.items()
    )
    assert {table.worker_group for table in tables.values()} == {"worker-0", "worker-1"}


@pytest.mark.usefixtures("slow")
def test_every_window_succeeds_once_though_some_fail_first_and_some_come_late(tmp_path: Path):
    make_project(tmp_path, DAY, f"sqlite:///{tmp_path / 'log.db'}")
    registered = register(tmp_path)
    runner = cheap_runner(registered.project, registered.run_log)
    hours = [list(runner.catch_up(instant)) for instant in DAY.instants]
    done = Counter(
        (each.attempt.table, each.attempt.window)
        for events in hours
        for each in events
        if isinstance(each, WindowSucceeded)
    )
    assert len(done) == done.total() == DAY.windows
    assert any(isinstance(each, WindowFailed) for events in hours for each in events)
    late = {each.attempt.table for each in hours[DAY.hours] if isinstance(each, WindowSucceeded)}
    assert DAY.name(7) in late
