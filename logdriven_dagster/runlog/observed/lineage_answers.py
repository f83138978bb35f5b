"""Lineage queries. Source: BDRE, lineage by instance and by batch; by column is our own."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from sqlalchemy import func, or_, select, union
from sqlalchemy.engine import Connection

from logdriven_dagster.errors import UsageError
from logdriven_dagster.model.lineage import ColumnRef, NodeType, QueryLineage
from logdriven_dagster.runlog.observed.lineage import LineageNode, nodes_by_id, read, ref_of
from logdriven_dagster.runlog.schema.attempts import batch, batch_archive, batch_queue, job_log
from logdriven_dagster.runlog.schema.attempts import job_log_archive as archive
from logdriven_dagster.runlog.schema.observations import (
    lineage_node,
    lineage_query,
    lineage_relation,
    lineage_run,
)
from logdriven_dagster.runlog.sql.chunks import chunks
from logdriven_dagster.runlog.sql.projects import of_project

Direction = Literal["U", "D"]
"""Upstream, the inputs of a column, or downstream, the columns made from it."""


@dataclass(frozen=True, slots=True)
class AttemptLineage:
    """The queries that one attempt ran, step by step."""

    job_id: int
    table: str
    queries: tuple[QueryLineage, ...]
    """Empty if none is known: the attempt failed, or made nothing."""


@dataclass(frozen=True, slots=True)
class BatchLineage:
    """The attempt that made a batch, and the batches from which it was made."""

    batch_id: int
    attempts: tuple[AttemptLineage, ...]
    """The attempts that tried to make it; the last one of them succeeded."""
    sources: tuple[tuple[str, int, int | None], ...]
    """Table, batch and attempt of every batch from which it was made."""


@dataclass(frozen=True, slots=True)
class Link:
    """A column that a query makes from another one."""

    direction: Direction
    distance: int
    """1 for direct neighbors of the requested column."""
    source: ColumnRef
    target: ColumnRef
    table: str
    step_id: str
    query_id: int


def by_attempt(conn: Connection, job_id: int) -> AttemptLineage:
    """Return the queries of an attempt. Raises UsageError if there is no attempt of this number."""
    for log in (job_log, archive):
        found = conn.execute(
            select(log.c.job_name).where(of_project(log), log.c.job_id == job_id)
        ).scalar()
        if found is not None:
            return _attempt(conn, job_id, found)
    raise UsageError(f"no attempt has the job_id {job_id}; `logdriven log` shows the attempts")


def of_table(conn: Connection, table: str) -> tuple[QueryLineage, ...]:
    """Return the queries of a table's newest attempt with known lineage; empty if none is known."""
    newest = (
        select(func.max(lineage_run.c.job_id))
        .join(lineage_query, lineage_query.c.query_id == lineage_run.c.query_id)
        .where(of_project(lineage_query), lineage_query.c.job_name == table)
    )
    job_id = conn.execute(newest).scalar()
    return () if job_id is None else _attempt(conn, job_id, table).queries


def by_batch(conn: Connection, batch_id: int) -> BatchLineage:
    """Return the attempts and batches from which a batch was made.

    Raises UsageError for an unknown number.
    """
    mine = of_project(batch) & (batch.c.batch_id == batch_id)
    known = conn.execute(select(batch.c.source_job_id).where(mine)).first()
    if known is None:
        raise UsageError(f"no batch has the number {batch_id}")
    made = union(
        *(
            select(log.c.job_id, log.c.job_name).where(
                of_project(log),
                or_(log.c.target_batch_id == batch_id, log.c.job_id == known.source_job_id),
            )
            for log in (job_log, archive)
        )
    )
    attempts = sorted(conn.execute(made).all())
    taken = union(
        *(
            select(queue.c.source_job_name, queue.c.source_batch_id, queue.c.source_job_id).where(
                of_project(queue), queue.c.target_batch_id == batch_id
            )
            for queue in (batch_queue, batch_archive)
        )
    )
    sources = sorted(conn.execute(taken).all(), key=lambda row: (row[0], row[1]))
    return BatchLineage(
        batch_id,
        tuple(_attempt(conn, row.job_id, row.job_name) for row in attempts),
        tuple((row[0], row[1], row[2]) for row in sources),
    )


def by_column(conn: Connection, column: ColumnRef) -> tuple[Link, ...]:
    """Return the inputs of a column and the columns made from it, over all tables, nearest first.

    Only the last runs of every step count, so links of earlier queries are not included. Raises
    UsageError if no known query makes or reads such a column.
    """
    assert column.column is not None
    start = LineageNode(NodeType.COLUMN, column.column, column.container)
    node = conn.execute(
        select(lineage_node.c.node_id).where(
            of_project(lineage_node), lineage_node.c.digest == start.digest
        )
    ).scalar()
    if node is None:
        fix = (
            "no finished query reads or writes it; the columns of a table are known "
            "after its first run"
        )
        raise UsageError(f"the lineage of {column} is unknown: {fix}")
    search = _Search(conn)
    return (*search.links(node, "U"), *search.links(node, "D"))


def _attempt(conn: Connection, job_id: int, table: str) -> AttemptLineage:
    ran = select(lineage_run.c.query_id).where(lineage_run.c.job_id == job_id)
    queries = read(conn, conn.execute(ran).scalars().all())
    return AttemptLineage(job_id, table, tuple(queries[key] for key in sorted(queries)))


@dataclass
class _Search:
    """A breadth-first search through the relations of the queries that ran last."""

    conn: Connection
    current: dict[tuple[str, str], int] = field(default_factory=dict)
    """The query that each table and step ran last."""

    def links(self, start: int, direction: Direction) -> Iterator[Link]:
        seen, near, distance = {start}, {start}, 1
        while near:
            rows = self._relations(near, direction)
            nodes = nodes_by_id(
                self.conn, [end for row in rows for end in (row.src_node_id, row.target_node_id)]
            )
            following = set()
            for row in rows:
                source, target = nodes[row.src_node_id], nodes[row.target_node_id]
                if not _is_data(source):
                    continue
                yield Link(
                    direction,
                    distance,
                    ref_of(source),
                    ref_of(target),
                    row.job_name,
                    row.step_id,
                    row.query_id,
                )
                other = row.src_node_id if direction == "U" else row.target_node_id
                following.add(other)
            near, distance = following - seen, distance + 1
            seen |= near

    def _relations(self, nodes: Collection[int], direction: Direction) -> list[Any]:
        ends = {"U": lineage_relation.c.target_node_id, "D": lineage_relation.c.src_node_id}
        nodes = {*nodes, *(self._containers(nodes) if direction == "D" else ())}
        found: list[Any] = []
        for part in chunks(sorted(nodes)):
            query = (
                select(lineage_relation, lineage_query.c.job_name, lineage_query.c.step_id)
                .join(lineage_query, lineage_query.c.query_id == lineage_relation.c.query_id)
                .where(of_project(lineage_query), ends[direction].in_(part))
                .where(lineage_relation.c.src_node_id.is_not(None))
                .order_by(lineage_relation.c.relation_id)
            )
            found += self.conn.execute(query).all()
        self._learn({row.job_name for row in found})
        return [row for row in found if self.current[row.job_name, row.step_id] == row.query_id]

    def _containers(self, nodes: Collection[int]) -> Iterator[int]:
        """Yield the containers of nodes: data made from all rows may be made from each column."""
        for part in chunks(sorted(nodes)):
            query = select(lineage_node.c.container_node_id).where(lineage_node.c.node_id.in_(part))
            yield from self.conn.execute(query.distinct()).scalars()

    def _learn(self, tables: Collection[str]) -> None:
        """Load the queries of some tables that ran last."""
        known = {table for table, _ in self.current}
        newest = select(func.max(lineage_run.c.job_id)).where(
            lineage_run.c.query_id == lineage_query.c.query_id
        )
        ran = func.coalesce(newest.scalar_subquery(), 0).label("ran")
        columns = (lineage_query.c.job_name, lineage_query.c.step_id, lineage_query.c.query_id)
        for part in chunks(sorted(set(tables) - known)):
            query = select(*columns, ran).where(
                of_project(lineage_query), lineage_query.c.job_name.in_(part)
            )
            for row in sorted(self.conn.execute(query), key=lambda row: (row.ran, row.query_id)):
                self.current[row.job_name, row.step_id] = row.query_id


def _is_data(node: LineageNode) -> bool:
    """Return True for a column, table or view; False for a function or a part of a query."""
    return node.type in (NodeType.COLUMN, NodeType.TABLE) or (
        node.type is NodeType.TEMP and node.container is None
    )
