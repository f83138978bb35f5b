"""Eligibility of a table's adjoining windows to run as a batch in one Spark job."""

from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias

from logdriven_dagster.config.models.steps import StepConfig
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.models.types.declared_columns import find_declared_type
from logdriven_dagster.config.models.types.sources import Source
from logdriven_dagster.config.models.types.targets import Target
from logdriven_dagster.config.project import Project
from logdriven_dagster.config.sql.references import UnreadableSqlError
from logdriven_dagster.config.sql.window_keys import OF_A_WINDOW, KeyAnalysis
from logdriven_dagster.config.sql.window_rules import refuse_mixing_rules
from logdriven_dagster.config.sql.window_scopes import SHARED, NamedRows, TogetherError

Counting: TypeAlias = Literal["results", "reads", "unknown"]
"""Method of counting the rows read for each window of a batch.

- `results`: every row read becomes exactly one row of the result
- `reads`: rows are counted as the query reads them
- `unknown`: several steps read, or one step reads the same rows twice
"""


_TIMES = ("timestamp", "date")
_MANY = 10
"""The number of windows from which batches save a considerable time."""


def find_stretch_obstacle(project: Project, table: TableConfig) -> str | None:
    """Return the reason why a table's windows cannot run in one Spark job, or None if they can."""
    try:
        _look_at_table(table)
        _Steps(project, table).look()
    except TogetherError as error:
        return str(error)
    return None


def find_single_windows(project: Project, pending: Mapping[str, int]) -> Mapping[str, str]:
    """Return the tables whose windows run one by one although they could be a batch, with reasons.

    `pending` has the number of pending windows by table. A table is included if its `batch_size`
    is a request for batches, or if it has many pending windows.
    """
    found = {}
    for name, windows in pending.items():
        table = project.tables[name]
        is_affected = windows >= _MANY if table.batch_size == "auto" else table.batch_size != 1
        if is_affected and (reason := find_stretch_obstacle(project, table)) is not None:
            found[name] = reason
    return found


def find_window_keys(project: Project, table: TableConfig) -> Mapping[str, str]:
    """Return the column of each step's result whose values lie in the window of their row.

    It is the target's `window_column`, or a column that the query passes on or computes from the
    source's. Returns an empty mapping if the windows cannot run in one Spark job.
    """
    steps = _Steps(project, table)
    try:
        steps.look()
    except TogetherError:
        return {}
    return steps.window_keys


def choose_counting(project: Project, table: TableConfig) -> Counting:
    """Return the method of counting the rows that the single step of a batched table reads."""
    steps = _Steps(project, table)
    try:
        steps.look()
    except TogetherError:
        return "unknown"
    if len(table.steps) > 1 or any(number > 1 for number in steps.keys.reads.values()):
        return "unknown"
    return "reads" if steps.keys.multiplies or steps.keys.condenses else "results"


def _look_at_table(table: TableConfig) -> None:
    if table.is_sliced or table.incremental.is_snapshot:
        raise TogetherError(f"incremental_type is {table.incremental_type}, not time_window")
    for number, step in enumerate(table.steps, 1):
        for reason in _look_at_step(step, is_last=number == len(table.steps)):
            raise TogetherError(f"step {step.step}: {reason}")


def _look_at_step(step: StepConfig, *, is_last: bool) -> Iterator[str]:
    yield from (reason for reason, given in _list_obstacles(step).items() if given)
    if step.on_empty != "continue" and not is_last:
        yield "on_empty selects the next steps for each window separately"
    target = step.target
    if target is None:
        return
    if target.stretch_obstacle is not None:
        yield target.stretch_obstacle
    if not target.write_mode.supports_batching:
        yield f"mode {target.mode} writes one window at a time"


def _list_obstacles(step: StepConfig) -> dict[str, object]:
    """Map reasons to properties of a step that require one window at a time."""
    return {
        "the effect of a Python function on rows of several windows is unknown": step.python,
        "loop_over": step.loop_over,
        "commit_before_read runs for each window separately": step.commit_before_read,
        "never_empty and change_at_most compare each window separately": step.compares_replaced,
    }


class _Steps:
    """The queries of a table's steps and checks, analysed in order."""

    def __init__(self, project: Project, table: TableConfig) -> None:
        self._project, self._table = project, table
        own = NamedRows(refused=f"it reads {table.table}, its own rows of earlier windows")
        self._relations = {table.table.lower(): own}
        for dependency in table.managed_dependencies:
            if dependency.read != "none":
                self._relations[dependency.table.lower()] = self._analyze_upstream(dependency.table)
        self.keys = KeyAnalysis(table.grid, self._relations)
        self.window_keys: dict[str, str] = {}
        """Step → the column of its result that identifies the window of a row."""

    def look(self) -> None:
        """Raise TogetherError if a query mixes windows."""
        for step in self._table.steps:
            try:
                self._relations[step.step.lower()] = found = self._analyze_result(step)
                if step.target is not None:
                    self.window_keys[step.step] = _find_window_key(step, step.target, found)
                if step.quality is not None:
                    known = self._project.config.quality_rules
                    refuse_mixing_rules(step.quality, known, found, self.keys)
            except (TogetherError, UnreadableSqlError) as error:
                raise TogetherError(f"step {step.step}: {error}") from None
        for check in self._table.checks:
            try:
                self.keys.analyze(check.sql)
            except (TogetherError, UnreadableSqlError) as error:
                raise TogetherError(f"check {check.check}: {error}") from None

    def _analyze_result(self, step: StepConfig) -> NamedRows:
        source = self._analyze_source(step.source) if step.source else SHARED
        self._relations["source"] = source
        sql = self._project.step_sql(self._table, step)
        return source if sql is None else self.keys.analyze(sql)

    def _analyze_source(self, source: Source) -> NamedRows:
        texts = source.model_dump(exclude={"query"})
        if found := OF_A_WINDOW.search(str(texts)):
            raise TogetherError(f"its source uses {found[0]}")
        inner = SHARED
        for _, sql, connection in source.statements():
            inner = KeyAnalysis(self._table.grid, {}).analyze(sql, self._get_dialect(connection))
        if source.window_column is None:
            return inner
        if not isinstance(source.window_column, str):
            raise TogetherError(
                f"values of source.window_column {source.window_name} are not timestamps, "
                "so a value computed from them may belong to another window"
            )
        columns = getattr(source, "columns", None)
        kind = find_declared_type(columns, source.window_column) if columns else None
        if kind is not None and not kind.startswith(_TIMES):
            raise TogetherError(
                f"source.window_column {source.window_column} is {kind.upper()}, whose date may be "
                "that of another window; declare it as TIMESTAMP"
            )
        return NamedRows((inner.keys or frozenset()) | {source.window_column.lower()})

    def _get_dialect(self, connection: str) -> str | None:
        from logdriven_dagster.config.sql.queries import get_connection_dialect

        return get_connection_dialect(self._project, connection)

    def _analyze_upstream(self, name: str) -> NamedRows:
        """Return the awaited windows of an upstream table, or all of its rows."""
        table, upstream = self._table, self._project.tables[name]
        dependency = next(each for each in table.table_dependencies if each.table == name)
        target = upstream.output
        if (
            dependency.read == "all"
            or dependency.window == "none"
            or target.write_mode.replaces_whole_table
            or target.write_mode.keeps_history
        ):
            return SHARED
        if upstream.is_sliced or upstream.incremental.is_snapshot:
            return SHARED
        if target.window_column is None:
            return NamedRows(refused=f"{name} has no target.window_column to identify its windows")
        column = frozenset({target.window_column.lower()})
        if dependency.window == "ended":
            return NamedRows(
                refused=f"it reads the windows of {name} that ended before each window"
            )
        return NamedRows(column) if _is_divisor(upstream, table) else NamedRows(must_name=column)


def _find_window_key(step: StepConfig, target: Target, found: NamedRows) -> str:
    """Return the column of a step's result that identifies the window of a row."""
    if found.keys is None:
        problem = "the rows that it reads are not limited to a window; set source.window_column"
        raise TogetherError(problem)
    keys = sorted(found.keys)
    if target.window_column is None:
        if not keys:
            of_source = step.source.window_name if step.source else None
            raise TogetherError(
                "no column of the result identifies the window of a row; select "
                f"{of_source or 'the column that does'}, too"
            )
        return next((key for key in keys if _is_of_source(step, key)), keys[0])
    if target.window_column.lower() not in keys:
        raise TogetherError(
            f"{target.window_column} is not computed only from columns that identify "
            f"the window of a row (such as {', '.join(keys) or 'no column'})"
        )
    return target.window_column


def _is_of_source(step: StepConfig, key: str) -> bool:
    return step.source is not None and key == (step.source.window_name or "").lower()


def _is_divisor(upstream: TableConfig, table: TableConfig) -> bool:
    """Return True if each window of the table consists of whole upstream windows."""
    one, other = upstream.period, table.period
    same_origin = upstream.grid.origin.timestamp() == table.grid.origin.timestamp()
    return same_origin and one.unit is other.unit and other.count % one.count == 0
