"""The project's Iceberg catalog, the schema evolution of its tables and their old snapshots."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from logdriven_dagster.config.locations import as_path
from logdriven_dagster.config.project import Project
from logdriven_dagster.config.server_limits import build_limits
from logdriven_dagster.engine.databases.connections import is_missing_file
from logdriven_dagster.engine.databases.creation import create
from logdriven_dagster.engine.failures import database_named, name_database
from logdriven_dagster.engine.iceberg.opening import load_table
from logdriven_dagster.engine.iceberg.schema import iceberg_schema, spark_schema
from logdriven_dagster.engine.storage.locations import PATIENT, name_of, storage_of
from logdriven_dagster.engine.targets.iceberg.commits import get_commit_errors
from logdriven_dagster.engine.targets.iceberg.history import indispensable
from logdriven_dagster.errors import TerminalStepError

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table, Transaction
    from pyspark.sql.types import StructType
    from sqlalchemy import URL

_NAME = "logdriven"
_FILE_IO = "logdriven_dagster.engine.iceberg.file_io.StoreFileIO"
_OURS = {"created-by": "logdriven_dagster"}
_FEW_MANIFESTS = {
    # Thousands of windows are thousands of commits: without merging, each adds a manifest that
    # every reader opens.
    "commit.manifest-merge.enabled": "true",
    "commit.manifest.min-count-to-merge": "20",
}
_FEW_METADATA_FILES = {
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}
_OURS_BEFORE = {**_FEW_MANIFESTS, **_FEW_METADATA_FILES}
"""Properties that identify a table of an earlier release, which did not set `created-by`."""

_MOST_SNAPSHOTS = 100
_KEPT_SNAPSHOTS = 50
"""PyIceberg copies and writes the metadata of all snapshots of a table in each commit."""


def open_catalog(project: Project) -> Any:
    """Open the project's catalog; the tables of an SQL catalog are created at first use.

    Secrets of `storage` stay in PyIceberg's memory, and are not written to table properties.
    """
    from logdriven_dagster.engine.targets.iceberg.loading import load_ordered

    url, given = project.catalog_url, {**_file_io(project), **project.catalog}
    name = given.pop("name", _NAME)
    if given.get("type") != "rest":  # a server has its own warehouse
        given = {"warehouse": project.warehouse, **given}
    if url is None:
        return load_ordered(name, given)
    storage_of(project.warehouse, project.storage).make_folder(project.warehouse)
    given |= _of_database(url)
    called = f"the Iceberg catalog {url.render_as_string(hide_password=True)}"
    with database_named(called):
        catalog: Any = create(lambda: load_ordered(name, given))
    name_database(catalog.engine, called)
    return catalog


def _file_io(project: Project) -> dict[str, str]:
    """Return PyIceberg's file settings; object stores are read through fsspec, as in the engine.

    A small file takes one fsspec request, but three requests of PyArrow's streams.
    """
    if not project.uses_object_stores:
        return {}
    return {"py-io-impl": _FILE_IO, **PATIENT, **project.storage}


def _of_database(url: "URL") -> dict[str, str]:
    """Return the properties of an SQL catalog.

    If a runner is frozen inside a commit, the server's limits end its transaction, so that its
    successor can continue and its own late COMMIT fails. SQLite has no such limits.
    """
    own = {name: str(value) for name, value in build_limits(url).items()}
    uri = url.update_query_dict(own).render_as_string(hide_password=False)
    return {"uri": uri, "pool_pre_ping": "true"}


def load_existing(catalog: Any, identifier: tuple[str, ...]) -> "Table | None":
    """Load the current version of a table, whose commits fail if another writer commits first.

    Returns None if there is no table. Raises TerminalStepError for a table in another folder: a
    catalog stores absolute paths, so the catalog of a copied project folder names the tables of the
    original, which would be changed.
    """
    from pyiceberg.exceptions import NoSuchTableError

    try:
        table = load_table(catalog, identifier)
    except NoSuchTableError:
        return None
    if catalog.properties.get("uri", "").startswith("sqlite"):
        _refuse_elsewhere(table, catalog.properties["warehouse"])
    # PyIceberg would retry a lost commit on top of newer commits, without our checks.
    table.metadata.properties["commit.retry.num-retries"] = "0"
    return table


def properties_of_new_tables(catalog: Any) -> dict[str, str]:
    """Return the properties of a new table of this catalog.

    If the catalog's server writes the metadata files, the server decides how many it keeps; Unity
    refuses a table with that property.
    """
    from pyiceberg.catalog import MetastoreCatalog

    here = _FEW_METADATA_FILES if isinstance(catalog, MetastoreCatalog) else {}
    return {"format-version": "2", **_OURS, **_FEW_MANIFESTS, **here}


def is_ours(table: "Table") -> bool:
    """Return True if a target of this package created the table."""
    known = table.properties.items()
    return known >= _OURS.items() or known >= _OURS_BEFORE.items()


def _refuse_elsewhere(table: "Table", warehouse: str) -> None:
    place, ours = table.location(), "/".join(["", name_of(warehouse), *table.name()])
    is_renamed = is_ours(table) and f"/{name_of(warehouse)}/" in place
    if not (place.endswith(ours) or is_renamed):
        return  # no target creates a table there: it belongs to another user of the catalog
    if place.startswith(f"{warehouse}/") or storage_of(place, {}).is_below(place, warehouse):
        return
    raise TerminalStepError(
        f"the table {'.'.join(table.name())} of the Iceberg catalog is in "
        f"{as_path(place)}, outside of the warehouse {as_path(warehouse)}, for "
        "example after a copy of the folder; set `warehouse` to the place of its "
        "tables, or remove the copied warehouse and load them again"
    )


def is_listed(project: Project, identifier: tuple[str, ...]) -> bool:
    """Return True if an SQL catalog's database lists a table of this name.

    This avoids PyIceberg, which takes a second to load. Catalogs of other types are not queried and
    return True.
    """
    from sqlalchemy import NullPool, column, create_engine, literal, select, table

    url, (*namespace, name) = project.catalog_url, identifier
    if url is None:
        return True
    if is_missing_file(url):
        return False
    tables = table("iceberg_tables")
    engine = create_engine(url, poolclass=NullPool, connect_args=build_limits(url))
    name_database(engine, f"the Iceberg catalog {url.render_as_string(hide_password=True)}")
    called = project.catalog.get("name", _NAME)
    wanted = {"catalog_name": called, "table_namespace": ".".join(namespace), "table_name": name}
    named = (column(key) == value for key, value in wanted.items())
    with engine.connect() as conn:
        if not engine.dialect.has_table(conn, tables.name):
            return False
        return conn.scalar(select(literal(1)).select_from(tables).where(*named)) is not None


def total_rows(table: "Table") -> int | None:
    """Return the row count from the current snapshot's summary; None if it has none."""
    snapshot = table.current_snapshot()
    if snapshot is None:
        return 0
    summary = snapshot.summary
    if summary is None or int(summary["total-delete-files"] or 0):
        return None  # files still count the rows that other engines deleted from them
    total = summary["total-records"]
    return None if total is None else int(total)


def forget_old_snapshots(table: "Table") -> None:
    """Remove old snapshots from the metadata; readers of an old snapshot keep its files.

    This is a separate commit: a commit that also publishes would fail if a snapshot was removed
    before it.
    """
    snapshots = table.metadata.snapshots
    # The history of tables that other programs created is left unchanged.
    if len(snapshots) > _MOST_SNAPSHOTS and is_ours(table):
        kept = indispensable(table)
        old = (snapshot.snapshot_id for snapshot in snapshots[:-_KEPT_SNAPSHOTS])
        remove_snapshots(table, [number for number in old if number not in kept])


def remove_snapshots(table: "Table", snapshot_ids: Iterable[int]) -> bool:
    """Remove snapshots from a table's history; False if another writer changed it meanwhile."""
    from pyiceberg.exceptions import BadRequestError

    wanted = set(snapshot_ids)
    try:
        table.maintenance.expire_snapshots().by_ids(list(wanted)).commit()
    except ValueError:  # one of them was already removed
        return False
    except BadRequestError:  # a REST catalog returns this, also for other errors
        now = table.catalog.load_table(table.name()).metadata.snapshots
        if wanted <= {snapshot.snapshot_id for snapshot in now}:
            raise
        return False
    except get_commit_errors():
        return False
    return True


def evolve(transaction: "Transaction", schema: "StructType") -> None:
    """Add new columns of the new files to the table, widen types to theirs, and set comments."""
    metadata = transaction.table_metadata
    if metadata.name_mapping() is None:
        # Spark's files hold no field ids: columns are found by name.
        mapping = metadata.schema().name_mapping.model_dump_json()
        transaction.set_properties({"schema.name-mapping.default": mapping})
    known, new = metadata.schema(), iceberg_schema(schema)
    docs = {field.name: field.doc for field in known.fields}
    is_described = all(field.doc in (None, docs.get(field.name)) for field in new.fields)
    if not is_described or spark_schema(known) != spark_schema(new):
        with transaction.update_schema(case_sensitive=False) as update:
            update.union_by_name(_requiring(known, new))


def _requiring(known: "Schema", given: "Schema") -> "Schema":
    """Mark the given columns as required where the table's are; Spark's never are by themselves."""
    from pyiceberg.schema import Schema

    required = {field.name.lower() for field in known.fields if field.required}
    return Schema(
        *(
            field.model_copy(update={"required": field.name.lower() in required})
            for field in given.fields
        )
    )
