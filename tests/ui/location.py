"""The code location of a project whose tables run on the null engine, but for those tagged.

`dagster dev -f` loads it, and so does the process of each run, which needs no JVM then. A table
with the tag `engine: spark` runs on Spark.
"""

import os
import time

from dagster import AssetExecutionContext

from logdriven_dagster import build_definitions
from logdriven_dagster.config.models.steps import StepConfig
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.model.runs import WindowRun
from logdriven_dagster.orchestration.location import Location
from logdriven_dagster.orchestration.table_assets import Results, run_table
from logdriven_dagster.testing.null_engine import NullEngine, null_engine
from tests.builders import day

STUCK_SECONDS = 600


def stage(run: WindowRun, _step: StepConfig) -> int:
    """Deliver four rows; a stuck table does not end, and the 3rd day of a broken one fails.

    A halting table does not end its 11th day.
    """
    if run.table.endswith(".stuck"):
        time.sleep(STUCK_SECONDS)
    if run.table.endswith(".halting") and run.window == day(11):
        NullEngine.wait(STUCK_SECONDS)
    if run.table.endswith(".broken") and run.window == day(3):
        raise TerminalStepError("check small finds 4 rows")
    return 4


def execute(context: AssetExecutionContext, table: TableConfig, location: Location) -> Results:
    """Run the windows of a table."""
    if table.tags.get("engine") == "spark":
        yield from run_table(context, table, location)
        return
    with null_engine(NullEngine(stage=stage)):
        yield from run_table(context, table, location)


defs = build_definitions(os.environ["LOGDRIVEN_PROJECT"], execute=execute)
