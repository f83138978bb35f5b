"""Views for operators, created again after the migrations."""

from sqlalchemy import text
from sqlalchemy.engine import Connection


def _build_newest_queries(log: str, key: str, number: str) -> tuple[str, str]:
    """Return queries of the newest row of each key, its number as `newest`: MariaDB's, and others'.

    Both take a step or two in an index for each key, instead of reading the history. MariaDB does
    that for GROUP BY only, the others for a subquery only.
    """
    grouped = f"SELECT MAX({number}) AS newest FROM {log} GROUP BY {key}, project_id"  # noqa: S608 - names
    stepwise = f"""
        WITH RECURSIVE keys (name) AS (
            SELECT MIN({key}) FROM {log}
            UNION ALL
            SELECT (SELECT MIN(l.{key}) FROM {log} l WHERE l.{key} > keys.name)
            FROM keys WHERE keys.name IS NOT NULL
        )
        SELECT (SELECT MAX(l.{number}) FROM {log} l
                WHERE l.{key} = keys.name AND l.project_id = p.project_id) AS newest
        FROM keys CROSS JOIN project p
    """  # noqa: S608 - names
    return grouped, stepwise


_OF_TABLES = _build_newest_queries("job_log", "job_name", "job_id")
_OF_JOBS = _build_newest_queries("job_run", "job_code", "job_run_id")
VIEWS = {
    "v_window_log": "SELECT * FROM job_log WHERE latest = 1",
    # Kettle's latest-status view. By id, not by time: two runs may begin in the same second.
    "v_table_log": """
        SELECT j.job_name, j.job_id, j.data_range_start, j.data_range_end,
               j.job_start_time AS begin_dttm, j.job_end_time AS end_dttm, j.status,
               COALESCE((SELECT SUM(s.success_count) FROM step_log s WHERE s.job_id = j.job_id), 0)
                   AS row_count,
               j.error_count, j.project_name
        FROM ({newest_of_tables}) n JOIN job_log j ON j.job_id = n.newest
    """,
    # Kettle's v_etl_kjb_log; by id as well.
    "v_job_log": """
        SELECT r.job_name, r.job_run_id, r.job_type, r.begin_time AS begin_dttm,
               r.end_time AS end_dttm, r.status, r.error, r.project_name
        FROM ({newest_of_jobs}) n JOIN job_run r ON r.job_run_id = n.newest
    """,
}
"""Views for operators: the latest attempt at each window and of each table, and of each job."""


def drop_views(conn: Connection) -> None:
    """Drop the existing views."""
    for name in VIEWS:
        conn.execute(text(f"DROP VIEW IF EXISTS {name}"))


def create_views(conn: Connection) -> None:
    """Create the views, none of which exists."""
    which = 0 if conn.dialect.name in ("mysql", "mariadb") else 1
    newest = {"newest_of_tables": _OF_TABLES[which], "newest_of_jobs": _OF_JOBS[which]}
    for name, query in VIEWS.items():
        conn.execute(text(f"CREATE VIEW {name} AS {query.format(**newest)}"))
