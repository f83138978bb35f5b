"""Resolution of a table's columns in its Parquet files: by field ids, or by names.

Another engine may rename a column, or drop it and add another one of its name. Files with field ids
are read by ids; Spark then gets column names that no file contains, because it would otherwise
prune and filter by name. Files without ids, such as those written by plain Spark, are read by the
names in the table's name mapping.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from logdriven_dagster.engine.iceberg.names import name_of_table
from logdriven_dagster.engine.iceberg.schema import spark_schema, spark_type
from logdriven_dagster.engine.queries.nested_values import GROUPS_OF_A_UUID
from logdriven_dagster.engine.queries.quoting import quote_name, text_literal
from logdriven_dagster.engine.spark import functions as sf
from logdriven_dagster.errors import TerminalStepError

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.name_mapping import MappedField
    from pyiceberg.types import IcebergType, NestedField
    from pyspark.sql import Column
    from pyspark.sql.types import DataType, StructField, StructType

_STAGED_HERE = re.compile(r"/data/\d+-[^/]+/([^/=]+=[^/]+/)*(part-[^/]+|\w{16}_\d+\.\w+\.parquet)$")
"""Paths of files that windows staged: the engine wrote them, without ids."""

_READ_AS = {"uuid": "BinaryType", "timestamp_ns": "LongType", "timestamptz_ns": "LongType"}
"""Types that Spark reads as other types, of which `_convert` makes the column's type."""

_EPOCH = "TIMESTAMP_NTZ'1970-01-01 00:00:00'"

_FOOTERS_AT_ONCE = 16


@dataclass(frozen=True)
class Columns:
    """The read schema of some files, and the columns of the table over it."""

    schema: "StructType"
    """The schema that Spark reads."""
    select: "Mapping[int, Column] | None" = None
    """Field id → the column of the table; None if files are read without changes."""

    def get_column(self, field: "NestedField") -> "Column":
        """Return a column of the table."""
        return (
            sf.col(quote_name(field.name)) if self.select is None else self.select[field.field_id]
        )


def by_names(table: "Table") -> Columns:
    """Resolve columns by the names of files without ids.

    Raises TerminalStepError if a column with a default for older files has several names.
    """
    from pyspark.sql.types import StructType

    schema, mapping = table.schema(), table.metadata.name_mapping()
    names = dict(_names(mapping.root)) if mapping else {}
    own: dict[int, tuple[str, ...]] = {id_: (name,) for id_, name in _own_names(schema)}
    names = names or own
    if (
        not any(field.initial_default is not None for field in schema.fields)
        and own.items() <= names.items()
        and not _find_converted(schema.as_struct())
    ):
        return Columns(spark_schema(schema))
    read: list[StructField] = []
    select = {}
    for field in schema.fields:
        aliases = names.get(field.field_id, ())
        if field.initial_default is not None and len(aliases) > 1:
            raise TerminalStepError(
                f"column {field.name} has a default for older files, which may have the "
                f"name {' or '.join(aliases)} and no field ids; such files cannot be read "
                "here"
            )
        kind = _build_named_type(field.field_type, names)
        read += [_field(alias, kind, _default(field)) for alias in aliases]
        select[field.field_id] = _first(aliases, field.field_type, names, field.name)
    return Columns(StructType(read), select)


def by_ids(schema: "Schema") -> Columns:
    """Resolve columns by their field ids."""
    from pyspark.sql.types import StructType

    fields = schema.fields
    read = [_build_id_field(field, _default(field)) for field in fields]
    own = {id_: (name,) for id_, name in _own_names(schema)}
    select = {}
    for field, known in zip(fields, read, strict=True):
        # Cast as a whole first: Spark 4.3 returned NULL for a struct built from parts that it
        # resolved by id.
        column = sf.col(known.name).cast(_build_named_type(field.field_type, own))
        if _find_converted(field.field_type):
            column = _convert(column, field.field_type, own, field.name)
        select[field.field_id] = column
    return Columns(StructType(read), select)


def refuse_unreadable_by_ids(table: "Table", schema: "Schema", version: str) -> None:
    """Raise TerminalStepError for a type that this version of Spark cannot read by its field id.

    `schema` has the columns that are read.
    """
    if not version.startswith("4.0."):
        return
    _refuse_widened(table, schema, version)
    for field in schema.fields:
        if found := _find_converted(field.field_type):
            what, other = ("UUID", "string") if found == "uuid" else (found, "timestamp")
            raise TerminalStepError(
                f"{name_of_table(table)}: the column {field.name} is a {field.field_type}, and "
                f"Spark {version} cannot read a {what} by its field id; use Spark 4.1 or newer, or "
                f"write the column as {other}"
            )


def _refuse_widened(table: "Table", schema: "Schema", version: str) -> None:
    """Refuse a column whose type was changed: older files may have values of the old type."""
    from pyiceberg.schema import index_by_id

    fields = index_by_id(schema)
    for older in table.metadata.schemas:
        for id_, old in index_by_id(older).items():
            field = fields.get(id_)
            if field and field.field_type.is_primitive and field.field_type != old.field_type:
                raise TerminalStepError(
                    f"{name_of_table(table)}: the column {field.name} was widened from "
                    f"{old.field_type} to {field.field_type}, and Spark {version} cannot read the "
                    "values of older files by field id; use Spark 4.1 or newer"
                )


def without_ids(table: "Table", paths: Iterable[str]) -> set[str]:
    """Return the files whose columns are resolved by name: they lack ids, or names are equivalent.

    Footers are only read if columns were renamed and other engines wrote the files.
    """
    if table.metadata.name_mapping() is None:
        return set()  # files without ids could not be read at all; Spark reports them
    files = set(paths)
    if has_stable_names(table):
        return files
    ours = set(filter(is_staged_here, files))
    others = sorted(files - ours)
    with ThreadPoolExecutor(_FOOTERS_AT_ONCE) as pool:
        holding = pool.map(lambda path: _holds_ids(table, path), others)
        return ours | {path for path, holds in zip(others, holding, strict=True) if not holds}


def is_staged_here(path: str) -> bool:
    """Return whether a window staged the file, which then has all columns."""
    return _STAGED_HERE.search(path) is not None


def has_stable_names(table: "Table") -> bool:
    """Return whether no column was ever renamed and no name reused, in all known schemas."""
    schemas = {schema.schema_id: schema for schema in table.metadata.schemas}
    if set(schemas) != set(range(max(schemas) + 1)):
        return False  # schemas were removed, but files of them may remain
    mapping = table.metadata.name_mapping()
    names = dict(_names(mapping.root)) if mapping else {}
    now = dict(_own_names(table.schema()))
    paths = {name: table.schema().find_field(name).field_id for name in table.schema().column_names}
    for schema in schemas.values():
        for name in schema.column_names:
            id_ = schema.find_field(name).field_id
            if paths.get(name, id_) != id_ or (id_ in now and paths.get(name) != id_):
                return False
    return all(names.get(id_) == (name,) for id_, name in now.items())


def _holds_ids(table: "Table", path: str) -> bool:
    from pyarrow import parquet

    with table.io.new_input(path).open() as file:
        schema = parquet.read_schema(file)
    return any(b"PARQUET:field_id" in (field.metadata or {}) for field in schema)


def _names(fields: "Sequence[MappedField]") -> "Iterator[tuple[int, tuple[str, ...]]]":
    for field in fields:
        if field.field_id is not None:
            yield field.field_id, tuple(field.names)
        yield from _names(field.fields)


def _own_names(schema: "Schema") -> Iterator[tuple[int, str]]:
    """Yield the id and name of every field of a struct, including nested ones."""
    for name in schema.column_names:
        field = schema.find_field(name)
        yield field.field_id, field.name


def _field(name: str, kind: "DataType", metadata: dict[str, Any]) -> "StructField":
    from pyspark.sql.types import StructField

    return StructField(name, kind, True, metadata)  # noqa: FBT003 - Spark's own


def _build_id_field(field: "NestedField", metadata: dict[str, Any]) -> "StructField":
    ids = {"parquet.field.id": field.field_id, **metadata}
    return _field(f"logdriven_id_{field.field_id}", _build_id_type(field.field_type), ids)


def _find_converted(kind: "IcebergType") -> str | None:
    """Return a type in this type that Spark reads as another type, see `_READ_AS`; None if none."""
    found = re.search(rf"\b({'|'.join(_READ_AS)})\b", str(kind))
    return found and found[0]


def _get_read_type(kind: "IcebergType") -> "DataType":
    from pyspark.sql import types as spark

    name = _READ_AS.get(str(kind))
    return getattr(spark, name)() if name else spark_type(kind)


def _build_id_type(kind: "IcebergType") -> "DataType":
    """Return a type with field names that no file contains."""
    from pyiceberg import types as iceberg
    from pyspark.sql import types as spark

    if isinstance(kind, iceberg.StructType):
        return spark.StructType(
            [_build_id_field(each, _build_nested_metadata(each)) for each in kind.fields]
        )
    if isinstance(kind, iceberg.ListType):
        return spark.ArrayType(_build_id_type(kind.element_type))
    if isinstance(kind, iceberg.MapType):
        return spark.MapType(_build_id_type(kind.key_type), _build_id_type(kind.value_type))
    return _get_read_type(kind)


def _build_named_type(kind: "IcebergType", names: Mapping[int, Sequence[str]]) -> "DataType":
    """Return a type with one field per name that a file may use."""
    from pyiceberg import types as iceberg
    from pyspark.sql import types as spark

    if isinstance(kind, iceberg.StructType):
        return spark.StructType(
            [
                _field(
                    alias, _build_named_type(each.field_type, names), _build_nested_metadata(each)
                )
                for each in kind.fields
                for alias in names.get(each.field_id, ())
            ]
        )
    if isinstance(kind, iceberg.ListType):
        return spark.ArrayType(_build_named_type(kind.element_type, names))
    if isinstance(kind, iceberg.MapType):
        return spark.MapType(
            _build_named_type(kind.key_type, names), _build_named_type(kind.value_type, names)
        )
    return _get_read_type(kind)


def _first(
    aliases: Sequence[str],
    kind: "IcebergType",
    names: Mapping[int, Sequence[str]],
    place: str,
    parent: "Column | None" = None,
) -> "Column":
    """Return the column that exists in the file under one of these names; `place` is its path."""
    found = [sf.col(quote_name(a)) if parent is None else parent.getField(a) for a in aliases]
    columns = [_convert(column, kind, names, place) for column in found]
    return (sf.coalesce(*columns) if columns else sf.lit(None)).cast(spark_type(kind))


def _convert(
    column: "Column", kind: "IcebergType", names: Mapping[int, Sequence[str]], place: str
) -> "Column":
    """Return a value of its type, and with the table's names of nested fields."""
    from pyiceberg import types as iceberg

    if isinstance(kind, iceberg.StructType):
        parts = [
            _first(
                names.get(each.field_id, ()),
                each.field_type,
                names,
                f"{place}.{each.name}",
                column,
            ).alias(each.name)
            for each in kind.fields
        ]
        return sf.when(column.isNotNull(), sf.struct(*parts))
    if isinstance(kind, iceberg.ListType):
        return _of_each(column, kind.element_type, names, place)
    if isinstance(kind, iceberg.MapType):
        keys = _of_each(sf.map_keys(column), kind.key_type, names, place)
        values = _of_each(sf.map_values(column), kind.value_type, names, place)
        return sf.map_from_arrays(keys, values)
    if str(kind) == "uuid":
        return sf.regexp_replace(sf.lower(sf.hex(column)), *GROUPS_OF_A_UUID)
    if str(kind) in ("timestamp_ns", "timestamptz_ns"):
        return _build_timestamp(column, str(kind), place)
    return column


def _build_timestamp(column: "Column", kind: str, place: str) -> "Column":
    """Return nanoseconds since 1970 as a timestamp; the query fails at one with more digits."""
    problem = sf.concat(
        sf.lit(f"column {place} holds "),
        column.cast("string"),
        sf.lit(
            " nanoseconds since 1970, and a TIMESTAMP cannot store nanoseconds; write them to a "
            "column of type long"
        ),
    )
    micros = sf.call_function("div", column, sf.lit(1000))
    if kind == "timestamptz_ns":
        failed, time = sf.raise_error(problem).cast("timestamp"), sf.timestamp_micros(micros)
    else:
        failed = sf.raise_error(problem).cast("timestamp_ntz")
        seconds = (micros.cast("decimal(20, 0)") / sf.lit(1_000_000)).cast("decimal(18, 6)")
        zero = sf.lit(0)
        time = sf.expr(_EPOCH) + sf.make_dt_interval(zero, zero, zero, seconds)
    return sf.when(column % 1000 != 0, failed).otherwise(time)


def _of_each(
    column: "Column", kind: "IcebergType", names: Mapping[int, Sequence[str]], place: str
) -> "Column":
    """Return an array with its elements converted, as `nested_values.of_each`."""
    numbers = sf.array_repeat(sf.lit(0), sf.array_size(column))
    return sf.transform(numbers, lambda _, i: _convert(sf.get(column, i), kind, names, place))


def _default(field: "NestedField") -> dict[str, Any]:
    """Return the metadata with the value that Spark reads if a file lacks the column."""
    given, kind = field.initial_default, field.field_type
    if given is None:
        return {}
    # Spark cannot give a BINARY as a default, and reads a UUID as one.
    readable = isinstance(given, (bool, int, float, str, Decimal, date))
    if not readable or str(kind) in _READ_AS:
        raise TerminalStepError(
            f"column {field.name}: its default for older files, a {kind}, cannot be read here; "
            "rewrite these files with the engine that writes the table"
        )
    text = str(given).lower() if isinstance(given, bool) else str(given)
    value = f"CAST({text_literal(text)} AS {spark_type(kind).simpleString()})"
    return {"EXISTS_DEFAULT": value, "CURRENT_DEFAULT": value}


def _build_nested_metadata(field: "NestedField") -> dict[str, Any]:
    if field.initial_default is not None:
        raise TerminalStepError(
            f"column {field.name}: defaults of nested columns for older files cannot be read here; "
            "rewrite these files with the engine that writes the table"
        )
    return {}
