"""A process that answers queries on Sail, by the very code that windows use.

PySpark has either a classic session or one of Spark Connect in a process, and tests compare both.
"""

import json
import sys
from pathlib import Path
from typing import Any

from pyarrow import feather

from logdriven_dagster.config import load_project
from logdriven_dagster.engine.spark.dead_sessions import register_session
from logdriven_dagster.engine.spark.modes import mode_of
from logdriven_dagster.engine.spark.settings import session_settings
from logdriven_dagster.plugins.sail.engine_type import connect_to_sail
from logdriven_dagster.plugins.sail.queries import sail_query


def answer(spark: Any, asked: dict[str, Any]) -> dict[str, Any]:
    """Run one query and write its rows; the error's text, if there is one."""
    try:
        frames = {
            name: spark.read.schema(ddl).parquet(path)
            for name, (path, ddl) in asked["tables"].items()
        }
        made = sail_query(spark, asked["sql"], frames)
        feather.write_feather(made.toArrow(), asked["out"])
    except Exception as error:  # noqa: BLE001 - whatever Sail says
        return {"error": f"{type(error).__name__}: {error}"}
    return {"error": None}


def _send(answered: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answered) + "\n")
    sys.stdout.flush()


def main() -> None:
    project = load_project(Path(sys.argv[1]))
    spark = connect_to_sail(project, register_session)
    mode_of(spark).configure(spark, session_settings(project))
    _send({"ready": True})
    for line in sys.stdin:
        _send(answer(spark, json.loads(line)))


if __name__ == "__main__":
    main()
