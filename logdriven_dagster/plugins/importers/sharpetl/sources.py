"""Translation of the sources of Sharp ETL's steps."""

import re

from logdriven_dagster.plugins.importers.drafts import UntranslatableError, Values
from logdriven_dagster.plugins.importers.naming import is_whole
from logdriven_dagster.plugins.importers.sharpetl.context import (
    Context,
    WorkflowStep,
    option,
)
from logdriven_dagster.plugins.importers.sharpetl.dimensions import explain_load
from logdriven_dagster.plugins.importers.sharpetl.parser import End, Step
from logdriven_dagster.plugins.importers.yaml_text import block

JDBC = frozenset({"mysql", "postgres", "oracle", "ms_sql_server", "h2", "informix", "impala"})
SPARK = frozenset({"temp", "hive", "spark_sql", "delta_lake", "built_in"})
FILES = frozenset({"csv", "json", "text", "parquet", "orc"})
KAFKA = frozenset({"batch_kafka"})

_COPIED = "copy the files before a window runs, and read their folder with incremental_type files"
_FUNCTION = "register the function in Python, or write its step in Python"
_WAYS = {
    "excel": "write `type: excel` with the path, and the columns with their types",
    **dict.fromkeys(("ftp", "sftp", "scp", "hdfs", "http_file"), _COPIED),
    "compresstar": "unpack the archives before a window runs, and read their folder",
    "streaming_kafka": "write `type: kafka` with incremental_type kafka_offset",
    "ddl": "connections are in logdriven.yaml, and a target creates its table",
    **dict.fromkeys(("class", "object", "pmml"), _FUNCTION),
}

_QUERY = re.compile(
    r"\s*(?:--[^\n]*\n\s*|/\*.*?\*/\s*|\(\s*)*(select|with|from|values)\b",
    re.IGNORECASE | re.DOTALL,
)
_DATABASE = frozenset({"connectionName", "dbName", "tableName", "transaction", "batchSize"})
_SPLIT = frozenset({"partitionColumn", "numPartitions", "lowerBound", "upperBound"})
_PLACES = frozenset({"fileDir", "filePath", "filePaths", "fileNamePattern", "deleteSource"})
_CSV = frozenset(
    {"inferSchema", "encoding", "sep", "header", "quote", "escape", "multiLine", "selectExpr"}
    | {"ignoreTrailingWhiteSpace"}
)
_WINDOW = re.compile(
    r"\s+(?P<word>where|and)\s+[`\"]?(?P<column>\w+)[`\"]?\s*>\s*'?\$\{(?:lowerBound|DATA_RANGE_START)\}'?"
    r"\s+and\s+[`\"]?(?P=column)[`\"]?\s*<=\s*'?\$\{(?:upperBound|DATA_RANGE_END)\}'?\s*$",
    re.IGNORECASE,
)


def read_from(context: Context, step: Step) -> WorkflowStep:
    """Return source and query of a step. Raises UntranslatableError for unsupported sources."""
    kind = step.source.kind
    if kind in JDBC:
        return _database(context, step)
    if kind in SPARK:
        return _spark(context, step)
    if kind in FILES:
        return _files(context, step)
    if kind in KAFKA:
        return _kafka(context, step)
    if kind == "transformation":
        raise UntranslatableError(_transformation(step.source))
    raise UntranslatableError(explain_unread(kind))


def explain_unread(kind: str) -> str:
    """Return the reason why a source is not read here, with the shortest way to do it."""
    return f"{kind} cannot be read here" + (f": {_WAYS[kind]}" if kind in _WAYS else "")


def refuse_statements(sql: str) -> None:
    """Raise UntranslatableError for DDL, DML and calls, since steps may only contain queries."""
    if sql and not _QUERY.match(sql):
        word = sql.split(maxsplit=1)[0]
        raise UntranslatableError(f"{word} is not a query; make it a step of a maintenance job")


def _transformation(end: End) -> str:
    name = end.get("className").rpartition(".")[2]
    if name == "DailyJobsSummaryReportTransformer":
        return "`logdriven report` replaces DailyJobsSummaryReportTransformer"
    if name == "JdbcAutoCreateDimTransformer":
        return (
            f"{name} adds unknown keys of a fact to a dimension of a database; write a table of "
            f"mode upsert or history for {end.get('dimTable') or 'it'}, and add it to depends_on"
        )
    if name == "JdbcLoadTransformer":
        return explain_load(end)
    return f"{name or 'the class'} is Scala; write the step in Python, `python: file.py:function`"


def _database(context: Context, step: Step) -> WorkflowStep:
    refuse_statements(step.sql)
    end = step.source
    context.leave_unknown(end.headers.values(), _DATABASE | _SPLIT, f"source {end.kind}")
    source: Values = {"type": "jdbc", "connection": context.connection(end)}
    sql = context.variables.in_text(step.sql)
    if context.kind == "auto_inc_id" and "partitionColumn" in end.headers:
        return WorkflowStep(_keys(end, source, sql))
    for key in sorted(_SPLIT & end.headers.keys()):
        reason = "time windows are read by one query; set options of Spark if it is too slow"
        context.leave(end.headers[key].line, key, reason)
    source |= {"query": block(sql)} if sql else {"table": _name(end)}
    if options := context.options(end):
        source["options"] = options
    return WorkflowStep(source)


def _keys(end: End, source: Values, sql: str) -> Values:
    """Return a source with a key_column, which replaces the bounds in the query."""
    column = end.get("partitionColumn")
    whole = _WINDOW.search(sql)
    if whole is None and ("${lowerBound}" in sql or "${upperBound}" in sql):
        raise UntranslatableError(f"its query does not end with the bounds of {column}")
    query = sql[: whole.start()] if whole else sql
    source |= {"query": block(query)} if query else {"table": _name(end)}
    source["key_column"] = column
    if is_whole(end.get("numPartitions")):
        source["partitions"] = int(end.get("numPartitions"))
    return source


def _spark(context: Context, step: Step) -> WorkflowStep:
    refuse_statements(step.sql)
    end = step.source
    context.leave_unknown(end.headers.values(), _DATABASE, f"source {end.kind}")
    if step.sql:
        return WorkflowStep(sql=context.variables.in_spark(step.sql))
    name = context.variables.constant(_name(end)).replace("`", "").replace("'", "")
    if end.kind == "temp":
        return WorkflowStep(sql=f"SELECT * FROM `{name}`")  # noqa: S608 - the text of a file
    return WorkflowStep({"type": "table", "name": name})


def _name(end: End) -> str:
    """Return the table of a database, of Hive or of an earlier step."""
    table, database = end.get("tableName"), end.get("dbName")
    if not table:
        raise UntranslatableError(f"{end.kind}: it has no query and no tableName")
    return f"{database}.{table}" if database and end.kind not in {*JDBC, "temp"} else table


def _files(context: Context, step: Step) -> WorkflowStep:
    end = step.source
    known = _PLACES | (_CSV if end.kind == "csv" else {"multiline"})
    context.leave_unknown(end.headers.values(), known, f"source {end.kind}")
    source: Values = {"type": end.kind, "path": _path(context, end)}
    if end.kind == "csv":
        source |= _csv(end)
    elif end.is_true("multiline"):
        source["multiline"] = True
    if options := {**source.pop("options", {}), **context.options(end)}:
        source["options"] = options
    if context.kind == "files":
        source |= _arrivals(step)
    elif end.is_true("deleteSource"):
        reason = (
            "files are only deleted with incremental_type files, and one source with a fixed path"
        )
        context.leave(end.headers["deleteSource"].line, "deleteSource", reason)
    if step.sql:
        reason = "Sharp ETL never runs the query of a source of files: it is left out"
        context.leave(step.line, "its query", reason)
    return WorkflowStep(source, _with_file_name(end) if end.kind == "csv" else None)


def _with_file_name(end: End) -> str:
    """Return a query that adds the file name to the rows, as Sharp ETL does."""
    columns = end.get("selectExpr", "*")
    name = "regexp_extract(input_file_name(), '[^/]*$', 0) AS file_name"
    return f"SELECT {columns}, {name} FROM source"  # noqa: S608 - the text of a file


def _arrivals(step: Step) -> Values:
    source: Values = {}
    if step.is_true("throwExceptionIfEmpty"):
        source["on_empty"] = "fail"
    if step.source.is_true("deleteSource"):
        source["after_success"] = "delete"
    return source


def _csv(end: End) -> Values:
    """Return the name of a table that needs no quotes and is fully readable, or a query."""
    options: Values = {"escape": end.get("escape", '"')}
    if end.get("inferSchema", "true") == "true":
        options["inferSchema"] = True
    for key in ("encoding", "quote", "multiLine", "ignoreTrailingWhiteSpace"):
        if key in end.headers:
            options[key] = option(end.get(key))
    found: Values = {"header": end.get("header", "true").lower() == "true"}
    if "sep" in end.headers:
        found["sep"] = end.get("sep").replace("\\t", "\t")
    return found | {"options": options}


def _path(context: Context, end: End) -> str:
    text = end.get("filePaths") or end.get("filePath")
    if not text:
        folder, pattern = end.get("fileDir"), end.get("fileNamePattern", ".*")
        if not folder:
            raise UntranslatableError("the folder of its files is in application.properties")
        glob, exact = as_glob(pattern)
        if not exact:
            line = end.headers["fileNamePattern"].line
            context.note(line, pattern, f"read as {glob}, which may match more files")
        text = f"{folder.rstrip('/')}/{glob}"
    if "," in text:
        text = "{" + ",".join(part.strip() for part in text.split(",")) + "}"
    return context.variables.in_text(text)


def as_glob(pattern: str) -> tuple[str, bool]:
    """Convert a regular expression for file names to a glob.

    Returns the pattern, and True if both match the same names.
    """
    text, exact, glob = re.sub(r"\((?:\?:)?([^()|]*)\)", r"\1", pattern), True, ""
    text = re.sub(r"\((?:\?:)?([^()|]*)\)", r"\1", text)
    parts = re.compile(r"(\\d|\\w|\\.|\.|\[[^\]]*\]|[^\\])(\{(\d+)\}|[*+?])?", re.DOTALL)
    for atom, times, count in parts.findall(text):
        unit = {"\\d": "[0-9]", "\\w": "?", ".": "?"}.get(atom, atom.removeprefix("\\"))
        exact = exact and atom != "\\w" and not (times and not count and times != "*")
        exact = exact and not (times == "*" and atom != ".") and unit not in ("|", "(", ")")
        if count:
            glob += unit * int(count)
        elif times:
            glob += "*" if times != "+" else f"{unit}*"
        else:
            glob += unit
    return glob, exact


def _kafka(context: Context, step: Step) -> WorkflowStep:
    end = step.source
    known = {"topics", "groupId", "schemaDDL", "format", "topicMessageColumns", "enableSerDes"}
    context.leave_unknown(end.headers.values(), known, f"source {end.kind}")
    if end.get("format", "JSON").upper() != "JSON":
        raise UntranslatableError(f"messages of format {end.get('format')}")
    topics = [topic.strip() for topic in end.get("topics").split(",") if topic.strip()]
    if "groupId" in end.headers:
        reason = (
            "the run log has the offsets, not a consumer group of Kafka: the first window begins "
        )
        context.note(end.headers["groupId"].line, "groupId", f"{reason}at the earliest message")
    source: Values = {"type": "kafka", "connection": context.kafka(end)}
    source["topic"] = topics[0] if len(topics) == 1 else topics
    schema = end.get("schemaDDL")
    if not schema:
        return WorkflowStep(source)
    more = "".join(
        f", {name.strip()}" for name in end.get("topicMessageColumns").split(",") if name
    )
    schema = schema.replace("'", "\\'")
    parsed = f"from_json(CAST(value AS STRING), '{schema}') AS message"
    inner = f"SELECT {parsed}{more} FROM source"  # noqa: S608 - the text of a file
    return WorkflowStep(source, f"SELECT message.*{more}\nFROM (\n  {inner}\n)\n")
