"""Audits: all rows of a table's sources compared with all of its windows."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from functools import partial

from logdriven_dagster.config.derived.processes import build_process
from logdriven_dagster.config.models.incremental.batches import get_file_source
from logdriven_dagster.config.models.steps import StepConfig
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.project import Project
from logdriven_dagster.config.sql.window_keys import OF_A_WINDOW
from logdriven_dagster.engine.sources.source_rows import can_assign_windows
from logdriven_dagster.errors import StepError, UsageError
from logdriven_dagster.execution.logs import read_logs
from logdriven_dagster.execution.window.sessions import Engine
from logdriven_dagster.model.files import FoundFile, RegisteredFile
from logdriven_dagster.model.logs import TableLog
from logdriven_dagster.model.runs import WindowRun
from logdriven_dagster.model.source_rows import SourceRows
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.planning.slices import get_next_slice
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.batches import files
from logdriven_dagster.runlog.history import slices
from logdriven_dagster.runlog.observed import audits


def audit(
    project: Project, run_log: RunLog, engine: Callable[[], Engine], name: str, now: datetime
) -> list[SourceRows]:
    """Count the rows of each source of a table, record the counts in the run log and return them.

    Raises UsageError if no source has a column that assigns rows to windows.
    """
    table = project.table(name)
    log = run_log.ask(lambda conn: read_logs(conn, project, [table.table]))[table.table]
    found = []
    for step in _steps(table):
        run = WindowRun(0, table.table, _any_window(table, log), 0, project.variables(table))
        try:
            if table.incremental.registers_files:
                rows = _rows_of_files(project, run_log, engine, run, step)
            else:
                rows = engine().count_source(run, step, now, _list_read_ranges(run_log, table, log))
        except StepError as error:
            raise type(error)(f"{table.table}: step {step.step}: {error}") from None
        if _is_comparable(table, step):
            rows = replace(rows, read=_read(run_log, table, rows))
        run_log.write(partial(audits.record, rows=rows, table=table))
        found.append(rows)
    return found


def _rows_of_files(
    project: Project,
    run_log: RunLog,
    engine: Callable[[], Engine],
    run: WindowRun,
    step: StepConfig,
) -> SourceRows:
    """Count the rows of the existing files, both loaded and pending ones."""
    from logdriven_dagster.engine.sources.files.arrivals import arrivals

    table = project.table(run.table)
    found = arrivals(project, get_file_source(table), run)
    (route,) = build_process(table).routes
    loaded = run_log.ask(lambda conn: files.find_consumed_files(conn, route, found))
    waiting = [file for file in found if file not in loaded]
    done, left = (
        engine().count_files(replace(run, files=_build_registered_files(each)), step) if each else 0
        for each in (loaded, waiting)
    )
    rows = SourceRows(table.table, step.step, done + left, unplaced=0, before=0, after=0, future=0)
    return replace(rows, done=done)


def _build_registered_files(found: Sequence[FoundFile]) -> tuple[RegisteredFile, ...]:
    return tuple(RegisteredFile(**asdict(file), batch_id=0) for file in found)


def _steps(table: TableConfig) -> list[StepConfig]:
    """Return the steps whose rows have windows, and whose sources are the same for all windows."""
    steps = [step for step in table.steps if step.source and can_assign_windows(table, step.source)]
    if table.incremental.registers_files:
        steps = [table.sliced_step]
    if not steps:
        column = table.incremental.assigns_windows_by or "window_column"
        raise UsageError(
            f"{table.table}: none of its sources has a {column}, so the window of a row is unknown"
        )
    for step in steps:
        if name := OF_A_WINDOW.search(str(step.source)):
            raise UsageError(
                f"{table.table}: the source of step {step.step} uses {name[0]}, so it is "
                "different for every window"
            )
    return steps


def _read(run_log: RunLog, table: TableConfig, rows: SourceRows) -> int | None:
    """Return the number of rows read by windows; None if loaded files do not exist any more."""
    read = run_log.ask(lambda conn: audits.count_rows_read(conn, rows.table, rows.step_id))
    is_less = read is not None and rows.done is not None and rows.done < read
    return None if is_less and table.incremental.registers_files else read


def _any_window(table: TableConfig, log: TableLog) -> TimeWindow:
    """Return any window of the table: the result of an audit does not depend on it."""
    if table.is_sliced:
        return get_next_slice(table, log.last)
    return table.grid.window(0)


def _list_read_ranges(
    run_log: RunLog, table: TableConfig, log: TableLog
) -> tuple[TimeWindow, ...] | range:
    """Return the ranges of time, or the keys, that were read."""
    if not table.is_sliced:
        return log.finished
    following = get_next_slice(table, log.last)
    first, *_ = (*run_log.ask(lambda conn: slices.list_begun_slices(conn, table)), following)
    return range(int(first.low) + 1, int(following.low) + 1)


def _is_comparable(table: TableConfig, step: StepConfig) -> bool:
    """Return True if a step counts each source row of its window once."""
    made = step.sql or step.sql_file or step.python or step.loop_over or step.target is None
    drops = step.source is not None and step.source.drops_records
    return not (made or drops or table.overlap)
