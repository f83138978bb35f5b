"""What rules found outlives the runner that found it."""

import pytest
from sqlalchemy import text

from logdriven_dagster.runlog.observed.quality import list_newest
from tests.execution.crashes import crash, kill

pytestmark = pytest.mark.usefixtures("spark")

CHECKED = """
    table: checked
    period: 1 day
    default_start: 2022-01-01
    steps:
      - step: first
        sql: SELECT id, id % 2 AS odd FROM range(10)
        target: {type: iceberg, name: checked_first}
        quality: {id: [id], keep_rejected: true, columns: {odd: [positive]}}
      - step: second
        sql: SELECT id FROM first
        target: {type: iceberg}
"""


@pytest.mark.usefixtures("long")
def test_a_step_that_is_taken_over_keeps_what_its_rules_found(world, after_stage, monkeypatch):
    world.write("tables/checked.yaml", CHECKED)
    staged = after_stage("second", kill)
    crash(world, monkeypatch, "checked")
    world.catch_up(tables=["checked"], max_windows=1)
    assert staged == ["first", "second", "second"]
    assert world.rows("checked") == [(1,), (3,), (5,), (7,), (9,)]
    with world.runner.run_log.read() as conn:
        (found,) = list_newest(conn, "checked", limit=5)
        query = text("SELECT failure_count FROM step_log WHERE job_id = 2 AND step_id = 'first'")
        assert conn.execute(query).scalar() == 5
    assert (found["job_id"], found["rules"][0]["error_count"]) == (2, 5)
