"""Loads what writers wrote, by a project and by plain Spark, and says what became of each value."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as ty

from logdriven_dagster.errors import LogdrivenError
from tests.builders import day
from tests.engine.compatibility.writers.manifest import Written, canonical
from tests.engine.laboratory import JOBS, Lab

ZONE = "America/New_York"
"""The time zone of the project: one in which a time without a zone that moves can be seen."""
OTHER = "other values"
REFUSED = "refused: "
WIDTH = 26
"""The number of characters of a column of fixed width; that of row numbers has two."""
_EPOCH = datetime(1970, 1, 1)
_PLAIN = {
    "spark.sql.session.timeZone": ZONE,
    "spark.sql.codegen.wholeStage": "false",  # no time to compile a query for three rows
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


def outcomes(lab: Lab, columns: Sequence[Written]) -> Mapping[str, str]:
    """Load the columns of one file by a project; what each of them is read as.

    LogdrivenError if one of several columns cannot be read.
    """
    first = columns[0]
    try:
        return _load(lab, columns, ", ".join(_declared(columns)))
    except LogdrivenError as error:
        if len(columns) > 1:
            raise
        message = str(error).splitlines()[0]
    refusal = REFUSED + _without_place(first, message)
    offered = re.search(r'columns: "(.+?)"(?:,| )|write (v [^,;]*) there', message)
    if offered and not first.declared:
        try:
            (followed,) = _load(lab, columns, offered[1] or f"n INT, {offered[2]}").values()
        except LogdrivenError as error:
            followed = REFUSED + _without_place(first, str(error).splitlines()[0])
        refusal += f"; with that line: {followed}"
    return {first.key: refusal}


def spark_outcome(
    session: SparkSession, written: Written, options: Mapping[str, str] | None = None
) -> str:
    """Return what plain Spark makes of a column in a file or table of its own.

    `options` are those of Spark's reader of databases.
    """
    if written.form in ("delta", "iceberg", "avro"):
        return "needs a jar"
    if written.form in ("excel", "fixed_width"):
        return "no reader"
    reader = prepared(session).read.format("jdbc" if options else written.form)
    if declared := _declared([written]):
        reader = reader.schema(", ".join(declared))
    given = {_OPTIONS.get(key, key): str(value) for key, value in written.source.items()}
    reader = reader.options(**given)
    try:
        if options:
            frame = reader.options(**options, dbtable=written.path).load()
        else:
            frame = reader.load(written.path)
        (seen,) = _seen([written], frame).values()
        return seen
    except (PySparkException, Py4JJavaError) as error:
        return failed(error)


def prepared(session: SparkSession) -> SparkSession:
    """Set up a session of plain Spark in the project's time zone."""
    for name, value in _PLAIN.items():
        session.conf.set(name, value)
    return session


def failed(error: PySparkException | Py4JJavaError) -> str:
    """Return the outcome of an error of Spark."""
    if isinstance(error, PySparkException):
        return f"fails: {error.getCondition() or type(error).__name__}"
    return f"fails: {error.java_exception.getClass().getSimpleName()}"


_OPTIONS = {"row_tag": "rowTag"}
"""Fields of sources with another name in Spark."""


def _declared(columns: Sequence[Written]) -> list[str]:
    named = [f"{each.column} {each.declared}" for each in columns if each.declared]
    return ["n INT", *named] if named else []


def _load(lab: Lab, columns: Sequence[Written], declared: str) -> dict[str, str]:
    source = _source(lab, columns[0])
    if columns[0].form == "fixed_width":
        source["widths"] = [2, *[WIDTH] * len(columns)]
    if declared:
        source["columns"] = declared
    lab.settings["timezone"] = ZONE
    table = f"ods.t{next(JOBS)}"
    lab.table(table, {"source": source, "target": {"type": "parquet"}})
    try:
        lab.run(table, day(1))
        return _seen(columns, lab.engine.read(table))
    finally:
        (lab.root / "tables" / f"{table}.yaml").unlink()


def _source(lab: Lab, first: Written) -> dict[str, Any]:
    path = Path(first.path)
    match first.form:
        case "delta":
            return {"type": "delta", "path": str(path / "f.delta")}
        case "iceberg":
            lab.settings["catalog"] = f"sqlite:///{path.parent}/catalog.db"
            return {"type": "iceberg", "name": f"w.{path.name}"}
        case "postgresql" | "mariadb":
            return {"type": "jdbc", "connection": "db", "table": first.path}
        case form:
            return {"type": form, "path": first.path, **first.source}


def _seen(columns: Sequence[Written], frame: DataFrame) -> dict[str, str]:
    """Return how the values of columns compare with those of their writer."""
    kinds = dict(frame.dtypes)
    types = {field.name: field.dataType for field in frame.schema.fields}
    # Python holds no days outside the years 1 to 9999.
    text = "CAST({0} AS STRING) AS {0}"
    shown = {"timestamp": "unix_micros({0}) AS {0}", "timestamp_ntz": text, "date": text}
    chosen = [shown.get(kinds[each.column], "{0}").format(each.column) for each in columns]
    rows = [row.asDict(recursive=True) for row in frame.selectExpr("n", *chosen).collect()]
    rows.sort(key=lambda row: row["n"])
    return {
        each.key: _compared(
            each, kinds[each.column], [_zoned(row[each.column], types[each.column]) for row in rows]
        )
        for each in columns
    }


def _compared(written: Written, kind: str, values: Sequence[Any]) -> str:
    read = [_time(value) for value in values] if kind == "timestamp" else canonical(values)
    name = f"`{kind.upper()}`" if len(kind) < 60 else f"`{kind[:57].upper()}…`"
    for expected, meaning in ((written.values, "exact"), (written.numbers, "its numbers or bytes")):
        if expected is not None and _same(read, expected):
            is_text = kind == "string" and not written.are_texts
            return f"{'its text' if is_text else meaning}, {name}"
    if "timestamp" in kind and _same(_by_clock(read), written.values):
        return f"a time of the project's zone, {name}"
    if len(read) != len(written.values):
        return f"{OTHER}, {name}: {len(read)} rows"
    got, value = next(pair for pair in zip(read, written.values, strict=True) if not _same(*pair))
    shown = re.sub(r"(\[L[\w.]+;)@[0-9a-f]+", r"\1", str(got))  # the address of a Java array
    return f"{OTHER}, {name}: `{shown}` for `{value}`"


def _zoned(value: Any, kind: ty.DataType) -> Any:
    """Return a value with the zone of the instants within it, which rows of Spark leave out."""
    match kind:
        case ty.ArrayType() if value is not None:
            return [_zoned(each, kind.elementType) for each in value]
        case ty.MapType() if value is not None:
            return {key: _zoned(each, kind.valueType) for key, each in value.items()}
        case ty.StructType() if value is not None:
            return {f.name: _zoned(value[f.name], f.dataType) for f in kind.fields}
        case ty.TimestampType() if isinstance(value, datetime):
            return value.astimezone()
    return value


def _without_place(written: Written, message: str) -> str:
    place = rf"(file:(//)?)?{re.escape(written.path)}(/f\.\w+)?"
    return " ".join(re.sub(place, "FILE", message).split())


def _time(micros: int | None) -> str | None:
    if micros is None:
        return None
    try:
        return f"{canonical(_EPOCH + timedelta(microseconds=micros))}Z"
    except OverflowError:
        return f"{micros} microseconds since 1970"


def _by_clock(value: Any) -> Any:
    """Return a canonical value with its instants as clocks of the project's zone show them."""
    match value:
        case list():
            return [_by_clock(each) for each in value]
        case dict():
            return {key: _by_clock(each) for key, each in value.items()}
        case str() if re.fullmatch(r"\d{4}-\d\d-\d\d [\d:.]+Z", value):
            at = datetime.fromisoformat(value.removesuffix("Z")[:19]).replace(
                tzinfo=ZoneInfo("UTC")
            )
            clock = at.astimezone(ZoneInfo(ZONE)).replace(tzinfo=None)
            return str(clock) + value.removesuffix("Z")[19:]
    return value


def _same(read: Any, value: Any) -> bool:
    """Whether two canonical values are one: numbers of any type that are equal are."""
    match read, value:
        case list(), list():
            return len(read) == len(value) and all(map(_same, read, value))
        case dict(), dict():
            return read.keys() == value.keys() and all(_same(read[k], value[k]) for k in read)
        case str(), str() if read != value:
            number = r"-?\d+(\.\d+)?(e[+-]?\d+)?"
            both = re.fullmatch(number, read) and re.fullmatch(number, value)
            return bool(both) and Decimal(read) == Decimal(value)
    return bool(read == value)
