"""Row steps of a transformation as queries: each reads the steps before it by name.

Only steps whose meaning does not depend on the order of rows or on unknown types are translated.
"""

from collections.abc import Callable, Mapping, Sequence

from logdriven_dagster.plugins.importers.kettle.hops import read_text
from logdriven_dagster.plugins.importers.kettle.rows.calculations import COMPUTING, list_computed
from logdriven_dagster.plugins.importers.kettle.rows.dimensions import (
    list_versions,
    look_up_version,
)
from logdriven_dagster.plugins.importers.kettle.rows.fields import (
    add_constants,
    compute_values,
    list_selected,
    map_values,
    select_fields,
)
from logdriven_dagster.plugins.importers.kettle.rows.groups import (
    deduplicate,
    deduplicate_all,
    group_rows,
    number_rows,
)
from logdriven_dagster.plugins.importers.kettle.rows.joins import (
    append_rows,
    cross_join,
    list_cross_joined,
    list_joined,
    look_up_stream,
    look_up_table,
    merge_join,
    read_values,
)
from logdriven_dagster.plugins.importers.kettle.rows.models import Reading, RowStep
from logdriven_dagster.plugins.importers.kettle.rows.pivots import (
    list_pivoted,
    list_unpivoted,
    pivot,
    unpivot,
)
from logdriven_dagster.plugins.importers.kettle.rows.producing import (
    add_system_info,
    generate_rows,
    list_grid,
    list_produced,
    list_system_info,
)
from logdriven_dagster.plugins.importers.kettle.rows.texts import (
    classify,
    cut_texts,
    list_changed,
    list_split,
    list_split_to_rows,
    replace_texts,
    split_field,
    split_to_rows,
)


def list_fields(step: RowStep, reading: Reading) -> list[str] | None:
    """Return the fields of the rows of a step; None if they are not known."""
    return list_produced(step) if step.kind in PRODUCING else _list_read(step, reading)


def _list_read(step: RowStep, reading: Reading) -> list[str] | None:
    """Return the fields of a step that reads others; None if they are not known."""
    element, source = step.element, step.sources[0]
    if step.kind == "StreamLookup":
        looked = read_text(element, "from").lower()
        source = next((each for each in step.sources if each.lower() != looked), source)
    before = reading.columns.get(source)
    if step.kind == "SelectValues":
        return list_selected(step)
    if step.kind in ("GroupBy", "MemoryGroupBy"):
        names = [read_text(each, "name") for each in element.iterfind("group/field")]
        return names + [read_text(each, "aggregate") for each in element.iterfind("fields/field")]
    if step.kind == "Denormaliser":
        return list_pivoted(step)
    if before is None:
        return None
    if step.kind in _JOINED:
        return _JOINED[step.kind](step, reading)
    if step.kind in _FIELDS:
        return _FIELDS[step.kind](step, before)
    return _list_computed(step, reading, source, before)


def _list_computed(
    step: RowStep, reading: Reading, source: str, before: Sequence[str]
) -> list[str]:
    """Return the fields of a step that adds fields to those `before` it, or replaces them."""
    element = step.element
    added: list[str] = []
    if step.kind in COMPUTING:
        added, removed = list_computed(step.kind, element)
        gone = {each.lower() for each in removed}
        return [each for each in before if each.lower() not in gone] + added
    if step.kind == "Constant":
        added = [read_text(each, "name") for each in element.iterfind("fields/field")]
    elif step.kind in ("DBLookup", "StreamLookup"):
        added = [name for _, name, _ in read_values(step, reading, source)]
    elif step.kind == "DimensionLookup":
        added = list(list_versions(step))
    elif step.kind == "SystemInfo":
        added = list_system_info(step)
    elif name := read_text(element, "target_field") or read_text(element, "valuename"):
        added = [name]
    return [*before, *reading.rename(source, [name for name in added if name])]


_FIELDS: Mapping[str, Callable[[RowStep, Sequence[str]], list[str]]] = {
    **dict.fromkeys(("ReplaceString", "StringCut", "NumberRange"), list_changed),
    "FieldSplitter": list_split,
    "SplitFieldToRows3": list_split_to_rows,
    "Normaliser": list_unpivoted,
    "Append": lambda _, before: list(before),
}

_JOINED: Mapping[str, Callable[[RowStep, Reading], list[str] | None]] = {
    "MergeJoin": list_joined,
    "JoinRows": list_cross_joined,
}

QUERIES: Mapping[str, Callable[[RowStep, Reading, Mapping[str, RowStep]], str]] = {
    "SelectValues": select_fields,
    "Constant": add_constants,
    "ValueMapper": map_values,
    "DBLookup": look_up_table,
    "DimensionLookup": look_up_version,
    "StreamLookup": look_up_stream,
    "MergeJoin": merge_join,
    "JoinRows": cross_join,
    "Append": append_rows,
    "DataGrid": list_grid,
    "RowGenerator": generate_rows,
    "GroupBy": group_rows,
    "MemoryGroupBy": group_rows,
    "Unique": deduplicate,
    "UniqueRowsByHashSet": deduplicate_all,
    "ReplaceString": replace_texts,
    "StringCut": cut_texts,
    "NumberRange": classify,
    "FieldSplitter": split_field,
    "SplitFieldToRows3": split_to_rows,
    "Normaliser": unpivot,
    "Denormaliser": pivot,
    "Sequence": number_rows,
    "SystemInfo": add_system_info,
    **dict.fromkeys(COMPUTING, compute_values),
}
"""Query of each type of step that changes rows."""

PASSING = frozenset({"Dummy", "WriteToLog", "TableOutput", "InsertUpdate"})
PASSING |= {"FilterRows", "SwitchCase", "SortRows"}
"""Types of steps that send on rows as they are; the last output may follow another one."""

JOINS = frozenset({"StreamLookup", "MergeJoin", "JoinRows", "Append"})
"""Types of steps that read several steps."""

PRODUCING = frozenset({"DataGrid", "RowGenerator"})
"""Types of steps that produce rows, and read none."""
