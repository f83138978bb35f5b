"""Sharp ETL's SCDTransformer and NonSCDTransformer: modes history and upsert of an Iceberg table.

Their steps merge the rows of a view with rows of the target, which two other steps read before:
one finds the partitions of the rows, and one selects all rows of these partitions. The modes find
the rows of the target themselves, so both steps are left out.

SCDTransformer compares no values: each row with another update time begins a version.
"""

import re
from dataclasses import dataclass

from logdriven_dagster.config.sql.references import UnreadableSqlError, parse_query
from logdriven_dagster.plugins.importers.drafts import UntranslatableError, Values
from logdriven_dagster.plugins.importers.naming import step_name
from logdriven_dagster.plugins.importers.sharpetl.context import Context, WorkflowStep
from logdriven_dagster.plugins.importers.sharpetl.ddl import LAKE
from logdriven_dagster.plugins.importers.sharpetl.parser import Step, Workflow
from logdriven_dagster.plugins.importers.sharpetl.targets import name_lake_table

_KNOWN = frozenset(
    {"className", "methodName", "transformerType", "odsViewName", "dwViewName", "primaryFields"}
    | {"partitionField", "partitionFormat", "createTimeField", "updateTimeField", "dwUpdateType"}
    | {"timeFormat", "surrogateField", "dropUpdateTimeField"}
)
_TARGET = frozenset({"dbName", "tableName"})
_PARTITIONS = {"year": "yyyy", "month": "MM", "day": "dd"}
_FORMAT = "/".join(_PARTITIONS)
_ADDED = ("start_time", "end_time", "is_active", "is_latest")
_HIDDEN = frozenset(
    {"job_id", *_ADDED, "rank_num", "count_num", "dense_rank_num", "data_status"}
    | {"match_value", "max_dense_rank_num", "older_data_end_time"}
)
"""Columns of the view that the transformers leave out."""


@dataclass(frozen=True, slots=True)
class _Merge:
    """Arguments of a transformer."""

    name: str
    rows: str
    """Temporary table with the new rows."""
    existing: str
    """Temporary table with the rows of the target."""
    key: list[str]
    created_at: str
    updated_at: str
    surrogate: str
    is_full: bool
    drops_times: bool
    """True if the table has no columns for the two times."""
    partition_field: str
    partition_format: str
    time_format: str

    @property
    def keeps_versions(self) -> bool:
        return self.name == "SCDTransformer"


def merges_rows(step: Step) -> bool:
    """Return True if a step is one of the two transformers."""
    return _class_name(step) in ("SCDTransformer", "NonSCDTransformer")


def merge_rows(context: Context, step: Step) -> tuple[WorkflowStep, list[str]]:
    """Return a step whose target merges its rows, and the differences that must be reviewed.

    Raises UntranslatableError if the rows would be merged in another way.
    """
    merge = _read(step)
    context.leave_unknown(step.source.headers.values(), _KNOWN, merge.name)
    context.leave_unknown(step.target.headers.values(), _TARGET, "a target")
    _refuse_other_loads(context, step, merge)
    columns = _list_columns(context.workflow, step, merge)
    if merge.keeps_versions:
        return _keep_versions(context, step, merge, columns)
    return _keep_newest(context, step, merge, columns), []


def find_merge_reader(workflow: Workflow, step: Step) -> str | None:
    """Return the reason why a step that only serves a transformer is left out, or None."""
    for merging in filter(merges_rows, workflow.steps):
        merge = _read(merging)
        readers = _list_readers(workflow, merging, merge)
        if readers is not None and any(step is reader for reader in readers):
            return f"only {merge.name} reads its rows: the target finds rows of a key by itself"
    return None


def _read(step: Step) -> _Merge:
    end = step.source
    return _Merge(
        name=_class_name(step),
        rows=end.get("odsViewName"),
        existing=end.get("dwViewName"),
        key=[name.strip() for name in end.get("primaryFields").split(",") if name.strip()],
        created_at=end.get("createTimeField"),
        updated_at=end.get("updateTimeField"),
        surrogate=end.get("surrogateField"),
        is_full=end.get("dwUpdateType").lower() != "incremental",
        drops_times=end.is_true("dropUpdateTimeField"),
        partition_field=end.get("partitionField"),
        partition_format=end.get("partitionFormat"),
        time_format=end.get("timeFormat", "yyyy-MM-dd HH:mm:ss"),
    )


def _class_name(step: Step) -> str:
    return step.source.get("className").rpartition(".")[2]


def _refuse_other_loads(context: Context, step: Step, merge: _Merge) -> None:
    """Raise UntranslatableError for a transformer whose result no mode has."""
    if not (merge.rows and merge.existing and merge.key and merge.updated_at and merge.created_at):
        raise UntranslatableError(
            f"{merge.name} must have odsViewName, dwViewName, primaryFields, createTimeField and "
            "updateTimeField"
        )
    if "," in merge.updated_at + merge.created_at:
        raise UntranslatableError(f"{merge.name}: a version has one time, and several are named")
    if merge.partition_format not in ("", _FORMAT):
        raise UntranslatableError(f"partitionFormat={merge.partition_format} is not {_FORMAT}")
    if merge.keeps_versions and merge.is_full:
        raise UntranslatableError(
            f"with dwUpdateType=full, versions begin at {merge.updated_at}, and those of missing "
            "keys end a second before the window; a snapshot of mode history dates both by the "
            "start of the window: if that may be, write the query of its rows with the target "
            f"{{type: iceberg, mode: history, key: [{', '.join(merge.key)}], snapshot: true}}"
        )
    if context.kind != "time_window":
        raise UntranslatableError(
            f"{merge.name} needs windows of time, in which {merge.updated_at} lies, and the table "
            f"has {context.kind}"
        )
    if step.target.kind not in LAKE:
        raise UntranslatableError(f"{merge.name} cannot write into {step.target.kind} here")
    if _list_readers(context.workflow, step, merge) is None:
        raise UntranslatableError(
            f"dwViewName={merge.existing} is not the view of Sharp ETL's templates on "
            f"{step.target.table}, so the rows that it merges with are unknown; write the query "
            "of its rows with a target of mode history or upsert"
        )


def _list_columns(workflow: Workflow, merging: Step, merge: _Merge) -> list[str]:
    """Return the columns of the new rows that the table keeps, and their times."""
    before = workflow.steps[: workflow.steps.index(merging)]
    queries = [step.sql for step in before if _temp_name(step) == merge.rows.lower()]
    try:
        names = parse_query(queries[-1] if queries else "").named_selects
    except UnreadableSqlError as error:
        raise UntranslatableError(f"the query of {merge.rows} cannot be read: {error}") from None
    if not all(re.fullmatch(r"\w+", name) for name in names):
        raise UntranslatableError(f"the query of {merge.rows} must name all its columns")
    hidden = _HIDDEN | set(merge.partition_format.split("/"))
    columns = [name for name in names if name not in hidden]
    needed = [*merge.key, merge.updated_at, merge.created_at]
    if missing := [name for name in needed if name not in columns]:
        raise UntranslatableError(f"{merge.rows} has no column {', '.join(missing)}")
    return columns


def _keep_versions(
    context: Context, step: Step, merge: _Merge, columns: list[str]
) -> tuple[WorkflowStep, list[str]]:
    rows = _quote(merge.rows)
    if merge.surrogate in columns:  # otherwise the mode drops equal rows
        others = [name for name in columns if name != merge.surrogate]
        rows = _rank(merge, columns, others)
    dropped = {merge.created_at} - {merge.updated_at} if merge.drops_times else set()
    kept = [name for name in columns if name not in dropped]
    where = "" if rows == _quote(merge.rows) else "\nWHERE rank_num = 1"
    sql = f"SELECT {_select(merge, kept)}\nFROM {rows}{where}"
    target: Values = {
        "type": "iceberg",
        "name": name_lake_table(context, step.target),
        "mode": "history",
        "key": merge.key,
        "sequence_by": merge.updated_at,
        "track": [merge.updated_at],
        "valid_from": "start_time",
        "valid_to": "end_time",
    }
    reason = (
        "the table has no columns is_active, is_latest and job_id: the current version has "
        "end_time IS NULL, and the run log has the jobs"
    )
    if merge.drops_times:
        reason += f"; it has a column {merge.updated_at}"
    context.note(step.line, merge.name, reason)
    differences = []
    if merge.created_at != merge.updated_at:
        differences.append(
            f"the first version of a key begins at {merge.updated_at}, and at {merge.created_at} "
            "in Sharp ETL; review it, and remove release_state"
        )
    if merge.surrogate:
        differences.append(
            f"{merge.surrogate} must not change if a window runs again, because other tables refer "
            f"to it: compute it from the key and {merge.updated_at}, and remove release_state"
        )
    return WorkflowStep(sql=sql, target=target), differences


def _keep_newest(context: Context, step: Step, merge: _Merge, columns: list[str]) -> WorkflowStep:
    """Return an upsert of the newest row of each key.

    The newest row of a key is in its last window, since a check requires that the times of rows
    lie in their window.
    """
    times = {merge.created_at, merge.updated_at} if merge.drops_times else set()
    kept = [name for name in columns if name not in times]
    rows = _rank(merge, columns, merge.key)
    sql = f"SELECT {_select(merge, kept)}\nFROM {rows}\nWHERE rank_num = 1"
    target: Values = {
        "type": "iceberg",
        "name": name_lake_table(context, step.target),
        "mode": "upsert",
        "key": merge.key,
    }
    view = context.temps.get(merge.rows.lower(), merge.rows)
    time = _quote(merge.updated_at)
    inside = f"{time} >= :data_range_start AND {time} < :data_range_end"
    check: Values = {
        "check": step_name(f"{view}_is_of_the_window"),
        "sql": f"SELECT * FROM {view}\nWHERE NOT coalesce({inside}, false)\n",  # noqa: S608
    }
    reason = (
        f"a window with {merge.updated_at} outside of it fails, so that no older row replaces a "
        "newer one; the run log has the jobs, and the table no job_id"
    )
    context.note(step.line, merge.name, reason)
    return WorkflowStep(sql=sql, target=target, checks=[check])


def _rank(merge: _Merge, columns: list[str], by: list[str]) -> str:
    """Return a query in parentheses that numbers rows by their time, as the transformers do."""
    names, groups = (", ".join(map(_quote, each)) for each in (columns, by))
    order = f"PARTITION BY {groups} ORDER BY {_quote(merge.updated_at)} DESC"
    source = _quote(merge.rows)
    return f"(\n  SELECT {names},\n    row_number() OVER ({order}) AS rank_num\n  FROM {source}\n)"  # noqa: S608 - names of a file


def _select(merge: _Merge, columns: list[str]) -> str:
    """Return the columns of the table, with those of its partitions."""
    parts = [_quote(name) for name in columns]
    if merge.partition_format:
        time = f"unix_timestamp({_quote(merge.partition_field)}, '{merge.time_format}')"
        parts += [f"from_unixtime({time}, '{f}') AS `{name}`" for name, f in _PARTITIONS.items()]
    return ",\n  ".join(parts)


def _list_readers(workflow: Workflow, merging: Step, merge: _Merge) -> list[Step] | None:
    """Return the steps that select the existing rows, or None if they differ from the templates."""
    before = workflow.steps[: workflow.steps.index(merging)]
    views = [s for s in before if _temp_name(s) == merge.existing.lower()]
    if not views:
        return None
    view, table = views[-1], merging.target.table
    selected = re.fullmatch(rf"select\*from{re.escape(table)}(\$\{{\w+\}})?", _squeeze(view.sql))
    if selected is None:
        return None
    readers, variable = [view], selected[1]
    if variable:
        earlier = before[: before.index(view)]
        defining = [s for s in earlier if _squeeze(s.sql).find(f"as{variable[2:-1]}from") > 0]
        expected = _partition_query(merge, table, variable[2:-1])
        if not defining or not re.fullmatch(expected, _squeeze(defining[-1].sql)):
            return None
        readers.append(defining[-1])
    for other in workflow.steps:
        if other is not view and re.search(rf"\b{re.escape(merge.existing)}\b", other.sql):
            return None
    return readers


def _partition_query(merge: _Merge, table: str, variable: str) -> str:
    """Return a pattern for the template's query of partitions with rows of the new keys."""
    keys = [name.lower() for name in merge.key]
    joined = "and".join(f"dwd.{key}=incremental_data.{key}" for key in keys)
    present = "and".join(f"incremental_data.{key}isnotnull" for key in keys)
    among = "dwd.is_latest=1" if merge.keeps_versions else "'1'='1'"
    part = r"concat\('(?:\w+)=',\w+\)"
    head = re.escape(r"selectconcat('where(',ifempty(concat_ws(')\nor(',collect_set(")
    return (
        rf"{head}concat_ws\('and',{part}(?:,{part})*\)\)\),'1=1'\),'\)'\)as{variable}"
        + re.escape(
            f"from(selectdwd.*from{table}dwdleftjoin{merge.rows.lower()}incremental_dataon{joined}"
            f"where{present}and{among})"
        )
    )


def _squeeze(sql: str) -> str:
    """Return a query without blanks and quotes of names, in lower case."""
    return re.sub(r"[\s`]", "", sql).lower()


def _temp_name(step: Step) -> str:
    return step.target.get("tableName").strip("`'\"").lower() if step.target.kind == "temp" else ""


def _quote(name: str) -> str:
    return f"`{name}`"
