"""Attempts that are older than they are, and their way into the archive."""

from datetime import timedelta

from logdriven_dagster.runlog.archive import archive
from tests.builders import table
from tests.runlog.logbook import execute

DAY = timedelta(days=1)


def age(log, pattern="%"):
    """Two days ago the attempts at these windows ended."""
    times = "job_end_time = '2020-01-01 00:00:00.000000'"
    execute(log, f"UPDATE job_log SET {times} WHERE job_schedule_id LIKE '{pattern}'")


def move(log, *tables):
    return log.write(lambda conn: archive(conn, tables or [table()], DAY))
