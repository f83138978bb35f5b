"""Query of a Dimension lookup / update that only looks rows up."""

from collections.abc import Mapping, Sequence

from logdriven_dagster.plugins.importers.drafts import UntranslatableError
from logdriven_dagster.plugins.importers.kettle.comparisons import literal, quote
from logdriven_dagster.plugins.importers.kettle.hops import is_set, read_text
from logdriven_dagster.plugins.importers.kettle.lookups import (
    LookupRules,
    date_of_version,
    match_rows,
)
from logdriven_dagster.plugins.importers.kettle.rows.models import Reading, RowStep


def look_up_version(step: RowStep, reading: Reading, _: Mapping[str, RowStep]) -> str:
    """Return the query of a Dimension lookup: the version of a key at the time of a row.

    A row without a version gets the technical key of unknown rows. Source: Kettle, DimensionLookup.
    """
    element, lookup = step.element, step.lookup
    if is_set(element, "update"):
        raise UntranslatableError(
            f"{step.name}: it adds versions before other steps; load the dimension in a file of "
            "its own, and look its keys up here with update N"
        )
    assert lookup is not None
    start = read_text(element, "start_date_alternative").lower()
    if start in ("null", "column_value"):
        raise UntranslatableError(f"{step.name}: its alternative start date is {start}; use none")
    keys = [
        (read_text(each, "name"), read_text(each, "lookup"))
        for each in element.iterfind("fields/key")
    ]
    is_cached = is_set(element, "preload_cache")
    if is_cached and len(keys) > 1:
        raise UntranslatableError(
            f"{step.name}: with preload_cache and several keys, Kettle mistakes keys for fields; "
            "set preload_cache to N"
        )
    fields = element.findall("fields/field")
    (start, end) = (read_text(element, f"fields/date/{each}") for each in ("from", "to"))
    technical = read_text(element, "fields/return/name")
    values = [start, end, technical, *(read_text(each, "lookup") for each in fields)]
    if not all((*values, *(part for pair in keys for part in pair))):
        raise UntranslatableError(f"{step.name}: a field or column of it has no name")
    ignores_case = reading.ignores_case and not is_cached
    rules = LookupRules(finds_null=False, ignores_case=ignores_case, all_rows=True)
    join = match_rows(step.name, reading.get_relation(lookup.step), keys, values, rules)
    at = date_of_version(step.name, read_text(element, "fields/date/name"))
    valid = "array_distinct(filter(l.r, x -> s._at >= x.v0 AND s._at < x.v1))"
    several = literal(f"{step.name}: the time of a row lies in several versions of its key")
    found = f"IF(size({valid}) > 1, raise_error({several}), get({valid}, 0))"
    columns = [f"coalesce(_found.v2, {reading.unknown_key})"]
    columns += [f"_found.v{number}" for number in range(3, len(values))]
    added = reading.rename(step.sources[0], list_versions(step))
    pairs = zip(columns, added, strict=True)
    selected = "".join(f", {value} AS {quote(name)}" for value, name in pairs)
    source = f"(SELECT *, {at} AS _at FROM {reading.get_source(step)})"
    return (
        f"SELECT * EXCEPT (_at, _found){selected}\n"
        f"FROM (SELECT s.*, {found} AS _found\nFROM {source} AS s\nLEFT JOIN {join})"
    )


def list_versions(step: RowStep) -> Sequence[str]:
    """Return the fields that a Dimension lookup adds."""
    element = step.element
    key = read_text(element, "fields/return/rename") or read_text(element, "fields/return/name")
    fields = element.iterfind("fields/field")
    return [key, *(read_text(each, "name") or read_text(each, "lookup") for each in fields)]
