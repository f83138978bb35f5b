"""How the columns of a table are found in its Parquet files: by field ids, or by names.

Another engine may rename a column, or drop it and add another one of its name. Files that hold
field ids are read by these; Spark is given names that no file has, since it would prune and filter
by names all the same. Files without ids, such as those that plain Spark wrote, are read by the
names of the table's name mapping.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from logdriven_dagster.engine.iceberg.schema import spark_schema, spark_type
from logdriven_dagster.engine.queries.nested_values import GROUPS_OF_A_UUID
from logdriven_dagster.engine.queries.quoting import quoted, text_literal
from logdriven_dagster.errors import TerminalStepError

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.name_mapping import MappedField
    from pyiceberg.types import IcebergType, NestedField
    from pyspark.sql import Column
    from pyspark.sql.types import DataType, StructField, StructType

_STAGED_HERE = re.compile(r"/data/\d+-[^/]+/([^/=]+=[^/]+/)*part-[^/]+$")
"""The names of files that windows staged: Spark wrote them, without ids."""

_FOOTERS_AT_ONCE = 16


@dataclass(frozen=True)
class Columns:
    """How the columns of some files are read."""

    schema: "StructType"
    """What Spark is asked for."""
    select: "Mapping[int, Column] | None" = None
    """Field id → the column of the table; None where files are read just as they are."""

    def of(self, field: "NestedField") -> "Column":
        """Return a column of the table."""
        from logdriven_dagster.engine.spark import functions as sf

        return sf.col(quoted(field.name)) if self.select is None else self.select[field.field_id]


def by_names(table: "Table") -> Columns:
    """Find columns by the names that files without ids have for them."""
    from pyspark.sql.types import StructType

    schema, mapping = table.schema(), table.metadata.name_mapping()
    names = dict(_names(mapping.root)) if mapping else {}
    own: dict[int, tuple[str, ...]] = {id_: (name,) for id_, name in _own_names(schema)}
    names = names or own
    if (
        not any(field.initial_default is not None for field in schema.fields)
        and own.items() <= names.items()
        and not _has_uuids(schema.as_struct())
    ):
        return Columns(spark_schema(schema))
    read: list[StructField] = []
    select = {}
    for field in schema.fields:
        aliases = names.get(field.field_id, ())
        if field.initial_default is not None and len(aliases) > 1:
            raise TerminalStepError(
                f"column {field.name} has a default for older files, which may name it "
                f"{' or '.join(aliases)} and hold no field ids: that cannot be read here"
            )
        kind = _named_type(field.field_type, names)
        read += [_field(alias, kind, _default(field)) for alias in aliases]
        select[field.field_id] = _first(aliases, field.field_type, names)
    return Columns(StructType(read), select)


def by_ids(table: "Table") -> Columns:
    """Find columns by their field ids."""
    from pyspark.sql.types import StructType

    from logdriven_dagster.engine.spark import functions as sf

    fields = table.schema().fields
    read = [_identified(field, _default(field)) for field in fields]
    own = {id_: (name,) for id_, name in _own_names(table.schema())}
    select = {}
    for field, known in zip(fields, read, strict=True):
        # Named as a whole first: Spark 4.3 gave NULL for a struct that was put together of parts
        # which it had looked for by their ids.
        column = sf.col(known.name).cast(_named_type(field.field_type, own))
        has_uuids = _has_uuids(field.field_type)
        select[field.field_id] = _renamed(column, field.field_type, own) if has_uuids else column
    return Columns(StructType(read), select)


def without_ids(table: "Table", paths: Iterable[str]) -> set[str]:
    """The files whose columns are found by name: they hold no ids, or names do as well.

    Footers are only looked at where columns had other names once and others wrote the files.
    """
    if table.metadata.name_mapping() is None:
        return set()  # a file without ids could not be read at all, and Spark will say so
    files = set(paths)
    if _kept_their_names(table):
        return files
    ours = set(filter(is_staged_here, files))
    others = sorted(files - ours)
    with ThreadPoolExecutor(_FOOTERS_AT_ONCE) as pool:
        holding = pool.map(lambda path: _holds_ids(table, path), others)
        return ours | {path for path, holds in zip(others, holding, strict=True) if not holds}


def is_staged_here(path: str) -> bool:
    """Whether a window staged the file, which has all columns then."""
    return _STAGED_HERE.search(path) is not None


def _kept_their_names(table: "Table") -> bool:
    """Whether each column has had its name always, and no other one, as far back as ids go."""
    schemas = {schema.schema_id: schema for schema in table.metadata.schemas}
    if set(schemas) != set(range(max(schemas) + 1)):
        return False  # schemas are gone, of which there may be files
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
    """Id and own name of every field of a struct, nested ones included."""
    for name in schema.column_names:
        field = schema.find_field(name)
        yield field.field_id, field.name


def _field(name: str, kind: "DataType", metadata: dict[str, Any]) -> "StructField":
    from pyspark.sql.types import StructField

    return StructField(name, kind, True, metadata)  # noqa: FBT003 - Spark's own


def _identified(field: "NestedField", metadata: dict[str, Any]) -> "StructField":
    ids = {"parquet.field.id": field.field_id, **metadata}
    return _field(f"logdriven_id_{field.field_id}", _identified_type(field.field_type), ids)


def _has_uuids(kind: "IcebergType") -> bool:
    """Whether a type or a part of it is a UUID, which Spark reads as its 16 bytes only."""
    return re.search(r"\buuid\b", str(kind)) is not None


def _asked(kind: "IcebergType") -> "DataType":
    from pyspark.sql.types import BinaryType

    return BinaryType() if str(kind) == "uuid" else spark_type(kind)


def _identified_type(kind: "IcebergType") -> "DataType":
    """A type whose fields have names that no file has."""
    from pyiceberg import types as iceberg
    from pyspark.sql import types as spark

    if isinstance(kind, iceberg.StructType):
        return spark.StructType([_identified(each, _nested(each)) for each in kind.fields])
    if isinstance(kind, iceberg.ListType):
        return spark.ArrayType(_identified_type(kind.element_type))
    if isinstance(kind, iceberg.MapType):
        return spark.MapType(_identified_type(kind.key_type), _identified_type(kind.value_type))
    return _asked(kind)


def _named_type(kind: "IcebergType", names: Mapping[int, Sequence[str]]) -> "DataType":
    """A type with a field for each name that a file may have for it."""
    from pyiceberg import types as iceberg
    from pyspark.sql import types as spark

    if isinstance(kind, iceberg.StructType):
        return spark.StructType(
            [
                _field(alias, _named_type(each.field_type, names), _nested(each))
                for each in kind.fields
                for alias in names.get(each.field_id, ())
            ]
        )
    if isinstance(kind, iceberg.ListType):
        return spark.ArrayType(_named_type(kind.element_type, names))
    if isinstance(kind, iceberg.MapType):
        return spark.MapType(_named_type(kind.key_type, names), _named_type(kind.value_type, names))
    return _asked(kind)


def _first(
    aliases: Sequence[str],
    kind: "IcebergType",
    names: Mapping[int, Sequence[str]],
    parent: "Column | None" = None,
) -> "Column":
    """The column that a file has by one of these names."""
    from logdriven_dagster.engine.spark import functions as sf

    found = [sf.col(quoted(a)) if parent is None else parent.getField(a) for a in aliases]
    columns = [_renamed(column, kind, names) for column in found]
    return (sf.coalesce(*columns) if columns else sf.lit(None)).cast(spark_type(kind))


def _renamed(column: "Column", kind: "IcebergType", names: Mapping[int, Sequence[str]]) -> "Column":
    """A value with the table's names of nested fields."""
    from pyiceberg import types as iceberg

    from logdriven_dagster.engine.spark import functions as sf

    if isinstance(kind, iceberg.StructType):
        parts = [
            _first(names.get(each.field_id, ()), each.field_type, names, column).alias(each.name)
            for each in kind.fields
        ]
        return sf.when(column.isNotNull(), sf.struct(*parts))
    if isinstance(kind, iceberg.ListType):
        return _of_each(column, kind.element_type, names)
    if isinstance(kind, iceberg.MapType):
        keys = _of_each(sf.map_keys(column), kind.key_type, names)
        return sf.map_from_arrays(keys, _of_each(sf.map_values(column), kind.value_type, names))
    if str(kind) == "uuid":
        return sf.regexp_replace(sf.lower(sf.hex(column)), *GROUPS_OF_A_UUID)
    return column


def _of_each(column: "Column", kind: "IcebergType", names: Mapping[int, Sequence[str]]) -> "Column":
    """An array with the table's names of nested fields: see `nested_values.of_each`."""
    from logdriven_dagster.engine.spark import functions as sf

    numbers = sf.array_repeat(sf.lit(0), sf.array_size(column))
    return sf.transform(numbers, lambda _, i: _renamed(sf.get(column, i), kind, names))


def _default(field: "NestedField") -> dict[str, Any]:
    """What Spark reads where a file lacks the column."""
    given = field.initial_default
    if given is None:
        return {}
    if not isinstance(given, (bool, int, float, str, Decimal)) or str(field.field_type) == "date":
        raise TerminalStepError(
            f"column {field.name}: its default for older files, a {field.field_type}, cannot be "
            "read here"
        )
    text = str(given).lower() if isinstance(given, bool) else str(given)
    kind = spark_type(field.field_type).simpleString()
    value = f"CAST({text_literal(text)} AS {kind})"
    return {"EXISTS_DEFAULT": value, "CURRENT_DEFAULT": value}


def _nested(field: "NestedField") -> dict[str, Any]:
    if field.initial_default is not None:
        raise TerminalStepError(
            f"column {field.name}: defaults of nested columns for older files cannot be read here"
        )
    return {}
