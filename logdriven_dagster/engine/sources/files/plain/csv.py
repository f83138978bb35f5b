"""CSV files of plain form, read by an engine whose own CSV reader is not strict.

The engine reads texts, which are converted here: each value must be written in the one form that
every engine reads alike. Any other form stops the query, even in a column that the query does not
use.
"""

from typing import TYPE_CHECKING

from logdriven_dagster.config.models.types.files import CsvSource
from logdriven_dagster.engine.queries.quoting import plain, quote_name
from logdriven_dagster.engine.sources.files.plain.files import plain_files, refuse_odd_texts
from logdriven_dagster.engine.sources.files.text_values import MISFIT
from logdriven_dagster.engine.spark import functions as sf
from logdriven_dagster.engine.spark.modes import mode_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

_DAY = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK = "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,6})?Z?"
_FORMS = {
    "boolean": "true|false",
    "int": "-?[0-9]{1,10}",
    "bigint": "-?[0-9]{1,18}",
    "double": "-?[0-9]+([.][0-9]+)?([eE][-+]?[0-9]{1,3})?",
    "date": _DAY,
    "timestamp": f"{_DAY}[ T]{_CLOCK}",
}
_NO_QUOTES = {"quote": "\x01", "escape": "\x02"}
"""Files with these characters, or with quotes, are refused earlier."""


def read_plain_csv(spark: "SparkSession", source: CsvSource, location: str) -> "DataFrame":
    """Return the rows of the files; TerminalStepError for files of another form."""
    mode = mode_of(spark)
    fields = mode.parse_columns(str(source.columns)).fields
    files = plain_files(location, "csv", mode.title)
    refuse_odd_texts(files, source.sep.join(field.name for field in fields), mode.title)
    texts = ", ".join(f"{quote_name(field.name)} STRING" for field in fields)
    reader = spark.read.format("csv").schema(texts)
    reader = reader.options(header="true", sep=source.sep, **_NO_QUOTES)
    frame = reader.load([file.as_uri() for file in files])
    good = [(field.name, _is_good(field.name, field.dataType)) for field in fields]
    misfits = " ".join(
        f"WHEN {quote_name(name)} IS NOT NULL AND NOT ({condition}) THEN CAST(raise_error("
        f"concat('column {plain(name)} holds \\'', {quote_name(name)}, '\\'{MISFIT} "
        f"{field.dataType.simpleString()}')) AS BOOLEAN)"
        for (name, condition), field in zip(good, fields, strict=True)
        if condition
    )
    if misfits:
        frame = frame.where(f"CASE {misfits} ELSE true END")
    values = [
        f"CAST(CASE WHEN {condition or 'true'} THEN {quote_name(name)} END AS "
        f"{field.dataType.simpleString()}) AS {quote_name(name)}"
        for (name, condition), field in zip(good, fields, strict=True)
    ]
    return frame.select(*map(sf.expr, values))


def _is_good(name: str, kind: "DataType") -> str:
    """Return SQL that is true if a text is a value of this type; empty if every text is."""
    from pyspark.sql.types import DecimalType

    v, type_name = quote_name(name), kind.simpleString()
    if type_name == "string":
        return ""
    if isinstance(kind, DecimalType):
        fraction = f"([.][0-9]{{1,{kind.scale}}})?" if kind.scale else ""
        whole = max(kind.precision - kind.scale, 1)
        condition = f"{v} RLIKE '^-?[0-9]{{1,{whole}}}{fraction}$'"
        return f"{condition} AND CAST({v} AS {type_name}) IS NOT NULL"
    condition = f"{v} RLIKE '^({_FORMS[type_name]})$'"
    if type_name == "int":
        return f"{condition} AND CAST({v} AS BIGINT) BETWEEN -2147483648 AND 2147483647"
    if type_name in ("date", "timestamp"):
        day = f"substring({v}, 1, 10)"
        return (
            f"{condition} AND {v} >= '0001' AND {day} = CAST(CAST({day} AS DATE) AS STRING) "
            f"AND CAST({v} AS {type_name}) IS NOT NULL"
        )
    return condition
