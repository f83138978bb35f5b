"""The plan of a finished query, as a graph of nodes with their row counts."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

ROWS = "number of output rows"
"""The metric with the number of rows that a plan node put out."""

_TRANSPARENT = ("Project", "ColumnarToRow", "AQEShuffleRead", "InputAdapter", "SubqueryAlias")
_EXCHANGES = ("Exchange", "BroadcastExchange", "ReusedExchange")
SAMPLED = "rangepartitioning"
"""Mark of range partitioning, as for a sort: Spark reads its input an extra time for a sample."""
_UNKNOWN = (
    "CollectLimit",
    "LocalLimit",
    "GlobalLimit",
    "TakeOrderedAndProject",
    "CartesianProduct",
)
"""Nodes that end the read early, or read each partition of one side per partition of the other."""
_READS_ALL_FIRST = ("Exchange", "BroadcastExchange", "Sort", "HashAggregate", "ObjectHashAggregate")

_ATTRIBUTE = re.compile(r"#(\d+)")

_READS_FILES, _WHOLE_FILES = "MapInArrow", "Scan binaryFile"

LOOKED_UP = "logdriven_looked_up"
"""The name of an `observe` over rows that serve only for comparison: they are not sources."""


SURVIVING = "logdriven_surviving"
"""Prefix of a column name that marks the removal of source rows which the files still hold.

The rows that remain count as read.
"""


def number(text: str) -> int:
    """Parse a count as Spark's status store formats it."""
    return int(text.replace(",", ""))


def is_write(name: str) -> bool:
    """Return whether a node of this name executes a write command."""
    return name.startswith("Execute ")


@dataclass(frozen=True, slots=True)
class PlanNode:
    """One node of a physical plan, with its row count."""

    id: int
    name: str
    description: str
    rows: int | None
    """Rows that it put out, 0 if it never ran; None if it does not count."""


@dataclass(frozen=True, slots=True)
class StageRun:
    """One run of a stage of a query, which is the part of a job between two exchanges."""

    rdds: frozenset[int]
    """Spark's ids of the RDDs that it computed."""
    tasks: int
    done: int
    """Number of its tasks that succeeded."""
    records: int
    """Records that its tasks read from sources, before any filter."""

    @classmethod
    def from_json(cls, stage: Mapping[str, Any]) -> "StageRun":
        """Build a run from the JSON of Spark's status pages."""
        counts = (int(stage[key]) for key in ("numTasks", "numCompleteTasks", "inputRecords"))
        return cls(frozenset(stage["rddIds"]), *counts)


def times_run(runs: Sequence[StageRun]) -> int | None:
    """Return how often the repeated stages ran, each time completely; 1 if none was repeated.

    Returns None if a stage ran in part only, to recompute the output of a lost executor, or if the
    stages were not repeated equally often.
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


@dataclass(frozen=True, slots=True)
class Scan:
    """A read of a source by a query."""

    attributes: frozenset[int]
    """Spark's ids of the columns that it reads."""
    rows: int


def attributes_in(description: str) -> frozenset[int]:
    """Return the ids of the columns in the description of a plan node, such as `id#12`."""
    return frozenset(map(int, _ATTRIBUTE.findall(description)))


@dataclass(frozen=True)
class QueryPlan:
    """The physical plan of a finished query, as a graph."""

    nodes: Mapping[int, PlanNode]
    inputs: Mapping[int, list[int]]
    runs: Sequence[StageRun] = ()
    """The runs of its stages, if they were requested; see `is_sampled`."""

    @classmethod
    def build(cls, nodes: Iterable[PlanNode], edges: Iterable[tuple[int, int]]) -> "QueryPlan":
        """Build a plan from nodes and edges; an edge leads from an input to its reader."""
        inputs: dict[int, list[int]] = {}
        for source, node in edges:
            inputs.setdefault(node, []).append(source)
        return cls({node.id: node for node in nodes}, inputs)

    @property
    def is_sampled(self) -> bool:
        """True if Spark read an input twice, so that row counts need the runs of stages.

        On a cluster, Spark also reads again for an executor that was lost.
        """
        return any(SAMPLED in node.description for node in self.nodes.values())

    def get_written_rows(self) -> int | None:
        """Return the row count of the node that executes the write command."""
        for node in self.nodes.values():
            if is_write(node.name):
                return node.rows
        return None

    def most_rows(self) -> int | None:
        """Return the largest row count of any node; None if no node counts."""
        counted = [node.rows for node in self.nodes.values() if node.rows is not None]
        return max(counted, default=None)

    def scans(self) -> list["Scan"] | None:
        """Return the scans with their row counts; None if one cannot be determined."""
        times = times_run(self.runs)
        if times is None or (times > 1 and not self.is_sampled):
            return None
        fed = {source for inputs in self.inputs.values() for source in inputs}
        roots = [node for node in self.inputs if node not in fed]
        found = []
        for node, rows in (each for root in roots for each in self._scans(root, sampled=times)):
            if rows is None:
                return None
            found.append(Scan(attributes_in(node.description), rows))
        return found

    def _scans(
        self,
        id_: int,
        filtered: int | None = None,
        *,
        sampled: int,
        times: int = 1,
        limited: bool = False,
    ) -> list[tuple[PlanNode, int | None]]:
        """Return each scan below a node, with its count.

        `filtered` is the count of the filter directly above. `sampled` is how often
        range-partitioned input is read, `times` how often the input of this node is read. `limited`
        is True below a node that may end the read early.
        """
        node = self.nodes[id_]
        if node.name == "CollectMetrics" and LOOKED_UP in node.description:
            return []
        if "LeftAnti" in node.description and SURVIVING in node.description:
            return [(node, node.rows)]
        if not self.inputs.get(id_) or self._reads_whole_files(id_):
            rows = None if limited else _get_scanned_rows(node, filtered)
            return [(node, None if rows is None or rows % times else rows // times)]
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
        return [scan for scans in below for scan in scans]

    def _reads_whole_files(self, id_: int) -> bool:
        """Return True for a Python function that reads the files whose names Spark scans."""
        if not self.nodes[id_].name.startswith(_READS_FILES):
            return False
        while inputs := self.inputs.get(id_):
            (id_,) = inputs[:1]
        return self.nodes[id_].name.startswith(_WHOLE_FILES)


def _get_scanned_rows(node: PlanNode, filtered: int | None) -> int | None:
    if filtered is not None:
        return filtered
    # Neither is a source: literal rows of the query, and sources proven to be empty.
    if node.name.startswith(("LocalTableScan", "Scan OneRowRelation", "EmptyRelation")):
        return 0
    return node.rows
