"""The graph of tables in a report: upstreams on the left, rendered by the server, no scripts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

MOST_TABLES = 80
"""The maximum size of a readable graph; beyond it the page lists its tables instead."""

_WIDTH, _HEIGHT = 190, 30
_GAP_X, _GAP_Y = 64, 12
_SWEEPS = 6
_NAME_LENGTH = 25


@dataclass(frozen=True, slots=True)
class FlowNode:
    """A table in the graph, with its position in pixels."""

    table: str
    look: str
    x: int
    y: int

    @property
    def label(self) -> str:
        name = self.table
        return name if len(name) <= _NAME_LENGTH else f"…{name[1 - _NAME_LENGTH :]}"


@dataclass(frozen=True, slots=True)
class Flow:
    """A graph that fits into `width` × `height` pixels."""

    nodes: tuple[FlowNode, ...]
    paths: tuple[str, ...]
    """SVG paths from upstream to downstream tables."""
    width: int
    height: int
    node_width: int = _WIDTH
    node_height: int = _HEIGHT


def flow(looks: Mapping[str, str], edges: Sequence[tuple[str, str]]) -> Flow | None:
    """Return the graph of the connected tables; None without any, or with too many to read.

    `looks` maps tables to their outcomes; edges lead from upstream to downstream and have no cycle.
    """
    connected = [name for name in looks if any(name in edge for edge in edges)]
    if not connected or len(connected) > MOST_TABLES:
        return None
    columns = _order_columns(_columns(connected, edges), edges)
    tallest = max(map(len, columns))
    nodes = {}
    for n, column in enumerate(columns):
        top = (tallest - len(column)) * (_HEIGHT + _GAP_Y) // 2
        for m, name in enumerate(column):
            x, y = n * (_WIDTH + _GAP_X), top + m * (_HEIGHT + _GAP_Y)
            nodes[name] = FlowNode(name, looks[name], x, y)
    paths = tuple(_path(nodes[up], nodes[down]) for up, down in edges)
    width = len(columns) * (_WIDTH + _GAP_X) - _GAP_X
    return Flow(tuple(nodes.values()), paths, width, tallest * (_HEIGHT + _GAP_Y) - _GAP_Y)


def _columns(names: Iterable[str], edges: Sequence[tuple[str, str]]) -> list[list[str]]:
    """Assign each table to the column after its last upstream."""
    depth = dict.fromkeys(names, 0)
    for _ in depth:
        for up, down in edges:
            depth[down] = max(depth[down], depth[up] + 1)
    return [[name for name in depth if depth[name] == n] for n in range(max(depth.values()) + 1)]


def _order_columns(columns: list[list[str]], edges: Sequence[tuple[str, str]]) -> list[list[str]]:
    """Sort columns by Sugiyama's barycentres: few edges cross between neighbours."""
    forth = list(pairwise(range(len(columns))))
    back = [(later, earlier) for earlier, later in reversed(forth)]
    for sweep in range(_SWEEPS):
        for fixed, moved in forth if sweep % 2 == 0 else back:
            height = {name: n / len(columns[fixed]) for n, name in enumerate(columns[fixed])}
            columns[moved].sort(key=lambda name: _centre(name, height, edges))
    return columns


def _centre(name: str, height: Mapping[str, float], edges: Sequence[tuple[str, str]]) -> float:
    near = [height[up] for up, down in edges if down == name and up in height]
    near += [height[down] for up, down in edges if up == name and down in height]
    return sum(near) / len(near) if near else 0.5


def _path(up: FlowNode, down: FlowNode) -> str:
    x1, y1 = up.x + _WIDTH, up.y + _HEIGHT // 2
    x2, y2 = down.x, down.y + _HEIGHT // 2
    bend = (x2 - x1) // 2 if x2 - x1 <= _GAP_X * 2 else _GAP_X
    return f"M{x1} {y1}C{x1 + bend} {y1} {x2 - bend} {y2} {x2} {y2}"
