"""Windows and targets of dbt's models, from their materializations."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from typing import Any

from logdriven_dagster.config.models.fields import parse_instant
from logdriven_dagster.plugins.importers.dbt.jinja import Incremental
from logdriven_dagster.plugins.importers.dbt.manifest import Node
from logdriven_dagster.plugins.importers.drafts import UntranslatableError, Values

_PERIODS = {"hour": "1 hour", "day": "1 day", "month": "1 month", "year": "1 year"}
_DEFAULT_STRATEGIES = {
    **dict.fromkeys(("spark", "fabricspark", "trino"), "append"),
    **dict.fromkeys(("athena", "glue"), "insert_overwrite"),
    **dict.fromkeys(("bigquery", "databricks", "duckdb", "snowflake"), "merge"),
    **dict.fromkeys(("postgres", "redshift", "fabric", "sqlserver", "synapse"), "delete+insert"),
}
_BY_RANGE = frozenset({"snowflake", "redshift", "databricks", "duckdb"})
"""Adapters whose microbatch deletes the rows of the batch by `event_time`."""
_BY_PARTITION = frozenset({"bigquery", "spark"})
_CHANGING = (
    ("incremental_predicates", "predicates"),
    ("merge_update_columns", None),
    ("merge_exclude_columns", None),
    ("sql_header", None),
)
"""Settings that change the written rows, with their other names."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Times of tables whose models define none."""

    today: date
    default_start: object
    period: str

    @property
    def snapshots(self) -> Values:
        """Fields of a table that is rebuilt in each period."""
        start = self.default_start or self.today - timedelta(days=1)
        return {"incremental_type": "full", "period": self.period, "default_start": start}


@dataclass(frozen=True, slots=True)
class Shape:
    """Windows and target of a model."""

    times: Values
    target: Values
    incremental: Incremental
    notes: tuple[str, ...] = ()
    review: str = ""
    """A difference to review before the table gets a schedule."""

    @property
    def is_microbatch(self) -> bool:
        return "lookback" in self.times


def is_microbatch(node: Node) -> bool:
    """Return True for incremental models that dbt runs batch by batch."""
    strategy = node.config.get("incremental_strategy")
    return node.materialized == "incremental" and strategy == "microbatch"


def get_shape(node: Node, adapter: str, schedule: Schedule) -> Shape:
    """Return windows and target of a model. Raises UntranslatableError."""
    if node.values.get("language", "sql") != "sql":
        raise UntranslatableError("it is Python of dbt; write it as `python: file.py:function`")
    for names in _CHANGING:
        for name in filter(None, names):
            if node.config.get(name):
                raise UntranslatableError(f"{name} has no counterpart")
    overwrite = {"type": "iceberg", "mode": "overwrite"}
    match node.materialized:
        case "table":
            return Shape(schedule.snapshots, overwrite, "never")
        case "view":
            note = "a view shows the current rows; here they are stored once in each period"
            return Shape(schedule.snapshots, overwrite, "never", (note,))
        case "incremental" if is_microbatch(node):
            return _get_microbatch(node, adapter)
        case "incremental":
            return _get_incremental(node, adapter, schedule)
        case other:
            raise UntranslatableError(f"materialized: {other} has no counterpart")


def with_windows(shape: Shape, schedule: Schedule) -> Shape:
    """Return the shape of an incremental model with time windows instead of snapshots.

    Raises UntranslatableError if the first window is not known.
    """
    if schedule.default_start is None:
        raise UntranslatableError(
            "its is_incremental() becomes windows of time, whose start dbt does not contain; set "
            "it with --default-start"
        )
    times = {"period": schedule.period, "default_start": schedule.default_start}
    note = (
        "dbt reads the rows that are newer than the newest row of the table; here each window "
        "reads its own rows once, and late ones with `lookback`; rows before default_start and "
        "without a time are not read"
    )
    return Shape({"incremental_type": "time_window", **times}, shape.target, "by_column", (note,))


def _get_microbatch(node: Node, adapter: str) -> Shape:
    config = node.config
    column = config.get("event_time")
    size, begin = str(config.get("batch_size")).lower(), config.get("begin")
    if not isinstance(column, str) or size not in _PERIODS or not begin:
        raise UntranslatableError("microbatch needs event_time, batch_size and begin")
    lookback = config.get("lookback", 1)
    if not isinstance(lookback, int):
        raise UntranslatableError(f"lookback: {lookback!r} is not a whole number")
    times: Values = {
        "incremental_type": "time_window",
        "period": _PERIODS[size],
        "default_start": _truncate(str(begin), size),
        "lookback": lookback,
    }
    notes = ["dbt also runs the batch that has not ended; here a window runs after its end"]
    if adapter == "postgres":
        return Shape(times, _upsert(config, "microbatch on postgres"), "unknown", tuple(notes))
    if adapter in _BY_PARTITION:
        notes.append(
            f"here a window replaces all its rows; {adapter} replaces the partitions of the new "
            "rows, and none if there are no new rows"
        )
    elif adapter not in _BY_RANGE:
        raise UntranslatableError(f"the rows that microbatch of {adapter} replaces are not known")
    target = {"type": "iceberg", "mode": "overwrite_window", "window_column": column}
    return Shape(times, target, "unknown", tuple(notes))


def _truncate(begin: str, size: str) -> date | datetime:
    """Return the start of the first batch: dbt truncates `begin` to the size of a batch, in UTC."""
    try:
        instant = parse_instant(begin)
    except ValueError as error:
        raise UntranslatableError(f"begin: {error}") from None
    if instant.tzinfo is not None:
        instant = instant.astimezone(timezone.utc).replace(tzinfo=None)
    if size == "hour":
        hour = instant.replace(minute=0, second=0, microsecond=0)
        return hour.date() if hour.hour == 0 else hour
    day = instant.date()
    return day.replace(
        month=1 if size == "year" else day.month, day=1 if size != "day" else day.day
    )


def _get_incremental(node: Node, adapter: str, schedule: Schedule) -> Shape:
    config = node.config
    strategy = config.get("incremental_strategy") or _DEFAULT_STRATEGIES.get(adapter)
    match strategy:
        case "append":
            target: Values = {"type": "iceberg", "mode": "append"}
        case "merge" | "delete+insert" if config.get("unique_key"):
            target = _upsert(config, str(strategy))
        case "merge" | "delete+insert":
            target = {"type": "iceberg", "mode": "append"}
        case None:
            raise UntranslatableError(
                f"the default strategy of {adapter} is not known; set its incremental_strategy"
            )
        case other:
            raise UntranslatableError(
                f"incremental_strategy: {other} has no counterpart; use `mode: overwrite_window` "
                "with a window_column"
            )
    notes: tuple[str, ...] = ()
    if strategy == "delete+insert" and target["mode"] == "upsert":
        notes = ("rows with the same unique_key in one window are refused; dbt inserts them all",)
    return Shape(schedule.snapshots, target, "by_column", notes)


def _upsert(config: Mapping[str, Any], what: str) -> Values:
    key = list_columns(config, "unique_key", what)
    return {"type": "iceberg", "mode": "upsert", "key": key}


def list_columns(config: Mapping[str, Any], setting: str, what: str) -> list[str]:
    """Return the columns that a setting names. Raises UntranslatableError for expressions."""
    given = config.get(setting)
    columns = [given] if isinstance(given, str) else list(given or ())
    if not columns:
        raise UntranslatableError(f"{what} needs {setting}")
    if wrong := [each for each in columns if not str(each).isidentifier()]:
        raise UntranslatableError(f"{setting} {wrong[0]} is not a column; add one to the query")
    return columns
