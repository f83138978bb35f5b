"""Choice of the incremental type of a database table, by its keys and times."""

import re
from dataclasses import dataclass
from typing import Literal

from logdriven_dagster.plugins.importers.database.reflection import DatabaseColumn, SourceTable

_CHANGED = {"updated", "update", "upd", "modified", "modify", "modification", "changed", "change"}
_CHANGED |= {"mtime", "modifed", "lastmod", "mod", "edited"}
_MADE = {"created", "create", "creation", "crt", "ctime", "inserted", "insert", "insertion", "ins"}
_MADE |= {"added", "recorded", "entered", "logged", "registered", "occurred"}
_BESIDE = {"last", "at", "on", "time", "date", "datetime", "timestamp", "ts", "dt", "dttm", "tm"}
_BESIDE |= {"row", "rec", "record", "when", "utc", "gmt", "tz", "sys", "db", "dw", "data", "is"}


@dataclass(frozen=True, slots=True)
class Increment:
    """Incremental type of a table, with the reason for it."""

    kind: Literal["auto_inc_id", "time_window", "full"]
    reason: str
    column: str | None = None
    key: tuple[str, ...] = ()
    """Key columns for an upsert, if rows change after their creation."""
    caution: str = ""
    """Warning about assumptions that the schema cannot confirm."""

    @property
    def name(self) -> str:
        """Name of the kind in template files and reports."""
        return f"{self.kind}_upsert" if self.key else self.kind


def choose_increment(table: SourceTable) -> Increment:
    """Choose the incremental type of a table.

    A time of change takes precedence, since key ranges miss changed rows. Then follow ascending
    keys and times of creation. Without any of them, the table is read as a whole.
    """
    changed, made = _time(table, _CHANGED), _time(table, _MADE)
    if changed is not None:
        return _by_change(table, changed)
    if (counted := _counter(table)) is not None:
        return _by_key(counted)
    if made is not None:
        reason = f"{made.name} is the creation time of a row, and there is no modification time"
        return Increment("time_window", reason, made.name, caution=_nulls(made))
    return Increment(
        "full", "there is no growing key and no modification time: each window reads all rows"
    )


def _by_change(table: SourceTable, column: DatabaseColumn) -> Increment:
    nulls = _nulls(column)
    if not table.key:
        reason = f"{column.name} is the modification time of a row"
        caution = (
            "there is no primary key: each version of a row stays in the window in which it changed"
        )
        return Increment(
            "time_window", reason, column.name, caution="; ".join(filter(None, (caution, nulls)))
        )
    key = ", ".join(table.key)
    reason = (
        f"{column.name} is the modification time and {key} the key of a row: the "
        "newest version is kept"
    )
    if (counted := _counter(table)) is not None:
        reason += (
            f". {counted.name} grows, but incremental reads by it would miss changes of older rows"
        )
    return Increment("time_window", reason, column.name, table.key, nulls)


def _by_key(column: DatabaseColumn) -> Increment:
    if column.grows:
        reason = f"{column.name} grows with each new row, and there is no modification time"
        caution = ""
    else:
        reason = f"{column.name} is a whole number, and there is no modification time"
        caution = (
            f"the database does not guarantee that {column.name} grows; if it does not, "
            "use incremental_type: full"
        )
    return Increment("auto_inc_id", reason, column.name, caution=caution)


def _counter(table: SourceTable) -> DatabaseColumn | None:
    """Return the primary key, if it is a single integer that is not a foreign key."""
    from sqlalchemy import Integer

    if len(table.key) != 1:
        return None
    column = table.column(table.key[0])
    borrowed = any(key.columns == table.key for key in table.foreign_keys)
    if borrowed or not isinstance(column.kind, Integer):
        return None
    return column


def _nulls(column: DatabaseColumn) -> str:
    return f"rows without {column.name} are never read" if column.nullable else ""


def _time(table: SourceTable, verbs: set[str]) -> DatabaseColumn | None:
    """Return the time column whose name has one of the verbs, preferably one without NULLs."""
    from sqlalchemy import DateTime

    own = set(_words(table.name)) | {word.rstrip("s") for word in _words(table.name)}
    found = []
    for column in table.columns:
        words = set(_words(column.name))
        if isinstance(column.kind, DateTime) and words & verbs and words <= verbs | _BESIDE | own:
            found.append(column)
    return min(found, key=lambda column: column.nullable, default=None)


def _words(name: str) -> list[str]:
    """Split `lastUpdateTime`, `last_update_time` or `LAST-UPDATE-TIME` into last, update, time."""
    parted = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name)
    return [word for word in re.split(r"[^a-z0-9]+", parted.lower()) if word]
