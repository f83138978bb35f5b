"""A small project on real Spark: numbers by day in CSV files, loaded and summed."""

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from logdriven_dagster.config import load_project
from logdriven_dagster.engine import WindowSession
from logdriven_dagster.execution.events import WindowEvent
from logdriven_dagster.execution.opening import open_runner
from logdriven_dagster.execution.runner import Runner
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.runlog.history import logs as history
from tests.builders import at
from tests.engine.conftest import spark

__all__ = ["spark"]

NUMBERS = """
    table: ods.numbers
    period: 1 day
    default_start: 2022-01-01
    steps:
      - step: load
        source: {type: csv, path: data/numbers.csv, header: true, columns: "day DATE, n STRING"}
        sql: >-
          SELECT day, CAST(n AS INT) AS n FROM source
          WHERE day >= :data_range_start AND day < :data_range_end
        target: {type: iceberg}
"""
SUMS = """
    table: dws.sums
    period: 1 day
    default_start: 2022-01-01
    depends_on: [ods.numbers]
    steps:
      - step: add
        sql: SELECT sum(n) AS total FROM ods.numbers
        target: {type: parquet}
"""
NOW = at("2022-01-05 14:00")


class World:
    """A project folder, its runner and what came of it."""

    def __init__(self, root: Path, spark: Any) -> None:
        self.root, self.spark = root, spark
        self.write("logdriven.yaml", "project: world")
        self.write("tables/numbers.yaml", NUMBERS)
        self.write("tables/sums.yaml", SUMS)
        self.numbers(*(f"2022-01-0{day},{day * 10 + n}" for day in range(1, 6) for n in (1, 2)))

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text).strip() + "\n")

    def numbers(self, *lines: str) -> None:
        self.write("data/numbers.csv", "\n".join(["day,n", *lines]))

    @property
    def runner(self) -> Runner:
        return open_runner(load_project(self.root), spark=lambda: self.spark)

    def catch_up(self, **options: Any) -> list[WindowEvent]:
        return list(self.runner.catch_up(options.pop("now", NOW), **options))

    def log(self, table: str | None = None) -> list[dict[str, Any]]:
        """The rows of the log, oldest first."""
        with self.runner.run_log.read() as conn:
            return history.attempts(conn, table, limit=1000)[::-1]

    def statuses(self, table: str) -> list[tuple[str, str]]:
        """Day and status of each attempt, in the order in which they ran."""
        return [(row["data_range_start"][6:8], row["status"]) for row in self.log(table)]

    def rows(self, table: str, window: TimeWindow | None = None) -> list[tuple[Any, ...]]:
        from logdriven_dagster.engine import Engine

        engine = Engine(load_project(self.root), self.spark)
        return sorted(tuple(row) for row in engine.read(table, window).collect())

    def sql(self, statement: str) -> None:
        """As an operator with an SQL client."""
        with self.runner.run_log.begin() as conn:
            conn.exec_driver_sql(statement)


@pytest.fixture
def world(tmp_path: Path, spark: Any) -> World:
    return World(tmp_path, spark)


@pytest.fixture
def after_stage(monkeypatch) -> Callable[[str, Callable[[], None]], list[str]]:
    """Do something once, right after a step was staged; returns the steps staged so far."""

    def arrange(step_id: str, hook: Callable[[], None]) -> list[str]:
        original, staged, waiting = WindowSession.stage, [], [hook]

        def stage(self, step):
            result = original(self, step)
            staged.append(step.step)
            if step.step == step_id and waiting:
                waiting.pop()()
            return result

        monkeypatch.setattr(WindowSession, "stage", stage)
        return staged

    return arrange
