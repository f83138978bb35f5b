"""The daily report: every attempt of a period, as CSV, JSON and an HTML page.

Source: Sharp ETL, DailyJobsSummaryReport.
"""

import csv
import io
import json
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, TypeAlias

from logdriven_dagster.config.derived.selection import select_tables
from logdriven_dagster.config.models.jobs import MaintenanceJob
from logdriven_dagster.config.project import Project
from logdriven_dagster.config.secrets import redact
from logdriven_dagster.errors import StepError, UsageError, in_brief
from logdriven_dagster.execution.notifications import wording as shown
from logdriven_dagster.execution.notifications.messages import Attached, Message
from logdriven_dagster.execution.notifications.senders import send
from logdriven_dagster.plugins.report.page import as_html
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.observed import reports

Format: TypeAlias = Literal["csv", "html", "json"]
FORMATS: tuple[Format, ...] = ("csv", "html", "json")
BY_DEFAULT: tuple[Format, ...] = ("csv", "html")

_FORMULA = re.compile(r"[=+\-@\t\r](?!\d+$)")
"""Cell prefixes that spreadsheets evaluate as formulas; a negative key is a number."""


@dataclass(frozen=True)
class Report:
    """The attempts and job runs of a project that started in `[start, end)`."""

    project: Project
    start: datetime
    end: datetime
    attempts: tuple[shown.Row, ...]
    """Ordered by table and window."""
    job_runs: tuple[shown.Row, ...]

    @cached_property
    def target_types(self) -> list[str]:
        """The target types that the attempts wrote to."""
        steps = (step for row in self.attempts for step in row["steps"])
        return sorted({step["target_type"] for step in steps if step["target_type"]})

    def as_csv(self) -> str:
        """Serialize a line for each attempt, in the columns of Sharp ETL."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns(self.target_types))
        writer.writerows(map(_without_formulas, map(self._cells, self.attempts)))
        return text.getvalue()

    def as_json(self) -> str:
        """Serialize the attempts as objects with the columns' names, and the job runs."""
        names = columns(self.target_types)
        rows = [dict(zip(names, self._cells(row), strict=True)) for row in self.attempts]
        about = {
            "project": self.project.name,
            "from": self.start.isoformat(),
            "to": self.end.isoformat(),
            "attempts": rows,
            "job_runs": [_job_run(row) for row in self.job_runs],
        }
        return json.dumps(about, indent=2, ensure_ascii=False) + "\n"

    def as_html(self) -> str:
        """Render a self-contained page: no other files, no scripts."""
        return as_html(self.project, self.start, self.end, self.attempts, self.job_runs)

    def _cells(self, row: shown.Row) -> list[Any]:
        step = shown.find_failed_step(row) if row["status"] == "FAILURE" else None
        error = " ".join(in_brief(shown.error(row)).split()) if step else ""
        return [
            row["project_name"],
            row["job_name"],
            row["job_id"],
            shown.format_bound(row, "data_range_start"),
            shown.format_bound(row, "data_range_end"),
            shown.clock(row["job_start_time"], self.project.zone),
            row["status"],
            sum(step["duration"] for step in row["steps"]),
            shown.data_flow(row),
            *(_count_written(row, kind) for kind in self.target_types),
            step["step_id"] if step else "",
            error,
        ]


def _without_formulas(cells: list[Any]) -> list[Any]:
    return [
        f"'{cell}" if isinstance(cell, str) and _FORMULA.match(cell) else cell for cell in cells
    ]


def columns(target_types: Sequence[str]) -> list[str]:
    """Return the header of Sharp ETL's report."""
    return [
        "projectName",
        "workflowName",
        "jobId",
        "dataRangeStart",
        "dataRangeEnd",
        "jobStartTime",
        "jobStatus",
        "duration(seconds)",
        "dataFlow",
        *(f"to-{kind}" for kind in target_types),
        "failStep",
        "errorMessage",
    ]


def read_report(
    project: Project,
    run_log: RunLog,
    start: datetime,
    end: datetime,
    names: Collection[str] = (),
) -> Report:
    """Read the report of all tables and jobs, or of some. Raises UsageError for unknown names."""
    jobs = set(names) & set(project.jobs)
    tables = _tables(project, names)
    attempts = run_log.ask(lambda conn: reports.list_attempts_between(conn, start, end, tables))
    runs = run_log.ask(lambda conn: reports.list_job_runs_between(conn, start, end))
    attempts.sort(key=lambda row: (row["job_name"], row["window_start"] or 0, row["job_id"]))
    kept = [run for run in runs if not names or run["job_name"] in jobs]
    return Report(project, start, end, tuple(attempts), tuple(kept))


def write_files(report: Report, formats: Sequence[Format] = BY_DEFAULT) -> list[Path]:
    """Write one file for each format, named after the project and the time."""
    written = []
    for kind in formats:
        path = report.project.root / ".logdriven" / "reports" / f"{file_stem(report)}.{kind}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(render(report, kind), encoding="utf-8")
        written.append(path)
    return written


def render(report: Report, kind: Format) -> str:
    """Serialize the report as CSV, JSON or HTML."""
    by_kind: dict[Format, Callable[[], str]] = {
        "csv": report.as_csv,
        "html": report.as_html,
        "json": report.as_json,
    }
    return by_kind[kind]()


def send_report(report: Report, names: Sequence[str]) -> None:
    """Send the report to recipients: mail with its files, others a summary.

    Raises UsageError for an unknown recipient, StepError for one that cannot be reached.
    """
    project = report.project
    known = project.config.recipients
    if unknown := [name for name in names if name not in known]:
        raise UsageError(f"no recipient {', '.join(unknown)}; known: {', '.join(known) or 'none'}")
    files = tuple(
        Attached(f"{file_stem(report)}.{kind}", kind, render(report, kind).encode())
        for kind in BY_DEFAULT
    )
    span = period_shown(report.start, report.end)
    title, text = f"[{project.name}] Report {span}", summary(report)
    digest = sha256(files[0].content).hexdigest()[:32]
    for name in names:
        try:
            send(known[name], Message(project.name, title, digest, text=text, files=files))
        except Exception as error:  # noqa: BLE001 - servers and libraries may raise anything
            raise StepError(redact(f"could not send the report to {name}: {error}")) from None


def summary(report: Report) -> str:
    """Summarize a report in one sentence."""
    counts: dict[str, int] = {}
    for row in report.attempts:
        counts[row["status"]] = counts.get(row["status"], 0) + 1
    tables = len({row["job_name"] for row in report.attempts})
    numbers = ", ".join(f"{number:,} {status}" for status, number in sorted(counts.items()))
    return f"{len(report.attempts):,} attempts at windows of {tables:,} tables: {numbers or 'none'}"


def file_stem(report: Report) -> str:
    """Return `shop-2022-01-03` for a day, else `shop-20220103T060000-20220104T120000`."""
    start, end = report.start, report.end
    if _is_day(start, end):
        return f"{report.project.name}-{start:%Y-%m-%d}"
    return f"{report.project.name}-{start:%Y%m%dT%H%M%S}-{end:%Y%m%dT%H%M%S}"


def period_shown(start: datetime, end: datetime) -> str:
    """Format a period: a day, or its start and end."""
    if _is_day(start, end):
        return f"{start:%Y-%m-%d}"
    return f"{start:%Y-%m-%d %H:%M} – {end:%Y-%m-%d %H:%M}"


def _is_day(start: datetime, end: datetime) -> bool:
    naive = [instant.replace(tzinfo=None) for instant in (start, end)]
    whole = all((m.hour, m.minute, m.second) == (0, 0, 0) for m in naive)
    return whole and naive[1] - naive[0] == timedelta(days=1)


def _tables(project: Project, names: Collection[str]) -> Collection[str] | None:
    """Return the tables with these names; None for all, including removed ones."""
    if not names:
        return None
    own = [name for name in names if not isinstance(project.jobs.get(name), MaintenanceJob)]
    return set(select_tables(project, own)) if own else set()


def _count_written(row: shown.Row, kind: str) -> int | str:
    counts = [step["success_count"] for step in row["steps"] if step["target_type"] == kind]
    known = [count for count in counts if count is not None]
    return sum(known) if known else ""


def _job_run(row: shown.Row) -> dict[str, Any]:
    names = ("job_run_id", "job_name", "job_type", "status", "begin_time", "end_time")
    return {name: row[name] for name in names} | {"error": redact(row["error"] or "")}
