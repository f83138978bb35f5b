"""Times of a window column in text files that Spark's own parser changes.

Spark's reader reads this column, so that it can skip the rows of other windows. It cuts digits
below a microsecond, reads `10:00` as a time of today, and moves times that clocks skip. Counting
the rows of each file by window reads the texts, and counts such a row as one without a window. So a
query for them runs only if there are rows without a window, or rows were not counted.
"""

from collections.abc import Collection
from urllib.parse import unquote

from logdriven_dagster.config.models.types.files import RecordsSource
from logdriven_dagster.config.models.types.sources import Source
from logdriven_dagster.engine.queries.quoting import quote_name
from logdriven_dagster.engine.sources.files.loading import (
    build_cache_key,
    list_versions,
    load_files,
)
from logdriven_dagster.engine.sources.files.records import (
    find_window_doubt,
    parse_declared_columns,
    read_as,
)
from logdriven_dagster.engine.sources.files.texts import add_location, encoding_of
from logdriven_dagster.engine.sources.readers import Reading, values_of
from logdriven_dagster.engine.spark.actions import run_action
from logdriven_dagster.engine.spark.modes import mode_of
from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.model.source_rows import FileRows

_FIX = "fix the file, or accept it with mode: PERMISSIVE, which leaves out this row"


def refuse_window_times(reading: Reading, source: Source, files: Collection[FileRows]) -> None:
    """Raise TerminalStepError for a row of the window whose time Spark would change.

    `files` are the rows of each file, if they were counted.
    """
    if not isinstance(source, RecordsSource) or not source.is_strict:
        return
    if not mode_of(reading.spark).capabilities.casts_on_read:
        return  # every value was checked when it was read
    if (doubt := find_window_doubt(source)) is None:
        return
    if files and not any(file.unplaced for file in files):
        return
    key, versions = build_cache_key(reading, source), list_versions(reading, source)
    what = (key, doubt.name, "times")
    if reading.sources.are_trusted(what, versions):
        return
    plain = source.whole().model_copy(update={"window_column": None})
    columns = parse_declared_columns(source)
    assert columns is not None
    found = load_files(reading, plain, read_as(plain, columns)).where(doubt.bad)
    found = found.selectExpr(
        f"{doubt.value} AS {quote_name(doubt.name)}",
        f"CAST({doubt.value} AS STRING) AS shown",
        f"{doubt.message} AS problem",
        "_metadata.file_path AS file",
    ).where("shown IS NOT NULL")
    label = f"{reading.run.table}: times of {key.path}"
    if not run_action(reading.spark, label, found.limit(1).collect):
        reading.sources.trust(what, versions)
        return
    found = found.where(values_of(reading, source, found).lies_within(reading.run.window))
    if rows := run_action(reading.spark, label, found.limit(1).collect):
        problem = rows[0]["problem"]
        text = problem.partition("'")[2].rpartition("'")[0]
        place, encoding = [unquote(rows[0]["file"])], encoding_of(source)
        fixed = f"{problem}; {_FIX}"
        storage = reading.project.storage
        raise TerminalStepError(
            add_location(place, fixed, encoding, lambda line: text in line, storage)
        )
