"""Row counts of a finished query, from the metrics that Spark kept while it ran.

No row is read a second time. The numbers come from Spark's SQL status store, which a classic
session has and which needs no user interface.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROWS = "number of output rows"
_TRANSPARENT = ("Project", "ColumnarToRow", "AQEShuffleRead", "InputAdapter", "SubqueryAlias")
_STOPS_EARLY = ("CollectLimit", "LocalLimit", "GlobalLimit", "TakeOrderedAndProject")
_READS_ALL_FIRST = ("Exchange", "BroadcastExchange", "Sort", "HashAggregate", "ObjectHashAggregate")
_BUS_MILLISECONDS = 20_000

LOOKED_UP = "logdriven_looked_up"
"""The name of an `observe` over rows that are only compared with: their scans are no source."""


@dataclass(frozen=True, slots=True)
class QueryCounts:
    """Rows of one finished write; None where Spark kept no number."""

    source: int | None
    """Rows that the sources delivered, after the filters directly above them.

    A source that the query reads twice counts twice; one that Spark never had to read counts zero.
    None under a LIMIT, because the number of rows that were looked at is an accident then.
    """
    written: int | None
    """Rows that the writer wrote."""


def query_counts(spark: "SparkSession", description: str) -> QueryCounts:
    """The counts of the latest query that ran under this job description."""
    # Metrics reach the store through an asynchronous queue.
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(_BUS_MILLISECONDS)  # noqa: SLF001 - Spark's own metrics have no public door
    store = spark._jsparkSession.sharedState().statusStore()  # noqa: SLF001
    executions = _executions(store, description)
    if not executions:
        return QueryCounts(None, None)
    metrics = [store.executionMetrics(execution) for execution in executions]
    plan = _Plan(store.planGraph(executions[-1]), metrics)
    return QueryCounts(plan.source_rows(), plan.written_rows())


def _executions(store: Any, description: str) -> list[int]:
    """The executions under a description, in their order.

    A JDBC write is several executions over one plan: each counts only the stages that it ran.
    """
    found = store.executionsList()
    executions = map(found.apply, range(found.size()))
    return [int(e.executionId()) for e in executions if e.description() == description]


class _Plan:
    """A physical plan as a graph: node → its inputs, with the rows that each put out."""

    def __init__(self, graph: Any, values: list[Any]) -> None:
        self._names: dict[int, str] = {}
        self._rows: dict[int, int] = {}
        self._looked_up: set[int] = set()
        nodes = graph.allNodes()
        for position in range(nodes.size()):
            node = nodes.apply(position)
            self._names[node.id()] = node.name().strip()
            if LOOKED_UP in node.desc() and self._names[node.id()] == "CollectMetrics":
                self._looked_up.add(node.id())
            rows = _rows(node.metrics(), values)
            if rows is not None:
                self._rows[node.id()] = rows
        self._inputs: dict[int, list[int]] = {}
        edges = graph.edges()
        for position in range(edges.size()):
            edge = edges.apply(position)
            self._inputs.setdefault(edge.toId(), []).append(edge.fromId())

    def written_rows(self) -> int | None:
        """Rows of the node that executes the write command."""
        for node, name in self._names.items():
            if name.startswith("Execute "):
                return self._rows.get(node)
        return None

    def source_rows(self) -> int | None:
        """The sum over all scans."""
        fed = {source for inputs in self._inputs.values() for source in inputs}
        roots = [node for node in self._inputs if node not in fed]
        counted = [count for root in roots for count in self._scans(root)]
        if None in counted:
            return None
        return sum(count for count in counted if count is not None)

    def _scans(
        self, node: int, filtered: int | None = None, *, limited: bool = False
    ) -> list[int | None]:
        """The count of each scan below `node`; `filtered` is that of the filter just above."""
        name = self._names[node]
        if node in self._looked_up:
            return []
        if not self._inputs.get(node):
            return [None if limited else self._scanned(node, filtered)]
        if name == "Filter":
            filtered = self._rows.get(node) if filtered is None else filtered
        elif not name.startswith(_TRANSPARENT):
            filtered = None
        limited = (limited or name in _STOPS_EARLY) and name not in _READS_ALL_FIRST
        below = [self._scans(each, filtered, limited=limited) for each in self._inputs[node]]
        return [count for counts in below for count in counts]

    def _scanned(self, node: int, filtered: int | None) -> int | None:
        if filtered is not None:
            return filtered
        name = self._names[node]
        # Neither is a source: rows of the query's own text, and sources proven to be empty.
        if name.startswith(("LocalTableScan", "Scan OneRowRelation", "EmptyRelation")):
            return 0
        return self._rows.get(node)


def _rows(metrics: Any, values: list[Any]) -> int | None:
    for position in range(metrics.size()):
        metric = metrics.apply(position)
        if metric.name() == _ROWS:
            found = [each.get(metric.accumulatorId()) for each in values]
            counts = [int(value.get().replace(",", "")) for value in found if value.isDefined()]
            # A node that never ran has no value, and a scan of no partitions put out nothing.
            return max(counts, default=0)
    return None
