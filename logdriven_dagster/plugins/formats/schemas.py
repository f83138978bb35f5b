"""The columns of files with their own schemas: one type for each column that holds all values."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from logdriven_dagster.engine.queries.nested_values import sql_type
from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.plugins.formats.reader import File

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

_WIDER = {
    "integer": ("long",),
    "float": ("double",),
}
_MOST_DIGITS = 38
_DIGITS = {"integer": 10, "long": 19}


def merge_columns(
    files: "Sequence[tuple[File, StructType]]",
    declared: "StructType | None",
    missing: str,
    place: str,
) -> "StructType":
    """Return the columns to read.

    Args:
        files: The files, oldest first, with the columns of each.
        declared: The columns of the configuration; None to read all.
        missing: The table's `missing_columns`, for files without a column of an older file.
        place: The path of the source, for messages.

    Raises:
        TerminalStepError: a file lacks a column, or has another type.
    """
    from pyspark.sql.types import StructType

    if not files:
        raise TerminalStepError(f"{place}: there are no files, and so no columns; set columns")
    merged, first_files = StructType([]), dict[str, File]()
    for file, columns in files:
        if missing != "allow":
            _refuse_missing(file, columns, first_files, declared)
        for name, _ in _list_places(columns):
            first_files.setdefault(name, file)
        merged = _merge_structs(merged, columns, file, "")
    return (
        _refuse_nothing_but_null(merged, place)
        if declared is None
        else (_select_declared(merged, declared, first_files))
    )


def _refuse_nothing_but_null(merged: "StructType", place: str) -> "StructType":
    from pyspark.sql.types import NullType

    for field in merged.fields:
        if isinstance(field.dataType, NullType):
            raise TerminalStepError(
                f"{place}: the column {field.name} is NULL in all files; set its type in columns"
            )
    return merged


def _select_declared(
    merged: "StructType", declared: "StructType", first_files: Mapping[str, File]
) -> "StructType":
    """Return the declared columns that files have, under their names in the files."""
    from pyspark.sql.types import StructField, StructType

    found = {field.name.lower(): field for field in merged.fields}
    fields = []
    for field in declared.fields:
        if (own := found.get(field.name.lower())) is None:
            continue
        if not fits(own.dataType, field.dataType):
            raise TerminalStepError(
                f"{first_files[own.name].path}: the column {own.name} is "
                f"{sql_type(own.dataType)}, not {sql_type(field.dataType)}; write "
                f"{own.name} {sql_type(own.dataType)} in columns, and CAST it in the query"
            )
        fields.append(StructField(own.name, field.dataType))
    return StructType(fields)


def _refuse_missing(
    file: File,
    columns: "StructType",
    first_files: dict[str, File],
    declared: "StructType | None",
) -> None:
    own = {name for name, _ in _list_places(columns)}
    wanted = None if declared is None else {field.name.lower() for field in declared.fields}
    for name, first in first_files.items():
        if name in own or (wanted is not None and name.partition(".")[0].lower() not in wanted):
            continue
        raise TerminalStepError(
            f"{file.path} has no column {name}, which the older file {first.path} has; add the "
            "column, or set missing_columns: allow"
        )


def _list_places(kind: "DataType", place: str = "") -> "Iterator[tuple[str, DataType]]":
    """Yield each field at any depth."""
    from pyspark.sql import types as ty

    if isinstance(kind, ty.StructType):
        for field in kind.fields:
            name = f"{place}.{field.name}".lstrip(".")
            yield name, field.dataType
            yield from _list_places(field.dataType, name)
    elif isinstance(kind, ty.ArrayType):
        yield from _list_places(kind.elementType, f"{place}.element")
    elif isinstance(kind, ty.MapType):
        yield from _list_places(kind.valueType, f"{place}.value")


def fits(found: "DataType", wanted: "DataType") -> bool:
    """Return True if a type holds all values of the one that is found."""
    from pyspark.sql import types as ty

    match found, wanted:
        case ty.NullType(), _:
            return True
        case ty.StructType(), ty.StructType():
            theirs = {field.name: field.dataType for field in wanted.fields}
            return all(f.name in theirs and fits(f.dataType, theirs[f.name]) for f in found.fields)
        case ty.ArrayType(), ty.ArrayType():
            return fits(found.elementType, wanted.elementType)
        case ty.MapType(), ty.MapType():
            return fits(found.valueType, wanted.valueType)
        case ty.DecimalType(), ty.DecimalType():
            whole = wanted.precision - wanted.scale >= found.precision - found.scale
            return whole and wanted.scale >= found.scale
        case _, ty.DecimalType() if found.typeName() in _DIGITS:
            return wanted.precision - wanted.scale >= _DIGITS[found.typeName()]
        case _:
            pass
    return found == wanted or wanted.typeName() in _WIDER.get(found.typeName(), ())


def _merge_structs(one: "StructType", other: "StructType", file: File, place: str) -> "StructType":
    from pyspark.sql.types import StructField, StructType

    kinds = {field.name: field.dataType for field in one.fields}
    for field in other.fields:
        same = [name for name in kinds if name.lower() == field.name.lower()]
        if same and same[0] != field.name:
            raise TerminalStepError(
                f"{file.path}: the column {place}{field.name} differs from {same[0]} in its case "
                "only; use one name in all files"
            )
        name = f"{place}{field.name}"
        kinds[field.name] = (
            _merge(kinds[field.name], field.dataType, file, name) if same else field.dataType
        )
    return StructType([StructField(name, kind) for name, kind in kinds.items()])


def _merge(one: "DataType", other: "DataType", file: File, place: str) -> "DataType":
    from pyspark.sql import types as ty

    match one, other:
        case ty.StructType(), ty.StructType():
            return _merge_structs(one, other, file, f"{place}.")
        case ty.ArrayType(), ty.ArrayType():
            return ty.ArrayType(_merge(one.elementType, other.elementType, file, place))
        case ty.MapType(), ty.MapType():
            values = _merge(one.valueType, other.valueType, file, place)
            return ty.MapType(one.keyType, values)
        case ty.DecimalType(), ty.DecimalType():
            scale = max(one.scale, other.scale)
            whole = max(one.precision - one.scale, other.precision - other.scale)
            if whole + scale <= _MOST_DIGITS:
                return ty.DecimalType(whole + scale, scale)
        case _:
            pass
    if fits(other, one):
        return one
    if fits(one, other):
        return other
    raise TerminalStepError(
        f"{file.path}: the column {place} is {sql_type(other)}, in older files {sql_type(one)}; "
        "write one type in all files"
    )
