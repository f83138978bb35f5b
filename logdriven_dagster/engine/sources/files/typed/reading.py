"""Schemas for reading Parquet and ORC files, and the conversions of their values."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import TYPE_CHECKING

from logdriven_dagster.engine.queries.quoting import quote_name
from logdriven_dagster.engine.queries.schemas import ddl_type
from logdriven_dagster.engine.sources.files.typed.changed_times import refuse_lost_digits
from logdriven_dagster.engine.sources.files.typed.conversions import build_conversion, read_as
from logdriven_dagster.engine.sources.files.typed.footers import Footer
from logdriven_dagster.engine.sources.files.typed.held_types import (
    OF_96_BITS_NTZ,
    Array,
    Held,
    Map,
    Path,
    Struct,
    carrier,
    leaves,
    merge_types,
    natural_type,
    wider,
)
from logdriven_dagster.engine.sources.files.typed.schemas import (
    columns_differ,
    kinds_in_files,
    refuse_inexact,
    refuse_lost_columns,
    refuse_mixed_types,
    refuse_same_names,
    refuse_unions,
    with_columns_of_null,
)
from logdriven_dagster.engine.sources.files.typed.spark_schemas import (
    has_same_names,
    read_spark_schema,
)
from logdriven_dagster.engine.spark import functions as sf

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructType

_MOST_SAMPLES = 100

Kinds = Mapping[Path, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Part:
    """Files that are read with the same schema and conversions."""

    schema: "StructType"
    """The schema with which Spark reads them."""
    changes: Mapping[str, str]
    """Column → SQL of its value, if it differs from the value that is read."""
    paths: list[str] = field(default_factory=list)

    def convert(self, frame: "DataFrame") -> "DataFrame":
        """Return the rows with the converted values."""
        changes = {name: sf.expr(value) for name, value in self.changes.items()}
        return frame.withColumns(changes) if changes else frame


@dataclass(frozen=True, slots=True)
class TypedReading:
    """The schemas for reading files, and the conversions of the rows."""

    merges: bool = False
    """True if Spark must merge the schemas of all files."""
    columns: "StructType | None" = None
    """The final columns; None if Spark infers them."""
    parts: Sequence[Part] = ()
    """The files by schema and conversions; empty if Spark infers them."""
    samples: Sequence[str] = ()
    """Files from which Spark infers the columns of all; empty if it has to open each file."""


def plan_reading(
    found: Sequence[Footer],
    columns: "StructType | None",
    *,
    missing: str,
    folders: Collection[str] = (),
    place: str = "",
) -> TypedReading:
    """Choose the schemas for reading files.

    Args:
        found: The footers of the files.
        columns: The columns that the source declares.
        missing: The table's `missing_columns`, for files without a column of an older file.
        folders: The columns in folder names.
        place: The source's path, for errors of rows.

    Raises:
        TerminalStepError: A file cannot be read exactly.
    """
    if not found:
        return TypedReading(columns=columns)
    refuse_unions(found)
    refuse_same_names(found)
    refuse_lost_digits(found, columns)
    found = with_columns_of_null(found, columns)
    if missing != "allow":
        refuse_lost_columns(found)
    kinds = kinds_in_files(found)
    if columns is not None:
        refuse_inexact(found, kinds, _without(columns, folders))
        return TypedReading(columns=columns, parts=_parts(found, columns, place))
    one = merge_types([footer.columns for footer in found])
    assert isinstance(one, Struct)
    refuse_mixed_types(found, kinds, one)
    merges = missing == "allow" or columns_differ(found)
    has_other_shapes = len(kinds) > sum(1 for _ in leaves(one))  # NULL for nested ones
    is_ours = has_other_shapes or any(_is_of_ours(files) for files in kinds.values())
    if not is_ours and (inferred := _infer(found, merges=merges)) is not None:
        return inferred
    columns = _schema(one, kinds)
    return TypedReading(merges, columns, _parts(found, columns, place))


def _infer(found: Sequence[Footer], *, merges: bool) -> TypedReading | None:
    """Return that Spark infers the columns from the first file, or from one of each kind.

    Returns None if Spark would read one of them by a schema without all of its columns.
    """
    first: dict[Struct, Footer] = {}
    for footer in found:
        file = min(footer.files, key=attrgetter("path"))
        each = replace(footer, path=file.path, files=(file,))
        known = first.get(footer.columns, each)
        first[footer.columns] = each if each.path < known.path else known
    samples = sorted(first.values(), key=lambda each: each.path)
    samples = samples if merges else samples[:1]
    schemas = [
        read_spark_schema(*each.files) if each.form == "parquet" else None for each in samples
    ]
    for sample, schema in zip(samples, schemas, strict=True):
        if schema is not None and not has_same_names(schema, sample.columns):
            return None
    paths = [each.path for each in samples] if len(samples) <= _MOST_SAMPLES else ()
    return TypedReading(merges, schemas[0] if len(schemas) == 1 else None, samples=paths)


def _is_of_ours(files: Mapping[str, str]) -> bool:
    """Return True if Spark cannot infer a type that reads a leaf of these kinds."""
    natural = {kind: str(natural_type(kind)) for kind in files}
    converts = any(carrier(*each) != each[1] for each in natural.items())
    return len(files) > 1 or OF_96_BITS_NTZ in files or converts


def _parts(found: Sequence[Footer], columns: "StructType", place: str) -> Sequence[Part]:
    from pyspark.sql.types import StructType

    parts: dict[str, Part] = {}
    known: dict[Struct, Part] = {}
    for footer in found:
        held = footer.columns
        if held not in known:
            schema = read_as(held, columns)
            assert isinstance(schema, StructType)
            changes = _changes(held, columns, place)
            part = Part(schema, changes)
            known[held] = parts.setdefault(f"{schema.json()} {changes}", part)
        known[held].paths.extend(footer.paths)
    return list(parts.values())


def _changes(held: Struct, columns: "StructType", place: str) -> Mapping[str, str]:
    kinds = {name.lower(): kind for name, kind in held.fields}
    changes = {}
    for each in columns.fields:
        own, key = quote_name(each.name), each.name.lower()
        if key in kinds:
            value = build_conversion(own, kinds[key], each.dataType, place, (key,))
            if value != own:
                changes[each.name] = value
    return changes


def _without(columns: "StructType", names: Collection[str]) -> "StructType":
    from pyspark.sql.types import StructType

    return StructType([each for each in columns.fields if each.name.lower() not in names])


def _schema(columns: Struct, kinds: Kinds) -> "StructType":
    from pyspark.sql.types import StructField, StructType

    fields = [
        StructField(name, _spark_type(part, kinds, (name.lower(),)))
        for name, part in columns.fields
    ]
    return StructType(fields)


def _spark_type(held: Held, kinds: Kinds, path: Path) -> "DataType":
    from pyspark.sql import types as ty

    match held:
        case Struct():
            parts = [
                ty.StructField(name, _spark_type(part, kinds, (*path, name.lower())))
                for name, part in held.fields
            ]
            return ty.StructType(parts)
        case Array():
            return ty.ArrayType(_spark_type(held.element, kinds, (*path, "element")))
        case Map():
            key = _spark_type(held.key, kinds, (*path, "key"))
            return ty.MapType(key, _spark_type(held.value, kinds, (*path, "value")))
        case str():
            return ddl_type(str(wider(kinds[path])))
