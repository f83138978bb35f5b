"""Queries of steps that turn columns into rows, and rows into columns.

Sources: Kettle, Normaliser, Denormaliser.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from logdriven_dagster.plugins.importers.drafts import UntranslatableError
from logdriven_dagster.plugins.importers.kettle.comparisons import (
    are_of_one_type,
    as_text,
    empty_as_null,
    literal,
    quote,
)
from logdriven_dagster.plugins.importers.kettle.hops import read_text
from logdriven_dagster.plugins.importers.kettle.rows.models import Reading, RowStep
from logdriven_dagster.plugins.importers.kettle.rows.sorting import (
    build_sorted_key,
    refuse_unsorted,
)

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_TYPES = {
    "String": "^string",
    "Integer": r"^(tinyint|smallint|int|bigint|decimal\\([0-9]+,0\\))",
    "Number": "^(float|double)",
    "BigNumber": "^decimal",
    "Date": "^(date|timestamp)",
    "Timestamp": "^timestamp",
    "Boolean": "^boolean",
}
"""Types of Spark whose values Kettle does not convert."""


def list_unpivoted(step: RowStep, before: Sequence[str]) -> list[str]:
    """Return the fields after Row normaliser."""
    gone = {name.lower() for names in _read_groups(step).values() for name, _ in names}
    kept = [each for each in before if each.lower() not in gone]
    return [*kept, read_text(step.element, "typefield"), *_list_values(step)]


def unpivot(step: RowStep, reading: Reading, _by_name: Mapping[str, RowStep]) -> str:
    """Return the query of Row normaliser: a row for each type, with the fields of this type."""
    groups = _read_groups(step)
    kind, new = read_text(step.element, "typefield"), _list_values(step)
    if (
        not groups
        or not kind
        or any([new_ for _, new_ in names] != new for names in groups.values())
    ):
        raise UntranslatableError(
            f"{step.name}: its types must have the same new fields in the same order, since Kettle "
            "fills them in this order; write it in the query of the input"
        )
    gone = dict.fromkeys(name for names in groups.values() for name, _ in names)
    known = {each.lower() for each in reading.columns.get(step.sources[0]) or ()}
    left = known - {name.lower() for name in gone}
    if taken := [name for name in (kind, *new) if name.lower() in left]:
        raise UntranslatableError(f"{step.name}: its input has a field {taken[0]} already; use SQL")
    first = next(iter(groups.values()))
    rows = []
    for text, names in groups.items():
        values = [f"{literal(text) if text else 'CAST(NULL AS STRING)'} AS {quote(kind)}"]
        for (name, column), (model, _) in zip(names, first, strict=True):
            value = quote(name)
            if name != model:
                value = are_of_one_type(value, quote(model), value)
            values.append(f"{value} AS {quote(column)}")
        rows.append(f"struct({', '.join(values)})")
    removed, structs = ", ".join(map(quote, gone)), ",\n  ".join(rows)
    return (
        f"SELECT * EXCEPT ({removed}), inline(array(\n  {structs}\n))\n"
        f"FROM {reading.get_source(step)}"
    )


def _read_groups(step: RowStep) -> dict[str, list[tuple[str, str]]]:
    """Return the pairs of old and new field of each type."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for each in step.element.iterfind("fields/field"):
        pair = (read_text(each, "name"), read_text(each, "norm"))
        groups.setdefault(each.findtext("value") or "", []).append(pair)
    return groups


def _list_values(step: RowStep) -> list[str]:
    names = (read_text(each, "norm") for each in step.element.iterfind("fields/field"))
    return list(dict.fromkeys(names))


def list_pivoted(step: RowStep) -> list[str]:
    """Return the fields after Row denormaliser."""
    element = step.element
    groups = [read_text(each, "name") for each in element.iterfind("group/field")]
    return groups + [read_text(each, "target_name") for each in element.iterfind("fields/field")]


def pivot(step: RowStep, reading: Reading, by_name: Mapping[str, RowStep]) -> str:
    """Return the query of Row denormaliser: a row for each group, with a field for each key.

    Two rows of a group with one key fail, since Kettle keeps the last one.
    """
    element, source = step.element, step.sources[0]
    key = read_text(element, "key_field")
    groups = [read_text(each, "name") for each in element.iterfind("group/field")]
    fields = element.findall("fields/field")
    columns = reading.columns.get(source)
    used = {name.lower() for name in (key, *groups)}
    used |= {read_text(each, "field_name").lower() for each in fields}
    if not groups or not fields or key.lower() in map(str.lower, groups):
        raise UntranslatableError(f"{step.name}: it must have a group, fields and a key; use SQL")
    if columns is None or {each.lower() for each in columns} - used:
        raise UntranslatableError(
            f"{step.name}: its input may have other fields, of which Kettle keeps the last row's; "
            "select its fields before it, or write it in SQL"
        )
    orders = refuse_unsorted(step, source, groups, reading, by_name)
    if "without case" in orders:
        raise UntranslatableError(f"{step.name}: its groups ignore case; write it in SQL")
    values, grouped = [], []
    for name, order in zip(groups, orders, strict=True):
        grouped.append(empty_as_null(build_sorted_key(quote(name), order)))
        values.append(f"{grouped[-1]} AS {quote(name)}")
    values += [_pick(step.name, each, key) for each in fields]
    return (
        f"SELECT {', '.join(values)}\nFROM {reading.get_source(step)}\n"
        f"GROUP BY {', '.join(grouped)}"
    )


def _pick(step: str, field: "Element", key: str) -> str:
    """Return the value of the only row of a group with a key."""
    name, target = read_text(field, "field_name"), read_text(field, "target_name")
    kind, text = read_text(field, "target_type"), field.findtext("key_value") or ""
    settings = ("target_format", "target_null_string")
    is_plain = read_text(field, "target_aggregation_type") in ("", "-")
    if kind not in _TYPES or not text or not is_plain or any(read_text(field, s) for s in settings):
        raise UntranslatableError(
            f"{step}: {target} is aggregated, or has no key, type, or a format; write it in SQL"
        )
    met = f"{as_text(quote(key))} = {literal(text)}"
    column = quote(name)
    other = literal(f"{name} has another type than {target} ({kind}); convert it in SQL")
    several = literal(f"{step}: a group has several rows for {text}; Kettle keeps the last one")
    checked = f"IF(typeof({column}) RLIKE '{_TYPES[kind]}', {column}, raise_error({other}))"
    value = f"IF(count_if({met}) > 1, raise_error({several}), max(IF({met}, {checked}, NULL)))"
    return f"{value} AS {quote(target)}"
