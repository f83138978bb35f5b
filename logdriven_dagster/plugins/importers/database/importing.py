"""Table files from a database's schema."""

from collections import Counter
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any

from logdriven_dagster.config.project import Project
from logdriven_dagster.model.periods import Period, Unit
from logdriven_dagster.plugins.importers import naming
from logdriven_dagster.plugins.importers.database.column_types import ExactReading, reading_of
from logdriven_dagster.plugins.importers.database.increments import Increment, choose_increment
from logdriven_dagster.plugins.importers.database.reflection import (
    SourceTable,
    least,
    open_database,
    reflect,
)
from logdriven_dagster.plugins.importers.drafts import DraftFile, Translation, Values, table_path
from logdriven_dagster.plugins.importers.templates import template

if TYPE_CHECKING:
    from sqlalchemy import Engine

MANY = 50
"""Number of similar tables from which on a template is recommended."""


@dataclass(frozen=True, slots=True)
class ScaffoldRequest:
    """Arguments of `logdriven scaffold`."""

    connection: str
    today: date
    """The day of the data clock."""
    schema: str | None = None
    tables: frozenset[str] = frozenset()
    kinds: tuple[str, ...] = ("table",)
    layer: str = "ods"
    default_start: str | None = None
    period: str | None = None


def scaffold(project: Project, wish: ScaffoldRequest) -> Translation:
    """Return a draft for each table of a database.

    Raises UsageError if the database, the schema or a requested table does not exist.
    """
    engine = open_database(project.connection(wish.connection))
    translation = Translation()
    tables = [
        _with_real_times(engine, table)
        for table in reflect(engine, wish.schema, wish.tables, wish.kinds)
    ]
    taken: set[str] = set()
    for table in tables:
        name = naming.distinct(naming.table_name(_dotless(table.name), wish.layer), taken)
        taken.add(name.lower())
        if name != f"{wish.layer}.{table.name}":
            translation.note(table.label, "its name", f"the table is called {name}")
        one = _TableDraft(project, wish, engine, table, name)
        translation.drafts.append(one.draft(translation))
    return translation


def as_templates(project: Project, wish: ScaffoldRequest, translation: Translation) -> None:
    """Combine the drafts of each kind into one `for_each` file.

    Replaces the drafts of `translation`, and records tables that another file defines.
    """
    kinds: dict[str, list[DraftFile]] = {}
    for draft in translation.drafts:
        kinds.setdefault(_kind(draft.values), []).append(draft)
    defined = {name.lower(): path for name, path in project.files.items()}
    translation.drafts.clear()
    for kind, drafts in sorted(kinds.items()):
        path = table_path(f"{wish.layer}.{naming.identifier(wish.connection)}_{kind}")
        items = []
        for draft in drafts:
            other = defined.get(draft.tables[0].lower(), project.root / path)
            if other == project.root / path:
                items.append(draft)
            else:
                reason = f"defined already in {other.relative_to(project.root)}"
                translation.leave(draft.origin, draft.tables[0], reason)
        if items:
            origin = f"Made by `logdriven scaffold --template` from connection {wish.connection}."
            translation.drafts.append(template(path, wish.layer, items, origin))


def alike(translation: Translation) -> str | None:
    """Return a kind with enough tables to recommend a template, or None."""
    counted = Counter(_kind(draft.values) for draft in translation.drafts)
    return next((kind for kind, count in counted.most_common(1) if count >= MANY), None)


def _kind(values: Values) -> str:
    upsert = values["steps"][0]["target"].get("mode") == "upsert"
    return f"{values['incremental_type']}{'_upsert' if upsert else ''}"


def _dotless(name: str) -> str:
    return name.replace(".", "_")


@dataclass(frozen=True, slots=True)
class _TableDraft:
    """Draft of the file of one table."""

    project: Project
    wish: ScaffoldRequest
    engine: "Engine"
    table: SourceTable
    name: str

    def draft(self, translation: Translation) -> DraftFile:
        increment = choose_increment(self.table)
        reading = reading_of(self.table.columns, self.engine.dialect.name)
        self._note(translation, increment, reading)
        values: Values = {"table": self.name}
        if described := describe(self.table):
            values["description"] = described
        values["incremental_type"] = increment.kind
        if self.wish.period or self.project.config.defaults.period is None:
            values["period"] = self.wish.period or "1 day"
        values["default_start"] = self._start(increment)
        values["steps"] = [self._step(increment, reading)]
        look = f" To review: {increment.caution}." if increment.caution else ""
        why = f"Why: {increment.reason}.{look}"
        origin = (
            f"Made by `logdriven scaffold` from connection {self.wish.connection}, "
            f"{self.table.label}."
        )
        return DraftFile(table_path(self.name), values, origin, {"incremental_type": [why]})

    def _note(self, translation: Translation, increment: Increment, reading: ExactReading) -> None:
        if increment.caution:
            translation.note(self.table.label, increment.kind, increment.caution)
        for column, reason in reading.notes.items():
            translation.note(f"{self.table.label}.{column}", "its type", reason)
        for column, reason in reading.left_out.items():
            translation.leave(f"{self.table.label}.{column}", "its type", reason)

    def _step(self, increment: Increment, reading: ExactReading) -> Values:
        source: Values = {"type": "jdbc", "connection": self.wish.connection}
        source |= self._read_from(reading)
        if increment.kind == "auto_inc_id":
            source["key_column"] = increment.column
        elif increment.column is not None:
            source["window_column"] = increment.column
        if reading.schema:
            source["options"] = {"customSchema": reading.custom_schema}
        step: Values = {"step": "load", "source": source}
        if query := reading.query(self.table.columns):
            step["sql"] = query
        target: Values = {"type": "iceberg"}
        if increment.kind == "full":
            target["mode"] = "overwrite"
        if increment.key:
            target |= {"mode": "upsert", "key": list(increment.key)}
        return {**step, "target": target}

    def _read_from(self, reading: ExactReading) -> Values:
        """Return the name of a table that needs no quotes and is fully readable, or a query."""
        quote = self.engine.dialect.identifier_preparer.quote
        parts = [part for part in (self.table.schema, self.table.name) if part]
        named = ".".join(quote(part) for part in parts)
        if not reading.left_out and named == ".".join(parts) and "." not in self.table.name:
            return {"table": named}
        columns = "*"
        if reading.left_out:
            columns = ", ".join(
                quote(c.name) for c in self.table.columns if c.name not in reading.left_out
            )
        return {"query": f"SELECT {columns} FROM {named}"}  # noqa: S608 - quoted by SQLAlchemy

    def _start(self, increment: Increment) -> Any:
        """Return the requested start, else the project's, else that of the oldest row."""
        if increment.kind == "auto_inc_id":
            first = least(self.engine, self.table, str(increment.column))
            return min(0, (first or 1) - 1)
        if self.wish.default_start is not None:
            return as_date(self.wish.default_start)
        period = Period.parse(self.wish.period or str(self.project.config.defaults.period or 1440))
        if self.name in self.project.tables:
            return as_wall_clock(self.project.tables[self.name].default_start)
        if increment.column is None:
            day = self.wish.today - timedelta(minutes=period.minutes)
        else:
            day = self._day(least(self.engine, self.table, increment.column))
        return day.replace(day=1) if period.unit is Unit.MONTH else day

    def _day(self, first: Any) -> date:
        """Return the day of the first row, or of the data clock without rows."""
        instant = datetime.fromisoformat(first) if isinstance(first, str) else first
        if instant is None:
            return self.wish.today
        return (instant.astimezone(self.project.zone) if instant.tzinfo else instant).date()


def as_date(text: str) -> date | datetime | str:
    """Parse a day for YAML; other texts are returned unchanged."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        return text


def as_wall_clock(start: object) -> object:
    """Return a project's start time as its files write it."""
    if not isinstance(start, datetime):
        return start
    return start.date() if start.time() == time() else start.replace(tzinfo=None)


def describe(table: SourceTable) -> str:
    """Return the database's own description of a table: comments and foreign keys."""
    lines = [table.comment.strip()] if table.comment.strip() else []
    lines += [f"{c.name}: {c.comment.strip()}" for c in table.columns if c.comment.strip()]
    lines += [f"{', '.join(key.columns)} → {key.table}" for key in table.foreign_keys]
    # Comments must not contain references of this project.
    text = "\n".join(lines).replace("${", "$ {").replace("\r", "")
    return text + "\n" * (len(lines) > 1)


def _with_real_times(engine: "Engine", table: SourceTable) -> SourceTable:
    """Return the table with SQLite columns as text that are only declared as times."""
    import sqlalchemy as sa

    if engine.dialect.name != "sqlite":
        return table
    times = [c.name for c in table.columns if isinstance(c.kind, (sa.DateTime, sa.Date))]
    wrong = {name for name in times if not _is_time(least(engine, table, name))}
    columns = (replace(c, kind=sa.Text()) if c.name in wrong else c for c in table.columns)
    return replace(table, columns=tuple(columns))


def _is_time(value: Any) -> bool:
    """Return True if a column's least value is a time; SQLite sorts numbers before texts."""
    if value is None:
        return True
    try:
        datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return False
    return True
