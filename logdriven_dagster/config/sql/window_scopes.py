"""Analysis of a single SELECT: the windows of its input, and whether it keeps them apart.

`window_keys` decomposes queries into these scopes.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

START, END = "data_range_start", "data_range_end"


class TogetherError(Exception):
    """The reason why windows cannot run together as a batch."""


@dataclass(frozen=True, slots=True)
class NamedRows:
    """The rows that a name in a query refers to."""

    keys: frozenset[str] | None = None
    """Lower-case keys of rows of one window; None for rows that all windows share."""
    must_name: frozenset[str] = frozenset()
    """Columns by which a query must select its rows, if the relation has rows of other windows."""
    refused: str = ""
    """Reason why no query that reads it can run for several windows."""

    @property
    def is_apart(self) -> bool:
        return self.keys is not None


SHARED = NamedRows()


class Analysis(Protocol):
    """Analysis of the enclosing query: `window_keys.KeyAnalysis`."""

    @property
    def reads(self) -> Counter[str]:
        """Number of times that queries name each relation."""

    def query(self, node: Any, known: Mapping[str, NamedRows]) -> NamedRows:
        """Analyse a nested query. Raises TogetherError if it mixes windows."""

    def chosen(self, number: int) -> None:
        """Record that `number` uses of the bounds only select the rows of the window."""

    def truncates(self, unit: str) -> bool:
        """Return True if a time truncated to this unit stays in its window."""


class Scope:
    """The analysis of one SELECT: its inputs and their joins."""

    def __init__(self, analysis: Analysis, node: Any, known: Mapping[str, NamedRows]) -> None:
        self._analysis, self._node, self._known = analysis, node, known
        self.keys: dict[str, frozenset[str]] = {}
        """Keys by alias, for inputs that are read window by window."""

    def join(self) -> None:
        """Analyse FROM, JOIN and WHERE. Raises TogetherError if rows of windows may mix."""
        from sqlglot import exp

        node = self._node
        start = node.args.get("from_") or node.args.get("from")
        first = [start.this] if start else []
        read = [(each, None) for each in first]
        read += [(each.this, each) for each in node.args.get("joins") or ()]
        relations = {}
        for item, _ in read:
            if isinstance(item, (exp.Table, exp.Subquery)):
                relations[item.alias_or_name.lower()] = self._analyze_relation(item)
        where = node.args.get("where")
        chosen = self._find_restricted_columns(where.this if where else None, relations)
        for item, join in read:
            alias = item.alias_or_name.lower()
            relation = relations.get(alias, SHARED)
            if alias in chosen and not relation.is_apart:
                relation = NamedRows(frozenset({chosen[alias]}))
            elif relation.must_name:
                column = f"{alias}.{min(relation.must_name)}"
                raise TogetherError(
                    f"a batch would mix in other windows' rows of {_format_name(item)}; restrict "
                    f"them with `{column} >= :{START} AND {column} < :{END}`"
                )
            self._add(alias, relation, join)

    def _analyze_relation(self, item: Any) -> NamedRows:
        from sqlglot import exp

        if isinstance(item, exp.Subquery):
            return self._analysis.query(item, self._known)
        name = ".".join(part.name for part in item.parts).lower()
        relation = self._known.get(name, SHARED)
        self._analysis.reads[name] += 1
        if relation.refused:
            raise TogetherError(relation.refused)
        return relation

    def _add(self, alias: str, relation: NamedRows, join: Any) -> None:
        side = f"{join.side} {join.kind}".upper() if join is not None else ""
        if not relation.is_apart:
            if self.keys and ("RIGHT" in side or "FULL" in side):
                raise TogetherError(
                    f"the {side.strip()} JOIN keeps rows of {alias} that do not belong to any "
                    "window"
                )
            return
        if join is not None and not self.keys:
            outer = [word for word in ("LEFT", "FULL", "SEMI", "ANTI") if word in side]
            if outer:
                raise TogetherError(f"the {side.strip()} JOIN keeps rows that all windows share")
        elif join is not None and (
            "RIGHT" in side or "FULL" in side or not self._is_within_windows(alias, relation, join)
        ):
            problem = f"rows of {alias} could be joined with rows of other windows"
            raise TogetherError(
                f"{problem}; add the column that identifies the window to the join condition"
            )
        if relation.keys and not ("LEFT" in side and self.keys):
            self.keys[alias] = relation.keys
        elif not self.keys:
            self.keys[alias] = frozenset()

    def _is_within_windows(self, alias: str, relation: NamedRows, join: Any) -> bool:
        """Return True if the join matches rows only within a window."""
        from sqlglot import exp

        new = relation.keys or frozenset()
        for name in join.args.get("using") or ():
            if name.name.lower() in new and any(name.name.lower() in k for k in self.keys.values()):
                return True
        for each in _list_conjuncts(join.args.get("on")):
            if isinstance(each, exp.EQ):
                pairs = ((each.left, each.right), (each.right, each.left))
                for one, other in pairs:
                    mine = self._is_key(one, {alias: new}, strict=True)
                    if mine and self._is_key(other, self.keys, strict=True):
                        return True
        return False

    def _find_restricted_columns(
        self, where: Any, relations: Mapping[str, NamedRows]
    ) -> dict[str, str]:
        """Return the column by which the query itself restricts each alias to the window."""
        from sqlglot import exp

        lows: dict[tuple[str, str], int] = {}
        highs: dict[tuple[str, str], int] = {}
        for each in _list_conjuncts(where):
            if isinstance(each, exp.GTE):
                self._note_bound(lows, each.left, each.right, START, relations)
            elif isinstance(each, exp.LTE):
                self._note_bound(lows, each.right, each.left, START, relations)
            elif isinstance(each, exp.LT):
                self._note_bound(highs, each.left, each.right, END, relations)
            elif isinstance(each, exp.GT):
                self._note_bound(highs, each.right, each.left, END, relations)
        found = {}
        for (alias, name), number in lows.items():
            if (alias, name) not in highs:
                continue
            relation = relations[alias]
            if relation.keys is not None and name not in relation.keys:
                continue
            if relation.must_name and name not in relation.must_name:
                continue
            found[alias] = name
            self._analysis.chosen(number + highs[alias, name])
        return found

    def _note_bound(
        self,
        into: dict[tuple[str, str], int],
        value: Any,
        bound: Any,
        name: str,
        relations: Mapping[str, NamedRows],
    ) -> None:
        from sqlglot import exp

        column, bound = self._unwrap(value), self._unwrap(bound)
        if not isinstance(column, exp.Column) or not isinstance(bound, exp.Placeholder):
            return
        if bound.name.lower() != name:
            return
        alias = column.table.lower() or (next(iter(relations)) if len(relations) == 1 else "")
        if alias in relations:
            place = (alias, column.name.lower())
            into[place] = into.get(place, 0) + 1

    def refuse_subqueries(self) -> None:
        """Raise TogetherError if a subquery within an expression reads window by window."""
        from sqlglot import exp

        for part in self._list_expressions():
            for inner in part.find_all(exp.Subquery, exp.Exists, exp.In):
                query = inner if isinstance(inner, exp.Subquery) else inner.args.get("query")
                query = inner.this if isinstance(inner, exp.Exists) else query
                if query is not None and self._analysis.query(query, self._known).is_apart:
                    raise TogetherError("a query within an expression reads rows of all windows")

    def refuse_mixing(self) -> None:
        """Raise TogetherError if the SELECT aggregates or compares rows of several windows."""
        from sqlglot import exp

        node = self._node
        group = node.args.get("group")
        if group is not None:
            self._refuse_group(group)
        elif any(
            self._has_aggregates(each) for each in [*node.expressions, node.args.get("having")]
        ):
            raise TogetherError("it aggregates rows of all windows")
        if node.args.get("distinct") and not self.result_keys():
            raise TogetherError("DISTINCT compares rows of all windows")
        for part in self._list_expressions():
            for window in part.find_all(exp.Window):
                if not any(self._is_key(each) for each in window.args.get("partition_by") or ()):
                    raise TogetherError("a window function reads rows of all windows")

    def _refuse_group(self, group: Any) -> None:
        from sqlglot import exp

        if next(group.find_all(exp.Rollup, exp.Cube, exp.GroupingSets), None) is not None:
            raise TogetherError("GROUP BY makes sums over all windows")
        projections = self._node.expressions
        named = {each.alias_or_name.lower(): each.unalias() for each in projections}
        keyed = group.args.get("all") and any(self._is_key(e.unalias()) for e in projections)
        for each in group.expressions:
            place = int(each.name) - 1 if each.is_int else -1
            by = projections[place].unalias() if 0 <= place < len(projections) else each
            keyed = keyed or self._is_key(by) or self._is_key(named.get(each.name.lower()))
        if not keyed:
            keys = self._format_keys()
            raise TogetherError(
                f"GROUP BY must name a column that identifies the window of a row ({keys})"
            )

    def _has_aggregates(self, part: Any) -> bool:
        from sqlglot import exp

        if part is None:
            return False
        found = part.find_all(exp.AggFunc)
        return any(each.find_ancestor(exp.Window, exp.Select) is self._node for each in found)

    def result_keys(self) -> set[str]:
        """Return the keys among the columns of the result."""
        from sqlglot import exp

        found: set[str] = set()
        for each in self._node.expressions:
            inner = each.unalias()
            star = inner.this if isinstance(inner, exp.Column) else inner
            if isinstance(star, exp.Star):
                alias = inner.table.lower() if isinstance(inner, exp.Column) else ""
                dropped = star.args.get("except_") or star.args.get("except") or ()
                replaced = star.args.get("replace") or ()
                gone = {item.alias_or_name.lower() for item in [*dropped, *replaced]}
                taken = [self.keys.get(alias, frozenset())] if alias else self.keys.values()
                found |= {name for keys in taken for name in keys} - gone
            elif self._is_key(inner):
                found.add(each.alias_or_name.lower())
        return found

    def _is_key(
        self, value: Any, keys: Mapping[str, frozenset[str]] | None = None, *, strict: bool = False
    ) -> bool:
        """Return True if an expression's value lies in the window of its row."""
        from sqlglot import exp

        keys = self.keys if keys is None else keys
        value = self._unwrap(value)
        if not isinstance(value, exp.Column):
            return False
        alias, name = value.table.lower(), value.name.lower()
        if not alias:
            return not strict and any(name in each for each in keys.values())
        return name in keys.get(alias, frozenset())

    def _unwrap(self, value: Any) -> Any:
        """Unwrap casts and truncations that keep a timestamp within its window."""
        from sqlglot import exp

        while value is not None:
            if isinstance(value, exp.Paren) or (
                isinstance(value, exp.Cast) and value.is_type("timestamp", "timestamptz")
            ):
                value = value.this
                continue
            to_date = isinstance(value, (exp.TsOrDsToDate, exp.Date)) or (
                isinstance(value, exp.Cast) and value.is_type("date")
            )
            cut = isinstance(value, (exp.TimestampTrunc, exp.DateTrunc))
            unit = "DAY" if to_date else str(value.args.get("unit") or "").strip("'").upper()
            changes = [value.args.get(name) for name in ("format", "zone", "expressions")]
            if not (to_date or cut) or any(changes) or not self._analysis.truncates(unit):
                return value
            value = value.this
        return value

    def _list_expressions(self) -> Iterator[Any]:
        node = self._node
        yield from node.expressions
        for name in ("where", "having", "qualify", "group", "order"):
            if part := node.args.get(name):
                yield part
        yield from (join.args["on"] for join in node.args.get("joins") or () if join.args.get("on"))

    def _format_keys(self) -> str:
        names = sorted(set().union(*self.keys.values()))
        return ", ".join(names) or "no column of its input does"


def _format_name(item: Any) -> str:
    """Return the name of a table as the query writes it; for a subquery its alias."""
    from sqlglot import exp

    if isinstance(item, exp.Table):
        return ".".join(part.name for part in item.parts)
    return str(item.alias_or_name)


def _list_conjuncts(condition: Any) -> Iterator[Any]:
    from sqlglot import exp

    if isinstance(condition, exp.And):
        yield from _list_conjuncts(condition.left)
        yield from _list_conjuncts(condition.right)
    elif isinstance(condition, exp.Paren):
        yield from _list_conjuncts(condition.this)
    elif condition is not None:
        yield condition
