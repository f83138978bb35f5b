"""Outputs of a transformation, read from their steps."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from logdriven_dagster.plugins.importers.drafts import UntranslatableError
from logdriven_dagster.plugins.importers.kettle.hops import is_set, read_text, refuse_flags
from logdriven_dagster.plugins.importers.kettle.outputs.models import (
    Dimension,
    Output,
    StampType,
    UpdateType,
)
from logdriven_dagster.plugins.importers.naming import is_whole

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element


def _read_table_output(name: str, step: "Element") -> Output:
    refuse_flags(name, step, ("partitioning_enabled", "tablename_in_field", "ignore_errors"))
    fields: tuple[tuple[str, str], ...] = ()
    if is_set(step, "specify_fields"):
        fields = tuple(
            (read_text(each, "stream_name"), read_text(each, "column_name"))
            for each in step.iterfind("fields/field")
        )
        _refuse_unnamed(name, fields)
    return replace(_read_target(name, step, fields), truncate=is_set(step, "truncate"))


def _read_upsert(name: str, step: "Element") -> Output:
    keys = list(step.iterfind("lookup/key"))
    values = list(step.iterfind("lookup/value"))
    if not keys or any(read_text(key, "condition") != "=" for key in keys):
        raise UntranslatableError(f"{name}: its keys must be compared by =")
    pairs = [(read_text(key, "name"), read_text(key, "field")) for key in keys]
    fields = dict.fromkeys(
        (read_text(v, "rename") or read_text(v, "name"), read_text(v, "name")) for v in values
    )
    if outside := [column for field, column in pairs if (field, column) not in fields]:
        raise UntranslatableError(
            f"{name}: {', '.join(outside)} is a key and not among the values, so that Kettle "
            "inserts rows without it; add it to the values, with update N"
        )
    columns = {column for _, column in pairs}
    never = [
        read_text(v, "name")
        for v in values
        if read_text(v, "update").upper() not in ("", "Y") and read_text(v, "name") not in columns
    ]
    inserts_only = is_set(step, "update_bypassed")
    return replace(
        _read_target(name, step, tuple(fields), within="lookup/"),
        key=tuple(column for _, column in pairs),
        kept=() if inserts_only else tuple(never),
        inserts_only=inserts_only,
    )


def _read_combination(name: str, step: "Element") -> Output:
    """Read a Combination lookup / update that no step follows: it inserts new combinations."""
    refuse_flags(name, step, ("crc", "use_hash"))
    pairs = _read_pairs(name, step, "fields/key")
    if changed := read_text(step, "last_update_field"):
        raise UntranslatableError(f"{name}: it writes the time of the run into {changed}")
    technical = read_text(step, "fields/return/name")
    method = read_text(step, "fields/return/creation_method") or (
        "autoinc" if read_text(step, "fields/return/use_autoinc") == "Y" else "tablemax"
    )
    if read_text(step, "sequence") or method not in ("tablemax", "autoinc"):
        raise UntranslatableError(f"{name}: it takes numbers of a sequence; write it in SQL")
    if not technical:
        raise UntranslatableError(f"{name}: it has no technical key")
    is_numbered = method == "tablemax"
    return replace(
        _read_target(name, step, pairs),
        key=(technical,) if is_numbered else tuple(column for _, column in pairs),
        inserts_only=True,
        finds_null=True,
        technical_key=technical if is_numbered else "",
    )


def _read_dimension(name: str, step: "Element") -> Output:
    """Read a Dimension lookup / update. Source: Kettle, DimensionLookupMeta.readData."""
    keys = _read_pairs(name, step, "fields/key")
    fields, updates, stamps = _read_changes(name, step)
    start = _read_start(name, step)
    if read_text(step, "sequence"):
        raise UntranslatableError(f"{name}: it takes numbers of a sequence; write it in SQL")
    method = read_text(step, "fields/return/creation_method").lower() or "tablemax"
    dimension = Dimension(
        technical_key=read_text(step, "fields/return/name"),
        version=read_text(step, "fields/return/version"),
        date_from=read_text(step, "fields/date/from"),
        date_to=read_text(step, "fields/date/to"),
        date=read_text(step, "fields/date/name"),
        first_year=_read_year(step, "min_year", 1900),
        last_year=_read_year(step, "max_year", 2199),
        updates=updates,
        stamps=stamps,
        is_numbered=method != "autoinc",
        starts_now=start == "sysdate",
    )
    own = (
        *(dimension.technical_key, dimension.version, dimension.date_from, dimension.date_to),
        *(column for _, column in (*keys, *fields)),
        *stamps,
    )
    if not all(own) or len({each.lower() for each in own}) < len(own):
        raise UntranslatableError(
            f"{name}: its technical key, version, dates, keys and fields must be different columns"
        )
    numbered = (dimension.technical_key,)
    return replace(
        _read_target(name, step, (*keys, *fields)),
        key=numbered if dimension.is_numbered else (*(c for _, c in keys), dimension.version),
        dimension=dimension,
    )


def _read_pairs(name: str, step: "Element", path: str) -> tuple[tuple[str, str], ...]:
    pairs = tuple(
        (read_text(each, "name"), read_text(each, "lookup")) for each in step.iterfind(path)
    )
    _refuse_unnamed(name, pairs)
    return pairs


def _read_target(
    name: str, step: "Element", fields: Sequence[tuple[str, str]], within: str = ""
) -> Output:
    """Return an output with its table and fields; `within` is the path of the table's name."""
    return Output(
        step=name,
        connection=read_text(step, "connection"),
        schema=read_text(step, f"{within}schema"),
        table=read_text(step, f"{within}table"),
        truncate=False,
        fields=tuple(fields),
    )


def _refuse_unnamed(name: str, pairs: Sequence[tuple[str, str]]) -> None:
    """Raise UntranslatableError for a field or column without a name, or if there is none."""
    if not pairs or any(not part for pair in pairs for part in pair):
        raise UntranslatableError(f"{name}: a field or column of it has no name")


def _read_changes(
    name: str, step: "Element"
) -> tuple[list[tuple[str, str]], dict[str, UpdateType], dict[str, StampType]]:
    """Return the fields with their columns, the effect of their changes, and Kettle's columns."""
    fields: list[tuple[str, str]] = []
    updates: dict[str, UpdateType] = {}
    stamps: dict[str, StampType] = {}
    for each in step.iterfind("fields/field"):
        column, text = read_text(each, "lookup"), read_text(each, "update").lower()
        if text in _STAMPS:
            stamps[column] = _STAMPS[text]
        elif text in _UPDATES:
            updates[column] = _UPDATES[text]
            fields.append((read_text(each, "name"), column))
        else:
            raise UntranslatableError(
                f"{name}: the update type {text} of {column} is unknown; choose Insert, Update or "
                "Punch through there"
            )
    if fields:
        _refuse_unnamed(name, fields)
    return fields, updates, stamps


_UPDATES: Mapping[str, UpdateType] = {
    **dict.fromkeys(("insert", "n", ""), "insert"),
    "update": "update",
    **dict.fromkeys(("punch through", "y"), "punch through"),
}
_STAMPS: Mapping[str, StampType] = {
    "dateinsertedorupdated": "dateinsertedorupdated",
    "date of last insert or update (without stream field as source)": "dateinsertedorupdated",
    "dateinserted": "dateinserted",
    "date of last insert (without stream field as source)": "dateinserted",
    "dateupdated": "dateupdated",
    "date of last update (without stream field as source)": "dateupdated",
    "lastversion": "lastversion",
    "last version (without stream field as source)": "lastversion",
}


def _read_start(name: str, step: "Element") -> str:
    """Return the start of a first version: `none` for the first year, or `sysdate`."""
    start = read_text(step, "start_date_alternative").lower() or "none"
    if not is_set(step, "use_start_date_alternative") and start not in ("null", "column_value"):
        return "none"  # Kettle looks these two up in another way, also if they are not used
    if start == "none" or (start == "sysdate" and not read_text(step, "fields/date/name")):
        return start
    raise UntranslatableError(
        f"{name}: its alternative start date is {start}; use none, or a target of mode history "
        "(docs/steps.md, History of changes)"
    )


def _read_year(step: "Element", field: str, otherwise: int) -> int:
    text = read_text(step, field)
    return int(text) if is_whole(text) and 0 < int(text) <= 9999 else otherwise


OUTPUTS: Mapping[str, Callable[[str, "Element"], Output]] = {
    "TableOutput": _read_table_output,
    "InsertUpdate": _read_upsert,
    "CombinationLookup": _read_combination,
    "DimensionLookup": _read_dimension,
}
"""Reader of each type of step that writes a table."""
