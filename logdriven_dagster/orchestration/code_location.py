"""A project as Dagster definitions."""

import re
import warnings
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from dagster import (
    AssetsDefinition,
    BetaWarning,
    Definitions,
    ExecutorDefinition,
    PreviewWarning,
    ResourceDefinition,
    in_process_executor,
)
from dagster.components.resolved.core_models import OpSpec

from logdriven_dagster.config.project import Project
from logdriven_dagster.errors import UsageError
from logdriven_dagster.execution.catching_up.made_without import find_made_without_when_loaded
from logdriven_dagster.execution.catching_up.outdated import find_outdated_windows_at_load
from logdriven_dagster.execution.definitions.changed_targets import find_changed_at_load
from logdriven_dagster.execution.definitions.old_windows import find_old_windows_at_load
from logdriven_dagster.execution.definitions.registering import load_for_code_location
from logdriven_dagster.orchestration.assets.freshness import freshness_checks
from logdriven_dagster.orchestration.assets.metadata import (
    format_changed_target,
    format_made_without,
    format_old_windows,
    format_outdated_windows,
)
from logdriven_dagster.orchestration.assets.translator import LogdrivenTranslator
from logdriven_dagster.orchestration.io_manager import table_io_manager
from logdriven_dagster.orchestration.jobs.catch_up import catch_up_job
from logdriven_dagster.orchestration.jobs.configured import build_configured_job, job_schedules
from logdriven_dagster.orchestration.jobs.skipping import skipping_jobs
from logdriven_dagster.orchestration.location import Location, selection
from logdriven_dagster.orchestration.resources import spark_resource
from logdriven_dagster.orchestration.sensors.catch_up import catch_up_sensor
from logdriven_dagster.orchestration.sensors.mirror import mirror_sensor
from logdriven_dagster.orchestration.table_assets import (
    Execute,
    build_assets,
    list_inputs,
    run_table,
)
from logdriven_dagster.private_files import guard_umask
from logdriven_dagster.processes import garbage_kept


@garbage_kept()
def build_definitions(
    project: Project | Path | str,
    *,
    tables: Collection[str] = (),
    translator: LogdrivenTranslator | None = None,
    prefix: str = "",
    spark: ResourceDefinition | None = None,
    executor: ExecutorDefinition | None = in_process_executor,
    op: OpSpec | None = None,
    execute: Execute = run_table,
) -> Definitions:
    """Build the Dagster definitions of a project: assets, jobs, schedules and sensors.

    `Definitions.merge(build_definitions("shop"), mine)` adds hand-written assets, or another
    project. Files that the process creates from now on are not writable by every user, regardless
    of its umask.

    - `project`: its folder, or a loaded project.
    - `tables`: names of tables and jobs, or patterns such as `ods.*`, that are shown and run here,
      by default all of them. Other tables that these read are shown as upstreams.
    - `translator`: the mapping of tables to assets: keys, groups, owners, tags, automation
      conditions.
    - `prefix`: a prefix for the names of ops, jobs, sensors, schedules and resources that would
      otherwise equal those of another project.
    - `spark`: a resource in place of the project's own, such as a `LazyPySparkResource`.
    - `executor`: the executor of the steps of a run. In one process they share a Spark session;
      pass None if a team's own definitions have an executor. In separate processes each step
      starts a JVM.
    - `op`: tags, pool and backfill policy of the ops of all tables.
    - `execute`: the body of these ops.

    Raises UsageError for arguments that do not fit the project, and InvalidProjectError, which
    lists every mistake in its files.
    """
    guard_umask()
    project = project if isinstance(project, Project) else load_for_code_location(project)
    if prefix and not re.fullmatch(r"[A-Za-z0-9_]+", prefix):
        raise UsageError(f"prefix: {prefix!r} must consist of letters, digits and underscores")
    translator, op = translator or LogdrivenTranslator(), op or OpSpec()
    if op.name or op.description:
        raise UsageError(
            "op: must not set name and description, which every table has; set tags, "
            "pool or other arguments"
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BetaWarning)
        warnings.simplefilter("ignore", PreviewWarning)
        shown = selection(project, tables)
        specs = {
            table: translator.get_asset_spec(project.tables[table], project)
            for table in shown.tables
        }
        for table, metadata in _find_notes(project):
            if table in specs:
                specs[table] = specs[table].merge_attributes(metadata=metadata)
        location = Location(project, {table: spec.key for table, spec in specs.items()}, prefix)
        location = replace(location, inputs=list_inputs(location, specs))
        assets = build_assets(location, specs, execute, op)
        return _assemble(location, assets, shown.jobs, spark, executor)


def _assemble(
    location: Location,
    assets: list[AssetsDefinition],
    jobs: Iterable[str],
    spark: ResourceDefinition | None,
    executor: ExecutorDefinition | None,
) -> Definitions:
    """Return the definitions of assets with the project's jobs, schedules, sensors and resources.

    Dagster keeps the local variables of the function that is the first to make a `Definitions`, so
    the specifications of the assets, which it copies, must not be one of them.
    """
    project, catch_up = location.project, catch_up_job(location)
    configured = {name: build_configured_job(location, project.jobs[name]) for name in jobs}
    return Definitions(
        assets=assets,
        asset_checks=freshness_checks(location),
        jobs=[catch_up, *skipping_jobs(location), *configured.values()],
        schedules=job_schedules(location, configured),
        sensors=[catch_up_sensor(location, catch_up), mirror_sensor(location, catch_up)],
        resources={
            location.spark: spark or spark_resource(project),
            location.io_manager: table_io_manager(location),
        },
        executor=executor,
    )


def _find_notes(project: Project) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield metadata about finished windows that are out of date, each with the table's name."""
    for table, changed in find_changed_at_load(project).items():
        yield table, format_changed_target(changed)
    for table, old in find_old_windows_at_load(project).items():
        yield table, format_old_windows(old)
    for table, outdated in find_outdated_windows_at_load(project).items():
        yield table, format_outdated_windows(outdated)
    for table, made in find_made_without_when_loaded(project).items():
        yield table, format_made_without(made)
