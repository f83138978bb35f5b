"""Values of test files as values of Arrow's types; a value that does not fit is refused."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, NoReturn
from zoneinfo import ZoneInfo

from logdriven_dagster.config.models.fields import parse_as_written, read_instant
from logdriven_dagster.config.project import suggest_nearest
from logdriven_dagster.config.secrets import show_value
from logdriven_dagster.engine.arrow.values import type_name

if TYPE_CHECKING:
    import pyarrow as pa

_WHOLE = re.compile(r"\s*[-+]?\d+\s*")
_TRUTH = {"true": True, "false": False}
_TIME = "a time such as 2022-01-31 06:00:00"


def convert_row(
    row: Mapping[Any, Any],
    fields: "Sequence[pa.Field]",
    zone: ZoneInfo,
    refuse: Callable[[str, str], NoReturn],
) -> dict[str, Any]:
    """Return a row with a value for each column, NULL for those that it leaves out.

    `zone` is that of timestamps without an offset. `refuse` receives the name of a column and the
    problem, and raises an error with the place.
    """
    known = {field.name.lower(): field for field in fields}
    values = {field.name: None for field in fields}
    names: dict[str, str] = {}
    for given, value in row.items():
        name = str(given)
        field = known.get(name.lower())
        if field is None:
            near = suggest_nearest(name, values) or f"; the columns are {', '.join(values)}"
            refuse(name, f"unknown column{near}")
        if spelled := names.get(field.name):
            refuse(name, f"given twice, also as {spelled}")
        names[field.name] = name
        try:
            values[field.name] = convert_value(value, field.type, zone)
        except ValueError as error:
            refuse(name, str(error))
    return values


def convert_value(value: Any, kind: "pa.DataType", zone: ZoneInfo) -> Any:
    """Return a value of a test file as Python's value of an Arrow type; NULL fits every type.

    Raises ValueError, with the accepted form.
    """
    import pyarrow as pa

    if value is None:
        return None
    for is_of_kind, convert in (
        (pa.types.is_boolean, _convert_boolean),
        (pa.types.is_integer, _convert_whole_number),
        (pa.types.is_floating, _convert_float),
        (pa.types.is_decimal, _convert_decimal),
        (pa.types.is_string, _convert_text),
        (pa.types.is_large_string, _convert_text),
        (pa.types.is_binary, _convert_binary),
        (pa.types.is_large_binary, _convert_binary),
        (pa.types.is_date, _convert_date),
    ):
        if is_of_kind(kind):
            return convert(value, kind)
    for is_of_kind, convert_in_zone in (
        (pa.types.is_timestamp, _convert_timestamp),
        (pa.types.is_map, _convert_map),
        (pa.types.is_struct, _convert_struct),
        (pa.types.is_list, _convert_list),
        (pa.types.is_large_list, _convert_list),
    ):
        if is_of_kind(kind):
            return convert_in_zone(value, kind, zone)
    raise ValueError(f"a value of type {type_name(kind)} cannot be given")


def _build_misfit(value: Any, kind: "pa.DataType", form: str) -> ValueError:
    return ValueError(f"must be {form} ({type_name(kind).upper()}), not {show_value(value)}")


def _convert_whole_number(value: Any, kind: "pa.DataType") -> int:
    is_text = isinstance(value, str) and _WHOLE.fullmatch(value)
    if isinstance(value, bool) or not (isinstance(value, int) or is_text):
        raise _build_misfit(value, kind, "a whole number")
    found, limit = int(value), 2 ** (kind.bit_width - 1)
    if not -limit <= found < limit:
        raise _build_misfit(value, kind, f"a whole number from {-limit} to {limit - 1}")
    return found


def _convert_decimal(value: Any, kind: "pa.DataType") -> Decimal:
    form = f"a number with at most {kind.precision} digits, {kind.scale} of them decimals"
    if isinstance(value, bool) or not isinstance(value, (int, float, str, Decimal)):
        raise _build_misfit(value, kind, form)
    try:
        found = Decimal(repr(value) if isinstance(value, float) else value)
        exact: Decimal = round(found, kind.scale)
    except (InvalidOperation, ValueError, OverflowError):
        raise _build_misfit(value, kind, form) from None
    if exact != found or len(exact.as_tuple().digits) > kind.precision:
        raise _build_misfit(value, kind, form)
    return exact


def _convert_float(value: Any, kind: "pa.DataType") -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, str, Decimal)):
        raise _build_misfit(value, kind, "a number")
    try:
        return float(value)
    except ValueError:
        raise _build_misfit(value, kind, "a number") from None


def _convert_boolean(value: Any, kind: "pa.DataType") -> bool:
    found = value if isinstance(value, bool) else _TRUTH.get(str(value).lower())
    if found is None:
        raise _build_misfit(value, kind, "true or false")
    return found


def _convert_text(value: Any, kind: "pa.DataType") -> str:
    if not isinstance(value, str):
        raise _build_misfit(value, kind, f"text, as in '{value}'")
    return str(value)


def _convert_binary(value: Any, kind: "pa.DataType") -> bytes:
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise _build_misfit(value, kind, "text, whose UTF-8 bytes are the value")
    return value.encode()


def _convert_date(value: Any, kind: "pa.DataType") -> date:
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    try:
        return date.fromisoformat(str(value))
    except ValueError:
        raise _build_misfit(value, kind, "a date such as 2022-01-31") from None


def _convert_timestamp(value: Any, kind: "pa.DataType", zone: ZoneInfo) -> datetime:
    if not isinstance(value, (str, date)):
        raise _build_misfit(value, kind, _TIME)
    if kind.tz is not None:
        return read_instant(value, zone)
    found = parse_as_written(value)
    if found.tzinfo is not None:
        raise _build_misfit(value, kind, f"{_TIME}, without an offset")
    return found


def _convert_list(value: Any, kind: "pa.DataType", zone: ZoneInfo) -> list[Any]:
    found = _read_json(value)
    if not isinstance(found, (list, tuple)):
        raise _build_misfit(value, kind, "a list")
    return [convert_value(each, kind.value_type, zone) for each in found]


def _convert_map(value: Any, kind: "pa.DataType", zone: ZoneInfo) -> list[tuple[Any, Any]]:
    found = _read_json(value)
    pairs = list(found.items()) if isinstance(found, dict) else found
    if not isinstance(pairs, list) or any(len(pair) != 2 for pair in pairs):
        raise _build_misfit(value, kind, "keys with values, such as {a: 1}")
    return [
        (convert_value(key, kind.key_type, zone), convert_value(each, kind.item_type, zone))
        for key, each in pairs
    ]


def _convert_struct(value: Any, kind: "pa.DataType", zone: ZoneInfo) -> dict[str, Any]:
    found = _read_json(value)
    if not isinstance(found, dict):
        raise _build_misfit(value, kind, "fields with values, such as {a: 1}")

    def refuse(name: str, problem: str) -> NoReturn:
        raise ValueError(f"field {name}: {problem.replace('column', 'field')}")

    return convert_row(found, list(kind), zone, refuse)


def _read_json(value: Any) -> Any:
    """Return the value of a JSON text, as in a CSV file; other values as they are."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value, parse_float=Decimal)
    except ValueError:
        return value
