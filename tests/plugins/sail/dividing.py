"""A process that stages rows of several windows on Sail, by the very code that windows use.

Its standard input has a line of JSON for each table: `file`, its Parquet file with `id`, `at` and
`day`; `bounds` of the windows; `column`, the target's window_column; `mode`; `tasks`, how many
write; `lost`, the row that belongs to no window. It answers with the ids in each window's files.
"""

import json
import sys
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from logdriven_dagster.config import load_project
from logdriven_dagster.config.models.types.files import FileTarget
from logdriven_dagster.engine.queries.window_check import assign_windows
from logdriven_dagster.engine.queries.window_index import WINDOW_INDEX
from logdriven_dagster.engine.spark import functions as sf
from logdriven_dagster.engine.spark.dead_sessions import register_session
from logdriven_dagster.engine.spark.functions import functions_for
from logdriven_dagster.engine.spark.modes import mode_of
from logdriven_dagster.engine.spark.settings import session_settings
from logdriven_dagster.engine.storage.locations import folder_at
from logdriven_dagster.engine.targets.staged_files import stage_files
from logdriven_dagster.model.runs import WindowRun
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.plugins.sail.engine_type import connect_to_sail


def divided(spark: Any, asked: dict[str, Any]) -> list[list[int]]:
    """The ids in the files of each window."""
    bounds = [datetime.fromisoformat(text) for text in asked["bounds"]]
    windows = [TimeWindow(*pair) for pair in pairwise(bounds)]
    rows = spark.read.schema("id BIGINT, at TIMESTAMP, day DATE")
    rows = rows.parquet(Path(asked["file"]).as_uri()).repartition(asked["tasks"])
    target = FileTarget(type="parquet", mode=asked["mode"], window_column=asked["column"])
    frame = assign_windows(rows, target, windows)
    if asked["lost"] is not None:
        kept = sf.when(sf.col("id") != asked["lost"], sf.col(WINDOW_INDEX))
        frame = frame.withColumn(WINDOW_INDEX, kept)
    runs = [WindowRun(3 * n + 7, "t", each, 1, step_id="s") for n, each in enumerate(windows)]
    folder = folder_at(Path(asked["file"] + ".staged").as_uri(), {})
    made = [each.files for each in stage_files(frame, folder, runs)]
    return [sorted(number for file in files for number in _ids(file)) for files in made]


def _ids(file: str) -> list[int]:
    found: list[int] = pq.ParquetFile(file.removeprefix("file://")).read()["id"].to_pylist()
    return found


def main() -> None:
    project = load_project(Path(sys.argv[1]))
    spark = connect_to_sail(project, register_session)
    mode_of(spark).configure(spark, session_settings(project))
    for line in sys.stdin:
        try:
            with functions_for(spark):
                answer: dict[str, Any] = {"ids": divided(spark, json.loads(line)), "error": None}
        except Exception as error:  # noqa: BLE001 - whatever Sail says
            answer = {"ids": None, "error": str(error)}
        sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
