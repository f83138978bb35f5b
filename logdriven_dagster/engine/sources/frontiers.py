"""The frontier of a source: the end of new data, which each attempt queries before it reads.

Spark is started only if there is no other way to query it.
"""

from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.failures import step_errors
from logdriven_dagster.engine.sources.readers import Ask, Frontier, reader_of
from logdriven_dagster.model.runs import WindowRun


def frontier(project: Project, run: WindowRun, reading: Ask) -> Frontier:
    """Return the frontier of the run's window; StepError, without secrets, if that fails."""
    source = project.table(run.table).sliced_step.source
    assert source is not None
    with step_errors():
        return reader_of(source).frontier(project, run, source, reading)
