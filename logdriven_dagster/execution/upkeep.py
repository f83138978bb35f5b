"""What operators do to a project: discard running attempts, remove garbage, archive the log."""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

from sqlalchemy.engine import Connection

from logdriven_dagster.config import Project
from logdriven_dagster.engine.garbage import Garbage, find_garbage
from logdriven_dagster.errors import UsageError
from logdriven_dagster.model.attempts import Owner, Status
from logdriven_dagster.model.logs import OpenWindow
from logdriven_dagster.runlog import RunLog, archive, history, leases, steps


def discard(
    project: Project, run_log: RunLog, table: str, by: Owner, start: datetime | None = None
) -> list[OpenWindow]:
    """Stop the running attempts at a table's windows, or at the one that starts at `start`.

    Their runners stop within seconds and publish nothing more; the windows are pending again.
    UsageError if none is running. Source: Kylin, a job that its user discards.
    """
    config = project.table(table)
    opened = run_log.ask(lambda conn: history.open_windows(conn, [config])).get(table, ())
    running = [
        item
        for item in opened
        if item.status is Status.RUNNING
        and (start is None or item.window.start.timestamp() == start.timestamp())
    ]

    def end(conn: Connection) -> list[OpenWindow]:
        return [item for item in running if leases.discard(conn, item.job_id, by)]

    discarded = run_log.write(end)
    if not discarded:
        which = f"no window of {table}" if start is None else f"{table} at {start:%Y-%m-%d %H:%M}"
        raise UsageError(f"{which} is running; `logdriven status {table}` shows what is")
    return discarded


def garbage(project: Project, run_log: RunLog, older_than: timedelta) -> Iterator[Garbage]:
    """What dead attempts left behind in the targets; nothing that a reader or attempt may need."""
    return find_garbage(project, _in_use(run_log), older_than)


def bury_expired(run_log: RunLog, by: Owner) -> int:
    """End the attempts whose leases are over, also of tables that are not run any more; how many.

    A window that runs again does so by itself.
    """
    return len(run_log.write(lambda conn: leases.bury_expired(conn, str(by))))


def archive_log(project: Project, run_log: RunLog, age: timedelta) -> Iterator[int]:
    """Move attempts that ended longer ago than `age` to the archive tables.

    Yields how many each transaction moved. Planning does not notice: watermarks stay.
    """
    tables = list(project.tables.values())
    while moved := run_log.write(lambda conn: archive.archive(conn, tables, age)):
        yield moved


def _in_use(run_log: RunLog) -> Callable[[int, str], bool]:
    """Whether an attempt needs what a job staged: one that runs, or may go on with its steps."""

    def in_use(job_id: int, location: str) -> bool:
        return run_log.ask(lambda conn: steps.relied_on(conn, job_id, Path(location).name))

    return in_use
