"""The report's HTML page: its contents as values, for `templates/report.html.j2`."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from markupsafe import Markup

from logdriven_dagster.config.project import Project
from logdriven_dagster.config.secrets import redact
from logdriven_dagster.execution.inspection.plots import draw_windows
from logdriven_dagster.execution.notifications import wording as shown
from logdriven_dagster.execution.notifications.messages import run_link, templates
from logdriven_dagster.plugins.report.flow import Flow, flow
from logdriven_dagster.plugins.report.heat_map import LOOK, TableWindows, heat_maps, number
from logdriven_dagster.plugins.report.longest_chain import LongestChain, find_longest_chain

MOST_FAILURES = 100
MOST_PLOTS = 60
"""The maximum number of tables whose rows are plotted."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A window that failed, in its current state or before it succeeded."""

    table: str
    window: str
    step: str
    error: str
    details: str
    link: str | None


@dataclass(frozen=True, slots=True)
class TableLine:
    """One line of the report: a summary of a table's windows."""

    table: str
    windows: int
    succeeded: int
    failed: int
    attempts: int
    read: int | None
    written: int | None
    seconds: float
    median: float | None
    slowest: float | None
    share: float
    """Its fraction of the longest table's time, from 0 to 1."""
    flow: str


class Move(NamedTuple):
    """The rows that moved from one type of source to one type of target."""

    source: str
    target: str
    steps: int = 0
    read: int = 0
    written: int = 0


def as_html(
    project: Project,
    start: datetime,
    end: datetime,
    attempts: Sequence[shown.Row],
    job_runs: Sequence[shown.Row],
) -> str:
    """Render the page. Every text is escaped, and no secrets are included."""
    by_table: dict[str, list[shown.Row]] = defaultdict(list)
    for row in sorted(attempts, key=lambda row: int(row["job_id"])):
        by_table[row["job_name"]].append(row)
    known = [name for name in project.tables if name in by_table]
    names = [*known, *sorted(set(by_table) - set(known))]
    tables = {name: TableWindows(name, by_table[name]) for name in names}
    failing, recovered = _failures(project, tables.values())
    return (
        templates("logdriven_dagster.plugins.report")
        .get_template("report.html.j2")
        .render(
            project=project,
            start=start,
            end=end,
            whole_day=_is_whole_day(start, end),
            tiles=_tiles(tables.values(), attempts),
            failing=failing[:MOST_FAILURES],
            failing_count=len(failing),
            recovered=recovered[:MOST_FAILURES],
            recovered_count=len(recovered),
            maps=heat_maps(tables.values()),
            plots=_plots(tables.values()),
            chain=_chain(project, attempts),
            lines=_lines(tables.values()),
            moves=_moves(attempts),
            flow=_flow(project, tables),
            job_runs=[_job_run(project, row) for row in job_runs],
            number=number,
            duration=shown.duration,
        )
    )


def _tiles(
    tables: Iterable[TableWindows], attempts: Sequence[shown.Row]
) -> list[tuple[str, str, str]]:
    """Return the number, the name and the style of each summary number."""
    every = list(tables)
    counts = {status: sum(table.count(status) for table in every) for status in LOOK}
    written = sum(shown.total(row, "success_count") or 0 for row in attempts)
    busy = sum(shown.seconds(row) or 0 for row in attempts)
    shown_always = [
        (number(counts["SUCCESS"]), "windows finished", "ok"),
        (number(counts["FAILURE"]), "failing", "failed" if counts["FAILURE"] else ""),
    ]
    others = [
        (number(counts[status]), status.lower(), "")
        for status in ("RUNNING", "DISCARDED", "SKIPPED")
        if counts[status]
    ]
    return [
        *shown_always,
        *others,
        (number(len(attempts)), "attempts", ""),
        (number(len(every)), "tables", ""),
        (_brief(written), "rows written", ""),
        (shown.duration(busy) or "0 s", "running", ""),
    ]


def _failures(
    project: Project, tables: Iterable[TableWindows]
) -> tuple[list[Failure], list[Failure]]:
    """Return windows whose last attempt failed, and those that succeeded after failures.

    Both are sorted, newest first.
    """
    failing, recovered = [], []
    for table in tables:
        for rows in table.by_start.values():
            failed = [row for row in rows if row["status"] == "FAILURE"]
            if rows[-1]["status"] == "FAILURE":
                failing.append((rows[-1]["job_id"], _failure(project, rows[-1], len(failed))))
            elif failed and rows[-1]["status"] == "SUCCESS":
                recovered.append((rows[-1]["job_id"], _failure(project, failed[-1], len(failed))))
    newest = [sorted(found, key=lambda pair: -pair[0]) for found in (failing, recovered)]
    return [item for _, item in newest[0]], [item for _, item in newest[1]]


def _failure(project: Project, row: shown.Row, times: int) -> Failure:
    step = shown.find_failed_step(row)
    details = [
        f"job {row['job_id']}",
        f"failed {times} times" if times > 1 else "",
        shown.clock(row["job_start_time"], project.zone),
        shown.duration(shown.seconds(row)),
    ]
    return Failure(
        row["job_name"],
        shown.window(row),
        step["step_id"] if step else "",
        shown.error(row) or "no error was logged",
        " · ".join(filter(None, details)),
        run_link(project, row["dagster_run_id"]),
    )


def _plots(tables: Iterable[TableWindows]) -> list[tuple[str, Markup]]:
    """Return for each table with at least three windows the plot of their rows."""
    found = []
    for table in tables:
        windows = table.plotted
        if len(windows) > 2 and any(window.rows is not None for window in windows):
            found.append((table.table, Markup(draw_windows(windows))))  # noqa: S704 - escaped there
    return found[:MOST_PLOTS]


def _chain(project: Project, attempts: Sequence[shown.Row]) -> LongestChain | None:
    upstreams = {
        name: [dependency.table for dependency in table.table_dependencies]
        for name, table in project.tables.items()
    }
    return find_longest_chain(attempts, upstreams)


def _lines(tables: Iterable[TableWindows]) -> list[TableLine]:
    every = list(tables)
    spent = {t.table: sum(shown.seconds(row) or 0 for row in t.attempts) for t in every}
    longest = max(spent.values(), default=0) or 1
    return [
        TableLine(
            table=table.table,
            windows=len(table.by_start),
            succeeded=table.count("SUCCESS"),
            failed=table.count("FAILURE"),
            attempts=len(table.attempts),
            read=_sum(table.attempts, "source_count"),
            written=_sum(table.attempts, "success_count"),
            seconds=spent[table.table],
            median=table.median,
            slowest=table.slowest,
            share=spent[table.table] / longest,
            flow=_types(table.attempts),
        )
        for table in every
    ]


def _sum(rows: Iterable[shown.Row], column: str) -> int | None:
    counts = [count for row in rows if (count := shown.total(row, column)) is not None]
    return sum(counts) if counts else None


def _types(rows: Iterable[shown.Row]) -> str:
    """Return the types of sources and targets of the newest attempt that has them."""
    for row in reversed(list(rows)):
        pairs = [(step["source_type"], step["target_type"]) for step in row["steps"]]
        moves = [f"{source or '…'} → {target}" for source, target in pairs if target]
        if moves:
            return ", ".join(dict.fromkeys(moves))
    return ""


def _moves(attempts: Iterable[shown.Row]) -> list[Move]:
    """Return the sums of rows by types of source and target, the most rows first."""
    totals: dict[tuple[str, str], Move] = {}
    for row in attempts:
        for step in row["steps"]:
            if step["target_type"] and step["status"] == "SUCCESS":
                pair = step["source_type"] or "…", step["target_type"]
                steps, read, written = totals.get(pair, Move(*pair))[2:]
                counts = (
                    read + (step["source_count"] or 0),
                    written + (step["success_count"] or 0),
                )
                totals[pair] = Move(*pair, steps + 1, *counts)
    return sorted(totals.values(), key=lambda move: (-move.written, move.source, move.target))


def _count_written(step: shown.Row) -> int:
    return int(step["success_count"] or 0)


def _flow(project: Project, tables: dict[str, TableWindows]) -> Flow | None:
    def look(table: TableWindows) -> str:
        statuses = {row["status"] for row in table.latest}
        order = ("FAILURE", "RUNNING", "DISCARDED", "SUCCESS", "SKIPPED")
        return LOOK[next(status for status in order if status in statuses)]

    edges = [
        (dependency.table, name)
        for name in tables
        if name in project.tables
        for dependency in project.tables[name].table_dependencies
        if dependency.table in tables
    ]
    return flow({name: look(table) for name, table in tables.items()}, edges)


def _job_run(project: Project, row: shown.Row) -> dict[str, object]:
    times = {"job_start_time": row["begin_time"], "job_end_time": row["end_time"]}
    return {
        "job": row["job_name"],
        "type": row["job_type"],
        "status": row["status"],
        "look": LOOK.get(row["status"], "skipped"),
        "started": shown.clock(row["begin_time"], project.zone),
        "seconds": shown.seconds(times),
        "error": redact(row["error"] or ""),
        "link": run_link(project, row["dagster_run_id"]),
    }


def _brief(count: int) -> str:
    """Format a large number with three digits."""
    for size, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= 10 * size:
            return f"{count / size:.3g} {unit}"
    return number(count)


def _is_whole_day(start: datetime, end: datetime) -> bool:
    first, last = (instant.replace(tzinfo=None) for instant in (start, end))
    return last - first == timedelta(days=1) and first.hour == first.minute == 0
