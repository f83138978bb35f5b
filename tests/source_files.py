"""Source files whose lines are times, counted as windows on Spark count them."""

from datetime import datetime
from pathlib import Path

from logdriven_dagster.engine.sources.known_sources import read_version
from logdriven_dagster.execution.events import WindowSucceeded
from logdriven_dagster.model.source_rows import FileRows, sum_files
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.runlog.observed import audits
from logdriven_dagster.testing import NullEngine, Sandbox
from tests.builders import at

NOW = "2022-01-06"

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


class Events:
    """A table of daily windows over CSV files, each of which holds some days."""

    def __init__(self, folder: Path, reaction: str) -> None:
        self.sandbox = Sandbox(folder, engine=NullEngine())
        self.folder = folder / "in"
        self.sandbox.write("tables/events.yaml", EVENTS.format(reaction=reaction))
        for n in range(1, 6):
            self.deliver(f"{n}.csv", n)

    def deliver(self, name: str, *of_days: int) -> Path:
        """Write a file with a time of each day, as a new version."""
        self.sandbox.write(f"in/{name}", "\n".join(f"2022-01-0{n} 12:00:00" for n in of_days))
        return self.folder / name

    def count_files(self, *readers: int, digest: str = "settings") -> None:
        """Record the rows of new and changed files, as windows do when they read."""
        runner = self.sandbox.runner
        rows = sum_files("ods.events", "load", digest, map(count_rows, self.folder.iterdir()))
        table = runner.project.table("ods.events")
        runner.run_log.write(lambda conn: audits.record(conn, rows, table, readers))

    def run(self, now: str = NOW) -> list[TimeWindow]:
        """Run what is pending; return its windows."""
        done = [e.attempt for e in self.sandbox.run(now=now) if isinstance(e, WindowSucceeded)]
        if done:
            self.count_files(*(attempt.job_id for attempt in done))
        return [attempt.window for attempt in done]

    def refresh(self, window: TimeWindow) -> None:
        events = self.sandbox.runner.refresh("ods.events", window, at(NOW))
        done = [event.attempt.job_id for event in events if isinstance(event, WindowSucceeded)]
        self.count_files(*done)

    @property
    def outdated(self) -> dict[TimeWindow, str]:
        """Window → the changes of its files."""
        found = self.sandbox.runner.plan(at(NOW)).tables["ods.events"].log.changed
        return {each.window: without_folder(self.folder, each.text) for each in found}


def without_folder(folder: Path, text: str) -> str:
    """Return a text with the paths of files in a folder as relative ones."""
    return text.replace(f"{folder}/", "")
