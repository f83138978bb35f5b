"""How Parquet and ORC files are read: with which schema, and which values are converted after.

Spark has no type for nanoseconds in most of its versions. They are read as the numbers that they
are in the file, and become times of microseconds where nothing is lost.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from logdriven_dagster.engine.queries.quoting import plain, quoted
from logdriven_dagster.engine.queries.schemas import ddl_type
from logdriven_dagster.engine.sources.files.footers import Footer
from logdriven_dagster.engine.sources.files.held_types import (
    NANOS,
    NANOS_NTZ,
    Array,
    Held,
    Map,
    Path,
    Struct,
    merged,
    wider,
)
from logdriven_dagster.engine.sources.files.schemas import (
    columns_differ,
    kinds_in_files,
    refuse_inexact,
    refuse_lost_columns,
    refuse_mixed_types,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructType

Kinds = Mapping[Path, Mapping[str, str]]
_LOST = "which nanoseconds a TIMESTAMP cannot hold; name it BIGINT in `columns`"
_EPOCH = "TIMESTAMP_NTZ'1970-01-01 00:00:00'"


@dataclass(frozen=True, slots=True)
class TypedReading:
    """The schema to read files with, and what to make of the rows."""

    merges: bool = False
    """Whether Spark has to look at each file for its columns."""
    columns: "StructType | None" = None
    """The columns in the end, where Spark is not to find them out."""
    nanos: frozenset[Path] = frozenset()
    """Those that are read as numbers of nanoseconds."""

    @property
    def schema(self) -> "StructType | None":
        """The schema that Spark is given."""
        if self.columns is None or not self.nanos:
            return self.columns
        from pyspark.sql.types import StructType

        found = self._read_as(self.columns, ())
        assert isinstance(found, StructType)
        return found

    def converted(self, frame: "DataFrame", place: str) -> "DataFrame":
        """Return the rows with times in place of nanoseconds, or an error that names the place."""
        from logdriven_dagster.engine.spark import functions as sf

        tops = {path[0] for path in self.nanos}
        changes = {
            field.name: sf.expr(
                self._value(quoted(field.name), field.dataType, (field.name.lower(),), place)
            )
            for field in (self.columns.fields if self.columns else ())
            if field.name.lower() in tops
        }
        return frame.withColumns(changes) if changes else frame

    def _read_as(self, kind: "DataType", path: Path) -> "DataType":
        from pyspark.sql import types as ty

        if isinstance(kind, ty.StructType):
            fields = [(f.name, self._read_as(f.dataType, (*path, f.name.lower()))) for f in kind]
            return ty.StructType([ty.StructField(*field) for field in fields])
        if isinstance(kind, ty.ArrayType):
            return ty.ArrayType(self._read_as(kind.elementType, (*path, "element")))
        if isinstance(kind, ty.MapType):
            key = self._read_as(kind.keyType, (*path, "key"))
            return ty.MapType(key, self._read_as(kind.valueType, (*path, "value")))
        return ty.LongType() if path in self.nanos and is_time(kind) else kind

    def _value(self, v: str, kind: "DataType", path: Path, place: str) -> str:
        """SQL of a value in its type, from one in the type that is read."""
        from pyspark.sql import types as ty

        if not any(each[: len(path)] == path for each in self.nanos):
            return v
        each = f"x{len(path)}"
        if isinstance(kind, ty.StructType):
            parts = ", ".join(
                f"'{plain(f.name)}', "
                + self._value(f"{v}.{quoted(f.name)}", f.dataType, (*path, f.name.lower()), place)
                for f in kind.fields
            )
            return f"CASE WHEN {v} IS NOT NULL THEN named_struct({parts}) END"
        if isinstance(kind, ty.ArrayType):
            inner = self._value(each, kind.elementType, (*path, "element"), place)
            return f"transform({v}, {each} -> {inner})"
        if isinstance(kind, ty.MapType):
            key = self._value(f"{each}.key", kind.keyType, (*path, "key"), place)
            value = self._value(f"{each}.value", kind.valueType, (*path, "value"), place)
            entries = f"transform(map_entries({v}), {each} -> struct({key}, {value}))"
            return f"map_from_entries({entries})"
        return _time(v, kind, ".".join(path), place) if is_time(kind) else v


def typed_reading(
    found: Sequence[Footer],
    columns: "StructType | None",
    *,
    missing: str,
    folders: Collection[str] = (),
) -> TypedReading:
    """Decide how to read files; TerminalStepError for those that would be read inexactly.

    `columns` are those that the source declares; `missing` says whether a file may lack a column
    that an older one has; `folders` are the columns in names of folders.
    """
    if missing != "allow":
        refuse_lost_columns(found)
    kinds = kinds_in_files(found)
    if columns is None:
        one = merged([footer.columns for footer in found])
        assert isinstance(one, Struct)
        refuse_mixed_types(kinds, one)
        merges = missing == "allow" or columns_differ(found)
        if not any(len(files) > 1 or _is_nanos(files) for files in kinds.values()):
            return TypedReading(merges)
        return TypedReading(merges, _schema(one, kinds), _nanos(kinds))
    refuse_inexact(found, kinds, _without(columns, folders))
    return TypedReading(columns=columns, nanos=_nanos(kinds))


def _without(columns: "StructType", names: Collection[str]) -> "StructType":
    from pyspark.sql.types import StructType

    return StructType([field for field in columns.fields if field.name.lower() not in names])


def is_time(kind: "DataType") -> bool:
    """Whether a type of Spark is a time, with a zone or without."""
    return kind.typeName() in ("timestamp", "timestamp_ntz")


def _is_nanos(files: Mapping[str, str]) -> bool:
    return set(files) <= {NANOS, NANOS_NTZ}


def _nanos(kinds: Kinds) -> frozenset[Path]:
    return frozenset(path for path, files in kinds.items() if _is_nanos(files))


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


def _time(v: str, kind: "DataType", name: str, place: str) -> str:
    micros = f"{v} div 1000"
    moment = f"timestamp_micros({micros})"
    if kind.typeName() == "timestamp_ntz":
        seconds = f"CAST({micros} AS DECIMAL(20, 0)) / 1000000BD"
        moment = f"{_EPOCH} + make_dt_interval(0, 0, 0, {seconds})"
    problem = f"'{plain(place)}: column {plain(name)} holds ', {v}, ', {_LOST}'"
    return f"CASE WHEN {v} % 1000 != 0 THEN raise_error(concat({problem})) ELSE {moment} END"
