"""A small project: numbers by day in CSV files, loaded and summed.

Its windows run on the null engine, or on real Spark in a test that asks for `spark` as well.
"""

import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from logdriven_dagster.config import load_project
from logdriven_dagster.config.models.steps import CheckConfig, StepConfig
from logdriven_dagster.engine import WindowSession
from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.execution.events import WindowEvent
from logdriven_dagster.execution.opening import open_runner
from logdriven_dagster.execution.runner import Runner
from logdriven_dagster.model.runs import WindowRun
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.runlog.history import logs as history
from logdriven_dagster.testing.null_engine import NullEngine, NullSession, null_engine
from tests.builders import at

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
_OOPS = "CAST('oops' AS INT)"
BROKEN = NUMBERS.replace("CAST(n AS INT)", _OOPS)
"""A definition whose query fails, on Spark and on the null engine."""
NOW = at("2022-01-05 14:00")
Stage = Callable[[WindowRun, StepConfig], int]


class World:
    """A project folder, its runner and what came of it."""

    def __init__(self, root: Path, spark: Any = None) -> None:
        self.root, self.spark = root, spark
        self.engine = NullEngine(stage=self._stage, check=self._check)
        """Runs the windows of the fixture `world`, in a test that does not ask for `spark`."""
        self.steps: dict[str, Stage] = {}
        """Table → what its steps do on the null engine, in place of what is usual."""
        self.failing_checks: set[str] = set()
        """Names of checks that find rows on the null engine."""
        # Windows run one by one, unless a table has another batch_size.
        self.write("logdriven.yaml", "project: world\ndefaults: {batch_size: 1}")
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

    @property
    def session_class(self) -> type:
        """The class whose `stage` and `publish` do the work of a window."""
        return NullSession if self.spark is None else WindowSession

    def catch_up(self, **options: Any) -> list[WindowEvent]:
        return list(self.runner.catch_up(options.pop("now", NOW), **options))

    def log(self, table: str | None = None) -> list[dict[str, Any]]:
        """The rows of the log, oldest first."""
        with self.runner.run_log.read() as conn:
            return history.list_attempts(conn, table, limit=1000)[::-1]

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

    def _stage(self, run: WindowRun, step: StepConfig) -> int:
        """Do a step on the null engine: one with a source delivers the lines of the window."""
        if run.table in self.steps:
            return self.steps[run.table](run, step)
        if _OOPS in (step.sql or ""):
            raise TerminalStepError("the value 'oops' cannot be cast to INT")
        return count_numbers(self.root / "data/numbers.csv", run) if step.source else 1

    def _check(self, _run: WindowRun, check: CheckConfig) -> None:
        if check.check in self.failing_checks:
            raise TerminalStepError(f"check {check.check} found rows")


def count_numbers(file: Path, run: WindowRun) -> int:
    """Return how many lines of the file lie in the window; a number that is none fails it."""
    found = 0
    for line in file.read_text().splitlines()[1:]:
        day, _, number = line.partition(",")
        if run.window.start <= at(day) < run.window.end:
            if not number.isdigit():
                raise TerminalStepError(f"the value '{number}' cannot be cast to INT")
            found += 1
    return found


@pytest.fixture
def world(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[World]:
    if "spark" in request.fixturenames:
        yield World(tmp_path, request.getfixturevalue("spark"))
        return
    world = World(tmp_path)
    with null_engine(world.engine):
        yield world


@pytest.fixture
def after_stage(
    monkeypatch: pytest.MonkeyPatch, world: World
) -> Callable[[str, Callable[[], None]], list[str]]:
    """Do something once, right after a step was staged; returns the steps staged so far."""

    def arrange(step_id: str, hook: Callable[[], None]) -> list[str]:
        original, staged, waiting = world.session_class.stage, [], [hook]

        def stage(self, step):
            result = original(self, step)
            staged.append(step.step)
            if step.step == step_id and waiting:
                waiting.pop()()
            return result

        monkeypatch.setattr(world.session_class, "stage", stage)
        return staged

    return arrange
