"""A day of many hourly tables without Spark: the project, and the workers that share it.

Half of the tables are in chains of three, one in twenty is due an hour and a half late, and one
window in a hundred fails when it is tried first (`benchmarks.null_runs`). Everything else is the
product's own.

`python -m benchmarks.many_tables FOLDER GROUP` is a worker: for each line of its input, which is a
instant of data time, it catches up on the tables of its worker group, and tells how that went.
"""

import json
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import yaml

from benchmarks.machine import peak_megabytes
from benchmarks.null_runs import failing_engine
from logdriven_dagster.execution.definitions.registering import register
from logdriven_dagster.testing.null_engine import null_runner

_CYCLE, _CHAIN = 6, 3
"""Of six tables three wait for none, and three are a chain."""
_LATE, _LATE_ONE = 20, 7
_DELAY = timedelta(minutes=90)


def _two_days_ago() -> datetime:
    today = datetime.now(timezone.utc).replace(hour=0, minute=0, second=0, microsecond=0)
    return today - timedelta(days=2)


@dataclass(frozen=True, slots=True)
class Day:
    """How many tables have a window for each of how many hours, and how many workers share them."""

    tables: int
    hours: int
    workers: int
    start: datetime = field(default_factory=_two_days_ago)

    @property
    def windows(self) -> int:
        """Return the number of all windows."""
        return self.tables * self.hours

    @property
    def instants(self) -> list[datetime]:
        """When workers are sent to work: behind each hour, and until the late ones are done."""
        late = 3
        return [self.start + timedelta(hours=n + 1, minutes=5) for n in range(self.hours + late)]

    def name(self, k: int) -> str:
        """Return the name of a table."""
        return f"ods.t{k:05}"

    def group(self, k: int) -> str:
        """Return the worker group of a table: that of its whole chain."""
        return worker(k // _CYCLE % self.workers)


def worker(n: int) -> str:
    """Return the name of a worker, which is its group."""
    return f"worker-{n}"


def make_project(folder: Path, day: Day, url: str) -> None:
    """Write a project of these tables."""
    (folder / "tables").mkdir(parents=True, exist_ok=True)
    settings = {"project": "many", "timezone": "UTC", "run_log": url}
    (folder / "logdriven.yaml").write_text(yaml.safe_dump(settings))
    for k in range(day.tables):
        text = yaml.safe_dump(_table(day, k))
        (folder / "tables" / f"{k:05}.yaml").write_text(text)


def _table(day: Day, k: int) -> dict[str, Any]:
    end = day.start + timedelta(hours=day.hours)
    values: dict[str, Any] = {
        "table": day.name(k),
        "period": "1 hour",
        "default_start": f"{day.start:%Y-%m-%d %H:%M}",
        "end": f"{end:%Y-%m-%d %H:%M}",
        "worker_group": day.group(k),
        "steps": [{"step": "load", "sql": "SELECT 1 AS one", "target": {"type": "parquet"}}],
    }
    if k % _LATE == _LATE_ONE:
        values["delay"] = f"{_DELAY // timedelta(minutes=1)} min"
    if k % _CYCLE > _CYCLE - _CHAIN:
        values["depends_on"] = [day.name(k - 1)]
    return values


def main(folder: Path, group: str) -> None:
    """Catch up to each instant that is read; one line of JSON for each."""
    registered = register(folder)
    engine = failing_engine()
    runner = null_runner(registered.project, registered.run_log, engine)
    mine = [n for n, t in registered.project.tables.items() if t.worker_group == group]
    print(json.dumps(len(mine)), flush=True)
    for line in sys.stdin:
        began, worked = time.perf_counter(), time.process_time()
        events = Counter(
            type(each).__name__
            for each in runner.catch_up(datetime.fromisoformat(line.strip()), mine)
        )
        found = {
            "events": events,
            "seconds": time.perf_counter() - began,
            "processor": time.process_time() - worked,
            "megabytes": peak_megabytes(),
        }
        print(json.dumps(found), flush=True)
        engine.clear()  # what it remembers is not what a catch-up holds


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
