"""What each database says of a statement: what it would scan, and how much it reads."""

import json
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa

HISTORY = {
    "job_log",
    "step_log",
    "job_log_archive",
    "step_log_archive",
    "batch_archive",
    "job_run",
}
ALIASES = {"older", "up", "down", "j", "l", "n", "latest", "earlier", "success"}


def of_sqlite(conn: sa.Connection, text: str, values: Any) -> Iterator[str]:
    for row in conn.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", values):
        what, _, rest = row.detail.partition(" ")
        name = rest.split(" ")[0]
        if what == "SCAN" and name in HISTORY | ALIASES and "LIMIT" not in text:
            yield row.detail


def of_postgresql(conn: sa.Connection, text: str, values: Any) -> Iterator[str]:
    (plan,) = conn.exec_driver_sql(f"EXPLAIN (FORMAT JSON) {text}", values).scalar_one()
    yield from _scans(plan["Plan"], limited=False)


def _scans(node: dict[str, Any], *, limited: bool) -> Iterator[str]:
    kind, name = node["Node Type"], node.get("Relation Name")
    whole = kind == "Seq Scan" or (kind.startswith("Index") and "Index Cond" not in node)
    if whole and name in HISTORY and not (limited and kind != "Seq Scan"):
        yield f"{kind} on {name}"
    for child in node.get("Plans", ()):
        yield from _scans(child, limited=limited or kind == "Limit")


def of_mariadb(conn: sa.Connection, text: str, values: Any) -> Iterator[str]:
    for row in conn.exec_driver_sql(f"EXPLAIN {text}", values).mappings():
        limited = "LIMIT" in text and row["type"] == "index"
        if row["type"] in ("ALL", "index") and row["table"] in HISTORY | ALIASES and not limited:
            yield json.dumps(dict(row), default=str)


def steps_of_sqlite(conn: sa.Connection, text: str, values: Any) -> int:
    hundreds = []
    driver = conn.connection.driver_connection
    assert driver is not None
    driver.set_progress_handler(lambda: hundreds.append(1), 100)
    conn.exec_driver_sql(text, values).all()
    driver.set_progress_handler(None, 0)
    return 100 * len(hundreds)


def rows_of_postgresql(conn: sa.Connection, text: str, values: Any) -> int:
    (plan,) = conn.exec_driver_sql(f"EXPLAIN (ANALYZE, FORMAT JSON) {text}", values).scalar_one()
    return sum(_rows(plan["Plan"]))


def _rows(node: dict[str, Any]) -> Iterator[int]:
    removed = sum(value for name, value in node.items() if name.startswith("Rows Removed"))
    yield int((node["Actual Rows"] + removed) * node["Actual Loops"])
    for child in node.get("Plans", ()):
        yield from _rows(child)


def rows_of_mariadb(conn: sa.Connection, text: str, values: Any) -> int:
    conn.exec_driver_sql("FLUSH STATUS")
    conn.exec_driver_sql(text, values).all()
    status = conn.exec_driver_sql("SHOW SESSION STATUS LIKE 'Handler_read%%'")
    return sum(int(row[1]) for row in status)


ROWS_READ = {
    "sqlite": steps_of_sqlite,
    "postgresql": rows_of_postgresql,
    "mysql": rows_of_mariadb,
    "mariadb": rows_of_mariadb,
}
EXPLAIN = {
    "sqlite": of_sqlite,
    "postgresql": of_postgresql,
    "mysql": of_mariadb,
    "mariadb": of_mariadb,
}
