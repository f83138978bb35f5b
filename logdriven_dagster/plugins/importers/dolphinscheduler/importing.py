"""Jobs and tables from workflows of DolphinScheduler.

A workflow becomes a standard job, and each of its tasks a table whose windows are the scheduled
runs. The order of the tasks becomes `depends_on`, which holds in every run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from pathlib import Path, PurePosixPath

from logdriven_dagster.config.models.fields import parse_instant
from logdriven_dagster.config.project import Project
from logdriven_dagster.plugins.importers import naming
from logdriven_dagster.plugins.importers.database.importing import as_date, as_wall_clock
from logdriven_dagster.plugins.importers.dolphinscheduler.conditions import (
    Expectation,
    Order,
)
from logdriven_dagster.plugins.importers.dolphinscheduler.crontabs import (
    Cadence,
    read_crontab,
    same_zone,
)
from logdriven_dagster.plugins.importers.dolphinscheduler.definitions import (
    Schedule,
    Task,
    Workflow,
    read_workflows,
)
from logdriven_dagster.plugins.importers.dolphinscheduler.dependent_dates import (
    AwaitedWindow,
    find_awaited_window,
    is_previous_run,
)
from logdriven_dagster.plugins.importers.dolphinscheduler.placeholders import Placeholders
from logdriven_dagster.plugins.importers.dolphinscheduler.tasks import TaskStep, TaskTranslator
from logdriven_dagster.plugins.importers.drafts import (
    DraftFile,
    Translation,
    UntranslatableError,
    Values,
    job_path,
    stub_query,
    table_path,
)

_PRIORITIES = {"HIGHEST": 2, "HIGH": 1, "LOW": -1, "LOWEST": -2}
_STRATEGIES = {"WARN": "warn", "FAILED": "fail", "WARNFAILED": "both"}


@dataclass(frozen=True, slots=True)
class DolphinRequest:
    """Arguments of `logdriven import-dolphinscheduler`."""

    paths: Sequence[Path]
    today: date
    layer: str = "ds"
    default_start: str | None = None
    connections: Mapping[str, str] = field(default_factory=dict)
    """Project connection for each data source by its number."""


def import_dolphinscheduler(project: Project, wish: DolphinRequest) -> Translation:
    """Return drafts of all workflows. Raises UsageError for a file that is not an export."""
    translation = Translation()
    workflows = read_workflows(wish.paths)
    taken: set[str] = set()
    prepared = []
    for workflow in workflows:
        job = naming.step_name(_ascii(workflow.name, "workflow", workflow.code), taken)
        taken.add(job.lower())
        prepared.append(_prepare(project, wish, translation, workflow, job))
    by_code = {each.workflow.code: each for each in prepared}
    for each in prepared:
        _WorkflowImport(each, project, wish, translation, by_code).draft()
    return translation


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A workflow, its cadence, and the names of its tables."""

    workflow: Workflow
    job: str
    cadence: Cadence
    tables: Mapping[str, str]
    """Table of each task that does work."""
    is_regular: bool
    """False if its schedule could not be translated."""
    is_online: bool

    @property
    def last_tables(self) -> list[str]:
        """The tables of the tasks that no other task follows."""
        order = Order(self.workflow)
        followed = set()
        for code in self.tables:
            try:
                followed |= {each.task for each in order.requirements(code)}
            except UntranslatableError:
                followed |= set(self.workflow.before.get(code, ()))
        return [name for code, name in self.tables.items() if code not in followed]


def _prepare(
    project: Project, wish: DolphinRequest, translation: Translation, workflow: Workflow, job: str
) -> _Prepared:
    names: dict[str, str] = {}
    taken: set[str] = set()
    for task in workflow.tasks.values():
        if task.kind in ("CONDITIONS", "DEPENDENT"):
            continue
        own = _ascii(task.name, "task", task.code)
        name = naming.distinct(naming.table_name(f"{job}.{own}", wish.layer), taken)
        taken.add(name.lower())
        names[task.code] = name
    schedule, cadence, regular = workflow.schedule, Cadence("1 day"), True
    if schedule is not None:
        try:
            cadence = read_crontab(schedule.crontab)
            if schedule.timezone and not same_zone(schedule.timezone, str(project.config.timezone)):
                regular = False
                reason = (
                    f"its time zone is {schedule.timezone}, that of the project "
                    f"{project.config.timezone}; set timezone in logdriven.yaml"
                )
                translation.leave(workflow.place, f"schedule {schedule.crontab}", reason)
        except UntranslatableError as error:
            regular = False
            translation.leave(workflow.place, f"schedule {schedule.crontab}", str(error))
    online = workflow.is_online and schedule is not None and schedule.is_online
    return _Prepared(workflow, job, cadence, names, regular, online)


def _ascii(name: str, kind: str, code: str) -> str:
    """Return a name of ASCII letters; one without them is called by its code."""
    return naming.identifier(name, otherwise=f"{kind}_{code}" if not _letters(name) else kind)


def _letters(name: str) -> str:
    return "".join(each for each in name if each.isascii() and each.isalnum())


@dataclass(slots=True)
class _WorkflowImport:
    prepared: _Prepared
    project: Project
    wish: DolphinRequest
    translation: Translation
    others: Mapping[str, _Prepared]
    incomplete: set[str] = field(default_factory=set)
    """Codes of tasks whose table must not start by itself."""

    @property
    def workflow(self) -> Workflow:
        return self.prepared.workflow

    def draft(self) -> None:
        """Add the drafts of the job and its tables."""
        self._report_settings()
        order = Order(self.workflow)
        for code in self.workflow.tasks:
            if code in self.prepared.tables:
                self._table(self.workflow.tasks[code], order)
            else:
                self._report_task(self.workflow.tasks[code])
        self._job()

    def _table(self, task: Task, order: Order) -> None:
        name = self.prepared.tables[task.code]
        self._report_task(task)
        try:
            depends = self._depends_on(task, order) if task.is_enabled else []
            made = self._step(task, name)
        except UntranslatableError as error:
            self._leave(task, str(error))
            reason = f"{task.name}: {error}"
            step = {"step": "run", "sql": stub_query(reason), "target": {"type": "iceberg"}}
            depends, made = [], TaskStep(step)
        values: Values = {
            "table": name,
            "description": f"DolphinScheduler: {self.workflow.name} / {task.name}"
            + (f": {task.text('description')}" if task.text("description") else ""),
            "tags": {"dolphinscheduler_code": task.code},
        }
        values |= self._settings(task)
        if not task.is_enabled:
            values["enabled"] = False
        is_running = self.prepared.is_online and self._is_regular and not self._has_ended(name)
        if task.code in self.incomplete or not is_running:
            values["release_state"] = "offline"
        values |= self._windows(task, order)
        if depends:
            values["depends_on"] = depends
        if made.variables:
            values["variables"] = dict(made.variables)
        values["steps"] = [made.step]
        comments = {}
        if task.code in self.incomplete:
            comments = {"steps.run": ["TODO: it was not translated as a whole. The original:"]}
            comments["steps.run"] += [f"    {line}" for line in _original(task)]
        files = {}
        if made.python is not None:
            files[table_path(name).with_suffix(".py")] = made.python
        origin = f"Made by `logdriven import-dolphinscheduler` from {self.workflow.place}."
        self.translation.drafts.append(DraftFile(table_path(name), values, origin, comments, files))

    @property
    def _is_regular(self) -> bool:
        return self.prepared.is_regular

    def _step(self, task: Task, name: str) -> TaskStep:
        names = Placeholders(self.workflow, task, self.prepared.cadence)
        steps = TaskTranslator(self.project, self.wish.connections, self.translation)
        file = PurePosixPath(table_path(name)).with_suffix(".py").name
        return steps.translate(task, names, file, self.workflow.place)

    def _settings(self, task: Task) -> Values:
        found: Values = {}
        if priority := _PRIORITIES.get(task.text("taskPriority").upper()):
            found["priority"] = priority
        groups = [task.text("workerGroup")]
        if self.workflow.schedule is not None:
            groups.append(self.workflow.schedule.worker_group)
        if group := next((each for each in groups if each not in ("", "default")), None):
            found["worker_group"] = group
        if retries := task.number("failRetryTimes"):
            found["retries"] = retries
            if interval := task.number("failRetryInterval"):
                found["retry_interval"] = f"{interval} min"
        if task.text("timeoutFlag").upper() in ("OPEN", "1") and task.number("timeout"):
            found["timeout"] = f"{task.number('timeout')} min"
            strategy = task.text("timeoutNotifyStrategy").upper()
            found["timeout_strategy"] = _STRATEGIES.get(strategy, "warn")
        return found

    def _windows(self, task: Task, order: Order) -> Values:
        name = self.prepared.tables[task.code]
        cadence, schedule = self.prepared.cadence, self.workflow.schedule
        found: Values = {"period": cadence.period, "default_start": self._start(name)}
        if schedule is not None and (end := self._end(schedule)) and not self._has_ended(name):
            found["end"] = end
        if delay := cadence.delay + order.is_delayed_root(task.code):
            found["delay"] = f"{delay} min"
        if not any(self._is_own_previous(task, each) for each in order.expectations(task.code)):
            # A failed run does not stop later ones in DolphinScheduler.
            found["ordered"] = False
        return found | {"batch_size": 1}

    def _start(self, name: str) -> object:
        """Return the `default_start` of a table."""
        if self.wish.default_start is not None:
            return as_date(self.wish.default_start)
        if name in self.project.tables:
            return as_wall_clock(self.project.tables[name].default_start)
        return self.prepared.cadence.first_day(self.wish.today)

    def _has_ended(self, name: str) -> bool:
        """Return True if the last run of the schedule is before the first window of a table."""
        schedule = self.workflow.schedule
        end = self._end(schedule) if schedule is not None else None
        return end is not None and _as_datetime(end) <= _as_datetime(self._start(name))

    def _end(self, schedule: Schedule) -> date | datetime | None:
        """Return the end of the last window whose scheduled time the schedule includes."""
        try:
            end = datetime.fromisoformat(schedule.end)
        except ValueError:
            return None
        if end.year >= self.wish.today.year + 50:
            return None
        last = end.replace(tzinfo=None) - timedelta(minutes=self.prepared.cadence.delay)
        if self.prepared.cadence.is_within_a_day:
            last = last.replace(second=0, microsecond=0)
            return last.date() if not (last.hour or last.minute) else last
        return last.date()

    def _depends_on(self, task: Task, order: Order) -> list[Values]:
        found: dict[str, Values] = {}
        for each in order.requirements(task.code):
            values: Values = {"table": self.prepared.tables[each.task]}
            if each.outcome != "success":
                values["condition"] = each.outcome
            if each.delay:
                values["delay"] = f"{each.delay} min"
            found[values["table"]] = {**values, "read": "none"}
        for expectation in order.expectations(task.code):
            if self._is_own_previous(task, expectation):
                continue
            window, tables = self._awaited(expectation)
            awaited: Values = {} if window == "overlapping" else {"window": window}
            for table in tables:
                values = {"table": table, **awaited, "read": "none"}
                if found.setdefault(table, values) != values:
                    raise UntranslatableError(
                        f"it waits for several runs of {table}; a table has one entry in depends_on"
                    )
        return list(found.values())

    def _is_own_previous(self, task: Task, expectation: Expectation) -> bool:
        """Return True if a DEPENDENT task waits for the previous run of the task after it.

        Such a table is `ordered`: each of its windows waits for all earlier ones.
        """
        same = expectation.workflow == self.workflow.code and expectation.upstream == task.code
        return (
            same and self._is_regular and is_previous_run(expectation.date, self.prepared.cadence)
        )

    def _awaited(self, expectation: Expectation) -> tuple[AwaitedWindow, list[str]]:
        """Return the windows and tables of another workflow that a DEPENDENT task waits for."""
        node = self.workflow.tasks[expectation.task].name
        other = self.others.get(expectation.workflow)
        if other is None:
            raise UntranslatableError(
                f"{node}: workflow {expectation.workflow} is not among the files; export it as well"
            )
        own = self.prepared.cadence
        window = None
        if other.is_regular and self._is_regular:
            window = find_awaited_window(expectation.date, own, other.cadence)
        if window is None:
            raise UntranslatableError(
                f"{node}: it waits for {expectation.date} ({expectation.cycle}) of "
                f"{other.workflow.name}, whose period is {other.cadence.period}; a window of "
                f"{own.period} waits for the windows that it overlaps, or with `window: ended` "
                "for the last ones up to its end, and these are other runs. Write depends_on with "
                "the windows that you need, or `ordered: true` for a table that waits for its own "
                "previous run"
            )
        if expectation.upstream in ("0", "-1"):
            return window, other.last_tables
        if expectation.upstream not in other.tables:
            raise UntranslatableError(
                f"{node}: workflow {other.workflow.name} has no task {expectation.upstream} that "
                "does work"
            )
        return window, [other.tables[expectation.upstream]]

    def _job(self) -> None:
        workflow, cadence = self.workflow, self.prepared.cadence
        description = workflow.description or workflow.name
        values: Values = {
            "job": self.prepared.job,
            "description": f"{description} (DolphinScheduler {workflow.code})",
            "tables": list(self.prepared.tables.values()),
        }
        if workflow.schedule is not None and self._is_regular:
            values["schedule"] = cadence.cron
        ended = [name for name in values["tables"] if self._has_ended(name)]
        if not self.prepared.is_online or not self._is_regular or ended:
            values["release_state"] = "offline"
        if ended and workflow.schedule is not None:
            reason = (
                "the schedule has ended, and no run is left; pass a --default-start before its end "
                "for the runs until then"
            )
            self.translation.leave(workflow.place, f"endTime {workflow.schedule.end}", reason)
        if workflow.timeout:
            values |= {"timeout": f"{workflow.timeout} min", "timeout_strategy": "warn"}
        if not values["tables"]:
            self.translation.leave(workflow.place, workflow.name, "it has no tasks that do work")
            return
        origin = f"Made by `logdriven import-dolphinscheduler` from {workflow.place}."
        self.translation.drafts.append(DraftFile(job_path(self.prepared.job), values, origin))

    def _report_settings(self) -> None:
        """Record the settings of the workflow and its schedule that have no counterpart."""
        workflow, schedule = self.workflow, self.workflow.schedule
        place = workflow.place
        if workflow.execution != "PARALLEL":
            reason = (
                "runs are not in series here; set `ordered: true` to run a window after all "
                "earlier ones have succeeded"
            )
            self.translation.leave(place, f"executionType {workflow.execution}", reason)
        if schedule is None:
            reason = "it has no schedule: start its job by hand, as in DolphinScheduler"
            self.translation.note(place, workflow.name, reason)
            return
        warning = str(schedule.values.get("warningType") or "NONE").upper()
        if warning not in ("NONE", "0"):
            reason = "alert groups are not in the export; set `notify` and `recipients`"
            self.translation.leave(place, f"warningType {warning}", reason)
        priority = str(schedule.values.get(schedule.priority_name) or "MEDIUM").upper()
        if priority not in ("MEDIUM", "2"):
            reason = "the priority of whole runs is not imported; set `priority` of the tables"
            self.translation.note(place, f"{schedule.priority_name} {priority}", reason)
        if schedule.environment not in ("", "-1", "0"):
            reason = (
                "environments are not in the export; set the variables for the process that runs "
                "the tables"
            )
            self.translation.leave(place, f"environmentCode {schedule.environment}", reason)
        if str(schedule.values.get("failureStrategy") or "").upper() in ("END", "0"):
            reason = "after a failed task, tasks that do not depend on it go on here"
            self.translation.note(place, "failureStrategy END", reason)

    def _report_task(self, task: Task) -> None:
        """Record the settings of a task that have no counterpart."""
        reasons = {
            "taskGroupId": "task groups limit parallel tasks; use max_parallel of the project",
            "environmentCode": "environments are not in the export; set the variables for the "
            "process that runs the table",
            "cpuQuota": "limits of CPU and memory have no counterpart",
            "memoryMax": "limits of CPU and memory have no counterpart",
        }
        for name, reason in reasons.items():
            if task.number(name) and (name != "environmentCode" or task.kind != "SQL"):
                self._leave(task, f"{name} {task.number(name)}: {reason}", whole=True)
        if task.text("isCache").upper() in ("YES", "1"):
            self._leave(task, "isCache: results of earlier runs are never taken", whole=True)

    def _leave(self, task: Task, reason: str, *, whole: bool = False) -> None:
        """Record a reason for a task; unless the task is `whole`, its table starts by hand only."""
        self.translation.leave(self.workflow.place, f"{task.name} ({task.kind})", reason)
        if not whole:
            self.incomplete.add(task.code)


def _as_datetime(value: object) -> datetime:
    """Return a day, a time or the text of one, without its zone."""
    found: datetime = parse_instant(str(value))
    return found.replace(tzinfo=None)


def _original(task: Task) -> list[str]:
    """Return the text of a task for a comment."""
    names = ("preStatements", "sql", "postStatements", "method", "rawScript")
    texts: list[object] = []
    for name in names:
        value = task.parameters.get(name)
        texts += value if isinstance(value, list) else [value]
    return [line for text in texts if text for line in str(text).splitlines()]
