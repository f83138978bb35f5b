"""Names in the lineage: datasets of a renamed table get its new name."""

from sqlalchemy import delete, or_, select, update
from sqlalchemy.engine import Connection

from logdriven_dagster.model.lineage import Container, NodeType
from logdriven_dagster.runlog.observed.lineage import LineageNode, build_node
from logdriven_dagster.runlog.schema.observations import (
    lineage_node,
    lineage_query,
    lineage_relation,
)
from logdriven_dagster.runlog.sql.projects import match_project


def rename_container(conn: Connection, old: str, new: str) -> None:
    """Rename the datasets of a table: its own, and those of its steps (`table#step`).

    A dataset that another query has already recorded under the new name is merged with it.
    """
    name = lineage_node.c.display_name
    query = select(lineage_node).where(
        match_project(lineage_node),
        lineage_node.c.container_node_id.is_(None),
        or_(name == old, name.startswith(f"{old}#", autoescape=True)),
    )
    for row in conn.execute(query).all():
        container = Container(new + row.display_name[len(old) :], NodeType(row.node_type))
        held = _rename(conn, row.node_id, build_node(container), None)
        columns = select(lineage_node).where(
            match_project(lineage_node), lineage_node.c.container_node_id == row.node_id
        )
        for column in conn.execute(columns).all():
            node = LineageNode(NodeType(column.node_type), column.display_name, container)
            _rename(conn, column.node_id, node, held)
        if held != row.node_id:
            _remove(conn, row.node_id, held)


def _rename(conn: Connection, node_id: int, node: LineageNode, container_id: int | None) -> int:
    """Rename a node, or merge a column with the existing one; return the id that holds the name."""
    query = select(lineage_node.c.node_id).where(
        match_project(lineage_node), lineage_node.c.digest == node.digest
    )
    known: int | None = conn.execute(query).scalar()
    if known is None:
        values = {"digest": node.digest, "container_node_id": container_id}
        if container_id is None:
            values["display_name"] = node.name
        conn.execute(update(lineage_node).where(lineage_node.c.node_id == node_id).values(values))
        return node_id
    if container_id is not None:
        _remove(conn, node_id, known)
    return known


def _remove(conn: Connection, node_id: int, known: int) -> None:
    """Remove a node; its relations and queries belong to another one from now on."""
    for column in ("src_node_id", "target_node_id"):
        rows = update(lineage_relation).where(lineage_relation.c[column] == node_id)
        conn.execute(rows.values({column: known}))
    queries = match_project(lineage_query) & (lineage_query.c.container_node_id == node_id)
    conn.execute(update(lineage_query).where(queries).values(container_node_id=known))
    conn.execute(delete(lineage_node).where(lineage_node.c.node_id == node_id))
