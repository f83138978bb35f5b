"""The frontier of a source: the end of new data, which each attempt queries before it reads.

Spark is started only if there is no other way to query it.
"""

from dataclasses import replace

from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.failures import step_errors
from logdriven_dagster.engine.sources.readers import Ask, Frontier, reader_of
from logdriven_dagster.engine.sources.source_rows import (
    can_assign_windows,
    count_rows,
    refuse_rows_outside,
)
from logdriven_dagster.model.runs import WindowRun
from logdriven_dagster.model.source_rows import SourceRows


def frontier(project: Project, run: WindowRun, reading: Ask) -> Frontier:
    """Return the frontier of the run's window; StepError, without secrets, if that fails."""
    source = project.table(run.table).sliced_step.source
    assert source is not None
    with step_errors():
        found = reader_of(source).frontier(project, run, source, reading)
        return replace(found, source_rows=_count_rows_without_key(project, run, reading, found))


def _count_rows_without_key(
    project: Project, run: WindowRun, reading: Ask, found: Frontier
) -> SourceRows | None:
    """Count the rows of a source if some of them belong to no key range.

    A window counts the rows of the files that it reads. Therefore, files are read here only if no
    row has a key. Raises TerminalStepError if the table does not allow such rows.
    """
    table = project.table(run.table)
    step = table.sliced_step
    assert step.source is not None
    if table.rows_outside == "ignore" or not can_assign_windows(table, step.source):
        return None
    reader = reader_of(step.source)
    rows = reader.count_rows_without_key(project, run, step.source)
    if not reader.asks_for_keys and found.window.is_empty and found.window.number == 0:
        rows = count_rows(reading(), step, None)
    if rows is None or not rows.outside:
        return None
    if table.rows_outside == "fail":
        refuse_rows_outside(rows)
    return rows
