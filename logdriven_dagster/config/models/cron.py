"""Job schedules: five cron fields, or a keyword such as @daily."""

import re
from typing import Annotated, TypeAlias

from pydantic import AfterValidator

_WORDS = frozenset(
    {"@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually"}
)
_RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
"""Allowed ranges of minute, hour, day, month and day of the week."""

_PART = re.compile(r"(?:\*|[a-z]{3}|\d+|l)(?:-(?:[a-z]{3}|\d+))?(?:/\d+|#\d+)?")


def _validate_cron(text: str) -> str:
    if text.lower() in _WORDS:
        return text
    fields = text.split()
    if len(fields) != len(_RANGES) or not all(map(_is_field, fields, _RANGES)):
        raise ValueError(
            f"{text!r} is not a cron expression, such as `30 6 * * *`: minute, hour, day, month, "
            "day of the week"
        )
    return text


def _is_field(field: str, allowed: tuple[int, int]) -> bool:
    parts, (low, high) = field.lower().split(","), allowed
    numbers = [int(n) for part in parts for n in re.findall(r"\d+", re.split(r"[/#]", part)[0])]
    return all(map(_PART.fullmatch, parts)) and all(low <= n <= high for n in numbers)


Cron: TypeAlias = Annotated[str, AfterValidator(_validate_cron)]
