"""Boolean columns that flag rows violating a rule."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from logdriven_dagster.config.models.quality import ROWS, QualityConfig, Rule
from logdriven_dagster.engine.quality.rules import CONDITIONS
from logdriven_dagster.engine.queries.quoting import quote_name
from logdriven_dagster.engine.queries.views import Views
from logdriven_dagster.engine.queries.window_index import WINDOW_INDEX
from logdriven_dagster.engine.spark import functions as sf
from logdriven_dagster.engine.spark.query_plans import LOOKED_UP

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


@dataclass(frozen=True)
class Flags:
    """The rules of a step as boolean columns of its rows."""

    quality: QualityConfig
    rules: tuple[Rule, ...]
    views: Views

    def add_flags(self, frame: "DataFrame") -> "DataFrame":
        """Return the rows with one boolean column per rule that can be evaluated in one pass.

        A duplicate violates no other rule: it is excluded before these are evaluated. Rows of
        different windows, identified by WINDOW_INDEX, are not compared with each other.
        """
        first: Column = sf.lit(True)  # noqa: FBT003 - a literal
        for n, rule in enumerate(self.rules):
            if rule.kind == "duplicates":
                frame = frame.withColumn(flag(n), self._is_duplicate(frame))
                first = ~sf.col(flag(n))
        conditions = {n: rule for n, rule in enumerate(self.rules) if rule.kind in CONDITIONS}
        columns = {
            flag(n): true_of(CONDITIONS[rule.kind](column(rule.column or ""), rule.parameters))
            & first
            for n, rule in conditions.items()
        }
        frame = self._with_sql(frame.withColumns(columns) if columns else frame, first)
        for n, rule in enumerate(self.rules):
            if rule.kind == "unique":
                frame = frame.withColumn(flag(n), _is_repeated(frame, rule.columns, first))
            if rule.kind == "references":
                frame = self._with_reference(frame, n, rule, first)
        return frame

    def _is_duplicate(self, frame: "DataFrame") -> "Column":
        """Return whether a newer row has this row's id, which has no NULL."""
        from pyspark.sql import Window

        order = [
            column(name).desc_nulls_last() if newest_first else column(name).asc_nulls_last()
            for name, newest_first in self.quality.order
        ]
        # Among equally new rows the same one is always kept, independent of their order and of the
        # windows in the same pass.
        types = {name: kind for name, kind in frame.dtypes if name != WINDOW_INDEX}
        plain = [column(name) for name, kind in types.items() if "map<" not in kind]
        key = [column(name) for name in self.quality.id]
        same = Window.partitionBy(*key, *windows_of(frame))
        number = sf.row_number().over(same.orderBy(*order, sf.xxhash64(*plain)))
        return reduce(and_, [value.isNotNull() for value in key]) & (number > 1)

    def _with_sql(self, frame: "DataFrame", first: "Column") -> "DataFrame":
        conditions = {
            flag(n): f"NOT coalesce(({rule.text}\n), true)"
            if rule.kind == "sql"
            else f"coalesce(({rule.text}\n), false)"
            for n, rule in enumerate(self.rules)
            if rule.kind in ("sql", "fails_when")
        }
        if not conditions:
            return frame
        self.views.register(ROWS, frame)
        wanted = ", ".join(f"{text} AS `{name}`" for name, text in conditions.items())
        frame = self.views.query(f"SELECT *, {wanted} FROM `{ROWS}`")  # noqa: S608 - the user's SQL
        return frame.withColumns({name: column(name) & first for name in conditions})

    def _with_reference(
        self, frame: "DataFrame", n: int, rule: Rule, first: "Column"
    ) -> "DataFrame":
        assert rule.column is not None
        table, found, key = rule.parameters["table"], f"{flag(n)}_found", f"{flag(n)}_key"
        theirs = column(rule.parameters.get("column", rule.column)).alias(key)
        keys = self.views.table(table).select(theirs).distinct()
        keys = keys.observe(LOOKED_UP, sf.count(sf.lit(1))).withColumn(found, sf.lit(1))
        joined = frame.join(keys, column(rule.column) == column(key), "left")
        missing = column(rule.column).isNotNull() & column(found).isNull()
        return joined.withColumn(flag(n), missing & first).drop(key, found)


def _is_repeated(frame: "DataFrame", columns: Sequence[str], first: "Column") -> "Column":
    """Return whether several rows that are not duplicates have these values, none of them NULL."""
    from pyspark.sql import Window

    values = [column(name) for name in columns]
    number = sf.count_if(first).over(Window.partitionBy(*values, *windows_of(frame)))
    return reduce(and_, [value.isNotNull() for value in values]) & (number > 1) & first


def windows_of(frame: "DataFrame") -> list[str]:
    """Return the column that identifies the windows of rows; none for rows of a single window."""
    return [WINDOW_INDEX] if WINDOW_INDEX in frame.columns else []


def flag(n: int) -> str:
    """Return the name of the column for the rule with this number."""
    return f"__rule_{n}"


def column(name: str) -> "Column":
    """Return a column by its name, with any characters."""
    return sf.col(quote_name(name))


def true_of(condition: "Column") -> "Column":
    """Return the condition with unknown (NULL) as false."""
    return sf.coalesce(condition, sf.lit(False))  # noqa: FBT003 - a literal
