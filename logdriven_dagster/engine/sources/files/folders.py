"""Columns in folder names, such as `day=2022-01-01`.

Spark infers their types, and turns 01234 into 1234, 1.10 into 1.1 and 5d into 5.0. Here a value
whose text would change stays text.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, timezone
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote
from zoneinfo import ZoneInfo

from logdriven_dagster.config.locations import as_path, resolve_location
from logdriven_dagster.engine.sources.file_rows import local_path
from logdriven_dagster.engine.sources.known_sources import MOST_FILES, is_hidden
from logdriven_dagster.engine.storage.data_files import DataFile
from logdriven_dagster.engine.storage.locations import name_of
from logdriven_dagster.errors import TerminalStepError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_NULL = "__HIVE_DEFAULT_PARTITION__"
_NUMBER = re.compile(r"[-+]?(\d+[.]?\d*|[.]\d+)([eE][-+]?\d+)?")
_ESCAPED = re.compile("%[89A-Fa-f][0-9A-Fa-f]")
"""An escaped byte of a character outside ASCII."""
_ALIKE = tuple(map(re.compile, ("0|[1-9][0-9]{0,8}", "0[0-9]{1,8}", "(?!NaN|Inf)[A-Za-z]{2}[^%]*")))
"""Texts of which Spark infers one type: INT, INT, and STRING."""
_DATE = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MOST_TYPICAL = 100
_INTEGERS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
"""Type → its number of bits."""

Values = Mapping[str, Collection[str]]
"""Column, in lower case → its texts in folder names."""


def values_in_folders(paths: Iterable[str], base: str) -> Values:
    """Return the columns in folder names below a path or pattern, with all their texts.

    `paths` are file paths, or the URIs that Spark returns. Raises TerminalStepError for a name
    with escaped bytes of UTF-8, as DuckDB writes them: Spark reads each byte as a character. A file
    next to such folders is refused, too: Spark reads only the files in the folders.
    """
    found: dict[str, set[str]] = defaultdict(set)
    folders = {path.rpartition("/")[0]: path for path in paths if not is_hidden(name_of(path))}
    for folder in folders:
        if _ESCAPED.search(folder):
            _refuse_escaped_bytes(folder, base)
        for name, text in _pairs(folder, base):
            found[name].add(text)
    if found:
        _refuse_loose_files(folders, base)
    return found


def find_typical(paths: Iterable[str], base: str) -> Sequence[str] | None:
    """Return some of the files, of whose folders Spark infers the columns and types of all folders.

    That is a file for each structure of folders, and for each kind of text in the name of a
    column. None if there are too many.
    """
    folders: dict[str, str] = {}
    for path in paths:
        folder = path.rpartition("/")[0]
        folders[folder] = min(path, folders.get(folder, path))
    seen = set[Hashable]()
    typical = []
    for folder, path in sorted(folders.items()):
        parts = [part.partition("=") for part in names_below(folder, base)]
        structure = tuple((name, sign) for name, sign, _ in parts)
        found = {structure, *((structure, name, _kind(text)) for name, sign, text in parts if sign)}
        if not found <= seen:
            seen |= found
            typical.append(path)
    return typical if len(typical) <= _MOST_TYPICAL else None


@lru_cache(maxsize=MOST_FILES)
def _kind(text: str) -> Hashable:
    """Return the same for texts of which Spark infers the same type."""
    if _DATE.fullmatch(text):
        with suppress(ValueError):
            date.fromisoformat(text)
            return _DATE
        return text
    return next((each for each in _ALIKE if each.fullmatch(text)), text)


def faithful(schema: "StructType", values: Values, zone: ZoneInfo) -> "StructType | None":
    """Return the schema with text for types that would change a value; None if none would."""
    from pyspark.sql.types import StringType, StructField, StructType

    kinds = ((field, field.dataType.simpleString()) for field in schema.fields)
    changed = [
        field.name
        for field, kind in kinds
        if not all(_reads_back(text, kind, zone) for text in values.get(field.name.lower(), ()))
    ]
    fields = [
        StructField(field.name, StringType()) if field.name in changed else field
        for field in schema.fields
    ]
    return StructType(fields) if changed else None


def refuse_changed_values(columns: "StructType", values: Values, zone: ZoneInfo) -> None:
    """Raise TerminalStepError for a folder value that its type in `columns` would change."""
    for field in columns.fields:
        kind = field.dataType.simpleString()
        for text in sorted(values.get(field.name.lower(), ())):
            if not _is_of(text, kind, zone):
                raise TerminalStepError(
                    f"the folder {field.name}={text} is not a {kind} "
                    f"that Spark reads exactly; write {field.name} STRING in `columns`, and "
                    "CAST in the query"
                )


def refuse_hidden_columns(
    files: Iterable[DataFile], base: str, names: Collection[str], form: str
) -> None:
    """Raise TerminalStepError for a file whose own column differs from its folder's value.

    `names` are the columns of the files, in lower case. Spark uses the value of the folder.
    """
    for file in files:
        path = file.path
        for name, text in _pairs(path.rpartition("/")[0], base) if "=" in path else ():
            if name in names and not _holds_only(file, form, name, text):
                raise TerminalStepError(
                    f"{path}: the column {name} is in the file and in the name of its folder "
                    f"({name}={text}), "
                    "which would hide the values of the file; rename the folder, or use a path "
                    "that ends with a pattern for the files, as in in/*/*.parquet"
                )


@lru_cache(maxsize=MOST_FILES)
def _pairs(folder: str, base: str) -> tuple[tuple[str, str], ...]:
    parts = (part.partition("=") for part in names_below(folder, base))
    return tuple(
        (unquote(name).lower(), unquote(text))
        for name, sign, text in parts
        if sign and name and unquote(text) != _NULL
    )


def _refuse_escaped_bytes(folder: str, base: str) -> None:
    for part in names_below(folder, base):
        if "=" in part and _ESCAPED.search(part):
            raise TerminalStepError(
                f"the folder {folder} contains escaped bytes, each of which Spark would read as "
                f"a character; rename {part} to {unquote(part)}, or write the column into the files"
            )


def _refuse_loose_files(folders: Mapping[str, str], base: str) -> None:
    """Raise TerminalStepError if some folders have columns in their names, and others do not.

    `folders` maps each folder to a file in it.
    """
    named = {folder: "/".join(names_below(folder, base)) for folder in folders}
    some = next(name for name in sorted(named.values()) if name)
    for folder in sorted(folder for folder, name in named.items() if not name):
        raise TerminalStepError(
            f"{folders[folder]}: the file is next to folders such as {some}, and Spark would read "
            "only the files in the folders; move it into such a folder, or read it in a step of "
            "its own"
        )


def names_below(folder: str, base: str) -> list[str]:
    """Return the names of a folder and of those above it, below a path or pattern."""
    path = local_path(folder) if folder.startswith("file:") else folder
    return path.split("/")[_count_names(base) :]


@lru_cache(maxsize=100)
def _count_names(path: str) -> int:
    return as_path(resolve_location(path)).rstrip("/").count("/") + 1


@lru_cache(maxsize=MOST_FILES)
def _reads_back(text: str, name: str, zone: ZoneInfo) -> bool:
    """Return True if a value of the type that Spark inferred is shown as its original text."""
    if name in _INTEGERS or name.startswith("decimal"):
        return re.fullmatch(r"0|-?[1-9]\d*", text) is not None
    if name == "double":
        return _NUMBER.fullmatch(text) is not None and repr(float(text)) == text
    return _is_of(text, name, zone)


@lru_cache(maxsize=MOST_FILES)
def _is_of(text: str, name: str, zone: ZoneInfo) -> bool:
    """Return True if users and Spark both read a text as the same value of a named type."""
    if bits := _INTEGERS.get(name):
        # Spark turns 300 into the TINYINT 44.
        limit = 2 ** (bits - 1)
        return re.fullmatch(r"[-+]?[0-9]+", text) is not None and -limit <= int(text) < limit
    if name in ("float", "double"):
        return _NUMBER.fullmatch(text) is not None and _is_exact(text, name)
    if name == "boolean":
        return text.lower() in ("true", "false")
    if name.startswith("decimal"):
        return False  # Spark turns 2.5 into 0.25
    if name == "date":
        return re.fullmatch(r"\d{4}-\d{2}-\d{2}", text) is not None
    if name == "timestamp":
        return not _is_skipped(text, zone)
    return True


def _is_exact(text: str, kind: str) -> bool:
    """Return True if a FLOAT or DOUBLE shows a number with all of its digits."""
    import pyarrow as pa

    number = pa.scalar(float(text), pa.float32() if kind == "float" else pa.float64())
    return Decimal(number.cast(pa.string()).as_py()) == Decimal(text)


def _is_skipped(text: str, zone: ZoneInfo) -> bool:
    """Return True if the clocks of a zone skip a wall time."""
    try:
        wall = datetime.fromisoformat(text)
    except ValueError:
        return True
    if wall.tzinfo is not None:
        return False
    instant = wall.replace(tzinfo=zone).astimezone(timezone.utc)
    return instant.astimezone(zone).replace(tzinfo=None) != wall


@lru_cache(maxsize=10_000)
def _holds_only(file: DataFile, form: str, name: str, text: str) -> bool:
    """Return True if a Parquet file's statistics show that a column has only this value."""
    from pyarrow import parquet

    if form != "parquet":
        return False
    metadata = parquet.read_metadata(file.open())
    groups = range(metadata.num_row_groups)
    for group in map(metadata.row_group, groups):
        columns = [group.column(number) for number in range(group.num_columns)]
        for column in columns:
            if column.path_in_schema.lower() == name and not _is_only(column.statistics, text):
                return False
    return True


def _is_only(statistics: Any, text: str) -> bool:
    if statistics is None or not statistics.has_min_max or statistics.null_count:
        return False
    return {str(statistics.min), str(statistics.max)} == {text}
