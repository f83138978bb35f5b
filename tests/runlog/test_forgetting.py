"""A table that is forgotten leaves no row in the run log, and takes none of other tables."""

import pytest
from sqlalchemy import String

from logdriven_dagster.errors import AlreadyRunningError
from logdriven_dagster.runlog import forgetting
from logdriven_dagster.runlog.schema import definitions, observations
from logdriven_dagster.runlog.schema.attempts import metadata
from tests.builders import day, table
from tests.runlog.ageing import age, move
from tests.runlog.logbook import execute, expire, rows, start, succeed, table_log

NOT_OF_TABLES = {"job_run.job_name", "table_property.name"}
GONE = {"name": "ods.gone"}
BOOKMARK = "INSERT INTO refresh_bookmark (project_id, job_name, upstream, job_id)"


def test_every_column_with_names_of_tables_is_known():
    registry = {
        each.name for each in (definitions.project_definition, definitions.step_definition)
    } | {name for name in metadata.tables if "_definition" in name}
    found = {
        f"{name}.{column.name}"
        for name, each in metadata.tables.items()
        if name not in registry
        for column in each.columns
        if isinstance(column.type, String)
        and (column.name in ("name", "subject", "upstream") or column.name.endswith("job_name"))
    }
    known = {
        f"{each.name}.{name}" for each, names in forgetting.TABLE_NAMES.items() for name in names
    }
    assert found - NOT_OF_TABLES == known
    assert observations.notification_log in forgetting.TABLE_NAMES


def counts(log, name):
    return log.ask(lambda conn: forgetting.count_rows(conn, name))


def test_all_rows_of_a_table_go_archived_ones_too_and_no_others(log):
    for fields in (GONE, {}):
        succeed(log, day(1), **fields)
        succeed(log, day(2), **fields)
    age(log, "%-20220101%")
    move(log)
    succeed(log, day(3), **GONE)
    of_gone = (
        f"{BOOKMARK} VALUES (1, 'ods.t', 'ods.gone', 1)",
        f"{BOOKMARK} VALUES (1, 'ods.t', 'ods.other', 1)",
        "INSERT INTO lineage_run VALUES (1, 7)",
    )
    for statement in of_gone:
        execute(log, statement)
    before, kept = counts(log, "ods.gone"), table_log(log)
    assert before == {
        "job_log": 2,
        "job_log_archive": 1,
        "step_log": 2,
        "step_log_archive": 1,
        "lineage_run": 1,
        "log_range": 1,
        "refresh_bookmark": 1,
    }
    assert log.write(lambda conn: forgetting.forget(conn, "ods.gone")) == before
    assert counts(log, "ods.gone") == {}
    assert table_log(log) == kept
    assert rows(log, "SELECT upstream FROM refresh_bookmark") == [{"upstream": "ods.other"}]
    again = start(log, day(1), **GONE)
    assert again.attempt_number == 1
    assert table_log(log, table("ods.gone")).finished == ()


def test_a_table_that_a_runner_holds_is_not_forgotten(log):
    start(log, day(1), **GONE)
    with pytest.raises(AlreadyRunningError, match=r"ods\.gone is running in job 1 of here:10:20"):
        log.write(lambda conn: forgetting.forget(conn, "ods.gone"))
    assert counts(log, "ods.gone")["job_log"] == 1
    expire(log)
    log.write(lambda conn: forgetting.forget(conn, "ods.gone"))
    assert counts(log, "ods.gone") == {}
