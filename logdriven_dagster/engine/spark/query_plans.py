"""The plan of a query that ran, as a graph of nodes with their row counts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

ROWS = "number of output rows"
"""The metric that tells how many rows a node of a plan put out."""

_TRANSPARENT = ("Project", "ColumnarToRow", "AQEShuffleRead", "InputAdapter", "SubqueryAlias")
_EXCHANGES = ("Exchange", "BroadcastExchange", "ReusedExchange")
SAMPLED = "rangepartitioning"
"""What Spark divides by ranges, to sort it, it reads once more before, for a sample."""
_UNKNOWN = (
    "CollectLimit",
    "LocalLimit",
    "GlobalLimit",
    "TakeOrderedAndProject",
    "CartesianProduct",
)
"""Nodes that end the reading early, or read each part of one side for each part of the other."""
_READS_ALL_FIRST = ("Exchange", "BroadcastExchange", "Sort", "HashAggregate", "ObjectHashAggregate")

LOOKED_UP = "logdriven_looked_up"
"""The name of an `observe` over rows that are only compared with: their scans are no source."""


SURVIVING = "logdriven_surviving"
"""The beginning of the name of a column by which rows of a source leave out others that its files
still hold: what is left is what was read."""


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


@dataclass(frozen=True, slots=True)
class StageRun:
    """One run of a stage of a query, which is a job's part between two exchanges."""

    rdds: frozenset[int]
    """What it computed, by Spark's numbers."""
    tasks: int
    done: int
    """How many of its tasks have ended well."""
    records: int
    """What its tasks read of sources, before any filter."""

    @classmethod
    def of(cls, stage: Mapping[str, Any]) -> "StageRun":
        """Build a run from the JSON of Spark's status pages."""
        counts = (int(stage[key]) for key in ("numTasks", "numCompleteTasks", "inputRecords"))
        return cls(frozenset(stage["rddIds"]), *counts)


def times_run(runs: Sequence[StageRun]) -> int | None:
    """Return how often those stages ran that did so more than once, each time as a whole.

    None where some ran in part only, for what an executor took with it, or not equally often.
    """
    left, times = [run for run in runs if run.done], {1}
    while left:
        first = left.pop()
        again = [run for run in left if run.rdds & first.rdds]
        if again:
            if {replace(run, rdds=first.rdds) for run in again} | {first} != {first}:
                return None
            times.add(1 + len(again))
            left = [run for run in left if run not in again]
    return max(times) if len(times) <= 2 else None


@dataclass(frozen=True)
class QueryPlan:
    """A physical plan that ran, as a graph."""

    nodes: Mapping[int, PlanNode]
    inputs: Mapping[int, list[int]]
    runs: Sequence[StageRun] = ()
    """The runs of its stages, if somebody asked for them; see `is_sampled`."""

    @classmethod
    def of(cls, nodes: Iterable[PlanNode], edges: Iterable[tuple[int, int]]) -> "QueryPlan":
        """Build a plan from nodes and edges; an edge leads from an input to its reader."""
        inputs: dict[int, list[int]] = {}
        for source, node in edges:
            inputs.setdefault(node, []).append(source)
        return cls({node.id: node for node in nodes}, inputs)

    @property
    def is_sampled(self) -> bool:
        """Whether Spark read something twice, so that only the runs of stages tell how many rows.

        On a cluster it also does so for an executor that was lost.
        """
        return any(SAMPLED in node.description for node in self.nodes.values())

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
        """Return the sum of the row counts of all scans; None where nobody knows it."""
        times = times_run(self.runs)
        if times is None or (times > 1 and not self.is_sampled):
            return None
        fed = {source for inputs in self.inputs.values() for source in inputs}
        roots = [node for node in self.inputs if node not in fed]
        counted = [count for root in roots for count in self._scans(root, sampled=times)]
        if None in counted:
            return None
        return sum(count for count in counted if count is not None)

    def _scans(
        self,
        id_: int,
        filtered: int | None = None,
        *,
        sampled: int,
        times: int = 1,
        limited: bool = False,
    ) -> list[int | None]:
        """The count of each scan below a node; `filtered` is that of the filter just above.

        `sampled` is how often all is read that is divided by ranges, `times` how often what is
        below this node.
        """
        node = self.nodes[id_]
        if node.name == "CollectMetrics" and LOOKED_UP in node.description:
            return []
        if "LeftAnti" in node.description and SURVIVING in node.description:
            return [node.rows]
        if not self.inputs.get(id_):
            rows = None if limited else _scanned(node, filtered)
            return [None if rows is None or rows % times else rows // times]
        if node.name in _EXCHANGES:
            times = sampled if SAMPLED in node.description else 1
        if node.name == "Filter":
            filtered = node.rows if filtered is None else filtered
        elif not node.name.startswith(_TRANSPARENT):
            filtered = None
        limited = (limited or node.name in _UNKNOWN) and node.name not in _READS_ALL_FIRST
        below = (
            self._scans(each, filtered, sampled=sampled, times=times, limited=limited)
            for each in self.inputs[id_]
        )
        return [count for counts in below for count in counts]


def _scanned(node: PlanNode, filtered: int | None) -> int | None:
    if filtered is not None:
        return filtered
    # Neither is a source: rows of the query's own text, and sources proven to be empty.
    if node.name.startswith(("LocalTableScan", "Scan OneRowRelation", "EmptyRelation")):
        return 0
    return node.rows
