"""The windows that operators name to skip them, or to make them pending again."""

from datetime import datetime

from sqlalchemy.engine import Connection

from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.project import Project
from logdriven_dagster.errors import UsageError
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.planning.pending import list_windows_around
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.attempts import overlaps
from logdriven_dagster.runlog.history.logs import read_window_states


def find_skippable_table(project: Project, name: str) -> TableConfig:
    """Return a table. Raises UsageError if it has numbered windows, which follow each other."""
    table = project.table(name)
    if table.is_sliced:
        fix = "the next window begins where the last one ended"
        raise UsageError(f"{name} has numbered windows, which cannot be skipped; {fix}")
    return table


def find_windows_to_skip(
    project: Project, run_log: RunLog, name: str, start: datetime, end: datetime | None = None
) -> list[TimeWindow]:
    """Return the windows of a range: as they ran or were skipped, and as they are going to run.

    Without `end`, return the window that starts at `start`. Raises UsageError if the range does not
    start and end at the bounds of such windows.
    """
    table = find_skippable_table(project, name)
    grid = table.grid
    cell = grid.window(grid.index(start))
    span = TimeWindow(start, end or cell.end, zone=grid.zone)
    around = grid.covering(span)

    def read(conn: Connection) -> list[TimeWindow]:
        finished = overlaps.find_finished_windows(conn, name, around)
        skipped = overlaps.find_skipped_windows(conn, name, around)
        reopened = read_window_states(conn, [table])[name].once_finished
        within = [window for window in reopened if window.overlaps(around)]
        return [*(window for _, window in finished), *skipped, *within]

    found = list_windows_around(table, span, run_log.ask(read))
    if end is None:
        first = found[0]
        if first.start != span.start:
            raise UsageError(
                f"no window of {name} starts at this time; the window that contains it is {first}"
            )
        return [first]
    whole = found[0].up_to_end_of(found[-1])
    if not span.contains(whole):
        fix = f"the windows of {name} that contain it are {whole}"
        raise UsageError(f"{span} does not start and end at the bounds of windows of {name}; {fix}")
    return found
