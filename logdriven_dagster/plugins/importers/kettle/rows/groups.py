"""Queries of steps that group, number and deduplicate rows."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from logdriven_dagster.plugins.importers.drafts import UntranslatableError
from logdriven_dagster.plugins.importers.kettle.comparisons import (
    as_number,
    empty_as_null,
    literal,
    quote,
    without_case,
)
from logdriven_dagster.plugins.importers.kettle.hops import read_text
from logdriven_dagster.plugins.importers.kettle.rows.calculations import COMPUTING
from logdriven_dagster.plugins.importers.kettle.rows.fields import list_selected
from logdriven_dagster.plugins.importers.kettle.rows.models import Reading, RowStep
from logdriven_dagster.plugins.importers.kettle.rows.sorting import (
    KeyOrder,
    build_sorted_key,
    refuse_unsorted,
)

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_AGGREGATES = {
    "COUNT_ALL": "count({})",
    "COUNT_ANY": "count(*)",
    "COUNT_DISTINCT": "count(DISTINCT {})",
}
_AGGREGATES |= {"MIN": "min({})", "MAX": "max({})", "SUM": "sum({})"}
_OF_TEXTS = {"COUNT_ALL", "COUNT_DISTINCT", "MIN", "MAX"}
_KEEPING_ORDER = frozenset({"Dummy", "WriteToLog", "FilterRows", "Constant", "ValueMapper"})
_KEEPING_ORDER |= {"SelectValues", "SwitchCase", "Sequence", "DBLookup", "StreamLookup", *COMPUTING}
_KEEPING_ORDER |= {
    "SystemInfo",
    "DimensionLookup",
    "ReplaceString",
    "StringCut",
    "NumberRange",
    "FieldSplitter",
}
"""Types of steps with one source that send rows in the order in which they get them."""


def group_rows(step: RowStep, reading: Reading, by_name: Mapping[str, RowStep]) -> str:
    """Return the query of Group by and Memory group by."""
    element = step.element
    flags = ("all_rows", "ignore_aggregate", "add_linenr")
    if set_flags := [flag for flag in flags if read_text(element, flag).upper() == "Y"]:
        raise UntranslatableError(f"{step.name}: {', '.join(set_flags)} is set; write it in SQL")
    names = [read_text(each, "name") for each in element.iterfind("group/field")]
    if not names and read_text(element, "give_back_row").upper() != "Y":
        raise UntranslatableError(f"{step.name}: it returns no row without input; write it in SQL")
    orders: list[KeyOrder] = ["exact"] * len(names)
    if names and step.kind == "GroupBy":
        orders = refuse_unsorted(step, step.sources[0], names, reading, by_name)
    columns, keys = [], []
    for name, order in zip(names, orders, strict=True):
        key = build_sorted_key(quote(name), order) if order == "unknown" else quote(name)
        value = empty_as_null(key)
        keys.append(value if order != "without case" else without_case(value))
        if order == "without case":
            problem = literal(f"{step.name}: a group has {name} in several cases; group it in SQL")
            value = f"IF(count(DISTINCT {value}) > 1, raise_error({problem}), first({value}))"
        columns.append(f"{value} AS {quote(name)}")
    columns += [_aggregate(step, each) for each in element.iterfind("fields/field")]
    grouped = f"\nGROUP BY {', '.join(keys)}" if names else ""
    return f"SELECT {', '.join(columns)}\nFROM {reading.get_source(step)}{grouped}"


def _aggregate(step: RowStep, element: "Element") -> str:
    kind = read_text(element, "type").upper()
    if kind not in _AGGREGATES:
        raise UntranslatableError(f"{step.name}: {kind} has no exact counterpart; write it in SQL")
    column = quote(read_text(element, "subject"))
    value = empty_as_null(column) if kind in _OF_TEXTS else column
    if kind == "SUM":
        value = as_number(column)
    return f"{_AGGREGATES[kind].format(value)} AS {quote(read_text(element, 'aggregate'))}"


def number_rows(step: RowStep, reading: Reading, by_name: Mapping[str, RowStep]) -> str:
    """Return the query of a counter, which numbers rows in the order of a single Table input.

    Rows without an order may come in any order, so that any numbers are right: those by all columns
    are the same in each run.
    """
    element = step.element
    if read_text(element, "use_counter").upper() != "Y" or read_text(element, "counter_name"):
        raise UntranslatableError(f"{step.name}: it takes numbers of a sequence; write it in SQL")
    numbers = [read_text(element, name) for name in ("start_at", "increment_by", "max_value")]
    if any(re.fullmatch(r"-?[0-9]{1,18}", each) is None for each in numbers):
        raise UntranslatableError(f"{step.name}: its numbers must be whole: {', '.join(numbers)}")
    first, by, most = map(int, numbers)
    if by <= 0:
        raise UntranslatableError(f"{step.name}: it counts by {by}; write row_number() in SQL")
    at = step.sources[0]
    while at in by_name and by_name[at].kind != "RowGenerator":
        before = by_name[at]
        looked = read_text(before.element, "from").lower()  # of a Stream lookup
        sources = [each for each in before.sources if each.lower() != looked]
        if before.kind not in _KEEPING_ORDER or len(sources) != 1:
            raise UntranslatableError(
                f"{step.name}: the order of its rows is not known; write row_number() in SQL"
            )
        at = sources[0]
    order = reading.orders.get(at)
    if order is None:
        raise UntranslatableError(f"{step.name}: {at} orders by expressions; number the rows there")
    keys = [
        f"{build_sorted_key(quote(name), 'unknown')} {'DESC' if falls else 'ASC'}"
        for name, falls in order
    ]
    number = f"row_number() OVER (ORDER BY {', '.join([*keys, 'struct(*)'])})"
    value = f"{first} + {by} * ({number} - 1)"
    problem = literal(f"{step.name}: its numbers reach {most}, where Kettle starts again")
    checked = f"IF({value} > {most}, raise_error({problem}), {value})"
    (name,) = reading.rename(step.sources[0], [read_text(element, "valuename")])
    return f"SELECT *, CAST({checked} AS BIGINT) AS {quote(name)}\nFROM {reading.get_source(step)}"


def deduplicate(step: RowStep, reading: Reading, by_name: Mapping[str, RowStep]) -> str:
    """Return the query of Unique rows after a sort: equal rows that follow each other are one.

    Raises UntranslatableError if which row is kept depends on the order of equal rows.
    """
    element = step.element
    fields = element.findall("fields/field")
    names = [read_text(each, "name").lower() for each in fields]
    if read_text(element, "count_rows").upper() == "Y" or not names:
        raise UntranslatableError(f"{step.name}: write it with GROUP BY or DISTINCT in SQL")
    if any(read_text(each, "case_insensitive").upper() == "Y" for each in fields):
        raise UntranslatableError(
            f"{step.name}: it ignores case, so that the kept row depends on their order; use SQL"
        )
    chain, at = [], step.sources[0]
    while at in by_name and by_name[at].kind in ("Dummy", "WriteToLog", "SortRows"):
        chain.append(by_name[at])
        at = by_name[at].sources[0]
    sort = next((each for each in chain if each.kind == "SortRows"), None)
    selected = by_name.get(at)
    columns = list_selected(selected)
    if sort is None or columns is None or {each.lower() for each in columns} != set(names):
        raise UntranslatableError(
            f"{step.name}: the kept row depends on the order of the rows; sort rows that have only "
            "its fields, or write row_number() in SQL"
        )
    by = [read_text(each, "name").lower() for each in sort.element.iterfind("fields/field")]
    exact = all(
        read_text(e, "case_sensitive").upper() == "Y" for e in sort.element.iterfind("fields/field")
    )
    if set(by[: len(names)]) != set(names) or not exact:
        raise UntranslatableError(f"{step.name}: the rows are not sorted by all of its fields")
    kept = ", ".join(f"{empty_as_null(quote(name))} AS {quote(name)}" for name in columns)
    return f"SELECT DISTINCT {kept} FROM {reading.get_source(step)}"


def deduplicate_all(step: RowStep, reading: Reading, _: Mapping[str, RowStep]) -> str:
    """Return the query of Unique rows (HashSet), if it compares all fields of the rows.

    Without stored values, Kettle drops rows whose hash another row has. Source: Kettle, RowKey.
    """
    names = {read_text(each, "name").lower() for each in step.element.iterfind("fields/field")}
    columns = reading.columns.get(step.sources[0])
    if read_text(step.element, "reject_duplicate_row").upper() == "Y":
        raise UntranslatableError(f"{step.name}: duplicates are sent to another step; use SQL")
    if read_text(step.element, "store_values").upper() != "Y":
        raise UntranslatableError(
            f"{step.name}: it compares only hashes, which different rows may share; set "
            "store_values to Y, or write DISTINCT in SQL"
        )
    if names and (columns is None or {each.lower() for each in columns} != names):
        raise UntranslatableError(
            f"{step.name}: the kept row depends on the order of the rows; compare all fields, or "
            "write row_number() in SQL"
        )
    return f"SELECT DISTINCT * FROM {reading.get_source(step)}"
