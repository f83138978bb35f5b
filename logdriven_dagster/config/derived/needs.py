"""Resources that a table's windows need: connections, variables, stores, Spark.

A resource shared by many tables is checked once, and its failure is reported as one error instead
of many failed windows.
"""

import ast
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from logdriven_dagster.config.locations import as_path, is_remote
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.project import Project
from logdriven_dagster.config.secrets import find_references, resolve
from logdriven_dagster.errors import DiskFullError, UsageError

_LEAST_FREE = 1 << 20
"""Bytes: no window can be written in less."""


@dataclass(frozen=True, slots=True)
class Need:
    """A resource that windows need in addition to their data."""

    kind: Literal["table", "disk", "connection", "catalog", "warehouse", "run log", "Spark"]
    """Kind of the resource.

    `table` stands for variables and Python files of a single table, `disk` for the disk of a local
    warehouse and of Spark's temporary files.
    """
    name: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}".rstrip()


DISK, SPARK, WAREHOUSE, CATALOG = Need("disk"), Need("Spark"), Need("warehouse"), Need("catalog")
RUN_LOG = Need("run log")


def list_shared_needs(project: Project) -> list[Need]:
    """Return every external resource that the project names, whether used or not."""
    uses = (list_needs(project, table) for table in project.tables.values())
    asked = project.config.catalog is not None or any(CATALOG in needs for needs in uses)
    connections = [Need("connection", name) for name in project.config.connections]
    return [RUN_LOG, WAREHOUSE, *([CATALOG] if asked else []), *connections]


def list_needs(project: Project, table: TableConfig) -> list[Need]:
    """Return all resources that the windows of a table need, cheapest check first."""
    upstreams = [d.table for d in table.managed_dependencies if d.read != "none"]
    read = [project.tables[name].output for name in upstreams if name in project.tables]
    parts = [part for step in table.steps for part in (step.source, step.target)] + read
    used = [*table.steps, *read]
    connections = [name for part in used for name in _list_connections(part.model_dump())]
    configured = project.config.connections
    catalog = any(part is not None and part.in_catalog for part in parts)
    known = table.table in project.files  # not a table created in code
    return [
        *([Need("table", table.table)] if known else []),
        DISK,
        SPARK,
        *([WAREHOUSE] if is_remote(project.config.warehouse) else []),
        *([CATALOG] if catalog else []),
        *(Need("connection", n) for n in dict.fromkeys(connections) if n in configured),
    ]


def _list_connections(values: Any) -> Iterator[str]:
    """Yield every connection that a part of a table's file names."""
    if isinstance(values, dict):
        for key, value in values.items():
            if key == "connection" and isinstance(value, str):
                yield value
            else:
                yield from _list_connections(value)
    elif isinstance(values, (list, tuple)):
        for value in values:
            yield from _list_connections(value)


def refuse_unmet_here(project: Project, need: Need) -> None:
    """Raise UsageError if this environment lacks a resource, without connecting to it."""
    match need.kind:
        case "table":
            _refuse_incomplete(project, project.table(need.name))
        case "connection":
            project.refuse_incomplete_connection(need.name)
        case "catalog":
            _ = project.catalog_url, project.storage
        case "run log":
            _ = project.run_log_url
        case "Spark" | "warehouse":
            _ = project.warehouse, project.storage
        case "disk":
            _refuse_full_disk(project)


def _refuse_full_disk(project: Project) -> None:
    """Refuse a local warehouse in which no file can be written; it need not exist yet."""
    if is_remote(project.warehouse):
        return
    folder = Path(as_path(project.warehouse))
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder; set `warehouse` to another one")
    if not os.access(folder, os.W_OK | os.X_OK):
        problem = f"this user may not write to the warehouse in {folder}"
        raise UsageError(f"{problem}; change its owner or permissions, or `warehouse`")
    room = shutil.disk_usage(folder)
    if room.total and room.free < _LEAST_FREE:  # some mounted stores report no size at all
        raise UsageError(f"no space is left in {folder}; {DiskFullError.fix}")


def _refuse_incomplete(project: Project, table: TableConfig) -> None:
    python = [step.python for step in table.steps if step.python]
    own = table.model_dump_json(exclude={"notify"} if python else {"notify", "properties"})
    for reference in find_references(own):
        resolve(reference)
    project.variables(table)
    for reference in python:
        file = project.files[table.table].parent / reference.rpartition(":")[0]
        if file.suffix == ".py":
            _refuse_unreadable(file)


def _refuse_unreadable(file: Path) -> None:
    try:
        ast.parse(file.read_bytes(), str(file))
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}") from None
    except SyntaxError as error:
        raise UsageError(f"{file}:{error.lineno}: {error.msg}") from None
