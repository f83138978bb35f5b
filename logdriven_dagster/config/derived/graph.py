"""Dependency graph of tables for display: conditions and delays are nodes of their own.

They are stored as parts of relations. Source: DolphinScheduler, which draws them as nodes.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from itertools import pairwise

from logdriven_dagster.config.models.dependencies import AssetDependency, Dependency
from logdriven_dagster.config.models.tables import TableConfig


class NodeKind(str, Enum):
    """Kind of a node; determines its shape."""

    TABLE = "table"
    UPSTREAM = "upstream"
    """An upstream table that is awaited but not part of the run."""
    EXTERNAL = "external"
    """A table outside this project, or a Dagster asset."""
    CONDITION = "condition"
    DELAY = "delay"


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A node of the graph: a table, or a condition or delay between two tables."""

    id: str
    kind: NodeKind
    label: str


@dataclass(frozen=True, slots=True)
class Edge:
    """An edge of the graph, in running order."""

    start: str
    end: str
    waits: bool
    """False if rows are read without waiting: `window: none`."""


@dataclass(frozen=True, slots=True)
class Graph:
    """Tables in running order, followed by conditions and delays."""

    nodes: tuple[GraphNode, ...]
    edges: tuple[Edge, ...]


def build_graph(tables: Mapping[str, TableConfig], selected: Iterable[str]) -> Graph:
    """Return the graph of the selected tables and the tables that they wait for.

    `tables` are the project's, or those of a job, which include its relations.
    """
    chosen = list(selected)
    nodes = {name: GraphNode(f"t{n}", NodeKind.TABLE, name) for n, name in enumerate(chosen)}
    between: list[GraphNode] = []
    edges: list[Edge] = []
    for name in chosen:
        for dependency in tables[name].depends_on:
            outside = _build_outside_node(dependency.upstream, tables, len(nodes))
            start = nodes.setdefault(dependency.upstream, outside)
            stops = list(_list_stops(dependency, len(between)))
            between += stops
            path = [start.id, *(stop.id for stop in stops), nodes[name].id]
            waits = not isinstance(dependency, Dependency) or dependency.is_awaited
            edges += (Edge(one, other, waits) for one, other in pairwise(path))
    return Graph((*nodes.values(), *between), tuple(edges))


_SHAPES = {
    NodeKind.TABLE: '["{}"]',
    NodeKind.UPSTREAM: '[["{}"]]',
    NodeKind.EXTERNAL: '[("{}")]',
    NodeKind.CONDITION: '{{"{}"}}',
    NodeKind.DELAY: '(["{}"])',
}


def format_mermaid(graph: Graph) -> str:
    """Return the graph as Mermaid text, which GitHub, GitLab and many editors draw."""
    lines = ["flowchart LR"]
    lines += (f"  {node.id}{_SHAPES[node.kind].format(node.label)}" for node in graph.nodes)
    lines += (
        f"  {edge.start} {'-->' if edge.waits else '-.->'} {edge.end}" for edge in graph.edges
    )
    return "\n".join(lines)


def _build_outside_node(upstream: str, tables: Mapping[str, TableConfig], n: int) -> GraphNode:
    kind = NodeKind.UPSTREAM if upstream in tables else NodeKind.EXTERNAL
    return GraphNode(f"t{n}", kind, upstream)


def _list_stops(dependency: Dependency | AssetDependency, n: int) -> Iterator[GraphNode]:
    """Yield the condition and delay between an upstream and the table that waits for it."""
    if isinstance(dependency, AssetDependency):
        return
    if dependency.condition != "success":
        label = "on failure" if dependency.condition == "failure" else "always"
        yield GraphNode(f"n{n}", NodeKind.CONDITION, label)
        n += 1
    if dependency.delay:
        yield GraphNode(f"n{n}", NodeKind.DELAY, f"after {_format_delay(dependency.delay)}")


def _format_delay(delay: timedelta) -> str:
    """Format a delay as in a file, such as `90 min`."""
    seconds = int(delay.total_seconds())
    for size, unit in ((86400, "days"), (3600, "hours"), (60, "min")):
        if seconds % size == 0:
            count = seconds // size
            return f"{count} {unit.rstrip('s') if count == 1 else unit}"
    return f"{seconds} s"
