"""Files with times that Spark would change while it reads them."""

from collections.abc import Iterable
from operator import itemgetter
from typing import TYPE_CHECKING

from logdriven_dagster.engine.sources.files.typed.footers import Footer
from logdriven_dagster.engine.sources.files.typed.held_types import LOST_DIGITS, leaves
from logdriven_dagster.engine.sources.files.typed.orc_values import find_skipped_time
from logdriven_dagster.errors import TerminalStepError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def refuse_lost_digits(found: Iterable[Footer], columns: "StructType | None") -> None:
    """Raise TerminalStepError for INT96 timestamps whose digits Spark would cut off.

    Columns that `columns` does not name are not read.
    """
    names = None if columns is None else {name.lower() for name in columns.fieldNames()}
    for footer in found:
        for path, kind in leaves(footer.columns):
            if kind == LOST_DIGITS and (names is None or path[0] in names):
                raise TerminalStepError(
                    f"{footer.path}: the column {'.'.join(path)} has INT96 timestamps with digits "
                    "below a microsecond, which Spark would cut off; write the column without "
                    "INT96 (PyArrow: use_deprecated_int96_timestamps=False; fastparquet: "
                    "times='int64'), or leave it out of `columns`"
                )


def refuse_skipped_times(found: Iterable[Footer], columns: "StructType | None", zone: str) -> None:
    """Raise TerminalStepError for an ORC time without a zone that the clocks of `zone` skip.

    Columns that `columns` does not name are not read.
    """
    names = None if columns is None else {name.lower() for name in columns.fieldNames()}
    held = ((file.path, file, footer) for footer in found for file in footer.files)
    for path, file, footer in sorted(held, key=itemgetter(0)):
        skipped = find_skipped_time(file, footer.columns, zone)
        if skipped and (names is None or skipped[0][0] in names):
            raise TerminalStepError(
                f"{path}: column {'.'.join(skipped[0])} holds {skipped[1]}, which the clocks of "
                f"{zone} skip, and which Spark would read as a later time; write the column as "
                "text, or the file as Parquet"
            )
