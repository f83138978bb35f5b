"""A small project in a temporary folder, and a Dagster instance that runs it."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml
from dagster import (
    AssetKey,
    DagsterInstance,
    Definitions,
    ExecuteInProcessResult,
    PartitionsDefinition,
)
from dagster._core.loader import LoadingContextForTest
from dagster._core.storage.partition_status_cache import get_partition_subsets
from sqlalchemy import text

from logdriven_dagster.config import Project, load_project
from logdriven_dagster.execution.opening import open_runner
from logdriven_dagster.orchestration.code_location import build_definitions

JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SETTINGS: dict[str, Any] = {
    "project": "world",
    "defaults": {"default_start": "2022-01-01", "period": 1440},
    "spark": {
        "master": "local[2]",
        "config": {"spark.driver.extraJavaOptions": JAVA, "spark.driver.memory": "1g"},
    },
}
EVENTS: dict[str, Any] = {
    "table": "ods.events",
    "description": "Four rows a day.",
    "owners": ["team:data", "Ann"],
    "tags": {"domain": "web", "not a tag!": "x"},
    "batch_size": 1,
    "steps": [
        {
            "step": "load",
            "source": {
                "type": "csv",
                "path": "events.csv",
                "header": True,
                "columns": "at TIMESTAMP, value INT",
                "window_column": "at",
            },
            "target": {"type": "iceberg", "window_column": "at"},
        }
    ],
    "checks": [{"check": "positive", "sql": "SELECT * FROM load WHERE value < 0"}],
}
DAILY: dict[str, Any] = {
    "table": "dwd.daily",
    "depends_on": ["ods.events"],
    "steps": [
        {
            "step": "sum",
            "sql": "SELECT sum(value) AS total FROM ods.events",
            "target": {"type": "parquet"},
        }
    ],
}
ALONE: dict[str, Any] = {
    "table": "ods.alone",
    "steps": [{"step": "one", "sql": "SELECT 1 AS one", "target": {"type": "parquet"}}],
}


@dataclass
class World:
    """The project, the instance, and what both say about a table's windows."""

    root: Path
    instance: DagsterInstance
    settings: dict[str, Any] = field(default_factory=lambda: dict(SETTINGS))

    def write(self, *tables: dict[str, Any], jobs: tuple[dict[str, Any], ...] = ()) -> "World":
        """Write the project's files."""
        self._dump("logdriven.yaml", self.settings)
        for table in tables:
            self._dump(f"tables/{table['table']}.yaml", table)
        for job in jobs:
            self._dump(f"jobs/{job['job']}.yaml", job)
        return self

    def events(self, bad_day: int | None = None, days: int = 10) -> "World":
        """Write the source: four rows a day of January 2022, negative on a bad day."""
        rows = [
            f"2022-01-{day:02} {hour:02}:00:00,{-day if day == bad_day else day}"
            for day in range(1, days + 1)
            for hour in (0, 6, 12, 18)
        ]
        (self.root / "events.csv").write_text("\n".join(["at,value", *rows]) + "\n")
        return self

    @property
    def project(self) -> Project:
        return load_project(self.root)

    @property
    def definitions(self) -> Definitions:
        return build_definitions(self.project)

    def catch_up(self, **config: Any) -> ExecuteInProcessResult:
        return self.run("catch_up", {"ops": {"catch_up": {"config": config}}})

    def run(self, job: str, run_config: Any = None) -> ExecuteInProcessResult:
        definition = self.definitions.resolve_job_def(job)
        return definition.execute_in_process(
            run_config=run_config, instance=self.instance, raise_on_error=False
        )

    def materialize(
        self,
        tables: str,
        first: str,
        last: str | None = None,
        definitions: Any = None,
        tags: Mapping[str, str] = MappingProxyType({}),
    ) -> ExecuteInProcessResult:
        """Run assets (separated by spaces) for one partition, or a range in one run."""
        definitions = definitions or self.definitions
        job = definitions.resolve_implicit_global_asset_job_def()
        name = "dagster/asset_partition_range"
        span = {f"{name}_start": first, f"{name}_end": last} if last else {}
        return job.execute_in_process(
            instance=self.instance,
            raise_on_error=False,
            asset_selection=[AssetKey(name.split(".")) for name in tables.split()],
            partition_key=None if last else first,
            tags={**span, "logdriven/now": "2022-01-11 00:00", **tags},
        )

    def colours(self, table: str, definitions: Definitions | None = None) -> dict[str, list[str]]:
        """What Dagster's UI shows: partitions by state."""
        key = AssetKey(table.split("."))
        graph = (definitions or self.definitions).resolve_asset_graph()
        partitions: PartitionsDefinition[str] | None = graph.get(key).partitions_def
        loading = LoadingContextForTest(self.instance)
        subsets = asyncio.run(
            get_partition_subsets(self.instance, loading, key, self.instance, partitions)
        )
        green, red, blue = [sorted(subset.get_partition_keys()) for subset in subsets]
        green = [key for key in green if key not in red]
        shown = {"materialized": green, "failed": red, "in_progress": blue}
        return {name: keys for name, keys in shown.items() if keys}

    def log(self, table: str) -> list[tuple[str, str]]:
        """`job_log` as (start, status), in the order of the attempts."""
        with open_runner(self.project).run_log.read() as conn:
            rows = conn.execute(
                text(
                    "SELECT data_range_start, status FROM job_log "
                    "WHERE job_name = :table ORDER BY job_id"
                ),
                {"table": table},
            )
            return [(row[0][:8], row[1]) for row in rows]

    def _dump(self, name: str, content: Any) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(content))


def failure_of(result: ExecuteInProcessResult) -> str:
    """What the run's failed step says."""
    return "\n".join(
        f"{event.step_failure_data.user_failure_data.description}"
        for event in result.all_events
        if event.is_step_failure and event.step_failure_data.user_failure_data
    )
