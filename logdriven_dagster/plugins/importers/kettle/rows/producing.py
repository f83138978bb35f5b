"""Queries of steps that produce rows or values of their own.

Sources: Kettle, SystemData.
"""

from collections.abc import Mapping

from logdriven_dagster.plugins.importers.drafts import UntranslatableError
from logdriven_dagster.plugins.importers.kettle.comparisons import quote
from logdriven_dagster.plugins.importers.kettle.hops import read_text
from logdriven_dagster.plugins.importers.kettle.rows.models import Reading, RowStep

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
