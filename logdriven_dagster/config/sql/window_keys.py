"""Which columns of a query's result say to which window a row belongs. Offline, by sqlglot.

A query is taken apart into relations. One is *apart* if each of its rows comes from rows of one
window alone, and its keys are the columns whose values lie in that window. Such queries give the
same rows for many windows in one pass as for each of them in turn. `TogetherError` says what in a
query mixes windows.
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

OF_A_WINDOW = re.compile(r"\$\{(?:DATA_RANGE_(?:START|END)|JOB_ID|YEAR|MONTH|DAY|HOUR|MINUTE)\}")
_QUOTED_BOUND = re.compile(
    r"(?:\bTIMESTAMP\s*)?'\$\{(DATA_RANGE_START|DATA_RANGE_END)\}'", re.IGNORECASE
)
_WITHIN_DAYS = frozenset({"DAY", "HOUR", "MINUTE", "SECOND"})


@lru_cache(maxsize=1000)
def keys_of_source(sql: str, grid: Grid, column: str) -> frozenset[str]:
    """The columns of a query's result that lie in the window because this one of `source` does.

    Moments and days are meant, by the wall clock of the grid. None where that is not plain to see,
    as where the query reads anything else, or a variable may be any part of it.
    """
    if "${" in _QUOTED_BOUND.sub("", sql):
        return frozenset()
    keys = KeyAnalysis(grid, {"source": NamedRows(frozenset({column.lower()}))})
    try:
        found = keys.of(sql).keys
    except (TogetherError, UnreadableSqlError):
        return frozenset()
    return found if found and set(keys.reads) == {"source"} else frozenset()


@dataclass
class KeyAnalysis:
    """Analyses the queries of one table."""

    grid: Grid
    relations: Mapping[str, NamedRows]
    """Names in small letters → what they stand for; any other name is shared."""
    multiplies: bool = field(default=False, init=False)
    """Whether a query makes several rows of one, or reads rows that all windows share."""
    condenses: bool = field(default=False, init=False)
    """Whether a query makes one row of several."""
    reads: Counter[str] = field(default_factory=Counter, init=False)
    """How often queries name what they read."""
    _bounds_left: int = 0

    def of(self, sql: str, dialect: str | None = "spark") -> NamedRows:
        """What the result of a query is; TogetherError where windows mix."""
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
        relation = self.query(tree, self.relations)
        if self._bounds_left:
            problem = f"it uses :{START} or :{END} for more than to choose the rows of its window"
            raise TogetherError(f"{problem}, as in `at >= :{START} AND at < :{END}`")
        return relation

    def query(self, node: Any, known: Mapping[str, NamedRows]) -> NamedRows:
        """What the result of a part of a query is, in which more names are known."""
        from sqlglot import exp

        common = node.args.get("with_") or node.args.get("with")
        for cte in common.expressions if common else ():
            known = {**known, cte.alias.lower(): self.query(cte.this, known)}
        if isinstance(node, exp.Subquery):
            self._refuse_limit(node, inner := self.query(node.this, known))
            return inner
        if isinstance(node, exp.SetOperation):
            return self._union(node, known)
        if isinstance(node, exp.Select):
            return self._select(node, known)
        return SHARED

    def _union(self, node: Any, known: Mapping[str, NamedRows]) -> NamedRows:
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

    def _select(self, node: Any, known: Mapping[str, NamedRows]) -> NamedRows:
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
        """Note that so many uses of the bounds only choose the rows of the window."""
        self._bounds_left -= number

    def truncates(self, unit: str) -> bool:
        """Whether a moment cut off to this unit stays in its window."""
        clock, period = self.grid.clock, self.grid.period
        if period.unit is Unit.MINUTE or clock.hour or clock.minute or clock.second:
            return False
        if unit in ("MONTH", "MON", "MM"):
            return period.unit is Unit.MONTH and clock.day == 1
        return unit in _WITHIN_DAYS
