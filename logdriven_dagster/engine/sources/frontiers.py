"""How far a source goes at the moment: asked once by each attempt at a slice, before it reads.

Spark is only started where nothing else can ask.
"""

from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.failures import step_errors
from logdriven_dagster.engine.sources.readers import Ask, Frontier, reader_of
from logdriven_dagster.model.runs import WindowRun


def frontier(project: Project, run: WindowRun, reading: Ask) -> Frontier:
    """Where the run's slice ends; StepError, without secrets, if the source cannot say."""
    source = project.table(run.table).sliced_step.source
    assert source is not None
    with step_errors():
        return reader_of(source).frontier(project, run, source, reading)
