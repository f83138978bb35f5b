"""Row counts of a query's sources, collected by an `observe` on each source.

They serve servers that do not report query plans. The conditions of a query's WHERE on one table
are moved below its `observe`: Spark would not do that, and would read all of its rows.
"""

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from logdriven_dagster.config.sql.own_filters import TableUse, find_table_uses, reads_whole
from logdriven_dagster.config.sql.references import UnreadableSqlError
from logdriven_dagster.engine.spark.connect.internals import plan
from logdriven_dagster.engine.spark.connect.queries import query_over

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation, SparkSession

Metric = Callable[["DataFrame"], "Column"]
"""Named aggregate that counts the rows of a frame."""

_OF_THE_CLIENT = ("local_relation", "cached_local_relation", "chunked_cached_local_relation")
"""Relations whose rows come from this process, not from a source."""
_STOP_EARLY = ("limit", "tail")


class ObservedReads:
    """The counted frames of a pass, and their observed counts."""

    def __init__(self, spark: "SparkSession") -> None:
        self._spark = spark
        self._bare: dict[int, tuple[DataFrame, DataFrame, Metric]] = {}
        """Id of a counted frame → the frame (kept alive), its uncounted original and the metric."""
        self._observations: dict[str, Observation] = {}

    def see(
        self,
        frame: "DataFrame",
        metric: Metric,
        index: "Callable[[DataFrame], Column] | None",
    ) -> "DataFrame":
        """Return the frame with a counter, which counts the rows that any query reads from it."""
        _ = index
        observed = self._observe(frame, metric)
        self._bare[id(observed)] = observed, frame, metric
        return observed

    def push_filters(
        self, sql: str, values: Mapping[str, Any], frames: "Mapping[str, DataFrame]"
    ) -> "tuple[str, Mapping[str, DataFrame]]":
        """Return the query and its frames, changed so that its WHERE applies before the counts."""
        counted = [name for name, frame in frames.items() if id(frame) in self._bare]
        try:
            uses = find_table_uses(sql, counted, lambda name: frames[name].columns)
        except UnreadableSqlError:
            return sql, frames
        places = {use: f"read_{uuid.uuid4().hex}" for use in uses}
        own = {name: self._narrow(use, values, frames) for use, name in places.items()}
        for use, name in sorted(places.items(), key=lambda each: each[0].start, reverse=True):
            alias = "" if use.has_alias else f" AS `{use.alias}`"
            sql = f"{sql[: use.start]}`{name}`{alias}{sql[use.end :]}"
        return sql, {**frames, **own}

    def read_counts(
        self, frame: "DataFrame", written: Sequence[int | None]
    ) -> list[Mapping[str, Any]] | None:
        """Return the counts of each source of a written frame; None if any is missing.

        A source that Spark never had to read cannot be distinguished from a late answer of the
        server.
        """
        _ = written
        client: Any = self._spark.client
        if not self._is_counted(plan(frame).to_proto(client).root):
            return None
        named = plan(frame).observations
        counts = self._observations.items()
        found: list[Mapping[str, Any]] = [each.get for name, each in counts if name in named]
        return found if all(found) else None

    def _observe(self, frame: "DataFrame", metric: Metric) -> "DataFrame":
        from pyspark.sql import Observation

        name = f"read-{uuid.uuid4().hex}"
        self._observations[name] = Observation(name)
        return frame.observe(self._observations[name], metric(frame))

    def _narrow(
        self, use: TableUse, values: Mapping[str, Any], frames: "Mapping[str, DataFrame]"
    ) -> "DataFrame":
        _, bare, metric = self._bare[id(frames[use.table])]
        if use.condition:
            name = f"bare_{uuid.uuid4().hex}"
            sql = f"SELECT * FROM `{name}` AS `{use.alias}` WHERE {use.condition}"  # noqa: S608 - the user's SQL
            bare = query_over(self._spark, sql, values, {name: bare})
        return self._observe(bare, metric)

    def _is_counted(self, relation: Any) -> bool:
        """Return whether all relations below that deliver a source's rows have a counter."""
        kind = relation.WhichOneof("rel_type")
        inside = getattr(relation, kind)
        if kind == "collect_metrics" and inside.name in self._observations:
            return True
        if kind == "with_relations":
            names = [each.subquery_alias.alias for each in inside.references]
            text = inside.root.sql.query
            whole = bool(text) and reads_whole(text, names)
            return whole and all(map(self._is_counted, inside.references))
        if kind == "sql":
            return reads_whole(inside.query, ())
        below = _below(inside)
        if not below or kind in _STOP_EARLY or _reads_again(kind, inside):
            return kind in _OF_THE_CLIENT
        return all(map(self._is_counted, below))


def _reads_again(kind: str, inside: Any) -> bool:
    """Return whether Spark may read the input repeatedly: for a sample or a nested loop join."""
    if kind == "sort":
        return bool(inside.is_global)
    if kind == "repartition_by_expression":
        return any(each.HasField("sort_order") for each in inside.partition_exprs)
    return kind == "join" and not (inside.HasField("join_condition") or inside.using_columns)


def _below(message: Any) -> list[Any]:
    """Return the relations that a relation reads."""
    found = []
    for field, value in message.ListFields():
        if field.message_type is not None and field.message_type.name == "Relation":
            found += [value] if hasattr(value, "WhichOneof") else list(value)
    return found
