"""Orders of rows, and what a sort changes: Kettle compares sorted fields as the sort did."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

from logdriven_dagster.plugins.importers.drafts import UntranslatableError
from logdriven_dagster.plugins.importers.kettle.comparisons import literal
from logdriven_dagster.plugins.importers.kettle.hops import read_text
from logdriven_dagster.plugins.importers.kettle.rows.models import Reading, RowStep

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

KeyOrder: TypeAlias = Literal["exact", "without case", "unknown"]
"""Order and equality of texts in a step: by their characters, without case, or in its own way."""


def refuse_first_rows(step: RowStep) -> None:
    """Raise UntranslatableError for a sort that keeps the first row of each key."""
    if step.kind == "SortRows" and read_text(step.element, "unique_rows").upper() == "Y":
        raise UntranslatableError(
            f"{step.name}: it keeps the first row of each key, which depends on their order; "
            "write row_number() in SQL"
        )


def refuse_sorted_comparisons(step: RowStep, by_name: Mapping[str, RowStep]) -> None:
    """Raise UntranslatableError if a sort before a step changes what the step compares.

    Sort rows marks its fields, so that all later steps compare their texts without case, and in
    falling order. Source: Kettle, SortRowsMeta.assignSortingCriteria, ValueMetaBase.compare.
    """
    loose, falling = _find_marked(step.sources, by_name)
    for name, function, is_text in _list_compared(step):
        if (is_text and name in loose) or (function not in ("=", "<>") and name in falling):
            raise UntranslatableError(
                f"{step.name}: a sort before it changes how Kettle compares {name}; compare it "
                "before the sort, or in SQL"
            )


def refuse_sorted_texts(
    name: str, sources: Sequence[str], fields: Sequence[str], by_name: Mapping[str, RowStep]
) -> None:
    """Raise UntranslatableError if a step compares fields that a sort before it compares loosely.

    `sources` are the steps that it reads.
    """
    loose, _ = _find_marked(sources, by_name)
    if found := [field for field in fields if field.lower() in loose]:
        raise UntranslatableError(
            f"{name}: a sort before it makes Kettle compare {', '.join(found)} without case; make "
            "the sort case sensitive, or remove it"
        )


def _find_marked(
    sources: Sequence[str], by_name: Mapping[str, RowStep]
) -> tuple[set[str], set[str]]:
    """Return the fields that sorts before a step have marked: without case, and falling."""
    loose, falling, renames = set[str](), set[str](), dict[str, str]()
    waiting, seen = list(sources), set[str]()
    while waiting:
        name = waiting.pop()
        if name in seen or name not in by_name:
            continue
        seen.add(name)
        before = by_name[name]
        waiting += before.sources
        for each in (
            *before.element.findall("fields/field"),
            *before.element.findall("fields/meta"),
        ):
            field = read_text(each, "name").lower()
            if before.kind == "SelectValues" and read_text(each, "rename"):
                renames[field] = read_text(each, "rename").lower()
            if before.kind == "SortRows" and _order_of(each) != "exact":
                loose.add(field)
            if before.kind == "SortRows" and read_text(each, "ascending").upper() != "Y":
                falling.add(field)
    for _ in renames:
        for marked in (loose, falling):
            marked |= {new for old, new in renames.items() if old in marked}
    return (
        {*loose, *(f"{each}_1" for each in loose)},
        {*falling, *(f"{each}_1" for each in falling)},
    )


def _list_compared(step: RowStep) -> Iterator[tuple[str, str, bool]]:
    """Yield the compared fields of a step, with the function, and True if they may be texts."""
    if step.kind in ("FilterRows", "JoinRows"):
        for each in step.element.iter("condition"):
            function, right = read_text(each, "function"), read_text(each, "rightvalue")
            if function not in ("=", "<>", "<", "<=", ">", ">="):
                continue
            is_text = bool(right) or read_text(each, "value/type") == "String"
            for name in filter(None, (read_text(each, "leftvalue"), right)):
                yield name.lower(), function, is_text
    if step.kind in ("GroupBy", "MemoryGroupBy"):
        for each in step.element.iterfind("fields/field"):
            if read_text(each, "type").upper() in ("MIN", "MAX"):
                yield read_text(each, "subject").lower(), "=", True  # Kettle heeds the order there


def build_sorted_key(column: str, order: KeyOrder) -> str:
    """Return a key; one that Kettle does not compare as it is sorted fails for texts."""
    if order == "exact":
        return column
    problem = f"{column.replace('`', '')} is a text whose order Kettle does not know; sort it there"
    return f"IF(typeof({column}) = 'string', raise_error({literal(problem)}), {column})"


def refuse_unsorted(
    step: RowStep,
    source: str,
    keys: Sequence[str],
    reading: Reading,
    by_name: Mapping[str, RowStep],
) -> list[KeyOrder]:
    """Return the order of a source by each key. Raises UntranslatableError if it is not sorted."""
    wanted = [key.lower() for key in keys]
    before = by_name.get(source)
    while before is not None and before.kind in ("Dummy", "WriteToLog"):
        source = before.sources[0]
        before = by_name.get(source)
    if before is not None and before.kind == "SortRows":
        fields = before.element.findall("fields/field")
        own = [read_text(each, "name").lower() for each in fields]
        rising = all(read_text(each, "ascending").upper() == "Y" for each in fields[: len(own)])
        if own[: len(wanted)] == wanted and rising:
            return [_order_of(each) for each in fields[: len(wanted)]]
    elif (reading.orders.get(source) or [])[: len(wanted)] == [(key, False) for key in wanted]:
        return ["unknown"] * len(wanted)
    raise UntranslatableError(
        f"{step.name}: {source} is not sorted by {', '.join(keys)}, so that the result of Kettle "
        "depends on the order of its rows; sort it there, or write it in SQL"
    )


def _order_of(field: "Element") -> KeyOrder:
    """Return the order by a field of Sort rows, which following steps compare in the same way."""
    if read_text(field, "collator_enabled").upper() == "Y":
        return "unknown"
    is_exact = read_text(field, "case_sensitive").upper() in ("", "Y")
    return "exact" if is_exact else "without case"
