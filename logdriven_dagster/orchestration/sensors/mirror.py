"""The sensor that shows windows in Dagster that the CLI or another deployment ran.

It also evaluates the freshness of tables, since no run does: a late table is one that did not run.
"""

import time
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

from dagster import (
    AssetMaterialization,
    DagsterInstance,
    DagsterRun,
    DefaultSensorStatus,
    JobDefinition,
    RunsFilter,
    SensorDefinition,
    SensorEvaluationContext,
    SensorResult,
    SkipReason,
    sensor,
)

from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.secrets import redact
from logdriven_dagster.errors import in_brief
from logdriven_dagster.execution.opening import open_runner
from logdriven_dagster.model.attempts import Status, Trigger
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.orchestration.assets.checks import CheckFindings, evaluations
from logdriven_dagster.orchestration.assets.code_versions import VersionTags
from logdriven_dagster.orchestration.assets.freshness import FreshnessShown
from logdriven_dagster.orchestration.assets.next_partitions import add_first_partitions
from logdriven_dagster.orchestration.assets.partitions import (
    add_partitions,
    remove_partitions,
    table_partitions,
)
from logdriven_dagster.orchestration.assets.refresh_check import refresh_evaluations
from logdriven_dagster.orchestration.assets.stories import (
    describe_failed_refresh,
    is_failed_refresh,
    list_attempts_shown,
)
from logdriven_dagster.orchestration.assets.upstream_assets import UpstreamAssets
from logdriven_dagster.orchestration.assets.whole_tables import plot_windows, table_shown
from logdriven_dagster.orchestration.assets.windows import window_metadata
from logdriven_dagster.orchestration.events.bulk import EventBatch
from logdriven_dagster.orchestration.events.reconciling import report_dead_runs
from logdriven_dagster.orchestration.events.records import (
    past_entry,
    report_failed,
    report_planned,
)
from logdriven_dagster.orchestration.events.unreported import BrokenRuns
from logdriven_dagster.orchestration.location import Location
from logdriven_dagster.orchestration.sensors.cursors import Seen, parse_log_time
from logdriven_dagster.orchestration.sensors.renamed import RenamedTables
from logdriven_dagster.runlog import RunLog, forgetting
from logdriven_dagster.runlog.history.windows import build_window
from logdriven_dagster.runlog.observed import quality
from logdriven_dagster.runlog.observed.mirror import list_begun_in, list_ended_since, present

MIRROR = "run_log_mirror"
JOB_TAG = "logdriven/job_id"
"""On the record of a failed window: the id of the attempt that it shows."""

_AT_ONCE = 2000
"""The maximum number of windows per tick."""
_LONGEST_TICK = 30.0
"""Seconds after which a tick leaves the rest to the next one: Dagster gives up on one after 60."""
_LONGEST_INTERVAL = timedelta(seconds=10)


def mirror_sensor(location: Location, job: JobDefinition) -> SensorDefinition:
    """Return the sensor that shows windows which ended outside this Dagster.

    Each tick reports a materialization or failure for each such window, at first for the whole
    history. The sensor is running by default. A failed window is shown as a run of `job`.
    """
    project = location.project
    interval = min(project.config.sensor.interval, _LONGEST_INTERVAL)
    new_tables = location.select()
    freshness = FreshnessShown(location)
    upstream_assets = UpstreamAssets(project)

    @sensor(
        name=location.name(MIRROR),
        minimum_interval_seconds=max(int(interval.total_seconds()), 1),
        default_status=DefaultSensorStatus.RUNNING,
        description="Shows windows that ran outside of this Dagster instance, and late windows.",
    )
    def evaluate(context: SensorEvaluationContext) -> SensorResult:
        runner = open_runner(project)
        run_log = runner.run_log
        upstream_assets.note(context, runner)
        report_dead_runs(context.instance, location, run_log)
        seen = Seen.from_cursor(context.cursor)
        broken = BrokenRuns.list_since(context.instance, seen.broken)
        with run_log.read() as conn:
            seen = seen.advance(present(conn))
            renamed = RenamedTables.since(conn, location, seen, _AT_ONCE)
            rows = list_ended_since(conn, seen.since, seen.job_ids, _AT_ONCE)
            begun = list_begun_in(conn, broken.ids)
        now = datetime.now(project.zone)
        freshness.report(context.instance, runner.watch_freshness(now), now)
        looked_at = before = 0
        until = time.monotonic() + _LONGEST_TICK
        batch = EventBatch(context.instance)
        with batch.complete():
            again = _Shown(batch, location, job, run_log, rows=renamed.rows, own=())
            own = _own_runs(context.instance, rows)
            window = _Shown(batch, location, job, run_log, rows=rows, own=own)
            shown = sum(
                window.report_unreported(row, broken) for row in begun if not renamed.covers(row)
            )
            for row in renamed.rows:
                shown += again.report(row)
                before += 1
                if time.monotonic() > until:
                    break
            for row in rows:
                shown += not renamed.covers(row) and window.report(row)
                looked_at += 1
                if time.monotonic() > until:
                    break
            window.check_refreshes([*begun, *rows[:looked_at]])
            window.plot_windows()
        if new_tables:  # after those that were run: Dagster lists partitions as they come
            add_first_partitions(context.instance, location, runner, now, new_tables)
            _forget_removed_tables(context.instance, location, run_log, renamed.earlier)
            new_tables.clear()
        message = (
            f"recorded {shown} windows that ran outside of this Dagster instance, or "
            "whose runs did not report them"
        )
        if looked_at < len(rows) or before < len(renamed.rows):
            message += "; the next tick continues"
        cursor = seen.then(rows[:looked_at], broken.until, renamed.then(before))
        return SensorResult(skip_reason=SkipReason(message), cursor=cursor)

    return evaluate


def _forget_removed_tables(
    instance: DagsterInstance, location: Location, run_log: RunLog, earlier: Collection[str]
) -> None:
    """Remove the partitions of removed tables, once they are removed from the log.

    So are those of the earlier names of tables.
    """
    project = location.project
    with run_log.read() as conn:
        removed = set(forgetting.list_removed_tables(conn, project.name)) - set(project.tables)
        names = removed | set(earlier)
        forgotten = [name for name in sorted(names) if not forgetting.count_attempts(conn, name)]
    for name in forgotten:
        remove_partitions(instance, location, name)


class _Shown:
    """Windows of some rows of the log, each reported with the status and time in the log."""

    def __init__(
        self,
        batch: EventBatch,
        location: Location,
        job: JobDefinition,
        run_log: RunLog,
        *,
        rows: Sequence[dict[str, Any]],
        own: Collection[str],
    ) -> None:
        self._batch, self._instance = batch, batch.instance
        self._location, self._job = location, job
        self._run_log = run_log
        self._versions = VersionTags(location, batch.instance, run_log)
        self._own = own
        """The runs of this instance, which report their windows themselves."""
        done = [row for row in rows if row["status"] == Status.SUCCESS.value]
        self._newest = set({row["job_name"]: row["job_id"] for row in done}.values())
        """The newest attempt of each table, with which the state of the whole table is reported."""
        self._unplotted: dict[str, None] = {}
        """Tables of which a window was reported."""

        self._add_partitions([row for row in rows if row["dagster_run_id"] not in self._own])

    def report(self, row: dict[str, Any]) -> bool:
        """Report one attempt; False if this instance has reported it itself, or cannot show it."""
        found = self._partition(row)
        if found is None or (row["dagster_run_id"] in self._own and _is_reported_by_its_run(row)):
            return False
        table, window, partition = found
        if is_failed_refresh(row):
            self._report_observation(table, window, partition, row)
            return True
        if row["status"] in (Status.SUCCESS, Status.SKIPPED):
            self._report_materialization(table, window, partition, row)
        else:
            self._report_failure(table, window, partition, row)
        self._report_checks(table, partition, row)
        return True

    def report_unreported(self, row: dict[str, Any], broken: BrokenRuns) -> bool:
        """Report a result that a run of this instance did not report before it ended badly."""
        found, run = self._partition(row), broken.runs[row["dagster_run_id"]]
        if found is None or row["status"] != Status.SUCCESS.value:
            return False  # Dagster shows unfinished planned partitions of a run as failed
        table, window, partition = found
        if broken.has_reported(run.run_id, self._location.key(table.table), partition):
            return False
        self._add_partitions([row])
        self._report_materialization(table, window, partition, row, run)
        self._report_checks(table, partition, row)
        return True

    def check_refreshes(self, rows: Sequence[dict[str, Any]]) -> None:
        """Evaluate the checks of tables of which some attempts ran a window again."""
        tables = {row["job_name"] for row in rows if row["attempt_number"] > 1}
        found = refresh_evaluations(self._instance, self._location, self._run_log, tables)
        for evaluation in found:
            self._batch.add(past_entry(evaluation, datetime.now(timezone.utc)))

    def plot_windows(self) -> None:
        """Report pictures of the windows of tables of which a window was reported."""
        now = datetime.now(timezone.utc)
        for name in self._unplotted:
            table = self._location.project.tables[name]
            if found := plot_windows(self._location, table, self._run_log):
                self._batch.add(past_entry(found, now))

    def _partition(self, row: dict[str, Any]) -> tuple[TableConfig, TimeWindow, str] | None:
        shown = row["job_name"] in self._location.keys
        table = self._location.project.tables[row["job_name"]] if shown else None
        # A discarded window is pending again, which is no error.
        discarded = row["status"] == Status.DISCARDED.value and not _is_decision(row)
        if table is None or discarded:
            return None
        partitions, window = table_partitions(table, self._location), build_window(table, row)
        return (table, window, partitions.key(window)) if partitions.holds(window) else None

    def _add_partitions(self, rows: Sequence[dict[str, Any]]) -> None:
        found = filter(None, map(self._partition, rows))
        add_partitions(
            self._instance, self._location, [(table, window) for table, window, _ in found]
        )

    def _report_materialization(
        self,
        table: TableConfig,
        window: TimeWindow,
        partition: str,
        row: dict[str, Any],
        run: DagsterRun | None = None,
    ) -> None:
        metadata = self._describe(table, window, row)
        self._unplotted[table.table] = None
        if row["job_id"] in self._newest:
            metadata |= table_shown(self._location, table, self._run_log, window)
        key = self._location.key(table.table)
        tags = self._versions.build(table.table, row["table_version"], row["job_id"])
        event = AssetMaterialization(key, partition=partition, metadata=metadata, tags=tags)
        self._batch.add(past_entry(event, parse_log_time(row["job_end_time"]), run))

    def _report_observation(
        self, table: TableConfig, window: TimeWindow, partition: str, row: dict[str, Any]
    ) -> None:
        """Report a failed refresh: the partition keeps its state, and shows an observation."""
        key = self._location.key(table.table)
        if row["dagster_run_id"] in self._own:  # it died, and planned to materialize it
            self._batch.write()  # earlier events must be stored earlier
            report_planned(self._instance, key, partition, None)
        metadata = self._describe(table, window, row)
        event = describe_failed_refresh(key, partition, _end_text(row), metadata)
        self._batch.add(past_entry(event, parse_log_time(row["job_end_time"])))

    def _report_failure(
        self, table: TableConfig, window: TimeWindow, partition: str, row: dict[str, Any]
    ) -> None:
        self._batch.write()  # the last event of a partition decides
        report_failed(
            self._instance,
            self._job,
            self._location.key(table.table),
            partition,
            began=parse_log_time(row["job_start_time"]),
            ended=parse_log_time(row["job_end_time"]),
            tags={JOB_TAG: str(row["job_id"])},
            text=_end_text(row),
            metadata=self._describe(table, window, row),
        )

    def _describe(
        self, table: TableConfig, window: TimeWindow, row: dict[str, Any]
    ) -> dict[str, Any]:
        rows = [row]
        if row["attempt_number"] > 1:  # the first attempts may be thousands: no query for them
            (rows,) = list_attempts_shown(self._run_log, [(table.table, window)])
        return window_metadata(self._location.project, table, window, rows, row["job_id"])

    def _report_checks(self, table: TableConfig, partition: str, row: dict[str, Any]) -> None:
        """Report the results of rules; a window that succeeded has passed all of its `checks:`.

        The check that stopped another window is named in its error only.
        """
        succeeded = row["status"] == Status.SUCCESS.value
        checks = {check.check: True for check in table.checks} if succeeded else {}
        if any(step.quality for step in table.steps):
            with self._run_log.read() as conn:
                reports = quality.read_reports(conn, row["job_id"])
        else:
            reports = {}
        found = CheckFindings(row["job_id"], reports, checks)
        key = self._location.key(table.table)
        for shown in evaluations(self._location.project, table, found, key, partition):
            self._batch.add(past_entry(shown, parse_log_time(row["job_end_time"])))


def _own_runs(instance: DagsterInstance, rows: Sequence[dict[str, Any]]) -> set[str]:
    """Return the runs of this instance among those of some attempts; they report themselves."""
    run_ids = list({row["dagster_run_id"] for row in rows if row["dagster_run_id"]})
    records = instance.get_runs(RunsFilter(run_ids=run_ids)) if run_ids else []
    return {run.run_id for run in records}


def _is_reported_by_its_run(row: dict[str, Any]) -> bool:
    """Return False for skipped windows, decisions of operators, and refreshes whose run died.

    An attempt with an expiry did not end by itself.
    """
    died = is_failed_refresh(row) and row["lease_expires_at"] is not None
    return not (died or row["status"] == Status.SKIPPED or _is_decision(row))


def _is_decision(row: dict[str, Any]) -> bool:
    """Return True if an operator has skipped the window, or made it pending again."""
    return bool(row["run_trigger"] == Trigger.SKIP.value)


def _end_text(row: dict[str, Any]) -> str:
    if _is_decision(row):
        return redact(row["steps"][0]["output"])
    errors = [step["error"] for step in row["steps"] if step["error"]]
    text = f"job {row['job_id']} of {row['owner']} ended as {row['status']}"
    return redact(": ".join([text, *map(in_brief, errors[:1])]))
