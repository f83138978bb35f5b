"""Inference of the columns of given rows from their values.

Whole numbers are BIGINT, other numbers DOUBLE, true and false BOOLEAN, dates DATE, dates with a
time TIMESTAMP, other texts STRING; lists are arrays and mappings are structs.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?")
_WHOLE = re.compile(r"[-+]?(0|[1-9]\d{0,17})")
_NUMBER = re.compile(r"[-+]?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?")


def infer_columns(rows: Sequence[Mapping[str, Any]], *, from_texts: bool) -> Iterator[str]:
    """Yield each column with its type, as DDL, in the order of their first appearance.

    `from_texts` means that numbers and booleans are texts, as in a CSV file. Raises ValueError for
    a column without values, or with values of several types.
    """
    names = dict.fromkeys(name for row in rows for name in row)
    for name in names:
        kind = _infer_type(name, (row.get(name) for row in rows), from_texts=from_texts)
        yield f"{_quote(name)} {kind}"


def _infer_type(name: str, values: Iterable[Any], *, from_texts: bool) -> str:
    given = [value for value in values if value is not None]
    if not given:
        raise ValueError(f"the type of {name} is unknown, because it has no value")
    kinds = {_infer_kind(value, from_texts=from_texts) for value in given}
    if len(kinds) > 1 and kinds <= {"DATE", "TIMESTAMP", "STRING", "BIGINT", "DOUBLE", "BOOLEAN"}:
        texts = all(isinstance(value, str) for value in given)
        kinds = {"DOUBLE"} if kinds == {"BIGINT", "DOUBLE"} else {"STRING"} if texts else kinds
    if kinds == {"ARRAY"}:
        inner = [part for value in given for part in value]
        return f"ARRAY<{_infer_type(name, inner, from_texts=from_texts)}>"
    if kinds == {"STRUCT"}:
        fields = dict.fromkeys(field for value in given for field in value)
        parts = (
            f"{_quote(field)}: "
            + _infer_type(
                f"{name}.{field}", (value.get(field) for value in given), from_texts=from_texts
            )
            for field in fields
        )
        return f"STRUCT<{', '.join(parts)}>"
    if len(kinds) > 1:
        raise ValueError(f"{name} has values of several types: {', '.join(sorted(kinds))}")
    return kinds.pop()


def _infer_kind(value: Any, *, from_texts: bool) -> str:
    match value:
        case bool():
            return "BOOLEAN"
        case int():
            return "BIGINT"
        case float() | Decimal():
            return "DOUBLE"
        case list() | tuple():
            return "ARRAY"
        case dict():
            return "STRUCT"
        case _:
            return _infer_kind_of_text(str(value), from_texts=from_texts)


def _infer_kind_of_text(text: str, *, from_texts: bool) -> str:
    if _DATE.fullmatch(text):
        return "DATE"
    if _TIME.fullmatch(text):
        return "TIMESTAMP"
    if not from_texts:
        return "STRING"
    if text.lower() in ("true", "false"):
        return "BOOLEAN"
    if _WHOLE.fullmatch(text):
        return "BIGINT"
    return "DOUBLE" if _NUMBER.fullmatch(text) else "STRING"


def _quote(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
