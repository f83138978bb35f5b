"""Loading a code location writes nothing; its first run or tick registers the files."""

from typing import Any

from dagster import Definitions, SensorDefinition, build_sensor_context

from logdriven_dagster.config import Project
from logdriven_dagster.execution.definitions.changes import ProjectRegistry, rollback
from logdriven_dagster.execution.definitions.registering import load_for_code_location, register
from logdriven_dagster.orchestration.code_location import build_definitions
from logdriven_dagster.runlog import RunLog
from tests.orchestration.world import ALONE, World
from tests.runlog.logbook import execute, rows

TWO: dict[str, Any] = ALONE | {"steps": [{**ALONE["steps"][0], "sql": "SELECT 2 AS one"}]}


def loaded(world: World) -> tuple[Project, Definitions]:
    """What importing `logdriven_dagster.definitions` makes."""
    project = load_for_code_location(world.root)
    definitions = build_definitions(project)
    definitions.get_repository_def()
    return project, definitions


def caught_up(world: World, definitions: Definitions) -> None:
    job = definitions.resolve_job_def("catch_up")
    config = {"ops": {"catch_up": {"config": {"now": "2022-01-02"}}}}
    assert job.execute_in_process(config, instance=world.instance).success


def versions(world: World) -> list[int]:
    found = ProjectRegistry.open(world.root).versions("ods.alone")
    return [version.version for version in found]


def sql_of(project: Project) -> str | None:
    return project.table("ods.alone").steps[0].sql


def test_loading_makes_no_run_log(world: World) -> None:
    loaded(world.write(ALONE))
    assert not (world.root / ".logdriven").exists()


def test_loading_migrates_no_run_log(world: World) -> None:
    log = RunLog.open(world.write(ALONE).project.run_log_url)
    execute(log, "UPDATE logdriven_version SET version_num = '0005'")
    project, _ = loaded(world)
    assert sql_of(project) == "SELECT 1 AS one"
    assert rows(log, "SELECT version_num FROM logdriven_version") == [{"version_num": "0005"}]


def test_loading_makes_no_version_and_the_first_run_does(world: World) -> None:
    register(world.write(ALONE).root)
    project, definitions = loaded(world.write(TWO))
    assert (sql_of(project), versions(world)) == ("SELECT 2 AS one", [1])
    caught_up(world, definitions)
    assert versions(world) == [1, 2]
    log = RunLog.open(project.run_log_url)
    assert rows(log, "SELECT table_version, status FROM job_log") == [
        {"table_version": 2, "status": "SUCCESS"}
    ]


def test_so_does_the_first_tick(world: World) -> None:
    _, definitions = loaded(world.write(ALONE))
    for sensor in definitions.sensors or []:
        assert isinstance(sensor, SensorDefinition)
        context = build_sensor_context(
            world.instance, repository_def=definitions.get_repository_def()
        )
        sensor(context)
        assert versions(world) == [1]


def test_what_is_registered_is_what_was_loaded(world: World) -> None:
    _, definitions = loaded(world.write(ALONE))
    world.write(TWO)
    caught_up(world, definitions)
    assert sql_of(register(world.root).project) == "SELECT 2 AS one"
    assert versions(world) == [1, 2]


def test_what_was_rolled_back_is_loaded_as_it_is_in_force(world: World) -> None:
    register(world.write(ALONE).root)
    register(world.write(TWO).root)
    rollback(world.root, "ods.alone", 1)
    project, _ = loaded(world)
    assert (sql_of(project), versions(world)) == ("SELECT 1 AS one", [1, 2, 3])
