"""M: what it takes to plan a query over a table of many files, by a list of them and by paths.

`python -m benchmarks.probes.many_files SOURCE FOLDER DAYS ROUNDS` prints JSON. Tasks are planned,
but not run: what is read and how is the same on both ways.
"""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import yaml

from benchmarks.many_files import FRAME, MANIFESTS, TASKS, Parts, found_for_a_day, make, planned
from benchmarks.settings import SPARK

_FEW, _MANY = 10_000, 100_000
_OF_SPARK = (FRAME, TASKS)
_PROJECT = {
    "project": "many",
    "spark": {"config": {name: text for name, text in SPARK.items() if name != "spark.master"}},
}


def main(folder: Path, rounds: int) -> dict[str, Any]:
    """Seconds of each part, and the ratio of lists to paths, round by round."""
    from logdriven_dagster.config import load_project
    from logdriven_dagster.engine import spark_session
    from logdriven_dagster.engine.targets.iceberg.catalog import open_catalog

    (folder / "logdriven.yaml").write_text(yaml.safe_dump(_PROJECT))
    project = load_project(folder)
    spark = spark_session(project)
    catalog = open_catalog(project)
    loads = {}
    for number in (_FEW, _MANY):
        name = make(catalog, folder, f"sales.of_{number}", number)
        loads[number] = partial(catalog.load_table, name)
    ways = {
        f"{_FEW:,} files, paths": (loads[_FEW], nullcontext),
        f"{_FEW:,} files, a list": (loads[_FEW], partial(_listing, spark, project)),
        f"{_MANY:,} files, a list": (loads[_MANY], partial(_listing, spark, project)),
    }
    return _told({way: _measured(spark, *ways[way], rounds) for way in ways})


@contextmanager
def _listing(spark: Any, project: Any) -> Iterator[None]:
    from logdriven_dagster.engine.storage.file_lists import listing_files

    with listing_files(spark, project, "many", 1):
        yield


def _measured(
    spark: Any, load: Callable[[], Any], listing: Callable[[], Any], rounds: int
) -> dict[str, list[float]]:
    """Seconds of each part in each round; the first one, in which Java compiles, is left out."""
    found: dict[str, list[float]] = {}
    for number in range(rounds + 1):
        parts = Parts()
        with listing():
            planned(load, spark, parts)
            found_for_a_day(load, parts)
        for name, seconds in parts.seconds.items() if number else ():
            found.setdefault(name, []).append(seconds)
    return found


def _told(found: dict[str, dict[str, list[float]]]) -> dict[str, Any]:
    paths, listed, many = found.values()
    rows = [(name, *(f"{median(way[name]):.2f}" for way in found.values())) for name in many]
    pairs = zip(_sums(listed, _OF_SPARK), _sums(paths, _OF_SPARK), strict=True)
    return {
        "title": f"Planning a query over an Iceberg table of {_MANY:,} files",
        "text": "Seconds, medians. Spark is given the files as a list, or as paths, which it looks "
        "for one by one.",
        "table": {"head": ["measure", *found], "rows": rows},
        "list_ratio": [mine / theirs for mine, theirs in pairs],
        "planned_s": _sums(many, [MANIFESTS, *_OF_SPARK]),
    }


def _sums(way: dict[str, list[float]], names: Sequence[str]) -> list[float]:
    """Seconds of some parts together, round by round."""
    return [sum(each) for each in zip(*(way[name] for name in names), strict=True)]


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[2]), int(sys.argv[4]))))
