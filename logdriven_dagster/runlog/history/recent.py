"""The windows that ended recently; delays are counted from their ends."""

from collections.abc import Collection, Iterator

from sqlalchemy import select
from sqlalchemy.engine import Connection

from logdriven_dagster.config.models.dependencies import Dependency
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.model.attempts import Status
from logdriven_dagster.model.logs import EndedWindow
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.runlog.schema.attempts import job_log
from logdriven_dagster.runlog.sql.among import among
from logdriven_dagster.runlog.sql.clock import match_past, utc_from_now, utc_now
from logdriven_dagster.runlog.sql.projects import match_project
from logdriven_dagster.runlog.sql.unindexed import unindexed


def find_ended_windows(
    conn: Connection, tables: Collection[TableConfig]
) -> dict[str, list[EndedWindow]]:
    """Return the windows whose latest attempts ended within the longest delay of a waiting table.

    They are returned by ascending start, for each of the tables that another one of `tables` waits
    for with a delay; without such tables nothing is read. The query reads the index of end times,
    so its cost depends on the windows that ended recently, not on the length of the history. These
    rows count as ended long ago: archived rows, rows written by hand without an end time, and rows
    that ended in the future of a clock that was set back.
    """
    zones = {table.table: table.grid.zone for table in tables}
    delayed = [dependency for dependency in _find_delayed(tables) if dependency.table in zones]
    found: dict[str, list[EndedWindow]] = {}
    if not delayed:
        return found
    longest = max(dependency.delay for dependency in delayed)
    since = conn.execute(select(utc_from_now(-longest))).scalar_one()
    columns = (job_log.c.job_name, job_log.c.window_start, job_log.c.window_end)
    ends = (job_log.c.status, job_log.c.job_end_time, utc_now().label("read_at"))
    query = (
        select(*columns, *ends)
        .where(
            match_project(job_log),
            # As a value: PostgreSQL can then estimate the small number of rows.
            job_log.c.job_end_time > since,
            match_past(job_log.c.job_end_time),
            among(unindexed(job_log.c.job_name)),
            unindexed(job_log.c.latest) == 1,
            job_log.c.status != Status.RUNNING.value,
            job_log.c.window_start.is_not(None),
        )
        .order_by(job_log.c.window_start)
    )
    for row in conn.execute(query, {"names": {d.table for d in delayed}}):
        window = TimeWindow.from_seconds(row.window_start, row.window_end, zones[row.job_name])
        item = EndedWindow(window, Status(row.status), row.read_at - row.job_end_time)
        found.setdefault(row.job_name, []).append(item)
    return found


def _find_delayed(tables: Collection[TableConfig]) -> Iterator[Dependency]:
    return (d for table in tables for d in table.managed_dependencies if d.delay)
