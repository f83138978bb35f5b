"""Translation of the targets of Sharp ETL's steps."""

from logdriven_dagster.config.project import Project
from logdriven_dagster.config.sql.references import UnreadableSqlError, parse_query
from logdriven_dagster.plugins.importers.database.reflection import open_database
from logdriven_dagster.plugins.importers.drafts import UntranslatableError, Values
from logdriven_dagster.plugins.importers.naming import table_name
from logdriven_dagster.plugins.importers.sharpetl.context import Context, option
from logdriven_dagster.plugins.importers.sharpetl.ddl import LAKE, find_created
from logdriven_dagster.plugins.importers.sharpetl.parser import End, Step, Workflow
from logdriven_dagster.plugins.importers.sharpetl.partitions import (
    has_window_column,
    list_temps,
)
from logdriven_dagster.plugins.importers.sharpetl.sources import JDBC, SPARK

NOWHERE = frozenset({"temp", "console", "do_nothing"})
_DATABASE = frozenset({"connectionName", "dbName", "tableName", "transaction", "batchSize"})
_KAFKA = frozenset({"topics"})
_FILES = frozenset({"filePath", "fileDir", "sep", "header", "encoding"})


def write_to(context: Context, step: Step) -> Values | None:
    """Return the target, or None if a result is only displayed or read by later steps."""
    kind, end = step.target.kind, step.target
    if kind in NOWHERE:
        context.leave_unknown(end.headers.values(), _DATABASE, f"target {kind}")
        if kind == "console":
            context.note(end.line, "target=console", "it is not shown; use a `target` to keep it")
        return None
    if kind in JDBC:
        target = _database(context, step)
    elif kind in LAKE:
        target = _lake(context, step)
    elif kind in ("csv", "json", "parquet", "orc"):
        target = _files(context, step)
    elif kind in ("batch_kafka", "kafka"):
        context.leave_unknown(end.headers.values(), _KAFKA, f"target {kind}")
        target = {"type": "kafka", "connection": context.kafka(end), "topic": end.get("topics")}
    else:
        raise UntranslatableError(f"{kind} cannot be written here")
    if given := context.options(end):
        target["options"] = {**target.get("options", {}), **given}
    return target


def _mode(step: Step) -> str:
    return step.headers["writeMode"].value.lower() if "writeMode" in step.headers else ""


def _database(context: Context, step: Step) -> Values:
    end, mode = step.target, _mode(step)
    context.leave_unknown(end.headers.values(), {*_DATABASE, "numPartitions"}, "a target")
    if mode not in ("append", "overwrite", "upsert"):
        raise UntranslatableError(f"writeMode {mode or 'none'} of a database")
    connection = context.connection(end)
    table = context.variables.constant(end.get("tableName"))
    if not table:
        raise UntranslatableError("the target has no tableName")
    target: Values = {"type": "jdbc", "connection": connection, "table": table, "mode": mode}
    if mode == "upsert":
        target["key"] = _primary_key(context.project, connection, table)
    if mode == "append":
        target["existing_rows"] = "keep"  # as Sharp ETL does
    if "batchSize" in end.headers:
        target["options"] = {"batchsize": option(end.get("batchSize"))}
    return target


def _primary_key(project: Project, connection: str, table: str) -> list[str]:
    """Return the primary key of the table in its database, by which Sharp ETL upserts."""
    import sqlalchemy as sa
    from sqlalchemy.exc import SQLAlchemyError

    from logdriven_dagster.errors import UsageError

    schema, _, name = table.rpartition(".")
    try:
        inspector = sa.inspect(open_database(project.connection(connection)))
        key = inspector.get_pk_constraint(name, schema or None)["constrained_columns"]
    except (UsageError, SQLAlchemyError) as error:
        raise UntranslatableError(f"could not read the key of {table}: {error}") from None
    if not key:
        raise UntranslatableError(f"{table} has no primary key to upsert by")
    return list(key)


def _lake(context: Context, step: Step) -> Values:
    end, mode = step.target, _mode(step)
    context.leave_unknown(end.headers.values(), _DATABASE, "a target")
    if mode not in ("append", "overwrite"):
        raise UntranslatableError(f"writeMode {mode or 'none'} of {end.kind}")
    name = name_lake_table(context, end)
    if mode == "overwrite":
        empty = "an empty result replaces them, too, of which Sharp ETL writes nothing"
        replaced = "it replaces all rows"
        if not _replaces_all(context, step) and _has_window_column(context, step):
            mode = "overwrite_window"
            replaced = (
                "it replaces the rows of the window; Sharp ETL replaces the partitions of its "
                "rows, or the whole table if it has none"
            )
        line = step.headers["writeMode"].line
        context.note(line, "writeMode=overwrite", f"{replaced}; {empty}")
    return {"type": "iceberg", "name": name, "mode": mode}


def name_lake_table(context: Context, end: End) -> str:
    """Return the name of the Iceberg table that replaces one of Spark's catalog, and note it."""
    if not end.get("tableName"):
        raise UntranslatableError("the target has no tableName")
    database = end.get("dbName")
    given = f"{database}.{end.get('tableName')}" if database else end.get("tableName")
    reason = (
        "it is an Iceberg table of the project now, because a window cannot be "
        "published atomically in Spark's catalog; existing rows stay there, and "
        "queries read it by depends_on"
    )
    context.note(end.line, f"{end.kind} {given}", reason)
    return table_name(context.variables.constant(given))


def find_moved_tables(context: Context, step: Step) -> str | None:
    """Return the reason why a step must not read tables that imported workflows write, or None.

    Sharp ETL's query reads the rows in Spark's catalog, into which no step writes here.
    """
    names = sorted(list_tables(step) & context.writers.keys())
    if not names:
        return None
    writers = ", ".join(dict.fromkeys(context.writers[name] for name in names))
    way = "read it by the name of the table of that workflow, with depends_on"
    if writers == context.workflow.name:
        way = (
            "read the rows of the earlier step, or make this step a table of its own with "
            "depends_on"
        )
    return (
        f"it reads {', '.join(names)}, which workflow {writers} writes into a table of the "
        f"project now; {way}"
    )


def list_written(workflow: Workflow) -> dict[str, str]:
    """Return the tables of Spark's catalog that a workflow writes, each with its name."""
    steps = [step for step in workflow.steps if step.target.kind in LAKE and step.target.table]
    return {step.target.table: workflow.name for step in steps}


def list_tables(step: Step) -> set[str]:
    """Return the tables of Spark's catalog that a step reads, in lower case."""
    from sqlglot import exp

    if step.source.kind not in SPARK:
        return set()
    if not step.sql:
        return {step.source.table}
    try:
        tree = parse_query(step.sql)
    except UnreadableSqlError:
        return set()
    return {exp.table_name(table).lower() for table in tree.find_all(exp.Table)}


def find_unknown_overwrite(context: Context, step: Step) -> str | None:
    """Return the reason if a file does not contain which rows `overwrite` replaces, else None.

    Such a target has the mode `overwrite`, which is right for a table without partitions.
    """
    if step.target.kind not in LAKE or _mode(step) != "overwrite" or _replaces_all(context, step):
        return None
    if _has_window_column(context, step):
        return None
    return (
        "no column of its rows holds a value of the window, so they may replace the whole table or "
        "some partitions; set mode overwrite, or overwrite_window for partitions by window"
    )


def _replaces_all(context: Context, step: Step) -> bool:
    """Return True if the rows of a table are replaced together, since CREATE TABLE says so."""
    created = find_created(context.workflow, step)
    found = created is not None and (created.replaces or not created.partitions)
    return context.kind == "full" or found


def _has_window_column(context: Context, step: Step) -> bool:
    """Return True if a column has one value in all rows of a window; a known partition must."""
    temps = list_temps(context.workflow)
    created = find_created(context.workflow, step)
    among = created.partitions if created else None
    return has_window_column(step.sql, context.variables.of_window, temps, among)


def _files(context: Context, step: Step) -> Values:
    end = step.target
    context.leave_unknown(end.headers.values(), _FILES, "a target")
    path = end.get("filePath") or end.get("fileDir")
    if not path:
        raise UntranslatableError("the folder of its files is in application.properties")
    if "${" in path:
        raise UntranslatableError(
            "the path of a target cannot have variables here; windows are separate"
        )
    mode = {"append": "append"}.get(_mode(step), "overwrite_window")
    context.note(end.line, path, "it is a folder now, with the files of each window in it")
    target: Values = {"type": end.kind, "path": path, "mode": mode}
    if end.kind == "csv":
        target["options"] = {"header": end.get("header", "true").lower() == "true"}
        target["options"] |= {
            k: option(end.get(k)) for k in ("sep", "encoding") if k in end.headers
        }
    return target
