"""Two projects on one run log in one Dagster instance: each code location shows its own windows."""

from pathlib import Path
from typing import Any

import pytest
from dagster import AssetKey, DagsterInstance, Definitions, build_sensor_context

from logdriven_dagster import LogdrivenTranslator, build_definitions
from logdriven_dagster.config import load_project
from logdriven_dagster.execution.definitions.registering import register
from logdriven_dagster.execution.opening import open_runner
from logdriven_dagster.testing.null_engine import null_engine
from tests.builders import at
from tests.execution.two_projects import OnLog


class Second(LogdrivenTranslator):
    """Keys of their own for tables whose names another project has as well."""

    def get_asset_spec(self, table: Any, project: Any) -> Any:
        spec = super().get_asset_spec(table, project)
        return spec.replace_attributes(key=spec.key.with_prefix("second"))


@pytest.fixture
def projects(tmp_path: Path) -> tuple[OnLog, OnLog]:
    log = f"sqlite:///{tmp_path / 'shared.db'}"
    one, two = (OnLog(tmp_path / name, log, name).write() for name in "ab")
    return one.put("1.csv").put("2.csv"), two.put("1.csv")


def locations(projects: tuple[OnLog, OnLog]) -> tuple[Definitions, Definitions]:
    one, two = (load_project(project.root) for project in projects)
    return build_definitions(one), build_definitions(two, prefix="second", translator=Second())


def tick(definitions: Definitions, sensor: str, instance: DagsterInstance) -> Any:
    return definitions.resolve_sensor_def(sensor)(build_sensor_context(instance))


def materialized(instance: DagsterInstance, *key: str) -> list[str]:
    records = instance.fetch_materializations(AssetKey(list(key)), limit=100).records
    return sorted({str(record.partition_key) for record in records})


@pytest.mark.usefixtures("slow")
def test_each_code_location_mirrors_and_requests_its_own_windows(projects: tuple[OnLog, OnLog]):
    instance = DagsterInstance.ephemeral()
    one, two = locations(projects)
    with null_engine():
        projects[0].run()
    tick(two, "second_run_log_mirror", instance)
    assert materialized(instance, "second", "ods", "a") == []
    tick(one, "run_log_mirror", instance)
    days = [f"2022-01-0{n}" for n in (1, 2, 3)]
    assert materialized(instance, "ods", "a") == days
    assert materialized(instance, "second", "ods", "a") == []

    for project in projects:
        register(project.root)
    planned = [open_runner(load_project(p.root)).plan(at("2022-01-04")) for p in projects]
    assert [len(list(plan.windows())) > 0 for plan in planned] == [False, True]

    with null_engine():
        projects[0].put("3.csv").run(at("2022-01-05"))
        projects[1].run(at("2022-01-03"))
    tick(one, "run_log_mirror", instance)
    tick(two, "second_run_log_mirror", instance)
    assert materialized(instance, "ods", "a") == [*days, "2022-01-04"]
    assert materialized(instance, "second", "ods", "a") == days[:2]
    slices = [instance.get_dynamic_partitions(f"{p}slices of ods.f") for p in ("", "second_")]
    assert slices == [["0", "1"], ["0"]]
    assert materialized(instance, "ods", "f") == ["0", "1"]
    assert materialized(instance, "second", "ods", "f") == ["0"]
