"""Upkeep operations as steps of maintenance jobs."""

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any

from logdriven_dagster.config.models.jobs import MaintenanceStep, Upkeep
from logdriven_dagster.config.project import Project
from logdriven_dagster.execution import upkeep
from logdriven_dagster.execution.runner import Runner
from logdriven_dagster.execution.window.engines import spark_engine
from logdriven_dagster.model.upkeep import Compaction, Expiry, Upkept

_EXPIRY = timedelta(days=7)
_GARBAGE = timedelta(hours=1)
_MEGABYTE = 1_000_000


def _expire_snapshots(runner: Runner, project: Project, step: MaintenanceStep) -> Upkept:
    age, options = step.older_than or _EXPIRY, Expiry(**_options(step))
    names = list(step.tables)
    return _sum(upkeep.expire_snapshots(project, runner.run_log, names, age, options))


def _compact_files(runner: Runner, project: Project, step: MaintenanceStep) -> Upkept:
    options = Compaction(**_options(step))
    names = list(step.tables)
    return _sum(
        upkeep.compact_files(project, names, options, lambda: spark_engine(runner.engine).spark)
    )


def _archive_log(runner: Runner, project: Project, step: MaintenanceStep) -> Upkept:
    assert step.older_than is not None  # the configuration requires it
    moved = sum(upkeep.archive_log(project, runner.run_log, step.older_than))
    return Upkept(f"{moved:,} attempts moved to the archive tables", moved)


def _clean(runner: Runner, project: Project, step: MaintenanceStep) -> Upkept:
    upkeep.bury_expired(runner.run_log, runner.owner)
    files = size = 0
    for item in upkeep.garbage(project, runner.run_log, step.older_than or _GARBAGE):
        if step.tables and item.table not in step.tables:
            continue
        item.remove()
        files, size = files + 1, size + (item.bytes or 0)
    return Upkept(f"{files:,} unused files removed, {size / _MEGABYTE:.1f} MB", 0, files, size)


UPKEEP: Mapping[Upkeep, Callable[[Runner, Project, MaintenanceStep], Upkept]] = {
    "expire_snapshots": _expire_snapshots,
    "compact_files": _compact_files,
    "archive_log": _archive_log,
    "clean": _clean,
}


def _options(step: MaintenanceStep) -> dict[str, Any]:
    return dict(step.options)


def _sum(parts: Iterable[Upkept]) -> Upkept:
    done = list(parts)
    return Upkept(
        "\n".join(f"{part.table}: {part.text}" for part in done),
        sum(part.rows for part in done),
        sum(part.files for part in done),
        sum(part.bytes for part in done),
    )
