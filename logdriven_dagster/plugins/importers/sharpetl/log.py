"""Progress of workflows in Sharp ETL, from its `job_log`.

Source: Sharp ETL: the next window begins at the end of the last success. Windows that failed before
it are lost there; here they are listed and run.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from logdriven_dagster.config.models.fields import parse_instant
from logdriven_dagster.config.project import Project
from logdriven_dagster.errors import UsageError
from logdriven_dagster.model.attempts import Status
from logdriven_dagster.plugins.importers.drafts import Translation
from logdriven_dagster.plugins.importers.taking_over import Progress, Span

if TYPE_CHECKING:
    from sqlalchemy import Engine, Inspector, RowMapping

_LOG = "job_log"
_SCHEMAS = (None, "sharp_etl")
_COLUMNS = ("job_id", "job_name", "data_range_start", "data_range_end", "status", "job_start_time")


def read_progress(
    engine: "Engine", project: Project, names: Mapping[str, str], translation: Translation
) -> list[Progress]:
    """Return the progress of each workflow; those without a success are left out.

    `names` maps workflows to the project's tables. Raises UsageError if the database has no such
    log.
    """
    found = []
    by_name = _rows(engine, list(names))
    for theirs, ours in names.items():
        place = f"{_LOG} of Sharp ETL, job_name {theirs}"
        rows = by_name.get(theirs, [])
        done = [row for row in rows if row["status"] == Status.SUCCESS.value]
        table = project.tables.get(ours)
        if table is None or not done:
            continue
        if rows[-1]["status"] == Status.RUNNING.value:
            reason = (
                "a run of it is RUNNING in Sharp ETL: stop it first, then run this command again"
            )
            translation.note(place, ours, reason)
        try:
            if table.is_sliced:
                last = max(done, key=lambda row: row["job_id"])
                found.append(
                    Progress(ours, place, str(last["data_range_end"]), _get_start_time(last))
                )
            else:
                found.append(_of_windows(ours, place, rows))
        except ValueError as error:
            translation.leave(place, ours, f"its log is not imported: {error}")
    return list(_merge_united(found, names, translation))


def _merge_united(
    found: list[Progress], names: Mapping[str, str], translation: Translation
) -> "Iterator[Progress]":
    """Yield one progress for each table; several workflows of a table must be equally far."""
    for table in dict.fromkeys(each.table for each in found):
        own = [each for each in found if each.table == table]
        workflows = [theirs for theirs, ours in names.items() if ours == table]
        if len(own) == len(workflows) and len({(e.until, e.undone) for e in own}) == 1:
            yield own[0]
            continue
        reason = (
            f"its log is not imported, since its workflows {', '.join(workflows)} have not "
            "succeeded up to the same time; run them in Sharp ETL until then, or set default_start"
        )
        translation.leave(own[0].place, table, reason)


def _of_windows(table: str, place: str, rows: "list[RowMapping]") -> Progress:
    spans = [(_span(row), row) for row in rows]
    done = [(span, row) for span, row in spans if row["status"] == Status.SUCCESS.value]
    (_, until), last = max(done, key=lambda item: item[0][1])
    finished = sorted(span for span, _ in done)
    undone = {span for span, _ in spans if span[0] < until and not _holds(finished, span)}
    return Progress(table, place, until, _get_start_time(last), tuple(sorted(undone)))


def _holds(finished: list[Span], span: Span) -> bool:
    """Return True if ranges, ascending by start, together cover a range."""
    start, end = span
    for first, last in finished:
        if first <= start:
            start = max(start, last)
    return start >= end


def _span(row: "RowMapping") -> Span:
    start, end = (parse_instant(str(row[f"data_range_{name}"])) for name in ("start", "end"))
    if start >= end:
        raise ValueError(f"job {row['job_id']} has an empty range: {start} - {end}")
    return start, end


def _get_start_time(row: "RowMapping") -> datetime:
    instant = row["job_start_time"]
    if isinstance(instant, datetime):
        return instant
    return parse_instant(str(instant)) if instant else datetime(1970, 1, 2)


def _rows(engine: "Engine", names: list[str]) -> "dict[str, list[RowMapping]]":
    found: dict[str, list[RowMapping]] = {}
    for row in _all_rows(engine):
        if row["job_name"] in names:
            found.setdefault(row["job_name"], []).append(row)
    return found


def _all_rows(engine: "Engine") -> "Iterator[RowMapping]":
    import sqlalchemy as sa

    schema = _schema(sa.inspect(engine))
    columns: Any = [sa.column(name) for name in _COLUMNS]
    with engine.connect() as conn:
        query = sa.select(*columns).select_from(sa.table(_LOG, *columns, schema=schema))
        yield from conn.execute(query.order_by(sa.column("job_id"))).mappings()


def _schema(database: "Inspector") -> str | None:
    """Return the schema of Sharp ETL's log, which may share a database with this project's.

    Raises UsageError if no readable log exists.
    """
    schemas = [schema for schema in _SCHEMAS if database.has_table(_LOG, schema)]
    if not schemas:
        raise UsageError(f"--job-log: the database has no table {_LOG}")
    for schema in schemas:
        known = {column["name"].lower() for column in database.get_columns(_LOG, schema)}
        if "fencing_token" in known:
            continue
        if missing := sorted(set(_COLUMNS) - known):
            raise UsageError(f"--job-log: {_LOG} has no column {', '.join(missing)}")
        return schema
    raise UsageError(f"--job-log: this {_LOG} is a run log of logdriven, not of Sharp ETL")
