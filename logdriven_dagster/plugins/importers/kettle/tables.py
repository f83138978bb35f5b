"""Configuration tables of the Kettle ETL workflow design guide, as rows."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from logdriven_dagster.errors import UsageError
from logdriven_dagster.plugins.importers.drafts import Translation
from logdriven_dagster.plugins.importers.naming import is_whole

if TYPE_CHECKING:
    from sqlalchemy import Engine, RowMapping

_JOBS = ("t_etl_kjb_cfg", ("kjb_name", "kjb_type", "is_enabled", "retries"))
_STANDARD = ("t_etl_std_ktr_cfg", ("kjb_name", "ktr_name", "ktr_path", "tbl_name", "is_enabled"))
_RELATIONS = ("t_etl_std_dep_cfg", ("tbl_to", "tbl_from", "tbl_from_is_etl"))
_MAINTENANCE = ("t_etl_maint_ktr_cfg", (*_STANDARD[1], "exec_order"))
_MOST = 2**31
_LOGS = ("t_etl_kjb_log", "t_etl_tbl_log")


@dataclass(frozen=True, slots=True)
class Job:
    """A job of Kettle: a row of `t_etl_kjb_cfg`."""

    place: str
    name: str
    kind: str
    enabled: bool
    attempts: int
    """Total number: Kettle's `retries` includes the first attempt."""


@dataclass(frozen=True, slots=True)
class Transformation:
    """A row of `t_etl_std_ktr_cfg` or `t_etl_maint_ktr_cfg`."""

    place: str
    job: str
    name: str
    path: str
    table: str
    enabled: bool
    exec_order: int = 0


@dataclass(frozen=True, slots=True)
class KettleDependency:
    """A row of `t_etl_std_dep_cfg`; not `managed` if Kettle assumes the upstream to be complete."""

    place: str
    to: str
    upstream: str
    managed: bool


@dataclass(slots=True)
class Configuration:
    """Rows of all configuration tables of Kettle, in the order of `cfg_id`."""

    jobs: list[Job] = field(default_factory=list)
    standard: list[Transformation] = field(default_factory=list)
    relations: list[KettleDependency] = field(default_factory=list)
    maintenance: list[Transformation] = field(default_factory=list)


def read_configuration(
    engine: "Engine", schema: str | None, translation: Translation
) -> Configuration:
    """Read all configuration rows; records missing tables and old logs in `translation`.

    Raises UsageError without `t_etl_kjb_cfg`.
    """
    import sqlalchemy as sa

    there = {name.lower(): name for name in sa.inspect(engine).get_table_names(schema)}
    if _JOBS[0] not in there:
        raise UsageError(f"the database has no table {_JOBS[0]}; set its schema with --schema")
    for name, _ in (_STANDARD, _RELATIONS, _MAINTENANCE):
        if name not in there:
            translation.leave(name, "the table", "it does not exist: its rows are unknown")
    for name in _LOGS:
        if name in there:
            reason = (
                "the history is not imported; use --take-over to continue after the "
                "completed windows, otherwise windows run from default_start"
            )
            translation.note(name, "the log", reason)

    def rows(source: tuple[str, tuple[str, ...]]) -> "Iterator[tuple[str, RowMapping]]":
        if source[0] in there:
            yield from _rows(engine, schema, there[source[0]], source[1])

    return Configuration(
        jobs=[_job(place, row, translation) for place, row in rows(_JOBS)],
        standard=[_transformation(place, row, translation) for place, row in rows(_STANDARD)],
        relations=[_relation(place, row) for place, row in rows(_RELATIONS)],
        maintenance=[_transformation(place, row, translation) for place, row in rows(_MAINTENANCE)],
    )


def _rows(
    engine: "Engine", schema: str | None, name: str, columns: tuple[str, ...]
) -> "Iterator[tuple[str, RowMapping]]":
    import sqlalchemy as sa

    table = sa.table(name, *map(sa.column, ("cfg_id", *columns)), schema=schema)
    with engine.connect() as conn:
        for row in conn.execute(sa.select(table).order_by(table.c.cfg_id)).mappings():
            yield f"{name}, cfg_id {row['cfg_id']}", row


def _job(place: str, row: "RowMapping", translation: Translation) -> Job:
    kind, retries = _text(row["kjb_type"]).upper(), _number(place, row, "retries", 3, translation)
    return Job(place, _text(row["kjb_name"]), kind, _yes(row["is_enabled"]), retries)


def _transformation(place: str, row: "RowMapping", translation: Translation) -> Transformation:
    return Transformation(
        place=place,
        job=_text(row["kjb_name"]),
        name=_text(row["ktr_name"]),
        path=_text(row["ktr_path"]),
        table=_text(row["tbl_name"]),
        enabled=_yes(row["is_enabled"]),
        exec_order=_number(place, row, "exec_order", 0, translation) if "exec_order" in row else 0,
    )


def _relation(place: str, row: "RowMapping") -> KettleDependency:
    managed = _yes(row["tbl_from_is_etl"])
    return KettleDependency(place, _text(row["tbl_to"]), _text(row["tbl_from"]), managed)


def _number(
    place: str, row: "RowMapping", name: str, otherwise: int, translation: Translation
) -> int:
    """Return a non-negative integer; an invalid value is recorded and replaced by `otherwise`."""
    text = _text(row[name])
    if is_whole(text) and int(text) < _MOST:
        return int(text)
    translation.leave(place, f"{name} {text}", f"not a whole number; {otherwise} is used instead")
    return otherwise


def _text(value: Any) -> str:
    return str(value).strip()


def _yes(value: Any) -> bool:
    """Return True for 'Y' only, as in Kettle's own queries."""
    return _text(value) == "Y"
