"""Dagster metadata of tables, which their definitions have."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from dagster import (
    CodeReferencesMetadataValue,
    LocalFileCodeReference,
    MetadataValue,
    TableColumn,
    TableColumnConstraints,
    TableSchema,
)

from logdriven_dagster.config.connections import get_url
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.models.types.declared_columns import describe_columns
from logdriven_dagster.config.project import Project
from logdriven_dagster.execution.definitions.changed_targets import ChangedTarget
from logdriven_dagster.execution.definitions.old_windows import OldWindows
from logdriven_dagster.execution.source_files.changes import OutdatedWindows
from logdriven_dagster.planning.unread import MadeWithout

_DATABASES = {"postgresql": "postgres", "mariadb": "mariadb", "mysql": "mysql", "sqlite": "sqlite"}
"""The names for which Dagster has icons."""


def table_metadata(project: Project, table: TableConfig) -> dict[str, Any]:
    """Return the metadata of a definition: its file, period, start and order."""
    metadata: dict[str, Any] = {
        "table": table.table,
        "period": str(table.period),
        "default_start": _start(table),
        "incremental_type": table.incremental_type,
        "ordered": table.ordered,
    }
    if table.columns:
        declared = describe_columns(table.columns)
        columns = [
            TableColumn(
                each.name,
                each.type,
                each.comment,
                TableColumnConstraints(nullable=not each.is_required),
            )
            for each in declared
        ]
        metadata["dagster/column_schema"] = TableSchema(columns)
    if table.owners:
        metadata["owners"] = ", ".join(table.owners)
    if table.table in project.files:
        path = Path(project.files[table.table])
        metadata["file"] = MetadataValue.path(str(path))
        reference = LocalFileCodeReference(file_path=str(path), line_number=1, label=path.name)
        metadata["dagster/code_references"] = CodeReferencesMetadataValue(
            code_references=[reference]
        )
    return metadata


def format_changed_target(changed: ChangedTarget) -> dict[str, str]:
    """Return the metadata of a definition whose finished windows were written in another way."""
    return {"changed_target": f"{changed.description} (when the code location was loaded)"}


def format_made_without(found: Sequence[MadeWithout]) -> dict[str, str]:
    """Return the metadata of a definition with finished windows that ran before a new upstream."""
    texts = "; ".join(made.description for made in found)
    return {"made_without": f"{texts} (when the code location was loaded)"}


def format_old_windows(found: OldWindows) -> dict[str, str]:
    """Return the metadata of a definition with finished windows by older versions."""
    return {"old_windows": f"{found.description} (when the code location was loaded)"}


def format_outdated_windows(found: OutdatedWindows) -> dict[str, str]:
    """Return the metadata of a definition whose source files changed after windows ran."""
    text = f"source files changed after {found.description}"
    return {"source_changes": f"{text} (when the code location was loaded)"}


def _start(table: TableConfig) -> str:
    start = table.default_start
    return start.isoformat() if isinstance(start, datetime) else str(start)


def kinds(project: Project, table: TableConfig) -> set[str]:
    """Return Spark and the kinds of the targets; Dagster shows three kinds at most."""
    target = table.output
    if target.connected is None or target.connected.to != "a database":
        return {"spark", target.type}
    url = get_url(project.config.connections[target.connected.name])
    backend = (url or "").partition(":")[0].partition("+")[0]
    return {"spark", _DATABASES.get(backend, backend or target.type)}
