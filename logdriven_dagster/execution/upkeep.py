"""Upkeep by operators: discard attempts, clean up targets, archive the log."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from sqlalchemy.engine import Connection

from logdriven_dagster.config.derived.selection import select_tables
from logdriven_dagster.config.project import Project
from logdriven_dagster.engine import spark_session
from logdriven_dagster.engine.storage.garbage import Garbage
from logdriven_dagster.engine.targets import upkeep as engine_upkeep
from logdriven_dagster.engine.targets.garbage import find_garbage
from logdriven_dagster.errors import UsageError
from logdriven_dagster.model.attempts import Owner, Status
from logdriven_dagster.model.logs import OpenWindow
from logdriven_dagster.model.upkeep import Compaction, Expiry, Upkept
from logdriven_dagster.model.windows import normalize_instant
from logdriven_dagster.runlog import RunLog, archive, transitions
from logdriven_dagster.runlog.attempts import leases, steps
from logdriven_dagster.runlog.attempts.leases import ATTEMPTS
from logdriven_dagster.runlog.history import logs as history
from logdriven_dagster.runlog.jobs import runs as job_runs
from logdriven_dagster.runlog.observed import notifications

if TYPE_CHECKING:
    from logdriven_dagster.engine import SparkSession


def discard(
    project: Project, run_log: RunLog, table: str, by: Owner, start: datetime | None = None
) -> list[OpenWindow]:
    """Stop the running attempts at a table's windows, or at the one that starts at `start`.

    Their runners stop within seconds and publish nothing more; the windows are pending again.
    Raises UsageError if none is running. Source: Kylin, a job that its user discards.
    """
    config = project.table(table)
    opened = run_log.ask(lambda conn: history.open_windows(conn, [config])).get(table, ())
    running = [
        item
        for item in opened
        if item.status is Status.RUNNING
        and (start is None or item.window.start == normalize_instant(start))
    ]

    def end(conn: Connection) -> list[OpenWindow]:
        ended = [item for item in running if leases.discard(conn, item.job_id, by)]
        for item in ended:
            transitions.leave_standing(conn, item.job_id)
        return ended

    discarded = run_log.write(end)
    if not discarded:
        which = (
            f"no window of {table} is running"
            if start is None
            else f"{table} at {start:%Y-%m-%d %H:%M} is not running is not running"
        )
        raise UsageError(f"{which}; `logdriven status {table}` shows the running windows")
    return discarded


def garbage(project: Project, run_log: RunLog, older_than: timedelta) -> Iterator[Garbage]:
    """Find leftovers of dead attempts in the targets; nothing that a reader or attempt may need."""
    return find_garbage(project, _in_use(run_log), older_than)


def expirable(
    project: Project, run_log: RunLog, names: Sequence[str], older_than: timedelta, options: Expiry
) -> Iterator[Upkept]:
    """Find the versions that `expire_snapshots` would remove."""
    for name in select_tables(project, names):
        unfinished = _build_unfinished(project, run_log)
        yield engine_upkeep.expirable(project, name, older_than, options, unfinished)


def expire_snapshots(
    project: Project, run_log: RunLog, names: Sequence[str], older_than: timedelta, options: Expiry
) -> Iterator[Upkept]:
    """Remove old versions of tables, by names of tables or jobs; no names select all tables."""
    for name in select_tables(project, names):
        unfinished = _build_unfinished(project, run_log)
        yield engine_upkeep.expire_snapshots(project, name, older_than, options, unfinished)


def compactable(project: Project, names: Sequence[str], options: Compaction) -> Iterator[Upkept]:
    """Find the files that `compact_files` would rewrite."""
    for name in select_tables(project, names):
        yield engine_upkeep.compactable(project, name, options)


def compact_files(
    project: Project,
    names: Sequence[str],
    options: Compaction,
    spark: "Callable[[], SparkSession] | None" = None,
) -> Iterator[Upkept]:
    """Rewrite small files of tables as few larger ones, by names of tables or jobs; none: all.

    `spark` returns the session to use; by default the project's own is started or reused, once a
    table has files to compact.
    """
    for name in select_tables(project, names):
        found = engine_upkeep.compactable(project, name, options)
        if found.files:
            session = spark() if spark is not None else spark_session(project)
            found = engine_upkeep.compact_files(project, session, name, options)
        yield found


def _build_unfinished(project: Project, run_log: RunLog) -> engine_upkeep.Unfinished:
    """Return a function that reads the windows whose newest attempt runs or did not succeed."""
    tables = list(project.tables.values())

    def ask() -> set[tuple[str, str]]:
        opened = run_log.ask(lambda conn: history.open_windows(conn, tables))
        found = ((name, item.window) for name, items in opened.items() for item in items)
        return {(name, window.start_text) for name, window in found}

    return ask


def bury_expired(run_log: RunLog, by: Owner) -> int:
    """End the attempts whose leases have expired, even of tables not run any more; count them.

    A window that is pending again runs without further action.
    """

    def work(conn: Connection) -> int:
        ended = ATTEMPTS.bury_expired(conn, by)
        for job_id in ended:
            transitions.leave_standing(conn, job_id)
        return len(ended) + len(job_runs.RUNS.bury_expired(conn, by))

    return run_log.write(work)


def archive_log(project: Project, run_log: RunLog, age: timedelta) -> Iterator[int]:
    """Move attempts that ended longer ago than `age` to the archive tables.

    Yields the number of attempts that each transaction moved. Planning is not affected: watermarks
    stay. The notices of these attempts are deleted.
    """
    tables = list(project.tables.values())
    while moved := run_log.write(lambda conn: archive.archive(conn, tables, age)):
        yield moved
    run_log.write(lambda conn: notifications.forget(conn, age))


def _in_use(run_log: RunLog) -> Callable[[int, str], bool]:
    """Return a predicate: True if a running or resumable attempt needs a job's staged data."""

    def in_use(job_id: int, name: str) -> bool:
        return run_log.ask(lambda conn: steps.needs_staged_results(conn, job_id, name))

    return in_use
