"""A project as Dagster definitions."""

import warnings

from dagster import (
    BetaWarning,
    Definitions,
    PreviewWarning,
    in_process_executor,
)

from logdriven_dagster.config import Project
from logdriven_dagster.orchestration.assets.freshness import freshness_checks
from logdriven_dagster.orchestration.io_manager import table_io_manager
from logdriven_dagster.orchestration.jobs.catch_up import catch_up_job
from logdriven_dagster.orchestration.jobs.configured import configured_job, job_schedules
from logdriven_dagster.orchestration.resources import (
    RUN_LOG,
    SPARK,
    RunLogResource,
    spark_resource,
)
from logdriven_dagster.orchestration.sensors.catch_up import catch_up_sensor
from logdriven_dagster.orchestration.sensors.mirror import mirror_sensor
from logdriven_dagster.orchestration.table_assets import (
    IO_MANAGER,
    build_assets,
    external_assets,
)
from logdriven_dagster.private_files import guard_umask


def build_definitions(project: Project) -> Definitions:
    """Everything that Dagster needs to run and show a project.

    Hand-written assets join it with `Definitions.merge(build_definitions(project), mine)`.
    Steps share one process, because every process would start a JVM of its own. What the process
    makes from now on not every user can write, whatever its umask.
    """
    guard_umask()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BetaWarning)
        warnings.simplefilter("ignore", PreviewWarning)
        catch_up = catch_up_job(project)
        jobs = [catch_up, *(configured_job(project, job) for job in project.jobs.values())]
        return Definitions(
            assets=[*build_assets(project), *external_assets(project)],
            asset_checks=freshness_checks(project),
            jobs=jobs,
            schedules=job_schedules(project, jobs),
            sensors=[catch_up_sensor(project, catch_up), mirror_sensor(project, catch_up)],
            resources={
                RUN_LOG: RunLogResource(),
                SPARK: spark_resource(project),
                IO_MANAGER: table_io_manager(project),
            },
            executor=in_process_executor,
        )
