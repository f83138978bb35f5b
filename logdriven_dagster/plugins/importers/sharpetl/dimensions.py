"""Sharp ETL's JdbcLoadTransformer, as far as `mode: upsert` has its meaning."""

import json

from logdriven_dagster.plugins.importers.drafts import UntranslatableError, Values
from logdriven_dagster.plugins.importers.sharpetl.context import Context, WorkflowStep
from logdriven_dagster.plugins.importers.sharpetl.parser import End, Header, Step

_KNOWN = frozenset(
    {"className", "methodName", "transformerType", "slowChanging", "updateType", "primaryFields"}
    | {"currentDb", "currentDbType", "currentTable", "currentTableColumnsAndType", "updateTable"}
    | {"businessCreateTime", "businessUpdateTime"}
)


def loads_by_key(step: Step) -> bool:
    """Return True if a step updates changed rows of a database and inserts new ones."""
    source = step.source
    return (
        source.get("className").endswith(".JdbcLoadTransformer")
        and source.get("slowChanging").lower() == "false"
        and source.get("updateType").lower() == "incremental"
    )


def load_by_key(context: Context, step: Step) -> tuple[WorkflowStep, str]:
    """Return a step with an upsert, and the differences to review.

    Raises UntranslatableError if the columns or keys of the table are not given.
    """
    source = step.source
    context.leave_unknown(source.headers.values(), _KNOWN, "JdbcLoadTransformer")
    columns = _list_columns(source.get("currentTableColumnsAndType"))
    keys = [name.strip() for name in source.get("primaryFields").split(",") if name.strip()]
    if not keys or not columns or not source.get("updateTable") or not source.get("currentTable"):
        raise UntranslatableError("it must have primaryFields, updateTable and currentTable")
    database = Header("dbName", source.get("currentDb"), source.line)
    end = End(source.get("currentDbType"), source.line, {"dbName": database})
    selected = ", ".join(f"`{name}`" for name in columns)
    target: Values = {
        "type": "jdbc",
        "connection": context.connection(end),
        "table": source.get("currentTable"),
        "mode": "upsert",
        "key": keys,
    }
    newest = source.get("businessUpdateTime") or "update time"
    reason = (
        "mode upsert changes each row with a known key; Sharp ETL ignores changes from or to NULL, "
        f"and rows with an older {newest} than in the table; review it, and remove release_state"
    )
    sql = f"SELECT {selected} FROM `{source.get('updateTable')}`"  # noqa: S608 - the text of a file
    return WorkflowStep(sql=sql, target=target), reason


def explain_load(end: End) -> str:
    """Return the reason why a load of a dimension is not translated, with the shortest way on."""
    is_full = end.get("updateType").lower() != "incremental"
    if not end.is_true("slowChanging"):
        return (
            "JdbcLoadTransformer with updateType=full replaces the rows of the table; write the "
            "query of its rows with a target of mode overwrite"
        )
    key, time = end.get("primaryFields"), end.get("businessUpdateTime")
    dated = "snapshot: true" if is_full else f"sequence_by: {time}"
    begin = "the start of the window" if is_full else time
    return (
        "JdbcLoadTransformer keeps versions in a database, which has no mode history; write the "
        f"query of its rows with the target {{type: iceberg, mode: history, key: [{key}], {dated}, "
        f"valid_from: start_time, valid_to: end_time}}, whose versions begin at {begin}"
    )


def _list_columns(text: str) -> list[str]:
    """Return the names of the columns. Raises UntranslatableError if they are not an object."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise UntranslatableError("currentTableColumnsAndType is not a JSON object")
    return list(found)
