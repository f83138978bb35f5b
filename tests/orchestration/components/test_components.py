"""A project and its tables as components of Dagster."""

from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from dagster import AssetKey, AssetSpec, ComponentTree, DefaultSensorStatus, Definitions

from logdriven_dagster import LogdrivenProjectComponent, TableComponent
from logdriven_dagster.config import load_project
from logdriven_dagster.errors import InvalidProjectError
from tests.orchestration.world import DAILY, EVENTS, World

SECOND = """\
type: logdriven_dagster.TableComponent
attributes:
  table: ods.second
  steps:
    - step: one
      sql: SELECT 1 AS one
      target: {type: parquet}
"""


def built(component: LogdrivenProjectComponent) -> Definitions:
    return component.build_defs(ComponentTree.for_test().load_context)


def component(world: World, **attributes: Any) -> LogdrivenProjectComponent:
    given = {"project": str(world.root), **attributes}
    return LogdrivenProjectComponent.from_attributes_dict(attributes=given)


def keys(definitions: Definitions) -> set[str]:
    graph = definitions.resolve_asset_graph()
    return {key.to_user_string() for key in graph.materializable_asset_keys}


def table_file(world: World, text: str, name: str = "second") -> Path:
    path = world.root / "tables" / name / "defs.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(dedent(text))
    return path


def test_a_project_is_a_component(world: World) -> None:
    definitions = built(component(world.write(EVENTS, DAILY)))
    assert keys(definitions) == {"ods/events", "dwd/daily"}
    assert definitions.resolve_job_def("catch_up")


def test_translation_sees_the_table_and_what_it_would_be(world: World) -> None:
    translation = {
        "key_prefix": "lake",
        "group_name": "{{ table.layer }}_lake",
        "tags": {"period": "{{ table.period.unit.value }}"},
        "description": "{{ table.description }} Really.",
    }
    definitions = built(component(world.write(EVENTS, DAILY), translation=translation))
    graph = definitions.resolve_asset_graph()
    node = graph.get(AssetKey(["lake", "ods", "events"]))
    assert (node.group_name, node.description) == ("ods_lake", "Four rows a day. Really.")
    assert node.tags["domain"] == "web"  # tags are added to
    assert graph.get(AssetKey(["lake", "dwd", "daily"])).parent_keys == {node.key}


def test_op_selection_and_prefix_are_attributes(world: World) -> None:
    given = {"op": {"pool": "spark"}, "tables": ["ods.*"], "prefix": "lake"}
    definitions = built(component(world.write(EVENTS, DAILY), **given))
    (asset,) = definitions.resolve_asset_graph().assets_defs
    assert (asset.op.name, asset.op.pool) == ("lake_ods__events", "spark")
    assert definitions.resolve_job_def("lake_catch_up")


def test_sensor_and_run_log_are_the_code_locations(world: World, tmp_path: Path) -> None:
    given = {
        "sensor": {"enabled": True, "interval": "5 min"},
        "run_log": f"sqlite:///{tmp_path}/ours.db",
    }
    definitions = built(component(world.write(EVENTS).events(days=1), **given))
    sensor = definitions.resolve_sensor_def("catch_up_sensor")
    assert sensor.default_status is DefaultSensorStatus.RUNNING
    assert sensor.minimum_interval_seconds == 300
    config = {"ops": {"catch_up": {"config": {"now": "2022-01-02"}}}}
    job = definitions.resolve_job_def("catch_up")
    assert job.execute_in_process(config, world.instance).success
    assert (tmp_path / "ours.db").is_file()
    assert world.log("ods.events") == []


def test_a_setting_that_cannot_be_is_refused_with_its_name(world: World) -> None:
    with pytest.raises(Exception, match="sensor: max_windows"):
        built(component(world.write(EVENTS), sensor={"max_windows": 0}))


def test_a_subclass_may_change_assets_and_what_runs_them(world: World) -> None:
    ran: list[str] = []

    class Ours(LogdrivenProjectComponent):
        def get_asset_spec(self, table: Any, project: Any) -> AssetSpec:
            spec = super().get_asset_spec(table, project)
            return spec.merge_attributes(tags={"rows": "many"})

        def execute(self, context: Any, table: Any, location: Any) -> Any:
            ran.append(table.table)
            yield from super().execute(context, table, location)

    definitions = built(Ours(project=world.write(EVENTS).events(days=1).root))
    assert world.materialize("ods.events", "2022-01-01", definitions=definitions).success
    assert ran == ["ods.events"]
    assert definitions.resolve_asset_graph().get(AssetKey(["ods", "events"])).tags["rows"] == "many"
    assert world.log("ods.events") == [("20220101", "SUCCESS")]


def test_a_table_may_be_a_component_below_tables(world: World) -> None:
    path = table_file(world.write(EVENTS), SECOND)
    assert keys(built(component(world))) == {"ods/events", "ods/second"}
    assert load_project(world.root).files["ods.second"] == path  # for the command line, too


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("text", "place", "problem"),
    [
        (SECOND.replace("type: parquet", "type: parket"), 7, "parquet"),
        (SECOND.replace("TableComponent", "Table"), 1, "must be logdriven_dagster.TableComponent"),
        (SECOND + "post_processing: {}\n", 8, "is not a field of a table"),
        (SECOND.replace("SELECT 1", "SELECT {{ env.N }}"), 6, "{{ … }} is not replaced in tables"),
        ("type: logdriven_dagster.TableComponent\n", 1, "must be the fields of a table"),
    ],
)
def test_a_mistake_in_a_tables_component_has_its_line(
    world: World, text: str, place: int, problem: str
) -> None:
    path = table_file(world.write(EVENTS), text)
    with pytest.raises(InvalidProjectError) as invalid:
        load_project(world.root)
    (error,) = invalid.value.errors
    assert (error.path, error.line) == (path, place)
    assert problem in str(error)


def test_the_schema_of_a_tables_component_is_that_of_table_files() -> None:
    schema = TableComponent.get_model_cls().model_json_schema()
    assert {"table", "steps", "for_each"} <= schema["properties"].keys()
