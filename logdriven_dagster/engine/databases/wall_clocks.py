"""Wall clock times: database times without a zone are on the project's clock.

When clocks go back, an hour exists twice: its times mean the first one, and an instant of the
second has no wall time of its own. When they go forward, times of the skipped hour mean no instant.
"""

from typing import TYPE_CHECKING

from logdriven_dagster.engine.queries.quoting import plain, quote_name
from logdriven_dagster.engine.spark import functions as sf

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

INSTANT, WALL = "timestamp", "timestamp_ntz"
"""Spark's types of an instant and of a wall time."""


def fit_clocks(
    frame: "DataFrame", known: "Mapping[str, str]", created: "Mapping[str, str]", zone: str
) -> "DataFrame":
    """Return the frame with its times as the database stores them: as instants or as wall times.

    `known` are the types of existing columns by lower-case name; `created` maps types to those of
    new columns. A value that would change raises an error.
    """
    changes = {}
    for name, given in frame.dtypes:
        wanted = known.get(name.lower(), created.get(given, given))
        if given != wanted and {given, wanted} == {INSTANT, WALL}:
            changes[name] = sf.expr(_build_conversion(name, given, wanted, zone))
    return frame.withColumns(changes) if changes else frame


def _build_conversion(name: str, given: str, wanted: str, zone: str) -> str:
    if wanted == WALL:
        problem = f" is the second occurrence of a time that the clocks of {zone} show twice"
        fix = "use a database column with time zone, or write CAST(… AS TIMESTAMP_NTZ) explicitly"
    else:
        problem = f" is skipped by the clocks of {zone}"
        fix = "the database column has timestamps with time zone; write the timestamp that you mean"
    v, types = quote_name(name), {INSTANT: "TIMESTAMP_LTZ", WALL: "TIMESTAMP_NTZ"}
    shown = f"concat('column {plain(name)}: ', CAST({v} AS STRING), '{problem}; {fix}')"
    cast = f"CAST({v} AS {types[wanted]})"
    return (
        f"CASE WHEN {v} IS NULL OR CAST({cast} AS {types[given]}) = {v} THEN {cast} "
        f"ELSE raise_error({shown}) END"
    )
