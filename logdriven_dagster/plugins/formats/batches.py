"""Records as Arrow batches, with the problem of each record that does not fit its columns.

A record outside the window must not fail it. So a record that does not fit is passed on with NULL
and its problem, and fails the window whose rows are selected.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from logdriven_dagster.errors import TerminalStepError

if TYPE_CHECKING:
    import pyarrow as pa

PROBLEM = "_logdriven_problem"
"""The column with the problem of a record."""
RECORDS_AT_ONCE = 8192
_LONGEST = 200
_FIX = re.compile("; (open|write) ")


class Record(NamedTuple):
    """The values of a record by column."""

    values: Mapping[str, Any]
    place: str
    """Its place in the file, such as `record 7`."""
    problems: Mapping[str, str] = {}
    """The problems of values that could not be read, by column."""


def build_batches(
    records: Iterable[Record],
    schema: "pa.Schema",
    kinds: Mapping[str, str],
    file: str,
    strict_names: frozenset[str],
) -> "Iterator[pa.RecordBatch]":
    """Yield the records in the columns of the schema and a column `PROBLEM`.

    Args:
        records: Records of one file.
        schema: The columns of the file.
        kinds: The types of the columns in SQL, for messages.
        file: The file, for messages.
        strict_names: The lower-case names of columns that decide to which window a record
            belongs; every window fails for a record without them.

    Raises:
        TerminalStepError: the value of such a column does not fit its type.
    """
    remaining = iter(records)
    while chunk := list(islice(remaining, RECORDS_AT_ONCE)):
        yield _build_batch(chunk, schema, kinds, file, strict_names)


def _build_batch(
    records: Sequence[Record],
    schema: "pa.Schema",
    kinds: Mapping[str, str],
    file: str,
    strict_names: frozenset[str],
) -> "pa.RecordBatch":
    import pyarrow as pa

    if any(record.problems for record in records):
        arrays, found = _build_one_by_one(records, schema, kinds)
    else:
        try:
            rows = [record.values for record in records]
            arrays = pa.array(rows, pa.struct(list(schema))).flatten() if len(schema) else []
            found = [{}] * len(records)
        except (pa.ArrowException, OverflowError, TypeError, ValueError):
            arrays, found = _build_one_by_one(records, schema, kinds)
    problems = [
        _first_problem(problems, record, file, strict_names)
        for record, problems in zip(records, found, strict=True)
    ]
    columns = [*arrays, pa.array(problems, pa.string())]
    return pa.RecordBatch.from_arrays(columns, schema=schema.append(pa.field(PROBLEM, pa.string())))


def _build_one_by_one(
    records: Sequence[Record], schema: "pa.Schema", kinds: Mapping[str, str]
) -> "tuple[list[pa.Array], list[dict[str, str]]]":
    """Return the columns with NULL for values that do not fit, and the problems of each record."""
    import pyarrow as pa

    found = [dict(record.problems) for record in records]
    arrays = []
    for field in schema:
        values = []
        for record, problems in zip(records, found, strict=True):
            value = record.values.get(field.name)
            try:
                pa.array([value], field.type)
            except (pa.ArrowException, OverflowError, TypeError, ValueError):
                problem = f"holds {shorten(value)}, not a valid {kinds[field.name]}"
                problems.setdefault(field.name, problem)
                value = None
            values.append(value)
        arrays.append(pa.array(values, field.type))
    return arrays, found


def _first_problem(
    problems: Mapping[str, str], record: Record, file: str, strict_names: frozenset[str]
) -> str | None:
    texts = {
        column.lower(): f"{file}, {record.place}: column {column} {_name_fix(problem)}"
        for column, problem in problems.items()
    }
    for name in strict_names & texts.keys():
        raise TerminalStepError(texts[name])
    return next(iter(texts.values()), None)


def _name_fix(problem: str) -> str:
    return problem if _FIX.search(problem) else f"{problem}; fix the file"


def shorten(value: Any) -> str:
    """Return a value for a message, truncated if it is long."""
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def format_clock(seconds: int, fraction: str) -> str:
    """Return a time of day or duration such as `01:02:03.5`; `fraction` are digits of a second."""
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    digits = fraction.rstrip("0")
    return f"{hours:02d}:{minutes:02d}:{seconds:02d}{'.' * bool(digits)}{digits}"
