"""Iceberg metadata of Parquet files that Spark wrote."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from logdriven_dagster.config.locations import resolve_location
from logdriven_dagster.engine.iceberg.names import name_of_table
from logdriven_dagster.engine.iceberg.partitions import partition_of
from logdriven_dagster.errors import TerminalStepError

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

_DESCRIBED = (
    *("content", "file_path", "file_format", "record_count", "file_size_in_bytes"),
    *("column_sizes", "value_counts", "null_value_counts", "nan_value_counts"),
    *("lower_bounds", "upper_bounds", "split_offsets"),
)

_REQUIRED = "column {} is required in the table, but {} rows have no value"

_WRITTEN_DIFFERENTLY = ("uuid", "fixed")
"""Types that Spark reads, but writes as other types."""


def data_file(io: Any, metadata: "TableMetadata", path: str) -> "DataFile":
    """Describe the Parquet file at `path` for a commit.

    PyIceberg derives partitions from a file's smallest and largest values, which do not determine
    buckets or show additional NULLs; a file of a partitioned write has its partition in its path.
    Raises TerminalStepError if the file lacks a value that the table requires, or holds days that
    Python cannot represent.
    """
    from pyiceberg.io.pyarrow import parquet_file_to_data_file
    from pyiceberg.manifest import DataFile

    partition = partition_of(metadata, path)
    written = _as_written(metadata, divided=partition is not None)
    try:
        known = parquet_file_to_data_file(io, written, path)
    except (OverflowError, ValueError):
        with io.new_input(path).open() as file:
            refuse_distant_times(file)
        raise
    _refuse_nulls(metadata.schema(), known)
    if partition is None:
        return known
    described: dict[str, Any] = {name: getattr(known, name) for name in _DESCRIBED}
    made = DataFile.from_args(**described, partition=partition)
    made.spec_id = metadata.default_spec_id
    return made


def _as_written(metadata: "TableMetadata", *, divided: bool) -> "TableMetadata":
    """Return the metadata that match Spark's files, in which every column is optional.

    `divided` removes the partition spec, because the folders determine the partition.
    """
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema

    schema = metadata.schema()
    changed: dict[str, Any] = {}
    if any(field.required for field in schema.fields):
        fields = [field.model_copy(update={"required": False}) for field in schema.fields]
        changed["schemas"] = [Schema(*fields, schema_id=schema.schema_id)]
    if divided:
        changed["partition_specs"] = [PartitionSpec(spec_id=metadata.default_spec_id)]
    return metadata.model_copy(update=changed) if changed else metadata


def _refuse_nulls(schema: "Schema", file: "DataFile") -> None:
    for field in schema.fields:
        if not field.required or file.null_value_counts.get(field.field_id) == 0:
            continue
        missing = file.null_value_counts.get(field.field_id, file.record_count)
        raise TerminalStepError(_REQUIRED.format(field.name, missing))


def refuse_distant_times(file: Any) -> None:
    """Raise TerminalStepError if a Parquet file has days that Python, and so PyIceberg, lacks."""
    from pyarrow.parquet import read_metadata

    footer = read_metadata(file)
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    for column in (group.column(n) for group in groups for n in range(group.num_columns)):
        try:
            _ = column.statistics and (column.statistics.min, column.statistics.max)
        except (OverflowError, ValueError):
            raise TerminalStepError(
                f"column {column.path_in_schema} holds days outside of the years 1 to 9999, "
                "which cannot be committed to an Iceberg table; filter them in the step's "
                "SQL, or write them as STRING"
            ) from None


def data_location(table: "Table") -> str:
    """Return the folder for new files: the same as other engines use."""
    return resolve_location(
        table.properties.get("write.data.path", f"{table.location()}/data").rstrip("/")
    )


def refuse_nulls(table: "Table", paths: Iterable[str]) -> None:
    """Raise TerminalStepError if a file's footer shows that it lacks a value the table requires."""
    from pyarrow.parquet import read_metadata

    required = [field.name for field in table.schema().fields if field.required]
    for path in paths if required else ():
        with table.io.new_input(path).open() as file:
            footer = read_metadata(file)
        for name in required:
            if missing := _nulls(footer, name):
                raise TerminalStepError(_REQUIRED.format(name, missing))


def _nulls(footer: Any, name: str) -> int:
    """Return how many rows of a file have no value in a column; all if the column is missing."""
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    columns = [group.column(n) for group in groups for n in range(group.num_columns)]
    counts = [c.statistics.null_count for c in columns if c.path_in_schema == name]
    return sum(counts) if counts else footer.num_rows


def refuse_unwritable(table: "Table") -> None:
    """Raise TerminalStepError for a table that cannot be written correctly, before any write."""
    from pyiceberg.types import ListType, MapType, StructType

    version = table.metadata.format_version
    if version > 2:
        raise TerminalStepError(
            f"{name_of_table(table)} has Iceberg's format version {version}, which "
            "PyIceberg cannot write yet; load a table of format version 2"
        )
    schema = table.schema()
    for name in schema.column_names:
        field = schema.find_field(name)
        nested = "." in name and schema.find_column_name(field.field_id) == name
        inner = nested and field.field_id not in {each.field_id for each in schema.fields}
        kinds = (ListType, MapType, StructType)
        key = inner and name.endswith(".key")  # always required, and never NULL in Spark
        if field.required and not key and (inner or isinstance(field.field_type, kinds)):
            raise TerminalStepError(
                f"{name_of_table(table)}: column {name} is required, but this is only "
                "checked for columns that are not nested and not lists, maps or structs; "
                "make it optional"
            )
        if str(field.field_type).startswith(_WRITTEN_DIFFERENTLY):
            raise TerminalStepError(
                f"{name_of_table(table)}: column {name} is a {field.field_type}, "
                "which Spark would write as another type"
            )
