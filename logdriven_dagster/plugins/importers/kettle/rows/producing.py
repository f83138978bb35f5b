"""Queries of steps that produce rows or values of their own.

Sources: Kettle, SystemData, DataGrid, RowGenerator.buildRow.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from logdriven_dagster.plugins.importers.drafts import UntranslatableError
from logdriven_dagster.plugins.importers.kettle.comparisons import literal, quote
from logdriven_dagster.plugins.importers.kettle.hops import is_set, read_text
from logdriven_dagster.plugins.importers.kettle.rows.models import Reading, RowStep
from logdriven_dagster.plugins.importers.naming import is_whole

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_NOW = "date_trunc('MILLISECOND', current_timestamp())"
_TIMES = {
    "system date (variable)": _NOW,
    "system date (fixed)": _NOW,
    "today start": "date_trunc('DAY', current_timestamp())",
    "yesterday start": "date_trunc('DAY', current_timestamp()) - INTERVAL '1' DAY",
}


def add_system_info(step: RowStep, reading: Reading, _: Mapping[str, RowStep]) -> str:
    """Return the query of Get system info, if it only adds times of the run."""
    fields = step.element.findall("fields/field")
    if other := next((t for each in fields if (t := read_text(each, "type")) not in _TIMES), None):
        raise UntranslatableError(
            f"{step.name}: it adds {other}; use the variables of the window, such as "
            ":data_range_end"
        )
    names = reading.rename(step.sources[0], list_system_info(step))
    values = [
        f"{_TIMES[read_text(each, 'type')]} AS {quote(name)}"
        for each, name in zip(fields, names, strict=True)
    ]
    return f"SELECT {', '.join(['*', *values])}\nFROM {reading.get_source(step)}"


def list_system_info(step: RowStep) -> list[str]:
    """Return the fields that Get system info adds."""
    return [read_text(each, "name") for each in step.element.iterfind("fields/field")]


def list_grid(step: RowStep, _: Reading, _by_name: Mapping[str, RowStep]) -> str:
    """Return the query of Data grid: typed rows of the file."""
    fields = list(step.element.iterfind("fields/field"))
    names = list_produced(step)
    lines = [
        [item.text or "" for item in line.iterfind("item")]
        for line in step.element.iterfind("data/line")
    ]
    if not fields or any(len(each) != len(fields) for each in (names, *lines)):
        raise UntranslatableError(
            f"{step.name}: its fields must have a name and a value in each row"
        )
    if flagged := [n for n, each in zip(names, fields, strict=True) if _replaces_null(each)]:
        raise UntranslatableError(
            f"{step.name}: {flagged[0]} has a value that stands for NULL, or is always empty; "
            "write its values in the rows"
        )
    rows = [
        ", ".join(
            make_constant(step.name, each, text) for each, text in zip(fields, line, strict=True)
        )
        for line in lines
    ]
    empty = ", ".join(make_constant(step.name, each, "") for each in fields)
    values = ",\n  ".join(f"({row})" for row in rows or [empty])
    columns = ", ".join(map(quote, names))
    return f"SELECT * FROM VALUES\n  {values} AS t({columns})" + ("" if rows else "\nWHERE false")


def _replaces_null(field: "Element") -> bool:
    return bool(field.findtext("field_null_if")) or is_set(field, "set_empty_string")


def generate_rows(step: RowStep, _: Reading, _by_name: Mapping[str, RowStep]) -> str:
    """Return the query of Generate rows: a number of equal rows."""
    limit = read_text(step.element, "limit")
    if is_set(step.element, "never_ending") or not is_whole(limit):
        raise UntranslatableError(
            f"{step.name}: its number of rows must be a whole number; write it there"
        )
    values = [
        f"{make_constant(step.name, each, each.findtext('nullif') or '')} AS {quote(name)}"
        for each in step.element.iterfind("fields/field")
        if (name := read_text(each, "name"))
    ]
    if not values:
        raise UntranslatableError(f"{step.name}: it has no fields; add one")
    return f"SELECT {', '.join(values)}\nFROM range({int(limit)})"


def list_produced(step: RowStep) -> list[str]:
    """Return the fields of Data grid and Generate rows."""
    names = [read_text(each, "name") for each in step.element.iterfind("fields/field")]
    return [name for name in names if name]


def make_constant(step: str, field: "Element", text: str) -> str:
    """Return a value of a field's type; an empty text is NULL, as Kettle counts it.

    Raises UntranslatableError for values that depend on a format or on the settings of a computer.
    """
    name, kind = read_text(field, "name"), read_text(field, "type")
    if not text:
        value = "NULL"
    elif kind == "String":
        value = literal(text)
    elif kind == "Boolean":
        value = "true" if text.upper() in ("Y", "TRUE") else "false"
    elif kind == "Integer" and re.fullmatch(r"-?[0-9]{1,18}", text):
        value = text
    elif kind == "Number" and re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", text) and _has_point(field):
        value = f"'{text}'"
    elif kind == "Date" and (found := _read_date(text, read_text(field, "format"))) is not None:
        value = f"'{found}'"
    else:
        raise UntranslatableError(
            f"{step}: the constant {name} of type {kind} depends on its format; write it in SQL"
        )
    if kind not in _TYPES:
        raise UntranslatableError(f"{step}: {name} has the type {kind or 'None'}; write it in SQL")
    return f"CAST({value} AS {_TYPES[kind]})"


_TYPES = {"String": "STRING", "Integer": "BIGINT", "Number": "DOUBLE", "Boolean": "BOOLEAN"}
_TYPES |= {"Date": "TIMESTAMP"}
_PARTS = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}


def _has_point(field: "Element") -> bool:
    """Return True if the field may have a decimal point, and no points as separators."""
    return read_text(field, "decimal") in ("", ".") and read_text(field, "group") in ("", ",")


def _read_date(text: str, mask: str) -> datetime | None:
    """Return a date that has exactly the parts of a mask of Java; None for other texts."""
    parts = [each[0] for each in re.finditer(r"([A-Za-z])\1*|[^A-Za-z]+", mask)]
    if any(each[0].isalpha() and each not in _PARTS for each in parts) or "yyyy" not in parts:
        return None
    if re.sub(r"[0-9]", "0", text) != re.sub(r"[A-Za-z]", "0", mask) or "'" in mask:
        return None
    pattern = "".join(_PARTS.get(each, each.replace("%", "%%")) for each in parts)
    try:
        return datetime.strptime(text, pattern)
    except ValueError:
        return None
