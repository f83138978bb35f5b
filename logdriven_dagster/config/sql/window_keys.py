"""Columns of a query's result that identify the window of a row, by sqlglot.

A query is decomposed into relations. A relation is *apart* if each of its rows comes from rows of a
single window; its keys are the columns whose values lie in that window. Such a query returns the
same rows for a batch of windows as for each window separately. `TogetherError` gives the reason why
a query mixes windows.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from logdriven_dagster.config.sql.references import UnreadableSqlError, parse_query
from logdriven_dagster.config.sql.window_scopes import (
    END,
    SHARED,
    START,
    NamedRows,
    Scope,
    TogetherError,
)
from logdriven_dagster.model.periods import Grid, Unit

OF_A_WINDOW = re.compile(
    r"\$\{(?:DATA_RANGE(?:_START|_END)?(?::[^}]*)?|JOB_ID|YEAR|MONTH|DAY|HOUR|MINUTE)\}"
)
_QUOTED_BOUND = re.compile(
    r"(?:\bTIMESTAMP\s*)?'\$\{(DATA_RANGE_START|DATA_RANGE_END)\}'", re.IGNORECASE
)
_WITHIN_DAYS = frozenset({"DAY", "HOUR", "MINUTE", "SECOND"})


@lru_cache(maxsize=1000)
def find_source_keys(sql: str, grid: Grid, column: str) -> frozenset[str]:
    """Return the result columns that lie in the window because `column` of `source` does.

    Values are timestamps and dates on the wall clock of the grid. Returns an empty set if this
    cannot be proven, as when the query reads other tables or contains a variable.
    """
    if "${" in _QUOTED_BOUND.sub("", sql):
        return frozenset()
    keys = KeyAnalysis(grid, {"source": NamedRows(frozenset({column.lower()}))})
    try:
        found = keys.analyze(sql).keys
    except (TogetherError, UnreadableSqlError):
        return frozenset()
    return found if found and set(keys.reads) == {"source"} else frozenset()


@dataclass
class KeyAnalysis:
    """Analysis of the queries of one table."""

    grid: Grid
    relations: Mapping[str, NamedRows]
    """Relations by lower-case name; any other name is shared by all windows."""
    multiplies: bool = field(default=False, init=False)
    """True if a query yields several rows for one, or reads rows that all windows share."""
    condenses: bool = field(default=False, init=False)
    """True if a query combines several rows into one."""
    reads: Counter[str] = field(default_factory=Counter, init=False)
    """Number of times that queries name each relation."""
    _bounds_left: int = 0

    def analyze(self, sql: str, dialect: str | None = "spark") -> NamedRows:
        """Analyse the result of a query. Raises TogetherError if it mixes windows."""
        text = _QUOTED_BOUND.sub(lambda match: ":" + match[1].lower(), sql)
        if found := OF_A_WINDOW.search(text):
            raise TogetherError(f"it uses {found[0]}")
        tree = parse_query(text, dialect)
        from sqlglot import exp

        named = [node.name.lower() for node in tree.find_all(exp.Placeholder, exp.Parameter)]
        if "job_id" in named:
            raise TogetherError("it uses :job_id")
        if next(tree.find_all(exp.TableSample, exp.Pivot), None) is not None:
            raise TogetherError("it samples or pivots")
        grows = (exp.Join, exp.Lateral, exp.Explode, exp.Unnest, exp.SetOperation)
        self.multiplies |= next(tree.find_all(*grows), None) is not None
        fewer = (exp.AggFunc, exp.Group, exp.Distinct)
        self.condenses |= next(tree.find_all(*fewer), None) is not None
        self._bounds_left = sum(name in (START, END) for name in named)
        before = self.reads.copy()
        relation = self.query(tree, self.relations)
        self._refuse_unread(tree, self.reads - before)
        if self._bounds_left:
            problem = f"it uses :{START} or :{END} not only to select the rows of its window"
            raise TogetherError(f"{problem}, as in `at >= :{START} AND at < :{END}`")
        return relation

    def _refuse_unread(self, tree: Any, read: Counter[str]) -> None:
        """Raise TogetherError if a query names rows of windows in a place that was not analysed."""
        from sqlglot import exp

        if any(each.name.upper() == "IDENTIFIER" for each in tree.find_all(exp.Anonymous)):
            raise TogetherError("IDENTIFIER hides which table it reads")
        tables = tree.find_all(exp.Table)
        named = Counter(".".join(part.name for part in each.parts).lower() for each in tables)
        for name, relation in self.relations.items():
            if relation != SHARED and named[name] > read[name]:
                raise TogetherError(f"it reads {name} in a place that cannot be analysed")

    def query(self, node: Any, known: Mapping[str, NamedRows]) -> NamedRows:
        """Analyse a part of a query, in which the additional names `known` are valid.

        Raises TogetherError if it mixes windows.
        """
        from sqlglot import exp

        common = node.args.get("with_") or node.args.get("with")
        for cte in common.expressions if common else ():
            known = {**known, cte.alias.lower(): self.query(cte.this, known)}
        if isinstance(node, exp.Subquery):
            self._refuse_limit(node, inner := self.query(node.this, known))
            return inner
        if isinstance(node, exp.SetOperation):
            return self._analyze_union(node, known)
        if isinstance(node, exp.Select):
            return self._analyze_select(node, known)
        if isinstance(node, exp.Table):
            raise TogetherError("a table in parentheses cannot be analysed; leave them out")
        return SHARED

    def _analyze_union(self, node: Any, known: Mapping[str, NamedRows]) -> NamedRows:
        sides = [self.query(each, known) for each in (node.left, node.right)]
        if not any(side.is_apart for side in sides):
            return SHARED
        if not all(side.is_apart for side in sides):
            raise TogetherError("it adds rows that all windows share to those of a window")
        left, right = (side.keys or frozenset() for side in sides)
        lists = [
            [each.alias_or_name.lower() for each in q.selects] for q in (node.left, node.right)
        ]
        keys = frozenset(a for a, b in zip(*lists, strict=False) if a in left and b in right)
        if node.args.get("distinct", True) and not keys:
            raise TogetherError("it compares rows of all windows, as DISTINCT does")
        relation = NamedRows(keys)
        self._refuse_limit(node, relation)
        return relation

    def _analyze_select(self, node: Any, known: Mapping[str, NamedRows]) -> NamedRows:
        scope = Scope(self, node, known)
        scope.join()
        scope.refuse_subqueries()
        if not scope.keys:
            return SHARED
        self._refuse_limit(node, NamedRows(frozenset()))
        scope.refuse_mixing()
        return NamedRows(frozenset(scope.result_keys()))

    @staticmethod
    def _refuse_limit(node: Any, relation: NamedRows) -> None:
        if relation.is_apart and (node.args.get("limit") or node.args.get("offset")):
            raise TogetherError("LIMIT counts rows of all windows")

    def chosen(self, number: int) -> None:
        """Record that `number` uses of the bounds only select the rows of the window."""
        self._bounds_left -= number

    def truncates(self, unit: str) -> bool:
        """Return True if a timestamp truncated to this unit stays in its window."""
        clock, period = self.grid.clock, self.grid.period
        if period.unit is Unit.MINUTE or clock.hour or clock.minute or clock.second:
            return False
        if unit in ("MONTH", "MON", "MM"):
            return period.unit is Unit.MONTH and clock.day == 1
        return unit in _WITHIN_DAYS
