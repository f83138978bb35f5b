"""What `logdriven apply` costs when nothing has changed, beside the first time.

`python -m benchmarks.applying [TABLES] [ROUNDS]` prints JSON: seconds of the processor over
SQLite, of 5,000 tables unless told; the ratio is that of the medians.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.big_projects import Shape, make_project
from logdriven_dagster.execution.definitions.registering import register


def main(tables: int = 5_000, rounds: int = 5) -> dict[str, Any]:
    """Seconds of the first time and of those after it."""
    first, unchanged = list[float](), list[float]()
    for _ in range(rounds):
        with TemporaryDirectory() as name:
            root = Path(name)
            make_project(root, Shape(tables, 1), f"sqlite:///{root / 'log.db'}")
            first.append(_seconds(lambda root=root: register(root)))
            unchanged.append(_seconds(lambda root=root: register(root)))
    return {
        "tables": tables,
        "first_seconds": [round(each, 2) for each in first],
        "unchanged_seconds": [round(each, 2) for each in unchanged],
        "ratio": round(median(unchanged) / median(first), 2),
    }


def _seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


if __name__ == "__main__":
    print(json.dumps(main(*map(int, sys.argv[1:]))))
