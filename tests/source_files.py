"""Source files whose lines are times, counted as windows on Spark count them."""

from datetime import datetime
from pathlib import Path

from logdriven_dagster.engine.sources.known_sources import read_version
from logdriven_dagster.model.source_rows import FileRows

EVENTS = """
    table: ods.events
    period: 1 day
    default_start: 2022-01-01
    on_source_change: {reaction}
    steps:
      - step: load
        source: {{type: csv, path: in, columns: "at TIMESTAMP", window_column: at}}
        target: {{type: iceberg}}
"""


def count_rows(file: Path) -> FileRows:
    """Return the rows of a file with a time in each line."""
    times = [datetime.fromisoformat(f"{line}+00:00") for line in file.read_text().splitlines()]
    found = sorted(int(time.timestamp()) * 1_000_000 for time in times)
    return FileRows(str(file), read_version(str(file)), len(found), 0, 0, 0, found[0], found[-1])
