"""Field types of the configuration: parse text from YAML into values with units."""

import re
from datetime import date, datetime, timedelta
from typing import Annotated, Any, TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    StringConstraints,
    ValidationInfo,
)
from pydantic.json_schema import WithJsonSchema

from logdriven_dagster.config.locations import validate_location
from logdriven_dagster.config.secrets import show_value
from logdriven_dagster.model.periods import Period, Unit
from logdriven_dagster.model.windows import is_repeated, on_clock

IDENTIFIER = r"[A-Za-z_][A-Za-z0-9_]*"

TableName = Annotated[
    str,
    StringConstraints(pattern=rf"^{IDENTIFIER}(\.{IDENTIFIER})*$", max_length=100),
    Field(examples=["ods.orders"]),
]
"""Table name `layer.name`: letters, digits and underscores between dots; never a path."""

StepName = Annotated[
    str, StringConstraints(pattern=rf"^{IDENTIFIER}$", max_length=64), Field(examples=["load"])
]


def as_tuple(value: Any) -> Any:
    """Return a single string as a tuple of one, for fields that accept a string or a list."""
    return (value,) if isinstance(value, str) else value


def _parse_period(value: Any) -> Any:
    if isinstance(value, Period):
        return value
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        given = "an empty value" if value is None else show_value(value)
        raise ValueError(f"{given} is not a period, such as 1 day or 15 min")
    return Period.parse(value)


def _convert_duration(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError(f"{str(value).lower()} is not a length of time, such as 15 min")
    if not isinstance(value, (int, str)):
        return value
    return parse_duration(value)


def parse_duration(value: int | str) -> timedelta:
    """Parse minutes (a number), seconds (`30 s`) or a period of fixed length (`2 days`).

    Raises ValueError, with the accepted forms, for other text and for months and years.
    """
    if value in (0, "0"):
        return timedelta(0)
    if match := re.fullmatch(r"\s*(\d+)\s*(s|secs?|seconds?)\s*", str(value)):
        return timedelta(seconds=int(match[1]))
    period = Period.parse(value)
    if period.unit is Unit.MONTH:
        raise ValueError(f"{value!r} has no fixed length; use days, hours or minutes")
    return timedelta(minutes=period.minutes)


def _parse_timestamp(value: Any, info: ValidationInfo) -> Any:
    """Parse a date or time in the project's time zone, or with an offset, as an aware datetime."""
    return read_instant(value, get_zone(info))


def read_instant(value: Any, zone: ZoneInfo) -> datetime:
    """Parse a date or time as an aware datetime; without an offset it is wall-clock time in `zone`.

    A date means its first instant. Raises ValueError if `value` is neither a date nor a time, or if
    the clock shows it twice (end of daylight saving time) and it has no offset.
    """
    written = parse_as_written(value)
    refuse_ambiguous(value, written, zone)
    return on_clock(written, zone)


def refuse_ambiguous(value: Any, written: datetime, zone: ZoneInfo) -> None:
    """Raise ValueError if the clock of `zone` shows `written` twice; `value` is its text."""
    is_date = not isinstance(value, datetime) and _DATE.fullmatch(str(value).strip())
    if written.tzinfo is not None or is_date:
        return
    first, second = (written.replace(tzinfo=zone, fold=fold) for fold in (0, 1))
    if is_repeated(first):
        text = f"{written:%Y-%m-%d %H:%M:%S}".removesuffix(":00")
        raise ValueError(
            f"{text} occurs twice in {zone}, where clocks are set back; write the "
            f"offset: {first.isoformat()} or {second.isoformat()}"
        )


_DATE = re.compile(r"\d{8}|\d{4}-\d{1,2}-\d{1,2}")


def get_zone(info: ValidationInfo) -> ZoneInfo:
    """Return the project's time zone from the validation context."""
    zone: ZoneInfo = (info.context or {}).get("zone", ZoneInfo("UTC"))
    return zone


def parse_as_written(value: Any) -> datetime:
    """Parse a date or time, keeping its offset if any. Raises ValueError for other values."""
    if isinstance(value, (str, int)) and not isinstance(value, bool):
        value = parse_instant(str(value))
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    if not isinstance(value, datetime):
        raise ValueError("must be a date or time, such as 2013-01-01 or 2013-01-01 06:00")
    return value


def parse_instant(text: str) -> datetime:
    """Parse ISO 8601 or Sharp ETL's `yyyyMMddHHmmss`; the result is naive without an offset."""
    if re.fullmatch(r"\d{14}", text):
        return datetime.strptime(text, "%Y%m%d%H%M%S")
    if re.fullmatch(r"\d{14}[+-]\d{4}", text):  # offset of a repeated time
        return datetime.strptime(text, "%Y%m%d%H%M%S%z")
    if re.fullmatch(r"\d{8}", text):
        return datetime.strptime(text, "%Y%m%d")
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise ValueError(
            f"{text!r} is not a date or time, such as 2013-01-01 or 2013-01-01 06:00"
        ) from None


def _parse_zone(value: Any) -> Any:
    if isinstance(value, ZoneInfo):
        return value
    try:
        return ZoneInfo(str(value))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        given = "an empty value" if value is None else show_value(value)
        raise ValueError(f"{given} is not a time zone, such as UTC or Europe/Berlin") from None


def _validate_database_url(text: str) -> str:
    """Return `text` if SQLAlchemy can parse it; references such as `${…}` are not resolved yet."""
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    if text.startswith("${"):
        return text
    try:
        make_url(re.sub(r"\$\{[^}]*\}", "1", text))
    except (ArgumentError, ValueError):
        example = "postgresql://user:${env:PASSWORD}@host/database"
        if text.startswith("jdbc:"):
            raise ValueError(f"remove jdbc:, as in {example}") from None
        raise ValueError(f"must be the URL of a database, such as {example}") from None
    return text


DatabaseUrl: TypeAlias = Annotated[str, AfterValidator(_validate_database_url)]

WORDS = "x-words"
"""Key of a JSON schema with a plain-language description of valid values, for docs/reference.md."""

_TEXT_OR_NUMBER = {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string"}]}

PeriodField = Annotated[
    Period,
    BeforeValidator(_parse_period),
    PlainSerializer(str),
    WithJsonSchema(
        _TEXT_OR_NUMBER
        | {
            "description": 'minutes, or "15 min", "1 day", "1 month"',
            "examples": ["1 day"],
            WORDS: "period",
        }
    ),
]
DurationField = Annotated[
    timedelta,
    BeforeValidator(_convert_duration),
    WithJsonSchema(
        _TEXT_OR_NUMBER
        | {
            "description": 'minutes, or "30 s", "15 min", "2 hours"',
            "examples": ["15 min"],
            WORDS: "length of time",
        }
    ),
]
InstantField = Annotated[
    datetime,
    BeforeValidator(_parse_timestamp),
    WithJsonSchema(
        {
            "type": "string",
            "description": "2013-01-01 or 2013-01-01T06:00",
            "examples": ["2013-01-01"],
            WORDS: "date or time",
        }
    ),
]


def _parse_percent(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if match := re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%?\s*", value):
        return float(match[1])
    raise ValueError(f"{value!r} must be a percentage, such as 50 %")


PercentField = Annotated[
    float,
    Field(ge=0),
    BeforeValidator(_parse_percent),
    WithJsonSchema(
        {
            "anyOf": [{"type": "number", "minimum": 0}, {"type": "string"}],
            "description": "50 %",
            "examples": ["50 %"],
            WORDS: "percentage",
        }
    ),
]
ZoneField = Annotated[
    ZoneInfo,
    BeforeValidator(_parse_zone),
    PlainSerializer(str),
    WithJsonSchema(
        {
            "type": "string",
            "description": "an IANA time zone, such as Europe/Berlin",
            "examples": ["Europe/Berlin"],
            WORDS: "time zone",
        }
    ),
]

LocationText: TypeAlias = Annotated[str, AfterValidator(validate_location)]
"""Local folder, or URL of a folder in an object store."""


_CRON_WORDS = frozenset(
    {"@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually"}
)
_CRON_RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
"""Allowed ranges of minute, hour, day, month and day of the week."""

_CRON_PART = re.compile(r"(?:\*|[a-z]{3}|\d+|l)(?:-(?:[a-z]{3}|\d+))?(?:/\d+|#\d+)?")


def _validate_cron(text: str) -> str:
    if text.lower() in _CRON_WORDS:
        return text
    fields = text.split()
    if len(fields) != len(_CRON_RANGES) or not all(map(_is_cron_field, fields, _CRON_RANGES)):
        raise ValueError(
            f"{text!r} is not a cron expression, such as `30 6 * * *`: minute, hour, day, month, "
            "day of the week"
        )
    return text


def _is_cron_field(field: str, allowed: tuple[int, int]) -> bool:
    parts, (low, high) = field.lower().split(","), allowed
    numbers = [int(n) for part in parts for n in re.findall(r"\d+", re.split(r"[/#]", part)[0])]
    return all(map(_CRON_PART.fullmatch, parts)) and all(low <= n <= high for n in numbers)


Cron: TypeAlias = Annotated[str, AfterValidator(_validate_cron)]
"""A job's schedule: five cron fields, or a keyword such as @daily."""
