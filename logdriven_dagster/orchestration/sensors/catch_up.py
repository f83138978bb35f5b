"""The sensor that requests a catch-up when windows are ready according to the run log."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from dagster import (
    AssetSelection,
    DagsterInstance,
    DagsterRunStatus,
    DefaultSensorStatus,
    JobDefinition,
    RunRecord,
    RunRequest,
    RunsFilter,
    SensorDefinition,
    SensorEvaluationContext,
    SensorResult,
    SkipReason,
    define_asset_job,
)

from logdriven_dagster.config.models.project import SensorConfig
from logdriven_dagster.config.project import Project
from logdriven_dagster.config.secrets import redact
from logdriven_dagster.execution.jobs.standard import bury_dead_runs
from logdriven_dagster.execution.opening import open_runner
from logdriven_dagster.model.attempts import Status
from logdriven_dagster.model.backoff import compute_back_off
from logdriven_dagster.orchestration.assets.next_partitions import add_next_partitions
from logdriven_dagster.orchestration.assets.upstream_assets import UpstreamAssets
from logdriven_dagster.orchestration.events.reconciling import report_dead_runs
from logdriven_dagster.orchestration.jobs.op_jobs import online_tables
from logdriven_dagster.orchestration.jobs.run_tags import PROJECT_TAG, TRIGGER_TAG, run_tags
from logdriven_dagster.orchestration.location import CATCH_UP, Location
from logdriven_dagster.planning.plan import Plan, PlannedWindow
from logdriven_dagster.processes import garbage_kept

OFFLINE = "every table is offline; start runs manually"

_WAITING = [DagsterRunStatus.QUEUED, DagsterRunStatus.NOT_STARTED, DagsterRunStatus.STARTING]
_WORKING = [DagsterRunStatus.STARTED, DagsterRunStatus.CANCELING]
_START_UP = timedelta(minutes=5)
_LONGEST_PAUSE = timedelta(minutes=30)
_LOOKED_AT = 500
_RUNS_LOOKED_AT = 20
_EXPLAINED = 3


class _CatchUpSensor(SensorDefinition):
    """A sensor of an op job that Dagster also shows with every table.

    Dagster shows its own sensors with assets only if they request assets, not jobs; the one
    exception, in `SensorSnap.from_def`, is a sensor whose job is only a set of assets.
    """

    def __init__(self, name: str, tables: AssetSelection, **settings: Any) -> None:
        """Show the sensor with `tables`; it requests the `job` of `settings`."""
        super().__init__(name, **settings)
        self._tables, self._settings = tables, settings

    def with_attributes(
        self,
        *,
        jobs: Sequence[Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> SensorDefinition:
        """Return the sensor with the job that Dagster has bound to its resources."""
        changed = ({"job": jobs[0]} if jobs else {}) | ({"metadata": metadata} if metadata else {})
        return _CatchUpSensor(self.name, self._tables, **(self._settings | changed))

    @property
    def has_anonymous_job(self) -> bool:
        """True if the tables of `job` are named."""
        return True

    @property
    def job(self) -> Any:
        """The tables, in place of the op job, which has no assets."""
        return define_asset_job(f"{self.name}_tables", self._tables)


def catch_up_sensor(location: Location, job: JobDefinition) -> SensorDefinition:
    """Return the sensor that requests one run of `catch_up` if windows are ready.

    Each tick plans from the run log. There is one run at a time. A window that keeps failing is
    requested again after pauses that double, and so is a run that ends before it has logged
    anything. Dead runs that Dagster shows as working are ended.
    """
    project, config = location.project, location.project.config.sensor
    upstream_assets = UpstreamAssets(project)

    @garbage_kept()
    def evaluate(context: SensorEvaluationContext) -> SensorResult:
        now = datetime.now(project.zone)
        runner = open_runner(project)
        report_dead_runs(context.instance, location, runner.run_log)
        bury_dead_runs(runner.run_log, runner.owner)
        runner.outbox.deliver()
        upstream_assets.note(context, runner)
        current = runner.in_force()
        online = online_tables(current, location.select())
        if not online:
            return SensorResult(skip_reason=SkipReason(OFFLINE), cursor=context.cursor)
        plan = runner.plan(now, online, backoff=config.interval, in_force=current)
        add_next_partitions(context.instance, location, plan)
        runs = _latest_runs(context.instance, project, job.name)
        ready, reason = _ready(plan)
        ready, group = _of_one_group(current, online, ready)
        pause = Pause.from_cursor(context.cursor, ready)
        if reason := reason or _busy(runs, plan, now) or pause.reason(now):
            message = redact(reason + _describe_left_out(current, location.select()))
            return SensorResult(skip_reason=SkipReason(message), cursor=context.cursor)
        request = _build_request(
            _digest(ready, runs[0].dagster_run.run_id if runs else ""),
            _run_config(config, job.name, group),
            _tags(current, ready),
        )
        return SensorResult(run_requests=[request], cursor=pause.next(now, config.interval))

    return _CatchUpSensor(
        location.name(f"{CATCH_UP}_sensor"),
        AssetSelection.assets(*location.keys.values()),
        evaluation_fn=evaluate,
        job=job,
        minimum_interval_seconds=max(int(config.interval.total_seconds()), 1),
        default_status=(
            DefaultSensorStatus.RUNNING if config.enabled else DefaultSensorStatus.STOPPED
        ),
        description="Requests a catch-up when windows are ready.",
    )


@dataclass(frozen=True, slots=True)
class Pause:
    """The cursor: the number of unsuccessful requests for the same windows, and the next time."""

    windows: str
    requests: int = 0
    until: float = 0
    """Epoch seconds."""

    @classmethod
    def from_cursor(cls, cursor: str | None, ready: Sequence[PlannedWindow]) -> "Pause":
        """Return the pause of the last request, if no other window has become ready since."""
        windows = _digest(ready)
        try:
            left = cls(**json.loads(cursor or "{}"))
        except (TypeError, ValueError):
            return cls(windows)
        return left if left.windows == windows else cls(windows)

    def reason(self, now: datetime) -> str | None:
        """Return the reason for requesting nothing yet; None if the pause is over."""
        if now.timestamp() >= self.until:
            return None
        again = datetime.fromtimestamp(self.until, now.tzinfo)
        return (
            f"the last run did not finish any of the ready windows; next attempt at {again:%F %T}"
        )

    def next(self, now: datetime, interval: timedelta) -> str:
        """Return the cursor after a request: the pause before the same request doubles."""
        requests = self.requests + 1
        pause = compute_back_off(requests + 1, interval, _LONGEST_PAUSE)
        return json.dumps(asdict(Pause(self.windows, requests, (now + pause).timestamp())))


def _ready(plan: Plan) -> tuple[list[PlannedWindow], str | None]:
    """Return the next ready windows, or the reason why there are none."""
    windows = list(islice(plan.windows(), _LOOKED_AT))
    ready = [window for window in windows if window.state.has_work]
    ready = ready or list(islice(plan.ready(), 1))
    if ready:
        return ready, None
    if not windows:
        return [], "no window is pending"
    reasons = [f"{item.table} {item.window}: {item.reason}" for item in windows[:_EXPLAINED]]
    return [], "no window is ready: " + "; ".join(reasons)


def _latest_runs(instance: DagsterInstance, project: Project, job: str) -> Sequence[RunRecord]:
    filters = RunsFilter(job_name=job, tags={PROJECT_TAG: project.name})
    return instance.get_run_records(filters, limit=_RUNS_LOOKED_AT)


def _busy(runs: Sequence[RunRecord], plan: Plan, now: datetime) -> str | None:
    """Return a description of the run that is at work or queued, or None.

    A killed run stays STARTED in Dagster for ever; according to the run log it holds no lease.
    """
    holders = {
        attempt.owner.dagster_run_id
        for table in plan.tables.values()
        for attempt in table.log.open
        if attempt.status is Status.RUNNING and attempt.owner
    }
    for record in runs:
        run = record.dagster_run
        starting = now - record.create_timestamp < _START_UP
        working = run.status in _WORKING and (starting or run.run_id in holders)
        if run.status in _WAITING or working:
            return f"run {run.run_id[:8]} is {run.status.value.lower()}"
    return None


def _digest(windows: Iterable[PlannedWindow], *others: str) -> str:
    parts = [f"{window.table} {window.window.start.timestamp()}" for window in windows]
    return hashlib.sha256("\n".join([*parts, *others]).encode()).hexdigest()[:32]


def _of_one_group(
    project: Project, tables: Sequence[str], ready: list[PlannedWindow]
) -> tuple[list[PlannedWindow], list[str] | None]:
    """Return the windows of the first one's worker group, and its tables if there are others.

    A run is dispatched to one group; the others get the next run. Source: DolphinScheduler.
    """
    groups = {name: project.tables[name].worker_group for name in tables}
    if not ready or len(set(groups.values())) == 1:
        return ready, None
    chosen = groups[ready[0].table]
    names = [name for name, group in groups.items() if group == chosen]
    return [window for window in ready if groups[window.table] == chosen], names


def _build_request(run_key: str, config: dict[str, Any], tags: dict[str, str]) -> RunRequest:
    """Return the request of a run.

    Dagster keeps the local variables of the function that is the first to make a `RunRequest`, so
    the plan of thousands of tables must not be one of them.
    """
    return RunRequest(run_key=run_key, run_config=config, tags=tags)


def _tags(project: Project, ready: Sequence[PlannedWindow]) -> dict[str, str]:
    """Return the tags of the requested run: priority and group of the most urgent window."""
    urgent = max((project.tables[w.table] for w in ready), key=lambda table: table.priority)
    return {PROJECT_TAG: project.name, TRIGGER_TAG: "sensor", **run_tags(urgent)}


def _describe_left_out(project: Project, tables: Sequence[str]) -> str:
    online = set(online_tables(project, tables))
    offline = [name for name in tables if name not in online]
    if not offline:
        return ""
    more = f" and {len(offline) - _EXPLAINED} more" if len(offline) > _EXPLAINED else ""
    return f"; offline, to be started manually: {', '.join(offline[:_EXPLAINED])}{more}"


def _run_config(config: SensorConfig, op: str, tables: list[str] | None) -> dict[str, Any]:
    backoff = config.interval.total_seconds()
    values: dict[str, Any] = {"max_windows": config.max_windows, "backoff_seconds": backoff}
    values |= {"tables": tables} if tables else {}
    return {"ops": {op: {"config": values}}}
