"""Metrics for Prometheus, computed from the run log on request.

Gauges are the current states of tables and jobs. Counters count the attempts that ended since
midnight, UTC, by the clock of the log. They follow from the log alone, so several exporters agree,
and none has to be notified of a dead run. Labels contain names of tables and jobs, and states: no
text of a source or an error.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString
from sqlalchemy.engine import Connection

from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.project import Project
from logdriven_dagster.config.secrets import redact
from logdriven_dagster.errors import LogdrivenError
from logdriven_dagster.model.attempts import Status
from logdriven_dagster.model.definitions import Kind, build_code
from logdriven_dagster.model.logs import OpenWindow, TableLog
from logdriven_dagster.planning.freshness import Verdict, evaluate_freshness
from logdriven_dagster.planning.pending import find_unfinished_windows, find_watermark
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.history.logs import read_window_states
from logdriven_dagster.runlog.jobs.history import read_latest_runs
from logdriven_dagster.runlog.observed.activity import Ended, Today, measure_failing_time

logger = logging.getLogger(__name__)

_JOB = ["project", "job_name"]
_GAUGES: Mapping[str, str] = {
    "lag_seconds": "Seconds between the current time and the watermark",
    "pending_windows": "Windows that are due and have not finished",
    "failed_windows": "Windows whose latest attempt failed",
    "running_windows": "Windows that are running",
    "oldest_failure_seconds": "Seconds for which a window has been failing",
    "fresh": "1 if the newest window whose deadline has passed has finished, else 0; "
    "only tables with `freshness`",
    "overdue_seconds": "Seconds since the deadline of the oldest overdue window; only tables with "
    "`freshness`",
}
_SUMS: Mapping[str, tuple[str, Callable[[Ended], float]]] = {
    "attempt_seconds": ("Seconds that attempts took", lambda ended: ended.seconds),
    "rows_read": ("Rows read from sources by published windows", lambda e: e.rows_read),
    "rows_written": ("Rows of published windows", lambda ended: ended.rows_written),
    "retries": ("Retries", lambda ended: ended.retries),
    "lease_takeovers": ("Attempts of dead runners", lambda ended: ended.takeovers),
}
_JOBS: Mapping[str, str] = {
    "running": "1 while a run of the job is running, else 0",
    "last_run_success": "1 if the newest run of the job succeeded, else 0; absent while it is "
    "running",
    "last_run_seconds": "Seconds that the newest run of the job took, or has taken so far",
    "last_run_timestamp_seconds": "Start of the newest run of the job, in epoch seconds",
}
_COUNTED = (Status.SUCCESS, Status.FAILURE)
"""Statuses of attempts that have a counter even without attempts, so that the first one is
visible."""


@dataclass(frozen=True)
class Metrics:
    """The metrics of a project: a collector, in the terms of Prometheus's client."""

    run_log: RunLog
    project: Callable[[], Project]
    """A function that returns the project with the settings that determine freshness."""
    today: Today
    data_clock: datetime | None = None
    """The data clock of pending windows, lag and freshness; None for the current time."""

    def text(self) -> str:
        """Return all metrics in Prometheus's text format.

        The output is that of the library, which would process each name and label of each line
        again.
        """
        return "".join(_lines(self.collect()))

    @property
    def registry(self) -> CollectorRegistry:
        """A registry with only these metrics."""
        registry = CollectorRegistry()
        registry.register(cast("Collector", self))
        return registry

    def describe(self) -> Iterable[Metric]:
        """Describe nothing: otherwise a registry collects once when this is registered."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """Read the log and compute all metrics; if it cannot be read, yield only `logdriven_up`.

        Otherwise a server would show the error with all its causes.
        """
        up = GaugeMetricFamily("logdriven_up", "1 if the run log could be read, else 0")
        try:
            project = self.project()
            seen = self.run_log.ask(lambda conn: _Seen.read(conn, project, self.today))
        except LogdrivenError as error:
            logger.warning("could not read the run log: %s", redact(str(error)))
            up.add_metric([], 0)
            yield up
            return
        up.add_metric([], 1)
        yield up
        now = datetime.now(project.zone)
        yield from _of_tables(project, seen, self.data_clock or now)
        yield from _of_attempts(project, seen.ended)
        yield from _of_jobs(project, seen.runs, now)


def _lines(families: Iterable[Metric]) -> Iterator[str]:
    known: dict[tuple[tuple[str, str], ...], str] = {}
    numbers: dict[float, str] = {}
    for family in families:
        name = f"{family.name}_total" if family.type == "counter" else family.name
        yield f"# HELP {name} {family.documentation}\n# TYPE {name} {family.type}\n"
        for sample in family.samples:
            labels = tuple(sample.labels.items())
            if labels not in known:
                known[labels] = _format_labels(sorted(labels))
            if sample.value not in numbers:
                text = floatToGoString(sample.value)  # type: ignore[no-untyped-call]
                numbers[sample.value] = text
            yield f"{name}{known[labels]} {numbers[sample.value]}\n"


def _format_labels(labels: Sequence[tuple[str, str]]) -> str:
    text = ",".join(f'{name}="{_escape(value)}"' for name, value in labels)
    return f"{{{text}}}" if text else ""


def _escape(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


@dataclass(frozen=True)
class _Seen:
    """The result of one read of the log."""

    logs: Mapping[str, TableLog]
    failing: Mapping[int, float]
    """Attempt at the oldest failed window of a table → the seconds for which it has been
    failing."""
    ended: Iterable[Ended]
    runs: Mapping[str, Mapping[str, Any]]

    @classmethod
    def read(cls, conn: Connection, project: Project, today: Today) -> "_Seen":
        logs = read_window_states(conn, list(project.tables.values()))
        oldest = [failed[0].job_id for failed in map(_list_failed, logs.values()) if failed]
        codes = [build_code(project.name, Kind.JOB, name) for name in project.jobs]
        return cls(
            logs,
            measure_failing_time(conn, oldest),
            today.count_ended(conn),
            read_latest_runs(conn, codes) if codes else {},
        )


def _of_tables(project: Project, seen: _Seen, now: datetime) -> Iterator[Metric]:
    families = {
        name: GaugeMetricFamily(f"logdriven_table_{name}", text) for name, text in _GAUGES.items()
    }
    for name, table in project.tables.items():
        labels = {"project": project.name, "table": name}
        for gauge, value in _gauges(table, seen, now):
            families[gauge].add_sample(families[gauge].name, labels, value)
    yield from families.values()


def _gauges(table: TableConfig, seen: _Seen, now: datetime) -> Iterator[tuple[str, float]]:
    log = seen.logs[table.table]
    lag = _lag(table, log, now)
    if lag is not None:
        yield "lag_seconds", lag
    yield "pending_windows", len(find_unfinished_windows(table, log, now))
    failed = _list_failed(log)
    yield "failed_windows", len(failed)
    yield "running_windows", sum(item.status is Status.RUNNING for item in log.open)
    if failed and failed[0].job_id in seen.failing:
        yield "oldest_failure_seconds", seen.failing[failed[0].job_id]
    found = evaluate_freshness(table, log, now)
    if found is not None:
        yield "fresh", int(found.verdict is Verdict.FRESH)
        yield "overdue_seconds", found.overdue(now).total_seconds()


def _lag(table: TableConfig, log: TableLog, now: datetime) -> float | None:
    """Return the seconds behind the clock; for slices, since their source was read; None: never."""
    if table.is_sliced:
        return None if log.last is None else _seconds(now.timestamp() - log.last.now.timestamp())
    reached, grid = find_watermark(table, log), table.grid
    assert isinstance(reached, datetime)
    until = now.timestamp()
    if grid.end is not None:
        until = min(until, grid.get_bound(grid.index(grid.end)).timestamp())
    return _seconds(until - reached.timestamp())


def _seconds(length: float) -> float:
    return max(round(length, 3), 0.0)


def _list_failed(log: TableLog) -> list[OpenWindow]:
    return [item for item in log.open if item.status is Status.FAILURE]


def _of_attempts(project: Project, ended: Iterable[Ended]) -> Iterator[Metric]:
    """Yield counters of every table, including those without attempts: a rate needs their 0."""
    found = {(name, status.value): 0.0 for name in project.tables for status in _COUNTED}
    sums = {name: dict.fromkeys(_SUMS, 0.0) for name in project.tables}
    for each in ended:
        if each.table in sums:
            found[each.table, each.status] = each.attempts
            for name, (_, value) in _SUMS.items():
                sums[each.table][name] += value(each)
    attempts = CounterMetricFamily("logdriven_attempts", "Ended attempts")
    for (table, status), number in found.items():
        labels = {"project": project.name, "table": table, "status": status}
        attempts.add_sample(f"{attempts.name}_total", labels, number)
    yield attempts
    of_tables = {table: {"project": project.name, "table": table} for table in sums}
    for name, (text, _) in _SUMS.items():
        family = CounterMetricFamily(f"logdriven_{name}", text)
        for table, of in sums.items():
            total = of[name]
            family.add_sample(f"{family.name}_total", of_tables[table], total and round(total, 3))
        yield family


def _of_jobs(
    project: Project, runs: Mapping[str, Mapping[str, Any]], now: datetime
) -> Iterator[Metric]:
    families = {
        name: GaugeMetricFamily(f"logdriven_job_{name}", text, labels=_JOB)
        for name, text in _JOBS.items()
    }
    for name, run in runs.items():
        for gauge, value in _gauges_of_job(run, now):
            families[gauge].add_metric([project.name, name], value)
    yield from families.values()


def _gauges_of_job(run: Mapping[str, Any], now: datetime) -> Iterator[tuple[str, float]]:
    began = datetime.fromisoformat(run["begin_time"])
    ended = datetime.fromisoformat(run["end_time"]) if run["end_time"] else now
    is_running = run["status"] == Status.RUNNING.value and not run["expired"]
    yield "running", int(is_running)
    if not is_running:
        yield "last_run_success", int(run["status"] == Status.SUCCESS.value)
    yield "last_run_seconds", _seconds(ended.timestamp() - began.timestamp())
    yield "last_run_timestamp_seconds", began.timestamp()
