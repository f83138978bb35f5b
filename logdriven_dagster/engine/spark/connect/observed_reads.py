"""Rows that the sources of a query deliver, counted on their way by an `observe` on each.

So it is on a server that tells nobody the plans of its queries. What a query's WHERE demands of one
table is moved below its `observe`: Spark would not do it, and would read all of its rows.
"""

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from logdriven_dagster.config.sql.own_filters import TableUse, reads_whole, table_uses
from logdriven_dagster.config.sql.references import UnreadableSqlError
from logdriven_dagster.engine.spark.connect.internals import plan
from logdriven_dagster.engine.spark.connect.queries import query_over

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation, SparkSession

Metric = Callable[["DataFrame"], "Column"]
"""What to count of a frame: an aggregate with a name."""

_OF_THE_CLIENT = ("local_relation", "cached_local_relation", "chunked_cached_local_relation")
"""Relations whose rows come from this process, and from no source."""
_STOP_EARLY = ("limit", "tail")


class ObservedReads:
    """The frames of a pass that are counted, and what was counted of them."""

    def __init__(self, spark: "SparkSession") -> None:
        self._spark = spark
        self._bare: dict[int, tuple[DataFrame, DataFrame, Metric]] = {}
        """Identity of a counted frame → the frame itself, so that it stays; what it counts; how."""
        self._observations: dict[str, Observation] = {}

    def see(
        self,
        frame: "DataFrame",
        metric: Metric,
        index: "Callable[[DataFrame], Column] | None",
    ) -> "DataFrame":
        """Return the frame, counted by whatever query reads it."""
        _ = index
        observed = self._observed(frame, metric)
        self._bare[id(observed)] = observed, frame, metric
        return observed

    def narrowed(
        self, sql: str, values: Mapping[str, Any], frames: "Mapping[str, DataFrame]"
    ) -> "tuple[str, Mapping[str, DataFrame]]":
        """Return the query over frames that count what its WHERE demands of them alone."""
        counted = [name for name, frame in frames.items() if id(frame) in self._bare]
        try:
            uses = table_uses(sql, counted, lambda name: frames[name].columns)
        except UnreadableSqlError:
            return sql, frames
        places = {use: f"read_{uuid.uuid4().hex}" for use in uses}
        own = {name: self._narrow(use, values, frames) for use, name in places.items()}
        for use, name in sorted(places.items(), key=lambda each: each[0].start, reverse=True):
            alias = "" if use.has_alias else f" AS `{use.alias}`"
            sql = f"{sql[: use.start]}`{name}`{alias}{sql[use.end :]}"
        return sql, {**frames, **own}

    def found(
        self, frame: "DataFrame", written: Sequence[int | None]
    ) -> list[Mapping[str, Any]] | None:
        """What was counted of each source of a frame that a query has written; None if not of all.

        Nobody tells what Spark never had to read from what a server has not told in time.
        """
        _ = written
        client: Any = self._spark.client
        if not self._is_counted(plan(frame).to_proto(client).root):
            return None
        named = plan(frame).observations
        counts = self._observations.items()
        found: list[Mapping[str, Any]] = [each.get for name, each in counts if name in named]
        return found if all(found) else None

    def _observed(self, frame: "DataFrame", metric: Metric) -> "DataFrame":
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
        return self._observed(bare, metric)

    def _is_counted(self, relation: Any) -> bool:
        """Whether everything below a relation that delivers rows of a source is counted by us."""
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
    """Whether Spark may read what is below more than once: for a sample, or for each of others."""
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
