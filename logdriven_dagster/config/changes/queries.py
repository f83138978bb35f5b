"""Comparison of two queries: every difference with its class, never smaller than it is.

A difference that cannot be proven smaller gets the larger class. So an expression with a type that
is not known counts as retyped, and a join that is new counts as one that multiplies rows.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from logdriven_dagster.config.changes.canonical import (
    canonicalize_sql,
    canonicalize_tree,
    list_names,
    number_names,
    parse_exactly,
)
from logdriven_dagster.config.changes.fields import Effect
from logdriven_dagster.config.sql.references import UnreadableSqlError


@dataclass(frozen=True, slots=True)
class QueryChange:
    """One difference between two queries."""

    effect: Effect
    what: str
    """The difference in words, such as `changed filter`."""
    columns: tuple[str, ...] | None = None
    """The columns of the result that it concerns; None if it concerns all rows."""


_FILTERS = {"where": "filter", "having": "filter of groups"}
_OF_GRAIN = {
    "group": "GROUP BY",
    "distinct": "DISTINCT",
    "qualify": "QUALIFY",
    "limit": "LIMIT",
    "offset": "OFFSET",
    "laterals": "LATERAL VIEW",
    "sample": "TABLESAMPLE",
}
_ORDERS = {"order", "sort", "cluster", "distribute", "hint"}
_ROUTINES = {"explode", "posexplode", "inline", "stack", "json_tuple", "variant_explode"}


def compare_queries(before: str, after: str, keys: Collection[str] = ()) -> list[QueryChange]:
    """Return the differences of two Spark queries; none if they certainly mean the same.

    `keys` are the columns of the result by which rows are identified or assigned to windows.
    """
    if canonicalize_sql(before) == canonicalize_sql(after):
        return []
    try:
        trees = _parse_both(before, after)
    except UnreadableSqlError:
        return [QueryChange(Effect.SHAPE, "changed query that cannot be parsed")]
    try:
        found = list(_compare(*trees, {key.lower() for key in keys}))
    except RecursionError:
        return [QueryChange(Effect.SHAPE, "changed query that is nested too deeply")]
    # The forms differ, so something does, even if no part of the query that is compared.
    return found or [QueryChange(Effect.SHAPE, "changed query")]


def _parse_both(before: str, after: str) -> tuple[Any, Any]:
    """Parse two queries; aliases that were only renamed are the same in both."""
    trees = parse_exactly(before), parse_exactly(after)
    one, other = ([node.alias.lower() for node in list_names(tree)] for tree in trees)
    if one != other and len(one) == len(other):
        for tree in trees:
            number_names(tree)
    return trees


def _compare(before: Any, after: Any, keys: Collection[str]) -> Iterator[QueryChange]:
    from sqlglot import exp

    before, after = before.unnest(), after.unnest()
    if _is_same(before, after):
        return
    if type(before) is not type(after):
        yield QueryChange(Effect.SHAPE, "another kind of query")
    elif isinstance(before, exp.SetOperation):
        yield from _compare_set_operations(before, after)
    elif isinstance(before, exp.Select):
        yield from _compare_selects(before, after, keys)
    else:
        yield QueryChange(Effect.SHAPE, "changed query")


def _compare_set_operations(before: Any, after: Any) -> Iterator[QueryChange]:
    known = {"this", "expression", "with_", "with"}
    if any(not _is_same_arg(before, after, name) for name in _list_args(before, after) - known):
        yield QueryChange(Effect.GRAIN, f"changed {before.key.upper()}")
    yield from _compare_common_tables(before, after)
    for side in ("this", "expression"):
        for change in _compare(before.args[side], after.args[side], ()):
            # The other side has no new column, and its types may change those of the result.
            larger = Effect.SHAPE if change.effect is Effect.ADDITIVE else change.effect
            yield QueryChange(larger, change.what)


def _compare_selects(before: Any, after: Any, keys: Collection[str]) -> Iterator[QueryChange]:
    yield from _compare_common_tables(before, after)
    yield from _compare_sources(before, after)
    known = {"with_", "with", "from_", "from", "joins", "expressions"}
    for name in sorted(_list_args(before, after) - known):
        if _is_same_arg(before, after, name):
            continue
        if name in _FILTERS:
            yield QueryChange(Effect.VALUES, f"changed {_FILTERS[name]}")
        elif name in _OF_GRAIN:
            yield QueryChange(Effect.GRAIN, f"changed {_OF_GRAIN[name]}")
        elif name in _ORDERS:
            yield QueryChange(Effect.VALUES, f"changed {name.upper()} of rows")
        else:
            yield QueryChange(Effect.SHAPE, f"changed {name.strip('_').upper()}")
    yield from _compare_projections(before, after, keys)


def _compare_common_tables(before: Any, after: Any) -> Iterator[QueryChange]:
    one, other = (
        {cte.alias.lower(): cte for cte in _get_common_tables(tree)} for tree in (before, after)
    )
    for name in one.keys() & other.keys():
        if not _is_same(one[name].args["alias"], other[name].args["alias"]):
            yield QueryChange(Effect.SHAPE, f"changed columns of {name}")
        yield from _compare_inner(one[name].this, other[name].this, after)
    # A table that is new or gone has an effect only where a query reads it, which differs then,
    # unless it hides a stored table of the same name.
    for name in one.keys() ^ other.keys():
        if any(_reads(tree, name) for tree in (before, after)) and not (
            _reads(before, name) ^ _reads(after, name)
        ):
            yield QueryChange(Effect.SHAPE, f"{name} is another table")


def _get_common_tables(tree: Any) -> list[Any]:
    clause = tree.args.get("with_") or tree.args.get("with")
    return list(clause.expressions) if clause else []


def _reads(tree: Any, name: str) -> bool:
    from sqlglot import exp

    return any(
        len(table.parts) == 1 and table.name.lower() == name for table in tree.find_all(exp.Table)
    )


def _compare_inner(before: Any, after: Any, outer: Any) -> Iterator[QueryChange]:
    """Yield the differences of a subquery, as the query around it shows them."""
    from sqlglot import exp

    # A set operation without names and a `*` show every column.
    by_name = not any(
        isinstance(each, exp.Star) or getattr(each, "name", "") == "*"
        for each in outer.find_all(exp.Star, exp.Column)
        if not isinstance(each.parent, exp.Count)
    )
    for change in _compare(before, after, ()):
        if change.effect is Effect.ADDITIVE:
            effect = Effect.VALUES if by_name else Effect.SHAPE
            yield QueryChange(effect, change.what)
        else:
            yield QueryChange(change.effect, change.what)


def _compare_sources(before: Any, after: Any) -> Iterator[QueryChange]:
    """Yield the differences of FROM and of joins."""
    one, other = (tree.args.get("from_") or tree.args.get("from") for tree in (before, after))
    if one is None or other is None:
        if one is not other:
            yield QueryChange(Effect.SHAPE, "changed source")
    else:
        yield from _compare_source(one.this, other.this, after)
    joins = before.args.get("joins") or [], after.args.get("joins") or []
    if len(joins[0]) != len(joins[1]):
        what = "added join" if len(joins[0]) < len(joins[1]) else "removed join"
        has_all = any(map(_shows_all, (*before.selects, *after.selects)))
        yield QueryChange(Effect.SHAPE if has_all else Effect.GRAIN, what)
        return
    for join, joined in zip(*joins, strict=True):
        names = _list_args(join, joined) - {"this"}
        if any(not _is_same_arg(join, joined, name) for name in names):
            is_outer = any(
                each.args.get("side") or each.args.get("kind") for each in (join, joined)
            )
            has_all = any(map(_shows_all, (*before.selects, *after.selects)))
            # An outer join shows the columns of one side as NULL, a USING shows each once.
            effect = Effect.SHAPE if has_all and is_outer else Effect.GRAIN
            yield QueryChange(effect, "changed join")
        yield from _compare_source(join.this, joined.this, after)


def _compare_source(before: Any, after: Any, outer: Any) -> Iterator[QueryChange]:
    from sqlglot import exp

    if _is_same(before, after):
        return
    if isinstance(before, exp.Subquery) and isinstance(after, exp.Subquery):
        names = _list_args(before, after) - {"this"}
        if any(not _is_same_arg(before, after, name) for name in names):
            yield QueryChange(Effect.SHAPE, "changed source")
        yield from _compare_inner(before.this, after.this, outer)
    else:
        yield QueryChange(Effect.SHAPE, "changed source")


def _compare_projections(before: Any, after: Any, keys: Collection[str]) -> Iterator[QueryChange]:
    one, other = before.selects, after.selects
    if len(one) == len(other) and all(map(_is_same, one, other)):
        return
    if any(map(_shows_all, (*one, *other))):
        # The columns behind `*` are not known, so that a new one may be there already.
        yield QueryChange(Effect.SHAPE, "changed columns next to *")
        return
    grouped = before.args.get("group") is not None and after.args.get("group") is not None
    aggregated = any(map(_aggregates, one)), any(map(_aggregates, other))
    # An unknown function may aggregate.
    unknown = _list_unknown_functions(other) - _list_unknown_functions(one)
    if not grouped and (aggregated[0] != aggregated[1] or unknown):
        yield QueryChange(Effect.GRAIN, "aggregates rows")
    if _list_routines(one) != _list_routines(other):
        yield QueryChange(Effect.GRAIN, "changed number of rows for each row")
    names = (
        [each.alias_or_name.lower() for each in one],
        [each.alias_or_name.lower() for each in other],
    )
    unnamed = not all(names[0]) or not all(names[1])
    if unnamed or len(set(names[0])) < len(names[0]) or len(set(names[1])) < len(names[1]):
        yield QueryChange(Effect.SHAPE, "changed columns")
        return
    gone = [name for name in names[0] if name not in names[1]]
    new = [name for name in names[1] if name not in names[0]]
    yield from _compare_columns(before, after, keys)
    if gone:
        yield QueryChange(Effect.SHAPE, _list_named("removed column", gone), tuple(gone))
    in_order = names[1][: len(names[0])] == names[0]
    if not gone and not in_order:
        what = "columns in another order"
        if [name for name in names[1] if name in names[0]] == names[0]:
            what = _list_named("added column", new) + " before others"
        yield QueryChange(Effect.SHAPE, what)
    elif new:
        yield from _judge_new_columns(after, new, is_last=in_order)


def _judge_new_columns(after: Any, new: list[str], *, is_last: bool) -> Iterator[QueryChange]:
    """Yield the effect of columns that only the new query has."""
    from sqlglot import exp

    what = _list_named("added column", new)
    clauses = [after.args.get(name) for name in ("group", "having", "qualify", "order", "where")]
    named = {
        column.name.lower()
        for clause in clauses
        if clause is not None
        for column in clause.find_all(exp.Column)
        if len(column.parts) == 1
    }
    group = after.args.get("group")
    is_grouped_by_all = group is not None and (
        bool(group.args.get("all")) or "all" in {c.name.lower() for c in group.find_all(exp.Column)}
    )
    if after.args.get("distinct") is not None or is_grouped_by_all:
        yield QueryChange(Effect.GRAIN, f"{what} to the groups of rows")
    elif named & set(new):  # a clause may mean the new column from now on
        yield QueryChange(Effect.GRAIN, f"{what}, which a clause refers to")
    elif _lateral_names(after) & set(new):
        yield QueryChange(Effect.SHAPE, f"{what}, which another column refers to")
    else:
        yield QueryChange(Effect.ADDITIVE if is_last else Effect.SHAPE, what, tuple(new))


def _lateral_names(select: Any) -> set[str]:
    """Return the unqualified names in the columns of a query, which may mean other columns."""
    from sqlglot import exp

    return {
        column.name.lower()
        for each in select.selects
        for column in each.find_all(exp.Column)
        if len(column.parts) == 1 and isinstance(each, exp.Alias)
    }


def _compare_columns(before: Any, after: Any, keys: Collection[str]) -> Iterator[QueryChange]:
    """Yield the columns of one name that have another expression."""
    earlier = {each.alias_or_name.lower(): each for each in before.selects}
    spelled = {each.alias_or_name.lower(): each.alias_or_name for each in before.selects}
    grouping = _list_grouping_names(after) | _list_grouping_names(before)
    distinct = any(tree.args.get("distinct") is not None for tree in (before, after))
    changed = []
    for position, each in enumerate(after.selects, 1):
        name = each.alias_or_name.lower()
        old = earlier.get(name)
        if old is None or (_is_same(old, each) and spelled[name] == each.alias_or_name):
            continue
        what = f"changed column {each.alias_or_name}"
        if spelled[name] != each.alias_or_name:
            yield QueryChange(Effect.SHAPE, f"renamed column {spelled[name]}", (name,))
        elif not _has_same_type(old.unalias(), each.unalias()):
            yield QueryChange(Effect.SHAPE, f"{what}, whose type may differ", (name,))
        elif name in keys or distinct or {name, str(position)} & grouping:
            yield QueryChange(Effect.GRAIN, f"{what}, which identifies rows", (name,))
        else:
            yield QueryChange(Effect.VALUES, what, (name,))
        changed.append(name)
    if changed and _lateral_names(after) & set(changed):
        # Another column may be computed from the changed one.
        yield QueryChange(Effect.VALUES, "columns that refer to changed ones")


def _list_grouping_names(select: Any) -> set[str]:
    from sqlglot import exp

    group = select.args.get("group")
    if group is None:
        return set()
    if group.args.get("all"):
        return {each.alias_or_name.lower() for each in select.selects}
    names = {column.name.lower() for column in group.find_all(exp.Column)}
    if "all" in names:
        names |= {each.alias_or_name.lower() for each in select.selects}
    return names | {number.name for number in group.find_all(exp.Literal)}


def _aggregates(expression: Any) -> bool:
    from sqlglot import exp

    return any(not isinstance(call.parent, exp.Window) for call in expression.find_all(exp.AggFunc))


def _list_unknown_functions(selects: Any) -> set[str]:
    from sqlglot import exp

    return {call.name.lower() for each in selects for call in each.find_all(exp.Anonymous)}


def _list_routines(selects: Any) -> list[str]:
    """Return the calls that make several rows of one."""
    from sqlglot import exp

    found = []
    for each in selects:
        for call in each.find_all(exp.Func):
            name = (call.name if isinstance(call, exp.Anonymous) else call.sql_name()).lower()
            if isinstance(call, (exp.UDTF, exp.Explode)) or name.split("_outer")[0] in _ROUTINES:
                found.append(canonicalize_tree(call))
    return sorted(found)


def _shows_all(expression: Any) -> bool:
    from sqlglot import exp

    return isinstance(expression, exp.Star) or (
        isinstance(expression, exp.Column) and isinstance(expression.this, exp.Star)
    )


def _has_same_type(before: Any, after: Any) -> bool:
    """Return True if two expressions certainly have the same type."""
    from sqlglot import exp

    before, after = before.unnest(), after.unnest()
    if _is_same(before, after):
        return True
    one, other = _find_type(before), _find_type(after)
    if one is not None and one == other:
        return True
    if isinstance(before, exp.Window) and isinstance(after, exp.Window):
        return _has_same_type(before.this, after.this)
    if isinstance(before, exp.Literal) and isinstance(after, exp.Literal):
        # Numbers of as many digits have one type, also as decimals.
        digits = [re.sub(r"\d", "9", each.name) for each in (before, after)]
        return not before.is_string and not after.is_string and digits[0] == digits[1]
    if type(before) is not type(after) or not isinstance(before, _list_transparent()):
        return False
    return _have_same_parts(before, after)


def _list_transparent() -> tuple[type, ...]:
    """Return the expressions whose type depends on nothing but the types of their parts."""
    from sqlglot import exp

    return (
        exp.Sum, exp.Avg, exp.Min, exp.Max, exp.Coalesce, exp.Case, exp.If, exp.Add, exp.Sub,
        exp.Mul, exp.Div, exp.Neg, exp.Alias, exp.Filter,
    )  # fmt: skip


def _have_same_parts(before: Any, after: Any) -> bool:
    from sqlglot import exp

    for name in _list_args(before, after):
        is_condition = (isinstance(before, exp.If) and name == "this") or (
            isinstance(before, exp.Filter) and name == "expression"
        )
        if is_condition:
            continue  # its type is boolean
        one, other = before.args.get(name), after.args.get(name)
        ones, others = (each if isinstance(each, list) else [each] for each in (one, other))
        if len(ones) != len(others):
            return False
        for part, counterpart in zip(ones, others, strict=True):
            if isinstance(part, exp.Expression) and isinstance(counterpart, exp.Expression):
                if not _has_same_type(part, counterpart):
                    return False
            elif part != counterpart:
                return False
    return True


def _find_type(expression: Any) -> str | None:
    """Return the type of an expression in Spark, if it follows from the expression alone."""
    from sqlglot import exp

    expression = expression.unnest()
    if isinstance(expression, (exp.Cast, exp.TryCast)):
        return str(expression.args["to"].sql(dialect="spark")).upper()
    if isinstance(expression, (exp.Predicate, exp.Connector, exp.Not, exp.Boolean)):
        return "BOOLEAN"
    for types, name in (
        ((exp.Count, exp.CountIf, exp.ApproxDistinct), "BIGINT"),
        ((exp.Lower, exp.Upper, exp.Initcap, exp.RegexpReplace, exp.TimeToStr), "STRING"),
        ((exp.Length, exp.Year, exp.Month, exp.Day, exp.RowNumber, exp.Rank), "INT"),
    ):
        if isinstance(expression, types):
            return name
    return None


def _is_same(before: Any, after: Any) -> bool:
    if before is None or after is None:
        return before is after
    return canonicalize_tree(before) == canonicalize_tree(after)


def _list_args(before: Any, after: Any) -> set[str]:
    return {*before.args, *after.args}


def _is_same_arg(before: Any, after: Any, name: str) -> bool:
    """Return True if two nodes have the same argument; absent, False and [] are the same."""
    values = []
    for node in (before, after):
        value = node.args.get(name) or None
        parts = value if isinstance(value, list) else [value]
        texts = [canonicalize_tree(part) if hasattr(part, "args") else repr(part) for part in parts]
        values.append(texts)
    return bool(values[0] == values[1])


def _list_named(what: str, names: list[str]) -> str:
    return f"{what}{'s' if len(names) > 1 else ''} {', '.join(names)}"
