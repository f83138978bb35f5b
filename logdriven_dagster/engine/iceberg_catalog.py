"""The project's Iceberg catalog, and how its tables age: columns come, snapshots go."""

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.creation import create
from logdriven_dagster.engine.iceberg_files import location
from logdriven_dagster.engine.iceberg_schema import iceberg_schema, spark_schema

if TYPE_CHECKING:
    from pyiceberg.table import Table, Transaction
    from pyspark.sql.types import StructType

PROPERTIES = {
    "format-version": "2",
    # Thousands of windows are thousands of commits: without merging each one adds a manifest that
    # every reader opens.
    "commit.manifest-merge.enabled": "true",
    "commit.manifest.min-count-to-merge": "20",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}
"""Of every new table."""

_MOST_SNAPSHOTS = 100
_KEPT_SNAPSHOTS = 50
"""PyIceberg copies all of a table's metadata a dozen times a commit: with 600 snapshots that took
0.4 s, with 100 it takes 0.08 s."""


def open_catalog(project: Project) -> Any:
    """The project's SQL catalog; its tables are created at first use."""
    from pyiceberg.catalog.sql import SqlCatalog

    project.warehouse.mkdir(parents=True, exist_ok=True)
    url = project.catalog_url.render_as_string(hide_password=False)
    return create(lambda: SqlCatalog("logdriven", uri=url, warehouse=location(project.warehouse)))


def forget_old_snapshots(table: "Table", transaction: "Transaction") -> None:
    """Keep the history short. Only metadata go: readers of an old snapshot keep its files."""
    from pyiceberg.table.update.snapshot import ExpireSnapshots

    snapshots = table.metadata.snapshots
    if len(snapshots) > _MOST_SNAPSHOTS:
        oldest = sorted(snapshot.timestamp_ms for snapshot in snapshots)[-_KEPT_SNAPSHOTS]
        with ExpireSnapshots(transaction) as history:
            history.older_than(datetime.fromtimestamp(oldest / 1000, timezone.utc))


def evolve(transaction: "Transaction", schema: "StructType") -> None:
    """Give the table the columns and the wider types that the new files have."""
    metadata = transaction.table_metadata
    if metadata.name_mapping() is None:
        # Spark's files hold no field ids: columns are found by name.
        mapping = metadata.schema().name_mapping.model_dump_json()
        transaction.set_properties({"schema.name-mapping.default": mapping})
    if spark_schema(metadata.schema()) != spark_schema(iceberg_schema(schema)):
        with transaction.update_schema(case_sensitive=False) as update:
            update.union_by_name(iceberg_schema(schema))
