"""Lineage in the log: each query once, and the attempts that ran it.

Source: BDRE, LINEAGE_QUERY, LINEAGE_NODE, LINEAGE_RELATION.
"""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from sqlalchemy import func, insert, select
from sqlalchemy.engine import Connection

from logdriven_dagster.model.lineage import (
    ColumnOrigin,
    ColumnRef,
    Container,
    NodeType,
    QueryLineage,
)
from logdriven_dagster.runlog.schema.observations import (
    lineage_node,
    lineage_query,
    lineage_relation,
    lineage_run,
)
from logdriven_dagster.runlog.sql.chunks import split_into_chunks
from logdriven_dagster.runlog.sql.projects import match_project

_RAN = insert(lineage_run)
_LONGEST = 512
"""The maximum length of a node's name; a digest distinguishes longer ones."""


@dataclass(frozen=True, slots=True)
class LineageNode:
    """A row of `lineage_node`: a container of columns, or one of its columns."""

    type: NodeType
    name: str
    container: Container | None = None

    @property
    def digest(self) -> str:
        """The digest of the name; names that differ only in case are the same."""
        held = (self.container.type.value, self.container.name) if self.container else ("", "")
        text = "\0".join((self.type.value, *held, self.name)).lower()
        return hashlib.sha256(text.encode()).hexdigest()


Edges: TypeAlias = list[tuple[LineageNode | None, LineageNode]]


def find(conn: Connection, digest: str) -> int | None:
    """Return the id of the query with a digest, None if the log does not have it."""
    query = select(lineage_query.c.query_id).where(
        match_project(lineage_query), lineage_query.c.digest == digest
    )
    found: int | None = conn.execute(query).scalar()
    return found


def store(conn: Connection, digest: str, lineage: QueryLineage) -> int:
    """Write a query with its nodes and relations, and return its id.

    The unique digests make a second writer of the same query or node fail: the caller tries again
    and finds them.
    """
    result = build_node(lineage.result)
    edges = list(_build_edges(lineage))
    nodes = {result, *(node for edge in edges for node in edge if node is not None)}
    ids = _ensure_ids(conn, nodes)
    values = {
        "digest": digest,
        "job_name": lineage.table,
        "step_id": lineage.step_id,
        "query_type": lineage.type,
        "query_string": lineage.text,
        "container_node_id": ids[result],
        "absent": lineage.absent,
    }
    key = conn.execute(insert(lineage_query).values(values)).inserted_primary_key
    assert key is not None
    query_id = int(key[0])
    if edges:
        rows = [
            {
                "query_id": query_id,
                "src_node_id": None if source is None else ids[source],
                "target_node_id": ids[target],
            }
            for source, target in edges
        ]
        conn.execute(insert(lineage_relation), rows)
    return query_id


def add_runs(conn: Connection, job_ids: Iterable[int], query_ids: Sequence[int]) -> None:
    """Record that each of these attempts has run all of these queries."""
    rows = [{"job_id": job, "query_id": query} for job in job_ids for query in query_ids]
    if rows:
        conn.execute(_RAN, rows)


def read_known_columns(
    conn: Connection, containers: Collection[Container]
) -> dict[Container, tuple[str, ...]]:
    """Return the columns of each container, as the last query that made it set them."""
    found = {}
    for container in containers:
        query_id = _find_last_query(conn, container)
        if query_id is not None:
            columns = read(conn, [query_id])[query_id].columns
            found[container] = tuple(column.column for column in columns)
    return found


def read(conn: Connection, query_ids: Collection[int]) -> dict[int, QueryLineage]:
    """Return queries as they were stored."""
    found: dict[int, QueryLineage] = {}
    for part in split_into_chunks(sorted(query_ids)):
        relations = select(lineage_relation).where(lineage_relation.c.query_id.in_(part))
        ordered = conn.execute(relations.order_by(lineage_relation.c.relation_id)).all()
        rows = conn.execute(select(lineage_query).where(lineage_query.c.query_id.in_(part))).all()
        ends = {row.src_node_id for row in ordered} | {row.target_node_id for row in ordered}
        nodes = read_nodes(conn, ends | {row.container_node_id for row in rows})
        related: dict[int, Edges] = {}
        for row in ordered:
            edge = (nodes.get(row.src_node_id), nodes[row.target_node_id])
            related.setdefault(row.query_id, []).append(edge)
        for row in rows:
            held = build_container(nodes[row.container_node_id])
            found[row.query_id] = _build_lineage(row, held, related.get(row.query_id, []))
    return found


def read_nodes(conn: Connection, node_ids: Iterable[int | None]) -> dict[int | None, LineageNode]:
    """Return nodes by id, including the containers of columns."""
    rows: dict[int, Any] = {}
    wanted = {node_id for node_id in node_ids if node_id is not None}
    while wanted:
        for part in split_into_chunks(sorted(wanted)):
            query = select(lineage_node).where(lineage_node.c.node_id.in_(part))
            rows |= {row.node_id: row for row in conn.execute(query)}
        held = {row.container_node_id for row in rows.values()} - {None}
        wanted = held - rows.keys()
    return {node_id: _read_node(row, rows) for node_id, row in rows.items()}


def build_node(container: Container) -> LineageNode:
    """Return the node of a container of columns."""
    return LineageNode(container.type, container.name)


def build_container(node: LineageNode) -> Container:
    """Return the container that a table's node stands for."""
    return Container(node.name, node.type)


def build_ref(node: LineageNode) -> ColumnRef:
    """Return the reference that a node of a column, or of a whole table, stands for."""
    if node.type is NodeType.COLUMN:
        assert node.container is not None
        return ColumnRef(node.container, node.name)
    return ColumnRef(build_container(node), None)


def _build_edges(lineage: QueryLineage) -> Iterator[tuple[LineageNode | None, LineageNode]]:
    for made in lineage.columns:
        target = LineageNode(NodeType.COLUMN, made.column, lineage.result)
        sources: list[LineageNode | None] = [
            build_node(ref.container)
            if ref.column is None
            else LineageNode(NodeType.COLUMN, ref.column, ref.container)
            for ref in made.origins
        ]
        sources += [LineageNode(NodeType.FUNCTION, name) for name in made.functions]
        sources += [LineageNode(NodeType.TEMP, name, lineage.result) for name in made.temps]
        yield from ((source, target) for source in sources or (None,))


def _build_lineage(row: Any, result: Container, edges: Edges) -> QueryLineage:
    columns: dict[str, list[LineageNode]] = {}
    for source, target in edges:
        columns.setdefault(target.name, []).extend([] if source is None else [source])
    made = tuple(_build_origin(name, sources) for name, sources in columns.items())
    return QueryLineage(
        row.job_name,
        row.step_id,
        row.query_type,
        row.query_string,
        result,
        made,
        row.absent,
    )


def _build_origin(column: str, sources: Iterable[LineageNode]) -> ColumnOrigin:
    sources = list(sources)
    passed = [node for node in sources if node.type is NodeType.TEMP and node.container]
    functions = [node for node in sources if node.type is NodeType.FUNCTION]
    others = [node for node in sources if node not in passed and node not in functions]
    return ColumnOrigin(
        column,
        tuple(build_ref(node) for node in others),
        tuple(node.name for node in functions),
        tuple(node.name for node in passed),
    )


def _ensure_ids(conn: Connection, nodes: Collection[LineageNode]) -> dict[LineageNode, int]:
    """Return the ids of nodes, and insert missing rows."""
    held = {build_node(node.container) for node in nodes if node.container}
    containers = held | {node for node in nodes if node.container is None}
    ids = _insert(conn, containers, {})
    return ids | _insert(conn, [node for node in nodes if node.container], ids)


def _insert(
    conn: Connection, nodes: Collection[LineageNode], containers: Mapping[LineageNode, int]
) -> dict[LineageNode, int]:
    by_digest = {node.digest: node for node in nodes}
    found = _find_by_digest(conn, by_digest)
    rows = [
        {
            "node_type": node.type.value,
            "display_name": node.name[:_LONGEST],
            "digest": digest,
            "container_node_id": containers[build_node(node.container)] if node.container else None,
        }
        # All writers use one order; otherwise they would wait for each other.
        for digest, node in sorted(by_digest.items())
        if digest not in found
    ]
    if rows:
        conn.execute(insert(lineage_node), rows)
        found |= _find_by_digest(conn, by_digest.keys() - found.keys())
    return {node: found[node.digest] for node in nodes}


def _find_by_digest(conn: Connection, digests: Iterable[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for part in split_into_chunks(list(digests)):
        query = select(lineage_node.c.digest, lineage_node.c.node_id)
        rows = conn.execute(
            query.where(match_project(lineage_node), lineage_node.c.digest.in_(part))
        )
        found |= {row.digest: row.node_id for row in rows}
    return found


def _find_last_query(conn: Connection, container: Container) -> int | None:
    result = select(lineage_node.c.node_id).where(
        match_project(lineage_node),
        lineage_node.c.digest == build_node(container).digest,
    )
    newest = select(func.max(lineage_run.c.job_id)).where(
        lineage_run.c.query_id == lineage_query.c.query_id
    )
    query = select(lineage_query.c.query_id, newest.scalar_subquery().label("newest")).where(
        match_project(lineage_query), lineage_query.c.container_node_id.in_(result)
    )
    rows = [row for row in conn.execute(query) if row.newest is not None]
    return max(rows, key=lambda row: (row.newest, row.query_id)).query_id if rows else None


def _read_node(row: Any, rows: Mapping[int, Any]) -> LineageNode:
    held = rows.get(row.container_node_id)
    container = None if held is None else Container(held.display_name, NodeType(held.node_type))
    return LineageNode(NodeType(row.node_type), row.display_name, container)
