"""Projects of one run log, with tables of the same names."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from logdriven_dagster.execution.definitions.homes import open_run_log
from logdriven_dagster.execution.definitions.registering import register
from logdriven_dagster.execution.opening import open_runner
from logdriven_dagster.execution.runner import Runner
from logdriven_dagster.runlog.history import logs as history
from logdriven_dagster.runlog.jobs import history as job_history
from logdriven_dagster.runlog.observed import lineage_answers
from tests.builders import at

DAILY = """
table: ods.a
period: 1 day
default_start: 2022-01-01
lookback: {lookback}
steps:
  - step: load
    sql: SELECT {value} AS n
    target: {{type: parquet}}
"""
FILES = """
table: ods.f
period: 1 day
incremental_type: files
steps:
  - step: load
    source: {type: csv, path: in/*.csv, header: true, columns: v STRING}
    target: {type: parquet}
"""
COPIES = """
table: dwd.c
period: 1 day
incremental_type: upstream
depends_on: [ods.a]
steps:
  - step: copy
    sql: SELECT n FROM ods.a
    target: {type: parquet}
"""
NOW = at("2022-01-04")
COMMAND = """
from logdriven_dagster.cli import main
from logdriven_dagster.testing.null_engine import null_engine
with null_engine():
    main()
"""
"""The command with an engine that does nothing."""


@dataclass(frozen=True)
class OnLog:
    """A project of a table of each kind on a run log that it shares."""

    root: Path
    log: str
    name: str

    def write(self, lookback: int = 0, value: int = 1) -> "OnLog":
        (self.root / "tables").mkdir(parents=True, exist_ok=True)
        (self.root / "in").mkdir(exist_ok=True)
        settings = f'project: {self.name}\nrun_log: "{self.log}"\n'
        (self.root / "logdriven.yaml").write_text(settings)
        tables = {"a": DAILY.format(lookback=lookback, value=value), "f": FILES, "c": COPIES}
        for name, content in tables.items():
            (self.root / "tables" / f"{name}.yaml").write_text(content)
        return self

    def put(self, name: str) -> "OnLog":
        (self.root / "in" / name).write_text("v\n1\n")
        return self

    @property
    def runner(self) -> Runner:
        registered = register(self.root)
        return open_runner(registered.project, run_log=registered.run_log)

    def run(self, now: Any = NOW) -> list[str]:
        return [type(event).__name__ for event in self.runner.catch_up(now)]

    def begin_run(self) -> subprocess.Popen[str]:
        words = ["run", "--project", str(self.root), "--now", "2022-01-04"]
        return subprocess.Popen(
            [sys.executable, "-c", COMMAND, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def attempts(self) -> list[tuple[Any, ...]]:
        """Every attempt that the log has for the project, by table and window."""
        names = ("job_name", "data_range_start", "data_range_end", "status", "attempt_number")
        with open_run_log(self.runner.project).read() as conn:
            rows = history.list_attempts(conn, limit=1_000)
        return sorted(tuple(str(row[name]) for name in names) for row in rows)

    def stands(self) -> dict[str, Any]:
        """What is planned by, shown of and counted of the project, by what the log says."""
        runner = self.runner
        tables = list(runner.project.tables.values())

        def ask(conn: Any) -> dict[str, Any]:
            return {
                "logs": history.read_table_logs(conn, tables),
                "statuses": history.read_latest_statuses(conn, runner.project.tables),
                "counts": history.count_finished(conn),
                "jobs": job_history.read_latest_runs(conn, ["any"]),
                "lineage": lineage_answers.find_by_table(conn, "ods.a"),
            }

        found = runner.run_log.ask(ask)
        planned = [str(item) for item in runner.plan(NOW).windows()]
        return {**found, "plan": planned, "attempts": self.attempts()}
