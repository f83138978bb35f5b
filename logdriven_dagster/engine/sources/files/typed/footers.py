"""Footers of Parquet and ORC files, read once for each version of a file."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeAlias

from logdriven_dagster.engine.sources.file_rows import normalize_scheme
from logdriven_dagster.engine.sources.files.typed.footer_texts import parse_footer, write_footer
from logdriven_dagster.engine.sources.files.typed.held_types import (
    HALF,
    INT128,
    NULL,
    OF_96_BITS,
    OF_ORC,
    PERIOD,
    UNION,
    UUID,
    Array,
    Held,
    Map,
    Struct,
    leaves,
)
from logdriven_dagster.engine.sources.files.typed.held_types import Path as Names
from logdriven_dagster.engine.sources.files.typed.newer_features import (
    Features,
    find_newer_features,
    find_orc_instants,
)
from logdriven_dagster.engine.sources.files.typed.orc_values import (
    find_empty_leaves,
    mark_nanoseconds,
)
from logdriven_dagster.engine.sources.files.typed.parquet_times import mark_times
from logdriven_dagster.engine.sources.known_sources import MOST_FILES
from logdriven_dagster.engine.storage.data_files import DataFile
from logdriven_dagster.engine.storage.locations import name_of
from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.model.source_rows import FileRows, FileVersion

if TYPE_CHECKING:
    import pyarrow as pa

_UNITS = {"milliseconds": " of milliseconds", "microseconds": "", "nanoseconds": " of nanoseconds"}
_INTEGERS = {8: "tinyint", 16: "smallint", 32: "int", 64: "bigint"}
_PHYSICAL = {
    "BOOLEAN": "boolean",
    "INT32": "int",
    "INT64": "bigint",
    "INT96": OF_96_BITS,
    "FLOAT": "float",
    "DOUBLE": "double",
    "BYTE_ARRAY": "binary",
    "FIXED_LEN_BYTE_ARRAY": "binary",
}
_LOGICAL = {
    "String": "string",
    "Enum": "string",
    "JSON": "string",
    "BSON": "binary",
    "Date": "date",
    "UUID": UUID,
    "Float16": HALF,
    "Interval": "12-byte interval",
    "Null": NULL,
}
_CODECS_OF_OTHERS = {"BROTLI", "LZO"}
"""Codecs that Spark does not contain."""
_VARIANT = [{"metadata", "value"}, {"metadata", "value", "typed_value"}]
_OF_ORC = {
    "bool": "boolean",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "date32[day]": "date",
}
_CATALYST = b"spark.sql.catalyst.type"


@dataclass(frozen=True, slots=True)
class Footer:
    """The columns of a file, from its footer."""

    path: str
    columns: Struct
    is_of_java: bool = True
    """True if a Java library wrote the ORC file; others count old days by another calendar."""
    files: tuple[DataFile, ...] = ()
    """All files with the same columns, which the footer represents."""
    form: str = "parquet"
    newer: Features = frozenset()
    """The features of the file that some versions of Spark lack."""

    @property
    def paths(self) -> list[str]:
        """The paths of all files that the footer represents."""
        return [file.path for file in self.files]

    def has_same_columns(self, other: "Footer") -> bool:
        """Return True if another file has the same columns, which are then one object."""
        return (
            self.columns is other.columns
            and self.is_of_java == other.is_of_java
            and self.newer == other.newer
        )


def footers(files: Iterable[DataFile], form: str) -> Sequence[Footer]:
    """Return the footers of files, the oldest first, with one for adjoining equal ones.

    Files that Spark will refuse are added to the first footer. Raises TerminalStepError for a type
    that only other programs read, and TransientStepError for an object store without answer.
    """
    found: list[tuple[Footer, list[DataFile]]] = []
    unreadable = []
    # Spark's rule: writers use such names for their own files.
    read = [file for file in files if file.size and not name_of(file.path).startswith(("_", "."))]
    _fetch(read, form)
    for file in sorted(read, key=lambda file: (file.changed, file.path)):
        footer = _footer(file, form)
        if footer is None:
            unreadable.append(file)
        elif found and found[-1][0].has_same_columns(footer):
            found[-1][1].append(file)
        else:
            found.append((footer, [file]))
    if found:
        found[0][1].extend(unreadable)
    return [replace(footer, files=tuple(same)) for footer, same in found]


def _fetch(files: Iterable[DataFile], form: str) -> None:
    """Read the footers of remote files side by side."""
    remote = [file for file in files if file.system and _version(file, form) not in _known]
    if len(remote) > 1:
        with ThreadPoolExecutor(_REQUESTS) as pool:
            list(pool.map(lambda file: _footer(file, form), remote))


def column_names(found: Sequence[Footer]) -> frozenset[str]:
    """Return the names of the columns of all files, in lower case."""
    return frozenset(name.lower() for footer in found for name, _ in footer.columns.fields)


_REQUESTS = 16
_Version: TypeAlias = tuple[str, int, int, str]
"""Location, as in the run log, size, number of the content and format of a file."""
_known: dict[_Version, Footer | None] = {}
"""Footers by version of a file, which this process or an earlier one has read; the oldest first."""
_adding = Lock()


def learn_footers(files: Iterable[FileRows], form: str) -> None:
    """Use the recorded footers of files, whose versions are the present ones."""
    for file in files:
        version = _recorded_version(file.version, form)
        if file.footer is None or version in _known:
            continue
        if (content := parse_footer(file.footer)) is not None:
            columns, newer, is_of_java = content
            footer = Footer(version[0], _share(columns), is_of_java, form=form, newer=newer)
            _keep(version, footer)


def describe_footer(version: FileVersion, form: str) -> str | None:
    """Return the footer of a file as a text for `learn_footers`; None if it was not read."""
    footer = _known.get(_recorded_version(version, form))
    if footer is None:
        return None
    return write_footer(footer.columns, footer.newer, is_of_java=footer.is_of_java)


def _footer(file: DataFile, form: str) -> Footer | None:
    version = _version(file, form)
    try:
        return _known[version]
    except KeyError:
        footer = _read_footer(file, form)
    _keep(version, footer)
    return footer


def _version(file: DataFile, form: str) -> _Version:
    path, size, content = file.version
    return normalize_scheme(path), size, content, form


def _recorded_version(version: FileVersion, form: str) -> _Version:
    return version.path, version.size, version.content, form


def _keep(version: _Version, footer: Footer | None) -> None:
    with _adding:  # concurrent windows share the footers
        _known[version] = footer
        if len(_known) > MOST_FILES:
            del _known[next(iter(_known))]


def _read_footer(file: DataFile, form: str) -> Footer | None:
    import pyarrow as pa
    from pyarrow import orc

    path = file.path
    try:
        if form == "parquet":
            return _footer_of_parquet(file)
        opened = orc.ORCFile(file.open())
        held = Struct(tuple((field.name, _of_orc(field)) for field in opened.schema))
        held = mark_nanoseconds(opened, held)
        newer = find_orc_instants(opened.schema)
        return Footer(path, _share(held), opened.writer == "ORC_JAVA", form="orc", newer=newer)
    except pa.ArrowNotImplementedError as error:
        fix = "write the column as text, or leave it out"
        raise TerminalStepError(
            f"{path}: the file has an extension type ({error}); {fix}"
        ) from None
    except (OSError, pa.ArrowException):
        file.refuse_replaced()
        return None


def _footer_of_parquet(file: DataFile) -> Footer:
    found, kind_of_bytes = _metadata(file)
    _refuse_codecs(file.path, found)
    schema = found.schema
    columns = map(schema.column, range(len(schema)))
    physical = _PHYSICAL | {"FIXED_LEN_BYTE_ARRAY": kind_of_bytes}
    parts = mark_times(file, found, _of_parquet(schema.to_arrow_schema(), columns, physical))
    held = _fold_variants(parts)
    assert isinstance(held, Struct)
    return Footer(file.path, _share(held), newer=find_newer_features(found, held, parts))


def _refuse_codecs(path: str, found: Any) -> None:
    groups = map(found.row_group, range(min(found.num_row_groups, 1)))
    columns = [group.column(number) for group in groups for number in range(group.num_columns)]
    for codec in sorted({column.compression for column in columns} & _CODECS_OF_OTHERS):
        names = [column.path_in_schema for column in columns if column.compression == codec]
        raise TerminalStepError(
            f"{path}: the columns {', '.join(names)} are compressed with {codec}, which Spark "
            "cannot read; write the file with zstd, snappy, gzip or lz4"
        )


def _metadata(file: DataFile) -> tuple[Any, str]:
    """Return the metadata of a Parquet file, and the kind of its bytes of a fixed length."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        return parquet.read_metadata(file.open()), "binary"
    except pa.ArrowNotImplementedError:
        # PyArrow cannot open a file whose Arrow schema has 128-bit integers, as polars writes them.
        return parquet.read_metadata(_without_arrow_schema(file)), INT128


def _without_arrow_schema(file: DataFile) -> "pa.BufferReader":
    """Return a file's footer as a file without an Arrow schema."""
    import pyarrow as pa

    opened = file.open()
    stream = pa.OSFile(opened) if isinstance(opened, str) else opened
    stream.seek(-8, 2)
    length = int.from_bytes(stream.read(4), "little")
    stream.seek(-8 - length, 2)
    footer = stream.read(length + 8)
    return pa.BufferReader(b"PAR1" + footer.replace(b"ARROW:schema", b"OTHER:schema"))


def empty_leaves(footer: Footer, file: DataFile, wanted: Collection[Names]) -> Collection[Names]:
    """Return those of the `wanted` leaves that hold only NULL in a file with this footer."""
    return _empty_leaves(file, footer.form, footer.columns, frozenset(wanted))


@lru_cache(maxsize=10_000)
def _empty_leaves(
    file: DataFile, form: str, columns: Struct, wanted: Collection[Names]
) -> Collection[Names]:
    if form == "orc":
        return find_empty_leaves(file, columns, wanted)
    held = list(leaves(columns))
    if any(kind == "variant" for _, kind in held):
        return ()  # a VARIANT has several leaves
    found, _ = _metadata(file)
    groups = [found.row_group(number) for number in range(found.num_row_groups)]
    return {
        leaf
        for number, (leaf, _) in enumerate(held)
        if leaf in wanted and all(_is_empty(group, number) for group in groups)
    }


def _is_empty(group: Any, number: int) -> bool:
    column = group.column(number)
    known = column.statistics
    return known is not None and known.has_null_count and known.null_count == column.num_values


@lru_cache(maxsize=10_000)
def _share(columns: Struct) -> Struct:
    """Return one object for equal types, which many files share."""
    return columns


def _of_parquet(fields: Any, columns: Iterator[Any], physical: Mapping[str, str]) -> Struct:
    """Return the fields of a schema or struct.

    `columns` are the next leaves; `physical` are the kinds of those without a logical type.
    """
    return Struct(tuple((field.name, _of_field(field, columns, physical)) for field in fields))


def _of_field(field: "pa.Field", columns: Iterator[Any], physical: Mapping[str, str]) -> Held:
    held = _parse_type(field.type, columns, physical)
    # PyArrow knows the type only in a process that has imported pandas' own part for it.
    named = (field.metadata or {}).get(b"ARROW:extension:name", b"").decode()
    return PERIOD if getattr(field.type, "extension_name", named) == "pandas.period" else held


def _parse_type(kind: "pa.DataType", columns: Iterator[Any], physical: Mapping[str, str]) -> Held:
    import pyarrow as pa

    kind = getattr(kind, "storage_type", kind)
    if pa.types.is_struct(kind):
        return _of_parquet(kind, columns, physical)
    if pa.types.is_map(kind):
        key = _of_field(kind.key_field, columns, physical)
        return Map(key, _of_field(kind.item_field, columns, physical))
    if _is_list(kind):
        return Array(_of_field(kind.value_field, columns, physical))
    if pa.types.is_nested(kind):
        raise pa.ArrowNotImplementedError(str(kind))  # it has an unknown number of leaves
    column = next(columns)
    # Parquet has no such type: Arrow writes bare numbers, and the unit separately.
    return str(kind) if pa.types.is_duration(kind) else _kind(column, physical)


def _fold_variants(held: Held) -> Held:
    """Return a type with each struct that has the parts of a VARIANT as one leaf."""
    match held:
        case Struct():
            names = {name for name, _ in held.fields}
            if names in _VARIANT and dict(held.fields)["metadata"] == "binary":
                return "variant"
            return Struct(tuple((name, _fold_variants(part)) for name, part in held.fields))
        case Array():
            return Array(_fold_variants(held.element))
        case Map():
            return Map(_fold_variants(held.key), _fold_variants(held.value))
        case str():
            return held


def _is_list(kind: "pa.DataType") -> bool:
    import pyarrow as pa

    lists: tuple[type, ...] = (pa.ListType, pa.LargeListType, pa.FixedSizeListType)
    views: tuple[type, ...] = (pa.ListViewType, pa.LargeListViewType)
    return isinstance(kind, lists + views)


def _kind(column: Any, physical: Mapping[str, str]) -> str:
    """Return the kind of a leaf from pyarrow's `ColumnSchema`."""
    said = json.loads(column.logical_type.to_json())
    logical = said["Type"]
    if logical == "Int":
        signed = "" if said["isSigned"] else "unsigned "
        return signed + _INTEGERS[said["bitWidth"]]
    if logical == "Decimal":
        return f"decimal({said['precision']},{said['scale']})"
    if logical == "Timestamp":
        zone = "" if said["isAdjustedToUTC"] else "_ntz"
        return f"timestamp{zone}{_UNITS[said['timeUnit']]}"
    if logical == "Time":
        return f"time{_UNITS[said['timeUnit']]}"
    if logical == "None":
        return physical[column.physical_type]
    return _LOGICAL.get(logical, str(logical).lower())


def _of_orc(field: "pa.Field") -> Held:
    import pyarrow as pa

    kind = field.type
    if pa.types.is_struct(kind):
        return Struct(tuple((part.name, _of_orc(part)) for part in kind))
    if pa.types.is_map(kind):
        return Map(_of_orc(kind.key_field), _of_orc(kind.item_field))
    if _is_list(kind):
        return Array(_of_orc(kind.value_field))
    if pa.types.is_timestamp(kind):
        return OF_ORC
    if pa.types.is_union(kind):
        return UNION
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_int64(kind) and _CATALYST in (field.metadata or {}):
        # Spark stores times without a zone, and intervals, as numbers.
        return str(field.metadata[_CATALYST].decode())
    return _OF_ORC.get(str(kind), str(kind))
