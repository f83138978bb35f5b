"""Comparison of a table with an earlier state of it, another window, another table or a query."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal, NoReturn, TypeAlias

from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.project import Project
from logdriven_dagster.config.sql.grouping import find_grouping
from logdriven_dagster.engine.comparison.values import Comparison, QueryRows, Rule, Side, TableRows
from logdriven_dagster.engine.targets.contents import (
    SnapshotHistory,
    TableSnapshot,
    contents_of,
)
from logdriven_dagster.errors import UsageError
from logdriven_dagster.model.windows import normalize_instant
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.history.turning_points import (
    TurningPoint,
    find_end_of_version,
    find_last_restatement,
    find_last_run,
)

Ask: TypeAlias = Callable[[Side, Side, Rule], Comparison]
"""A function that compares the rows of two sides."""

Before: TypeAlias = Literal["restate", "run"] | int
"""A restatement, a run, or the id of an attempt."""


@dataclass(frozen=True, slots=True)
class State:
    """A state of a table, by one of these."""

    snapshot: str | None = None
    before: Before | None = None
    version: int | None = None
    as_of: datetime | None = None


@dataclass(frozen=True, slots=True)
class DescribedSide:
    """A side of a comparison, with its description."""

    side: Side
    description: str


@dataclass(frozen=True, slots=True)
class ReportedComparison:
    """The result of a comparison, with descriptions of its sides."""

    left: DescribedSide
    right: DescribedSide
    result: Comparison
    key_origin: str | None
    """The origin of the key if it was not given, such as `the grouping of its query`."""


def compare(
    project: Project, ask: Ask, left: DescribedSide, right: DescribedSide, rule: Rule
) -> ReportedComparison:
    """Compare two sides by the key of the rule, or by that of the left table.

    `ask` compares the rows.
    """
    origin = None
    if rule.key:
        rule = replace(rule, requires_key=True)
    elif isinstance(left.side, TableRows):
        key, origin = find_key(project, project.table(left.side.table))
        rule = replace(rule, key=key)
    result = ask(left.side, right.side, rule)
    return ReportedComparison(left, right, result, origin if result.key else None)


def find_key(project: Project, table: TableConfig) -> tuple[tuple[str, ...], str | None]:
    """Return the columns that identify a row of a table, and their origin; none if not known."""
    target = table.output
    if target.row_key:
        return target.row_key, "the key of its target"
    step = next(step for step in table.steps if step.target is target)
    if step.quality is not None and step.quality.id:
        return step.quality.id, "the id of its quality rules"
    query = project.step_sql(table, step)
    grouping = () if query is None else find_grouping(query)
    return (grouping, "the grouping of its query") if grouping else ((), None)


def find_sides(
    project: Project, run_log: RunLog, rows: TableRows, state: State | None, other: Side | State
) -> tuple[DescribedSide, DescribedSide]:
    """Return the rows of a table in a state, and those of another side.

    A state as the other side is one of the same rows. Without a state, the rows are the current
    ones. Raises UsageError if there is no such state, or if it has expired.
    """

    def find(rows: TableRows, state: State | None) -> DescribedSide:
        if state is None:
            return _find_current(project, rows)
        return _find_earlier(project, run_log, rows, state)

    left = find(rows, state)
    match other:
        case QueryRows():
            return left, DescribedSide(other, f"the query on {other.connection}")
        case TableRows():
            return left, find(other, None)
        case State():
            return left, find(rows, other)


def _find_earlier(
    project: Project, run_log: RunLog, rows: TableRows, state: State
) -> DescribedSide:
    config = project.table(rows.table)
    history = _list_snapshots(project, config)
    if state.snapshot is not None:
        found, text = _find_snapshot(config.table, history, state.snapshot), ""
    elif state.as_of is not None:
        found, text = _find_by_time(project, config.table, history, state.as_of), ""
    else:
        point = _find_turning_point(run_log, config.table, state)
        found, text = _find_before(config.table, history, point), point.description
    described = ", ".join(filter(None, [_describe(project, rows, found), text]))
    return DescribedSide(replace(rows, snapshot=found.id), described)


def _find_current(project: Project, rows: TableRows) -> DescribedSide:
    """Return the current rows; a target with snapshots is read at the newest one."""
    config = project.table(rows.table)
    history = contents_of(config.output).list_snapshots(project, config.table, config.output)
    if history is None or not history.snapshots:
        return DescribedSide(rows, _describe(project, rows, None))
    newest = history.snapshots[-1]
    text = f"{_describe(project, rows, newest)}, the current one"
    return DescribedSide(replace(rows, snapshot=newest.id), text)


def _describe(project: Project, rows: TableRows, snapshot: TableSnapshot | None) -> str:
    name = rows.table if rows.window is None else f"{rows.table} {rows.window}"
    if snapshot is None:
        return name
    time = snapshot.committed_at.astimezone(project.zone)
    return f"{name}, snapshot {snapshot.id} of {time:%Y-%m-%d %H:%M:%S}"


def _list_snapshots(project: Project, config: TableConfig) -> SnapshotHistory:
    target = config.output
    history = contents_of(target).list_snapshots(project, config.table, target)
    if history is None:
        raise UsageError(
            f"{config.table} has a target of type {target.type}, which keeps only its current "
            "rows; compare them with another table (--with), a query (--sql) or between windows "
            "(--with-window)"
        )
    return history


def _find_snapshot(table: str, history: SnapshotHistory, wanted: str) -> TableSnapshot:
    known = {each.id: each for each in (*history.others, *history.snapshots)}
    if wanted not in known:
        newest = ", ".join(each.id for each in history.snapshots[-3:]) or "none"
        raise UsageError(
            f"{table} has no snapshot {wanted}, or it has expired; the newest ones are {newest}"
        )
    return known[wanted]


def _find_by_time(
    project: Project, table: str, history: SnapshotHistory, time: datetime
) -> TableSnapshot:
    wanted = normalize_instant(time)
    earlier = [each for each in history.snapshots if each.committed_at <= wanted]
    if not earlier:
        named = f"{time.astimezone(project.zone):%Y-%m-%d %H:%M:%S}"
        _refuse_lost_state(table, history, f"the state at {named}")
    return earlier[-1]


def _find_turning_point(run_log: RunLog, table: str, state: State) -> TurningPoint:
    version, before = state.version, state.before
    if version is not None:
        found = run_log.ask(lambda conn: find_end_of_version(conn, table, version))
        problem = f"no attempt of {table} ran version {version}; see `logdriven history {table}`"
    elif before == "restate":
        found = run_log.ask(lambda conn: find_last_restatement(conn, table))
        problem = (
            f"{table} was never restated by `logdriven restate`; use --before run, or the id of "
            "an attempt"
        )
    elif before == "run":
        found = run_log.ask(lambda conn: find_last_run(conn, table))
        problem = f"{table} has never run; use `logdriven run {table}`"
    else:
        assert isinstance(before, int)
        return TurningPoint(before, f"before job {before}")
    if found is None:
        raise UsageError(problem)
    return found


def _find_before(table: str, history: SnapshotHistory, point: TurningPoint) -> TableSnapshot:
    """Return the last state before the first commit of the attempts of a turning point."""
    for number, snapshot in enumerate(history.snapshots):
        if any(job_id >= point.first_job_id for job_id in snapshot.job_ids):
            if number == 0:
                _refuse_lost_state(table, history, f"the state {point.description}")
            return history.snapshots[number - 1]
    raise UsageError(
        f"{table} has not changed since: its current rows are those {point.description}; run its "
        "pending windows first"
    )


def _refuse_lost_state(table: str, history: SnapshotHistory, state: str) -> NoReturn:
    oldest = history.snapshots[0].id if history.snapshots else "none"
    raise UsageError(
        f"{table}: {state} has expired, or nothing was published before; the oldest snapshot that "
        f"can be read is {oldest}"
    )
