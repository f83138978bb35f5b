"""Queries of steps that join rows: lookups and Merge join."""

from collections.abc import Mapping, Sequence

from logdriven_dagster.plugins.importers.drafts import UntranslatableError
from logdriven_dagster.plugins.importers.kettle.comparisons import (
    are_equal,
    are_of_one_type,
    condition_of,
    empty_as_null,
    quote,
    without_case,
)
from logdriven_dagster.plugins.importers.kettle.hops import read_text
from logdriven_dagster.plugins.importers.kettle.lookups import LookupRules, join_lookup
from logdriven_dagster.plugins.importers.kettle.rows.models import Reading, RowStep
from logdriven_dagster.plugins.importers.kettle.rows.sorting import (
    KeyOrder,
    build_sorted_key,
    refuse_unsorted,
)

_JOINS = {"INNER": "JOIN", "LEFT OUTER": "LEFT JOIN", "RIGHT OUTER": "RIGHT JOIN"}
_JOINS |= {"FULL OUTER": "FULL JOIN"}


def look_up_table(step: RowStep, reading: Reading, _: Mapping[str, RowStep]) -> str:
    """Return the query of a Database lookup: the first matching row, or defaults.

    Which of several rows is first is not known, so that other values fail.
    """
    element, lookup = step.element, step.lookup
    assert lookup is not None
    keys = []
    for each in element.iterfind("lookup/key"):
        if read_text(each, "condition") != "=" or read_text(each, "name2"):
            raise UntranslatableError(
                f"{step.name}: it compares by {read_text(each, 'condition')}; write a join in SQL"
            )
        keys.append((read_text(each, "name"), read_text(each, "field")))
    only_one = read_text(element, "lookup/fail_on_multiple").upper() == "Y"
    if read_text(element, "lookup/orderby") and not only_one:
        raise UntranslatableError(f"{step.name}: it takes the first row of an order; use SQL")
    finds_null = all(
        read_text(element, flag).upper() == "Y" for flag in ("cache", "cache_load_all")
    )
    inner = read_text(element, "lookup/eat_row_on_failure").upper() == "Y"
    values = read_values(step, reading, step.sources[0])
    return join_lookup(
        step.name,
        (reading.get_source(step), reading.get_relation(lookup.step)),
        keys,
        values,
        LookupRules(finds_null, inner, only_one, reading.ignores_case),
    )


def look_up_stream(step: RowStep, reading: Reading, _: Mapping[str, RowStep]) -> str:
    """Return the query of a Stream lookup: NULL finds NULL, and the last of several rows counts.

    Which of several rows is last is not known, so that other values fail.
    """
    origin = read_text(step.element, "from").lower()
    others = [each for each in step.sources if each.lower() != origin]
    found = [each for each in step.sources if each.lower() == origin]
    if len(others) != 1 or len(found) != 1:
        raise UntranslatableError(f"{step.name}: it must have one source and one lookup step")
    keys = [
        (read_text(each, "name"), read_text(each, "field"))
        for each in step.element.iterfind("lookup/key")
    ]
    is_sorted = read_text(step.element, "sorted_list").upper() == "Y"
    rules = LookupRules(finds_null=True, inner=False, empty_is_null=is_sorted)
    sources = (reading.get_relation(others[0]), reading.get_relation(found[0]))
    values = read_values(step, reading, others[0])
    return join_lookup(step.name, sources, keys, values, rules)


def read_values(step: RowStep, reading: Reading, source: str) -> list[tuple[str, str, str]]:
    """Return name, new name and default of each value that a lookup adds to a source."""
    values = step.element.findall("lookup/value")
    new = [read_text(each, "rename") or read_text(each, "name") for each in values]
    return [
        (read_text(each, "name"), name, read_text(each, "default"))
        for each, name in zip(values, reading.rename(source, new), strict=True)
    ]


def merge_join(step: RowStep, reading: Reading, by_name: Mapping[str, RowStep]) -> str:
    """Return the query of a Merge join: NULL is equal to NULL.

    Raises UntranslatableError unless both sources are sorted by the keys, which Kettle requires.
    """
    element = step.element
    join = _JOINS.get(read_text(element, "join_type").upper())
    ends = [read_text(element, name).lower() for name in ("step1", "step2")]
    found = {each.lower(): each for each in step.sources}
    if join is None or len(step.sources) != 2 or set(ends) != set(found):
        raise UntranslatableError(f"{step.name}: it must join two steps")
    keys = [
        [(key.text or "").strip() for key in element.iterfind(f"{name}/key")]
        for name in ("keys_1", "keys_2")
    ]
    if not keys[0] or len(keys[0]) != len(keys[1]):
        raise UntranslatableError(f"{step.name}: it has no keys")
    sides = []
    for alias, end, own in zip("lr", ends, keys, strict=True):
        orders = refuse_unsorted(step, found[end], own, reading, by_name)
        columns = [f"{alias}.{quote(key)}" for key in own]
        sides.append(list(zip(columns, orders, strict=True)))
    conditions = " AND ".join(_joined(*pair) for pair in zip(*sides, strict=True))
    right = _right_fields(found[ends[0]], found[ends[1]], keys, reading)
    left, other = reading.get_relation(found[ends[0]]), reading.get_relation(found[ends[1]])
    return f"SELECT l.*, {right}\nFROM {left} AS l\n{join} {other} AS r ON {conditions}"


def list_joined(step: RowStep, reading: Reading) -> list[str] | None:
    """Return the fields of a Merge join; None if they are not known."""
    left, right = (read_text(step.element, name).lower() for name in ("step1", "step2"))
    found = {each.lower(): each for each in step.sources}
    first, second = (reading.columns.get(found.get(each, "")) for each in (left, right))
    if first is None or second is None:
        return None
    return [*first, *reading.rename(found[left], second)]


def cross_join(step: RowStep, reading: Reading, _: Mapping[str, RowStep]) -> str:
    """Return the query of Join rows: all pairs of rows that meet its condition."""
    first, *others = _order_sources(step)
    joined, known = reading.get_relation(first), {"": reading.columns.get(first)}
    for other in others:
        sides = Reading(reading.relations, columns={**reading.columns, **known})
        right = _right_fields("", other, ([], []), sides)
        known[""] = _add_fields(known[""], reading.columns.get(other))
        joined = (
            f"(SELECT l.*, {right}\nFROM {joined} AS l\n"
            f"CROSS JOIN {reading.get_relation(other)} AS r)"
        )
    condition = step.element.find("compare/condition")
    if condition is None or not (
        read_text(condition, "leftvalue") or condition.find("conditions/condition") is not None
    ):
        return f"SELECT * FROM {joined}"
    return f"SELECT * FROM {joined}\nWHERE {condition_of(condition, step.name)}"


def list_cross_joined(step: RowStep, reading: Reading) -> list[str] | None:
    """Return the fields of Join rows; None if they are not known."""
    first, *others = _order_sources(step)
    fields = reading.columns.get(first)
    for other in others:
        fields = _add_fields(fields, reading.columns.get(other))
    return None if fields is None else list(fields)


def _add_fields(fields: Sequence[str] | None, added: Sequence[str] | None) -> list[str] | None:
    """Return fields with others, renamed as Kettle does; None if some are not known."""
    if fields is None or added is None:
        return None
    return [*fields, *Reading({}, columns={"": fields}).rename("", added)]


def _order_sources(step: RowStep) -> list[str]:
    """Return the steps that Join rows reads, its main step first."""
    main = read_text(step.element, "main").lower()
    return sorted(step.sources, key=lambda each: each.lower() != main)


def append_rows(step: RowStep, reading: Reading, _: Mapping[str, RowStep]) -> str:
    """Return the query of Append streams, whose sources have the same fields in the same order."""
    ends = [read_text(step.element, each).lower() for each in ("head_name", "tail_name")]
    found = {each.lower(): each for each in step.sources}
    if len(step.sources) != 2 or set(ends) != set(found):
        raise UntranslatableError(f"{step.name}: it must append the rows of one step to another")
    sources = [found[each] for each in ends]
    fields = [reading.columns.get(each) for each in sources]
    if None in fields or list(fields[0] or ()) != list(fields[1] or ()):
        raise UntranslatableError(
            f"{step.name}: it appends rows whose fields are not known or differ; unite them in SQL"
        )
    return "\nUNION ALL\n".join(f"SELECT * FROM {reading.get_relation(each)}" for each in sources)


def _joined(left: tuple[str, KeyOrder], right: tuple[str, KeyOrder]) -> str:
    """Return True where two keys are equal: without case if both sides are sorted so."""
    columns, orders = zip(left, right, strict=True)
    if set(orders) != {"without case"}:
        return are_equal(*(build_sorted_key(*each) for each in (left, right)))
    a, b = (without_case(empty_as_null(column)) for column in columns)
    return are_of_one_type(*columns, f"{a} <=> {b}")


def _right_fields(left: str, right: str, keys: Sequence[Sequence[str]], reading: Reading) -> str:
    """Return the fields of the second source, with names that the first one does not have."""
    known = reading.columns.get(right)
    if known is not None and reading.columns.get(left) is not None:
        pairs = zip(known, reading.rename(left, known), strict=True)
        return ", ".join(f"r.{quote(old)} AS {quote(new)}" for old, new in pairs)
    both = [b for a, b in zip(*keys, strict=True) if a.lower() == b.lower()]
    if not both:
        return "r.*"
    again = ", ".join(f"r.{quote(key)} AS {quote(key + '_1')}" for key in both)
    return f"r.* EXCEPT ({', '.join(map(quote, both))}), {again}"
