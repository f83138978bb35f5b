"""Validation of the `columns` of a source or table, without Spark."""

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_NAMES_OF_TYPES = (
    "array bigint binary boolean byte char character date dec decimal double float geography "
    "geometry int integer interval long map numeric real short smallint string struct time "
    "timestamp timestamp_ltz timestamp_ntz tinyint varchar variant void"
)
_TYPES = frozenset(_NAMES_OF_TYPES.split())
_ELSEWHERE = {
    **dict.fromkeys(("json", "str", "text", "uuid", "varchar2"), "STRING"),
    **dict.fromkeys(("datetime", "timestamptz"), "TIMESTAMP"),
    **dict.fromkeys(("int8", "int64", "serial", "bigserial"), "BIGINT"),
    **dict.fromkeys(("int4", "int32"), "INT"),
    **dict.fromkeys(("float8", "float64"), "DOUBLE"),
    "bool": "BOOLEAN",
    "number": "DECIMAL(18, 2)",
}
"""Database and language types, mapped to Spark's names."""
_OF_NO_FILE = re.compile(r"[\s:<]((?:var)?char(?:acter)?|time)\s*(?=[(,>]|$)", re.IGNORECASE)
"""Types, also nested, that Spark's file readers do not support."""
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_COMMENT = re.compile(r"\bCOMMENT\s+('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")\s*$", re.IGNORECASE)
_NOT_NULL = re.compile(r"\bNOT\s+NULL\s*$", re.IGNORECASE)
_COLUMN = re.compile(r"\s*(?:`((?:[^`]|``)+)`|(\w+))\s*:?\s*(\w*)")


def find_column_mistakes(
    columns: str, named: Mapping[str, str | None]
) -> Iterator[tuple[str, str, str | None]]:
    """Yield field, problem and fix of each mistake in `columns` and in fields that name a column.

    `named` maps fields such as `window_column` to the column that they name.
    """
    declared = list(_iter_columns(columns))
    for column in declared:
        if problem := _check_type(column):
            yield "columns", *problem
    given = [_get_name(column) for column in declared]
    lower = [name.lower() for name in given]
    if twice := next((name for n, name in enumerate(given) if name.lower() in lower[:n]), None):
        yield (
            "columns",
            f"column {twice} is there twice; case does not matter",
            "remove one of them",
        )
    names = ["_metadata", *given]
    for field, name in named.items():
        top = re.split(r"[.`]", name.lstrip("`"))[0] if name else ""
        if top and top.lower() not in map(str.lower, names):
            near = difflib.get_close_matches(top, names, n=1)
            hint = f"did you mean '{near[0]}'?" if near else f"it has {', '.join(names[1:])}"
            yield field, f"columns does not have {top}", hint


@dataclass(frozen=True, slots=True)
class DeclaredColumn:
    """A column of `columns`."""

    name: str
    type: str
    comment: str | None
    is_required: bool = False
    """True if the column is NOT NULL."""


def describe_columns(columns: str) -> Iterator[DeclaredColumn]:
    """Yield the declared columns with their types and comments, in order."""
    for column in _iter_columns(columns):
        rest = column.string[column.start(3) :].strip()
        found = _COMMENT.search(rest)
        text = re.sub(r"\\(.)", r"\1", found[1][1:-1]) if found else None
        written = (rest[: found.start()] if found else rest).strip()
        kind = _NOT_NULL.sub("", written).strip()
        yield DeclaredColumn(_get_name(column), kind, text, kind != written)


def list_declared_columns(columns: str) -> frozenset[str]:
    """Return the names of the columns that `columns` declares."""
    return frozenset(map(_get_name, _iter_columns(columns)))


def _iter_columns(columns: str) -> Iterator[re.Match[str]]:
    parts = _split_columns(columns) if columns else ()
    return (found for part in parts if (found := _COLUMN.match(part)))


def _get_name(column: re.Match[str]) -> str:
    return (column[1] or column[2]).replace("``", "`")


def find_declared_type(columns: str, name: str) -> str | None:
    """Return the lower-case type that `columns` declares for a column, or None."""
    for part in _split_columns(columns):
        column = _COLUMN.match(part)
        if column and (column[1] or column[2]).lower() == name.strip("`").lower():
            return column[3].lower() or None
    return None


def _check_type(column: re.Match[str]) -> tuple[str, str | None] | None:
    name, kind = column[1] or column[2], column[3]
    if not kind:
        return f"column {name} has no type", f"write {name} STRING, or another type"
    rest = _QUOTED.sub("", column.string[column.start(3) - 1 :])
    if found := _OF_NO_FILE.search(rest):
        other = " for text, BIGINT for Parquet" if found[1].lower() == "time" else ""
        return f"column {name}: Spark cannot read {found[1]} from files", f"write STRING{other}"
    if kind.lower() in _TYPES:
        return None
    near = difflib.get_close_matches(kind.lower(), sorted(_TYPES), n=1)
    meant = _ELSEWHERE.get(kind.lower()) or (near[0].upper() if near else None)
    return f"column {name}: {kind} is not a type of Spark", f"write {meant}" if meant else None


def _split_columns(columns: str) -> Iterator[str]:
    """Yield each column with its type; commas within brackets or quotes do not separate columns."""
    depth, part, quote, escaped = 0, "", "", False
    for char in columns:
        if quote:
            quote = "" if char == quote and not escaped else quote
            escaped = char == "\\" and quote in ("'", '"') and not escaped
        elif char in "`'\"":
            quote = char
        elif char in "(<":
            depth += 1
        elif char in ")>":
            depth -= 1
        if char == "," and depth == 0 and not quote:
            yield part
            part = ""
        else:
            part += char
    yield part
