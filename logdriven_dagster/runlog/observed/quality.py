"""Results of the rules of data quality, attempt by attempt.

Sources: Sharp ETL, `quality_check_log`; BDRE, the statistics of data quality in PROCESS_LOG.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import func, insert, select
from sqlalchemy.engine import Connection

from logdriven_dagster.config.secrets import redact
from logdriven_dagster.model.attempts import Attempt
from logdriven_dagster.model.quality import QualityReport, RuleResult, format_ids
from logdriven_dagster.runlog.schema.attempts import job_log
from logdriven_dagster.runlog.schema.observations import process_log, quality_check_log
from logdriven_dagster.runlog.sql.projects import match_project

_CATEGORY = "quality"


def record(conn: Connection, attempt: Attempt, step_id: str, report: QualityReport) -> None:
    """Record the results of one step's rules, including rules without violations.

    Call it once, in the transaction in which the attempt ends: its guard prevents duplicate rows.
    """
    rows = [_build_row(attempt, step_id, report, result) for result in report.results]
    conn.execute(insert(quality_check_log), rows)
    found = [
        {
            "job_name": attempt.table,
            "job_id": attempt.job_id,
            "log_category": _CATEGORY,
            "message_id": f"{step_id}.{name}",
            "message": str(value),
        }
        for name, value in _extract_statistics(report)
    ]
    conn.execute(insert(process_log), found)


def _build_row(
    attempt: Attempt, step_id: str, report: QualityReport, result: RuleResult
) -> dict[str, Any]:
    ids = format_ids(result)
    return {
        "job_id": attempt.job_id,
        "job_name": attempt.table,
        "step_id": step_id,
        "column": result.column,
        "data_check_type": result.rule,
        "ids": None if ids is None else redact(ids),
        "error_type": result.level,
        "warn_count": result.count if result.level == "warn" else 0,
        "error_count": result.count if result.level == "error" else 0,
        "checked_count": report.checked,
    }


def _extract_statistics(report: QualityReport) -> Iterator[tuple[str, Any]]:
    yield "checked_count", report.checked
    yield "good_count", report.checked - report.rejected
    yield "bad_count", report.rejected
    yield "good_percent", f"{report.good_percent:.4f}"
    if report.min_pass is not None:
        yield "min_pass", f"{report.min_pass:g}"
    if report.good_hash is not None:
        yield "good_hash", report.good_hash


def list_newest(conn: Connection, table: str, limit: int = 1) -> list[dict[str, Any]]:
    """Return the newest attempts at a table whose rows were checked, each with its results."""
    log = quality_check_log
    looked_at = (
        select(log.c.job_id)
        .where(match_project(log), log.c.job_name == table)
        .group_by(log.c.job_id)
        .order_by(func.max(log.c.id).desc())
        .limit(limit)
    )
    return [_read_attempt(conn, job_id) for job_id in conn.execute(looked_at).scalars().all()]


def read_reports(conn: Connection, job_id: int) -> dict[str, QualityReport]:
    """Return the logged results of each step; the log does not contain `blocking`."""
    statistics = _read_statistics(conn, job_id)
    results: dict[str, list[RuleResult]] = {}
    for row in _read_rules(conn, job_id):
        count, ids = row["warn_count"] + row["error_count"], tuple(row["ids"])
        result = RuleResult(row["rule"], row["column"], row["level"], False, count, ids)  # noqa: FBT003
        results.setdefault(row["step"], []).append(result)
    return {
        step: QualityReport(
            int(statistics[f"{step}.checked_count"]),
            int(statistics[f"{step}.bad_count"]),
            tuple(found),
            float(least) if (least := statistics.get(f"{step}.min_pass")) else None,
        )
        for step, found in results.items()
    }


def _read_statistics(conn: Connection, job_id: int) -> dict[str, str]:
    mine = (process_log.c.job_id == job_id) & (process_log.c.log_category == _CATEGORY)
    found = conn.execute(select(process_log.c.message_id, process_log.c.message).where(mine))
    return {row.message_id: row.message for row in found}


def _read_attempt(conn: Connection, job_id: int) -> dict[str, Any]:
    columns = (job_log.c.status, job_log.c.data_range_start, job_log.c.data_range_end)
    found = conn.execute(select(*columns).where(job_log.c.job_id == job_id)).first()
    return {
        "job_id": job_id,
        # The attempt may have been archived since.
        "status": found.status if found else None,
        "data_range_start": found.data_range_start if found else None,
        "data_range_end": found.data_range_end if found else None,
        "statistics": _read_statistics(conn, job_id),
        "rules": _read_rules(conn, job_id),
    }


def _read_rules(conn: Connection, job_id: int) -> Sequence[dict[str, Any]]:
    log = quality_check_log
    mine = match_project(log) & (log.c.job_id == job_id)
    rows = conn.execute(select(log).where(mine).order_by(log.c.id))
    return [
        {
            "step": row.step_id,
            "column": row.column,
            "rule": row.data_check_type,
            "level": row.error_type,
            "warn_count": row.warn_count,
            "error_count": row.error_count,
            "checked_count": row.checked_count,
            "ids": json.loads(row.ids) if row.ids else [],
        }
        for row in rows
    ]
