"""A project in a temporary folder whose windows run in a real Spark session."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import yaml

from logdriven_dagster.config import Project, load_project
from logdriven_dagster.engine import Engine, WindowSession
from logdriven_dagster.engine.spark.connect import metrics as connect_metrics
from logdriven_dagster.engine.spark.mode import is_connect
from logdriven_dagster.model.runs import Published, Staged, WindowRun
from logdriven_dagster.model.windows import TimeWindow

TABLE = {"period": 1440, "default_start": "2022-01-01"}

JOBS = count(1)


def held() -> None:
    """The lease is ours."""


@dataclass
class Ran:
    """What one window did."""

    staged: list[Staged]
    published: list[Published]

    @property
    def counts(self) -> Any:
        return self.staged[-1].counts


@dataclass
class Lab:
    """Writes tables of a project and runs their windows: stage all, check all, publish all."""

    root: Path
    spark: Any
    settings: dict[str, Any] = field(default_factory=dict)

    def table(self, name: str, *steps: Mapping[str, Any], **fields: Any) -> str:
        """Write the file of a table; its name."""
        path = self.root / "tables" / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        named = [{"step": f"step_{n}", **step} for n, step in enumerate(steps, 1)]
        path.write_text(yaml.safe_dump({"table": name, "steps": named, **TABLE, **fields}))
        return name

    def file(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    @property
    def project(self) -> Project:
        settings = {"project": "lab", "spark": {"master": "local[2]"}, **self.settings}
        (self.root / "logdriven.yaml").write_text(yaml.safe_dump(settings))
        return load_project(self.root)

    @property
    def warehouse(self) -> Path:
        """The folder of the warehouse, to look into it; a bucket is a folder as well."""
        return self.root / ".logdriven" / "warehouse"

    def path(self, location: str) -> Path:
        """Where a location of the warehouse lies."""
        return self.warehouse / location.removeprefix(f"{self.project.warehouse}/")

    @property
    def engine(self) -> Engine:
        return Engine(self.project, self.spark)

    def window_run(self, table: str, window: TimeWindow, **fields: Any) -> WindowRun:
        project = self.project
        config = project.table(table)
        job_id = next(JOBS)
        values = {
            "job_id": job_id,
            "fencing_token": job_id,
            "variables": project.variables(config),
            "reads": {dependency.table: (window,) for dependency in config.depends_on},
        }
        return WindowRun(table=table, window=window, **(values | fields))

    def run(self, table: str, window: TimeWindow, **fields: Any) -> Ran:
        """Run one window to its end."""
        with self.session(table, window, **fields) as session:
            return self.finish(session, table)

    def session(self, table: str, window: TimeWindow, **fields: Any) -> Any:
        return self.engine.open_session([self.window_run(table, window, **fields)])

    def finish(self, session: WindowSession, table: str) -> Ran:
        config = self.project.table(table)
        staged = [each for step in config.steps for each in session.stage(step)]
        for check in config.checks:
            session.check(check)
        targets = [step.step for step in config.steps if step.target]
        return Ran(staged, [each for step in targets for each in session.publish(step, held)])

    def rows(self, table: str, window: TimeWindow | None = None) -> list[tuple[Any, ...]]:
        """The published rows in order."""
        frame = self.engine.read(table, window)
        return sorted((tuple(row) for row in frame.collect()), key=repr)


def jobs_at_work(spark: Any) -> list[Any]:
    """What Spark computes at this instant."""
    if is_connect(spark):
        return connect_metrics._pages_of(spark).ask("/jobs?status=running")
    return list(spark.sparkContext.statusTracker().getActiveStageIds())
