"""The frontier of a source: the end of new data, which each attempt queries before it reads.

Spark is started only if there is no other way to query it.
"""

from dataclasses import replace

from logdriven_dagster.config.models.steps import StepConfig
from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.failures import step_errors
from logdriven_dagster.engine.sources.readers import Ask, Frontier, reader_of
from logdriven_dagster.engine.sources.source_rows import can_tell, count_rows, refuse_rows_outside
from logdriven_dagster.model.runs import WindowRun
from logdriven_dagster.model.source_rows import SourceRows


def frontier(project: Project, run: WindowRun, reading: Ask) -> Frontier:
    """Return the frontier of the run's window; StepError, without secrets, if that fails."""
    step = project.table(run.table).sliced_step
    source = step.source
    assert source is not None
    with step_errors():
        found = reader_of(source).frontier(project, run, source, reading)
        rows = _rows_without_key(project, run, step, reading, found)
        return found if rows is None else replace(found, source_rows=rows)


def _rows_without_key(
    project: Project, run: WindowRun, step: StepConfig, reading: Ask, found: Frontier
) -> SourceRows | None:
    """Count the rows of a source with rows that belong to no key range.

    The files that a window reads are counted by it: here, only a source without any key is read.
    Raises TerminalStepError if the table does not allow such rows.
    """
    table, source = project.table(run.table), step.source
    assert source is not None
    if table.rows_outside == "ignore" or not can_tell(table, source):
        return None
    reader, rows = reader_of(source), None
    if reader.asks_for_keys:
        rows = reader.count_rows_without_key(project, run, source)
    elif found.window.is_empty and found.window.number == 0:
        rows = count_rows(reading(), step, None)
    if rows is None or not rows.outside:
        return None
    if table.rows_outside == "fail":
        refuse_rows_outside(rows)
    return rows
