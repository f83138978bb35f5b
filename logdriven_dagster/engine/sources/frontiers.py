"""The frontier of a source: the end of new data, which each attempt queries before it reads.

Spark is started only if there is no other way to query it.
"""

from dataclasses import replace

from logdriven_dagster.config.models.types.sources import Source
from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.failures import step_errors
from logdriven_dagster.engine.sources.readers import Ask, Frontier, reader_of
from logdriven_dagster.engine.sources.source_rows import can_tell, refuse_rows_outside
from logdriven_dagster.model.runs import WindowRun
from logdriven_dagster.model.source_rows import SourceRows


def frontier(project: Project, run: WindowRun, reading: Ask) -> Frontier:
    """Return the frontier of the run's window; StepError, without secrets, if that fails."""
    source = project.table(run.table).sliced_step.source
    assert source is not None
    with step_errors():
        found = reader_of(source).frontier(project, run, source, reading)
        return replace(found, source_rows=_count_rows_without_key(project, run, source))


def _count_rows_without_key(project: Project, run: WindowRun, source: Source) -> SourceRows | None:
    """Count the rows of a source if some of them belong to no key range.

    Raises TerminalStepError if the table does not allow such rows.
    """
    table = project.table(run.table)
    if table.rows_outside == "ignore" or not can_tell(table, source):
        return None
    rows = reader_of(source).count_rows_without_key(project, run, source)
    if rows is not None and table.rows_outside == "fail":
        refuse_rows_outside(rows)
    return rows
