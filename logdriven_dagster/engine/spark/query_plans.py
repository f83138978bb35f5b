"""The plan of a query that ran, as a graph of nodes with their row counts."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

ROWS = "number of output rows"
"""The metric that tells how many rows a node of a plan put out."""

_TRANSPARENT = ("Project", "ColumnarToRow", "AQEShuffleRead", "InputAdapter", "SubqueryAlias")
_STOPS_EARLY = ("CollectLimit", "LocalLimit", "GlobalLimit", "TakeOrderedAndProject")
_READS_ALL_FIRST = ("Exchange", "BroadcastExchange", "Sort", "HashAggregate", "ObjectHashAggregate")

LOOKED_UP = "logdriven_looked_up"
"""The name of an `observe` over rows that are only compared with: their scans are no source."""


def number(text: str) -> int:
    """Return a count as Spark's status store writes it."""
    return int(text.replace(",", ""))


def is_write(name: str) -> bool:
    """Whether a node of this name executes a write command."""
    return name.startswith("Execute ")


@dataclass(frozen=True, slots=True)
class PlanNode:
    """One node of a physical plan, with its row count."""

    id: int
    name: str
    description: str
    rows: int | None
    """What it put out, 0 if it never ran; None if it does not count."""


@dataclass(frozen=True)
class QueryPlan:
    """A physical plan that ran, as a graph."""

    nodes: Mapping[int, PlanNode]
    inputs: Mapping[int, list[int]]

    @classmethod
    def of(cls, nodes: Iterable[PlanNode], edges: Iterable[tuple[int, int]]) -> "QueryPlan":
        """Build a plan from nodes and edges; an edge leads from an input to its reader."""
        inputs: dict[int, list[int]] = {}
        for source, node in edges:
            inputs.setdefault(node, []).append(source)
        return cls({node.id: node for node in nodes}, inputs)

    def written_rows(self) -> int | None:
        """Return the row count of the node that executes the write command."""
        for node in self.nodes.values():
            if is_write(node.name):
                return node.rows
        return None

    def most_rows(self) -> int | None:
        """Return the rows of the node that put out the most; None if no node counts."""
        counted = [node.rows for node in self.nodes.values() if node.rows is not None]
        return max(counted, default=None)

    def source_rows(self) -> int | None:
        """Return the sum of the row counts of all scans."""
        fed = {source for inputs in self.inputs.values() for source in inputs}
        roots = [node for node in self.inputs if node not in fed]
        counted = [count for root in roots for count in self._scans(root)]
        if None in counted:
            return None
        return sum(count for count in counted if count is not None)

    def _scans(
        self, id_: int, filtered: int | None = None, *, limited: bool = False
    ) -> list[int | None]:
        """The count of each scan below a node; `filtered` is that of the filter just above."""
        node = self.nodes[id_]
        if node.name == "CollectMetrics" and LOOKED_UP in node.description:
            return []
        if not self.inputs.get(id_):
            return [None if limited else _scanned(node, filtered)]
        if node.name == "Filter":
            filtered = node.rows if filtered is None else filtered
        elif not node.name.startswith(_TRANSPARENT):
            filtered = None
        limited = (limited or node.name in _STOPS_EARLY) and node.name not in _READS_ALL_FIRST
        below = [self._scans(each, filtered, limited=limited) for each in self.inputs[id_]]
        return [count for counts in below for count in counts]


def _scanned(node: PlanNode, filtered: int | None) -> int | None:
    if filtered is not None:
        return filtered
    # Neither is a source: rows of the query's own text, and sources proven to be empty.
    if node.name.startswith(("LocalTableScan", "Scan OneRowRelation", "EmptyRelation")):
        return 0
    return node.rows
