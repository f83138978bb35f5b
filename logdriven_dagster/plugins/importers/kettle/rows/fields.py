"""Queries of steps that select, rename, add and change fields."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from logdriven_dagster.plugins.importers.drafts import UntranslatableError
from logdriven_dagster.plugins.importers.kettle.comparisons import as_text, literal, quote
from logdriven_dagster.plugins.importers.kettle.hops import is_set, read_text
from logdriven_dagster.plugins.importers.kettle.rows.calculations import (
    compute_fields,
    list_computed,
)
from logdriven_dagster.plugins.importers.kettle.rows.models import Reading, RowStep
from logdriven_dagster.plugins.importers.kettle.rows.producing import make_constant

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element


def select_fields(step: RowStep, reading: Reading, _: Mapping[str, RowStep]) -> str:
    """Return the query of Select values."""
    fields = step.element.findall("fields/field")
    removed = [read_text(each, "name") for each in step.element.iterfind("fields/remove")]
    changes = step.element.findall("fields/meta")
    kept = {read_text(each, "name"): _keep_type(step.name, each) for each in changes}
    if sized := [
        read_text(each, "name")
        for each in [*fields, *(each for each in changes if read_text(each, "type") not in _SIZED)]
        if read_text(each, "length") not in ("", "-1", "-2")
    ]:
        raise UntranslatableError(f"{step.name}: it sets the length of {', '.join(sized)}")
    query = _project(step, reading, fields)
    if removed:
        query = f"SELECT * EXCEPT ({', '.join(map(quote, removed))}) FROM ({query})"
    names = {old: read_text(e, "rename") or old for e in changes if (old := read_text(e, "name"))}
    if changed := [old for old, new in names.items() if old != new or kept[old] != quote(old)]:
        added = ", ".join(f"{kept[old]} AS {quote(names[old])}" for old in changed)
        query = f"SELECT * EXCEPT ({', '.join(map(quote, changed))}), {added} FROM ({query})"
    return query


def _keep_type(step: str, change: "Element") -> str:
    """Return a field that must already have the type of a change, as Kettle then leaves it.

    Raises UntranslatableError for types and masks that convert a value.
    """
    name, kind = read_text(change, "name"), read_text(change, "type")
    is_plain = read_text(change, "precision") in ("", "-1", "-2", "0")
    if kind in ("", "None") and not read_text(change, "conversion_mask"):
        return quote(name)
    if kind not in _KEPT or read_text(change, "conversion_mask") or not is_plain:
        raise UntranslatableError(
            f"{step}: it converts {name} to {kind or 'a text'}; write CAST in SQL"
        )
    column, time = quote(name), f"CAST({quote(name)} AS TIMESTAMP)"
    if kind == "Date":  # which has milliseconds
        finer = literal(f"{step}: {name} is finer than milliseconds; truncate it in SQL")
        whole = f"date_trunc('MILLISECOND', {time}) <=> {time}"
        column = f"IF({whole}, {column}, raise_error({finer}))"
    other = literal(f"{step}: {name} has another type than {kind}; convert it in SQL")
    return f"IF(typeof({quote(name)}) IN ({_KEPT[kind]}), {column}, raise_error({other}))"


_SIZED = ("Date", "Timestamp", "Integer")
"""Types whose length has no effect on a value."""
_KEPT = {
    **dict.fromkeys(("Date", "Timestamp"), "'date', 'timestamp', 'timestamp_ntz'"),
    "Integer": "'tinyint', 'smallint', 'int', 'bigint'",
    "String": "'string'",
}
"""Types of Spark that a type of Kettle stands for."""


def _project(step: RowStep, reading: Reading, fields: "Sequence[Element]") -> str:
    source = reading.get_source(step)
    if not fields:
        return f"SELECT * FROM {source}"
    pairs = [(read_text(e, "name"), read_text(e, "rename") or read_text(e, "name")) for e in fields]
    columns = ", ".join(
        quote(old) if old == new else f"{quote(old)} AS {quote(new)}" for old, new in pairs
    )
    if read_text(step.element, "fields/select_unspecified").upper() == "Y":
        names = ", ".join(dict.fromkeys(quote(old) for old, _ in pairs))
        columns += f", * EXCEPT ({names})"
    return f"SELECT {columns} FROM {source}"


def add_constants(step: RowStep, reading: Reading, _: Mapping[str, RowStep]) -> str:
    """Return the query of Add constants."""
    columns = []
    for each in step.element.iterfind("fields/field"):
        name = read_text(each, "name")
        text = "" if is_set(each, "set_empty_string") else each.findtext("nullif") or ""
        if name:
            (new,) = reading.rename(step.sources[0], [name])
            columns.append(f"{make_constant(step.name, each, text)} AS {quote(new)}")
    return f"SELECT *, {', '.join(columns)} FROM {reading.get_source(step)}"


def map_values(step: RowStep, reading: Reading, _: Mapping[str, RowStep]) -> str:
    """Return the query of Value mapper."""
    name = read_text(step.element, "field_to_use")
    new, default = (
        read_text(step.element, "target_field"),
        step.element.findtext("non_match_default"),
    )
    text = as_text(quote(name))
    cases = []
    for each in step.element.iterfind("fields/field"):
        old, value = each.findtext("source_value") or "", each.findtext("target_value") or ""
        if not old and not value:
            raise UntranslatableError(f"{step.name}: it maps an empty value to an empty value")
        met = f"{text} = {literal(old)}" if old else f"{text} IS NULL"
        cases.append((old, f"WHEN {met} THEN {literal(value) if value else 'NULL'}"))
    if len({old for old, _ in cases}) < len(cases):
        raise UntranslatableError(f"{step.name}: it maps a value twice")
    found = " ".join(case for _, case in cases)
    # The default is not for NULL: only an empty source value maps it.
    if default:
        found += f" WHEN {text} IS NOT NULL THEN {literal(default)}"
    otherwise = "NULL" if new else text
    value = f"CASE {found} ELSE {otherwise} END"
    source = reading.get_source(step)
    if new:
        (new,) = reading.rename(step.sources[0], [new])
        return f"SELECT *, {value} AS {quote(new)} FROM {source}"
    return f"SELECT * EXCEPT ({quote(name)}), {value} AS {quote(name)} FROM {source}"


def compute_values(step: RowStep, reading: Reading, _: Mapping[str, RowStep]) -> str:
    """Return the query of a step that computes values, such as Calculator."""
    source = step.sources[0]
    added, _removed = list_computed(step.kind, step.element)
    known = {each.lower() for each in reading.columns.get(source) or ()}
    if taken := [name for name in added if name.lower() in known]:
        raise UntranslatableError(f"{step.name}: its input has a field {taken[0]} already; use SQL")
    return compute_fields(step.name, step.kind, step.element, reading.get_source(step))


def list_selected(step: RowStep | None) -> list[str] | None:
    """Return the fields that Select values leaves; None if they are not known."""
    if step is None or step.kind != "SelectValues":
        return None
    if read_text(step.element, "fields/select_unspecified").upper() == "Y":
        return None
    if step.element.find("fields/meta") is not None:
        return None
    fields = step.element.findall("fields/field")
    removed = {read_text(each, "name").lower() for each in step.element.iterfind("fields/remove")}
    names = [read_text(e, "rename") or read_text(e, "name") for e in fields]
    return [name for name in names if name.lower() not in removed] or None
