"""Text files, read so that no value changes or goes missing silently.

By default, a record that does not fit fails its window. Values that Spark's strict mode accepts
wrongly are found in the same pass: bytes that could not be decoded, digits beyond a decimal's
precision, times without a day. A source with another `mode` continues, and its malformed records
are counted in the pass that reads them.
"""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from logdriven_dagster.config.models.types.files import (
    CsvSource,
    JsonSource,
    RecordsSource,
    TextSource,
)
from logdriven_dagster.config.models.types.time_columns import WindowColumn
from logdriven_dagster.engine.queries.nested_values import any_leaf, sql_type
from logdriven_dagster.engine.queries.quoting import quote_name
from logdriven_dagster.engine.queries.window_index import bins_by_window, counts_of_bins
from logdriven_dagster.engine.sources.files.text_values import (
    UNDECODABLE,
    Doubt,
    find_doubt,
    find_local_format,
    read_type,
)
from logdriven_dagster.engine.sources.readers import Malformed
from logdriven_dagster.engine.spark import functions as sf
from logdriven_dagster.engine.spark.mode import columns_of_ddl
from logdriven_dagster.engine.spark.modes import mode_of
from logdriven_dagster.engine.spark.settings import option_text, option_texts
from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.model.windows import TimeWindow

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

CORRUPT = "_corrupt_record"
"""The column that Spark fills with the text of a malformed record."""

_OWN_TYPE = "logdriven.type"
"""The key of a column's metadata that contains its type, as JSON."""

NOTHING = "\ufdd0"
"""Placeholder for a missing value: Unicode reserves it, so no text contains it.

Spark's own default, the empty text, looks like `""`.
"""


def record_options(source: RecordsSource) -> dict[str, str]:
    """Return the options of Spark's reader: the defaults, overridden by the user's."""
    options: dict[str, str] = {}
    if isinstance(source, CsvSource):
        options = {
            "header": option_text(source.header),
            "sep": source.sep,
            "nullValue": NOTHING if source.null_value is None else source.null_value,
            # By default Spark takes columns by position, regardless of a file's header.
            "enforceSchema": "false",
            # Otherwise a line with too few or too many values is not detected.
            "columnPruning": "false",
            # Quotes are doubled within quotes (RFC 4180); by default Spark keeps both.
            "escape": '"',
            # By default Spark ignores any text after the day.
            "dateFormat": "yyyy-M-d",
        }
        if source.is_strict:
            options["unescapedQuoteHandling"] = "RAISE_ERROR"
    if isinstance(source, JsonSource):
        options = {"multiLine": option_text(source.multiline), "dateFormat": "yyyy-M-d"}
    if not isinstance(source, TextSource):
        # Spark drops records without a count; here they are counted first.
        options["mode"] = "FAILFAST" if source.is_strict else "PERMISSIVE"
        options["columnNameOfCorruptRecord"] = CORRUPT
        if (form := find_local_format(source)) is not None:
            options["timestampNTZFormat"] = form
    return options | option_texts(source.options)


def read_as(source: RecordsSource, columns: "StructType") -> "StructType":
    """Return the schema to read with: types that also hold values outside the columns' types.

    The metadata of a column that is read with another type contains its own type.
    """
    from pyspark.sql.types import StructField, StructType

    fields = []
    for field in columns.fields:
        read = read_type(source, field)
        known = {} if read == field.dataType else {_OWN_TYPE: field.dataType.json()}
        if field.name != CORRUPT:
            fields.append(StructField(field.name, read, metadata=known))
    is_text = isinstance(source, TextSource)
    schema = StructType(fields)
    return schema if source.is_strict or is_text else with_corrupt_column(schema)


def with_corrupt_column(columns: "StructType") -> "StructType":
    """Return the columns, and the one that Spark fills with the text of a malformed record."""
    from pyspark.sql.types import StringType, StructField, StructType

    fields = [field for field in columns.fields if field.name != CORRUPT]
    return StructType([*fields, StructField(CORRUPT, StringType())])


def refuse_inferred_times(source: RecordsSource, columns: "StructType") -> None:
    """Raise TerminalStepError if Spark's options have it infer times, which it reads loosely.

    `columns` are the inferred ones.
    """
    given = {name.lower() for name in source.options if option_text(source.options[name]) == "true"}
    if not given & {"inferschema", "infertimestamp"}:
        return
    for field in columns.fields:
        if any_leaf(field.name, field.dataType, _is_time):
            line = ", ".join(
                f"{quote_name(each.name)} {sql_type(each.dataType)}"
                for each in columns.fields
                if each.name != CORRUPT
            )
            raise TerminalStepError(
                f"{source.path}: Spark infers times in the column {field.name}, and would read "
                f'10:00 as a time of today; write columns: "{line}", which checks each value'
            )


def _is_time(v: str, kind: "DataType") -> str | None:
    return v if kind.typeName() in ("timestamp", "timestamp_ntz") else None


def parse_declared_columns(source: RecordsSource) -> "StructType | None":
    """Return the columns that the configuration declares; None if it declares none."""
    return columns_of_ddl(source.columns) if source.columns else None


def check_values(
    frame: "DataFrame", source: RecordsSource, *, decodable: bool = False
) -> "DataFrame":
    """Return the rows, with an error in place of each value that differs from the file's.

    `decodable`: every byte of the files is known to be valid text.
    """
    columns = {
        doubt.name: sf.expr(
            f"CASE WHEN {doubt.bad} THEN raise_error({doubt.message}) ELSE {doubt.value} END"
        )
        for doubt in doubts(frame, source)
        if not (decodable and UNDECODABLE in doubt.message)
    }
    return frame.withColumns(columns) if columns else frame


def clean_malformed(
    frame: "DataFrame", source: RecordsSource, windows: Sequence[TimeWindow]
) -> "tuple[DataFrame, Malformed]":
    """Return the rows with NULL for unreadable values, or without such rows, and their counts.

    The second value is that of `count_malformed`.
    """
    found, names = doubts(frame, source), [name for name in frame.columns if name != CORRUPT]
    unfit = [f"{quote_name(CORRUPT)} IS NOT NULL"] if CORRUPT in frame.columns else []
    unfit += [f"coalesce({doubt.bad}, false)" for doubt in found]
    malformed = sf.expr(" OR ".join(unfit) or "false")
    observed, counts = count_malformed(frame, malformed, names[0], source.window_column, windows)
    if source.mode == "DROPMALFORMED":
        observed = observed.where(~malformed)
    changes = {
        d.name: sf.expr(f"CASE WHEN {d.bad} THEN {d.instead} ELSE {d.value} END") for d in found
    }
    observed = observed.withColumns(changes) if changes else observed
    return observed.select(*map(quote_name, names)), counts


def count_malformed(
    frame: "DataFrame",
    malformed: "Column",
    name: str,
    window_column: WindowColumn | None,
    windows: Sequence[TimeWindow],
) -> "tuple[DataFrame, Malformed]":
    """Return the frame with a counter of the rows for which `malformed` is true.

    `name` is any column of the frame. The second value returns the number of each window after the
    query; None where it is not known.
    """
    from pyspark.sql import Observation

    column = window_column if len(windows) > 1 else None
    bins = bins_by_window(frame, column, windows, malformed) if column else None
    observation = Observation()
    observed = frame.observe(
        observation,
        sf.count_if(malformed).alias("malformed"),
        (sf.lit("") if bins is None else bins).alias("bins"),
        # Spark refuses a query that selects only the corrupt column.
        sf.count(quote_name(name)).alias("asked"),
    )
    session = frame.sparkSession

    def counts() -> list[int | None]:
        values = mode_of(session).read_observation(observation)
        if "malformed" not in values:
            return [None] * len(windows)
        if column:
            return list(counts_of_bins(values["bins"], len(windows)))
        return [values["malformed"]] * len(windows)

    return observed, counts


def doubts(frame: "DataFrame", source: RecordsSource) -> list[Doubt]:
    """Return the columns that Spark itself does not read strictly."""
    columns = parse_declared_columns(source) or _inferred_columns(frame)
    found = (find_doubt(source, field) for field in columns.fields if field.name != CORRUPT)
    return [doubt for doubt in found if doubt]


def find_window_doubt(source: RecordsSource) -> Doubt | None:
    """Return the doubt about a window column of times; None if Spark reads it strictly.

    Spark's own reader reads the window column, so that it can skip the rows of other windows.
    """
    columns, name = parse_declared_columns(source), source.window_name
    if columns is None or name is None:
        return None
    plain = source.model_copy(update={"window_column": None})
    fields = (field for field in columns.fields if field.name.lower() == name.lower())
    times = (find_doubt(plain, field) for field in fields if _is_time("", field.dataType) == "")
    return next(times, None)


def _inferred_columns(frame: "DataFrame") -> "StructType":
    """Return the columns that Spark inferred, for a frame that has the schema of `read_as`."""
    from pyspark.sql.types import StructField, StructType

    return StructType(
        [
            StructField(field.name, _parse_type(field.metadata.get(_OWN_TYPE)) or field.dataType)
            for field in frame.schema.fields
        ]
    )


def _parse_type(text: str | None) -> "DataType | None":
    from pyspark.sql.types import StructType

    if text is None:
        return None
    field = f'{{"name": "x", "type": {text}, "nullable": true, "metadata": {{}}}}'
    return StructType.fromJson(json.loads(f'{{"fields": [{field}]}}'))["x"].dataType
