"""A project in a code location: named by a translator, beside other projects and own assets."""

from typing import Any

import pytest
from dagster import (
    AssetKey,
    AssetSpec,
    AutomationCondition,
    Definitions,
    asset,
    evaluate_automation_conditions,
    multiprocess_executor,
)
from dagster.components.resolved.core_models import OpSpec

from logdriven_dagster import LogdrivenTranslator, build_definitions
from logdriven_dagster.errors import UsageError
from logdriven_dagster.execution.opening import open_runner
from logdriven_dagster.orchestration.assets.partitions import partitions_of
from tests.builders import at
from tests.orchestration.ticks import tick
from tests.orchestration.world import DAILY, EVENTS, SETTINGS, World

NIGHTLY = {"job": "nightly", "tables": ["ods.events"]}
CLEANING = {
    "job": "cleaning",
    "type": "maintenance",
    "steps": [{"exec_order": 10, "step": "clean", "upkeep": "clean"}],
}


class Lake(LogdrivenTranslator):
    """Puts the assets of all tables below `lake`."""

    def get_asset_spec(self, table: Any, project: Any) -> AssetSpec:
        spec = super().get_asset_spec(table, project)
        condition = AutomationCondition.on_missing()
        return spec.replace_attributes(
            key=spec.key.with_prefix("lake"), group_name="lake", automation_condition=condition
        )


class Same(LogdrivenTranslator):
    """Gives all tables one key."""

    def get_asset_spec(self, table: Any, project: Any) -> AssetSpec:
        return super().get_asset_spec(table, project).replace_attributes(key=AssetKey("same"))


def another(world: World, name: str) -> World:
    """A second project beside that of a world, in the same Dagster."""
    root = world.root.parent / name
    root.mkdir()
    return World(root, world.instance, {**SETTINGS, "project": name})


def shown(definitions: Definitions) -> set[str]:
    graph = definitions.resolve_asset_graph()
    return {key.to_user_string() for key in graph.materializable_asset_keys}


def test_a_translator_names_assets_and_upstreams_follow(world: World) -> None:
    project = world.write(EVENTS, DAILY).project
    graph = build_definitions(project, translator=Lake()).resolve_asset_graph()
    daily = graph.get(AssetKey(["lake", "dwd", "daily"]))
    assert daily.parent_keys == {AssetKey(["lake", "ods", "events"])}
    assert daily.group_name == "lake"
    assert daily.automation_condition == AutomationCondition.on_missing()


@pytest.mark.usefixtures("long")
def test_windows_are_reported_under_the_translated_key(spark: Any, world: World) -> None:
    project = world.write(EVENTS, DAILY).events(days=2).project
    definitions = build_definitions(project, translator=Lake())
    tables = "lake.ods.events lake.dwd.daily"
    assert world.materialize(tables, "2022-01-01", "2022-01-02", definitions).success
    days = {"materialized": ["2022-01-01", "2022-01-02"]}
    assert world.colours("lake.ods.events", definitions) == days
    assert world.colours("lake.dwd.daily", definitions) == days
    (record, *_) = world.instance.fetch_materializations(
        AssetKey(["lake", "dwd", "daily"]), limit=1
    ).records
    lineage = record.asset_materialization.metadata["dagster/column_lineage"]
    (origin,) = lineage.value.deps_by_column["total"]
    assert origin.asset_key == AssetKey(["lake", "ods", "events"])


def test_windows_that_ran_elsewhere_are_shown_under_the_translated_key(world: World) -> None:
    project = world.write(EVENTS).events(days=2).project
    list(open_runner(project).catch_up(at("2022-01-03")))
    definitions = build_definitions(project, translator=Lake())
    tick(world, definitions=definitions)
    days = {"materialized": ["2022-01-01", "2022-01-02"]}
    assert world.colours("lake.ods.events", definitions) == days


def test_two_tables_of_one_key_are_refused_by_name(world: World) -> None:
    project = world.write(EVENTS, DAILY).project
    with pytest.raises(UsageError, match=r"ods\.events and dwd\.daily are both asset same"):
        build_definitions(project, translator=Same())


def test_projects_and_a_teams_own_assets_share_a_code_location(world: World) -> None:
    lake = another(world, "lake").write({**EVENTS, "table": "raw.events"}).events(days=1)
    world.write(EVENTS, jobs=(NIGHTLY,)).events(days=2)

    @asset(required_resource_keys={"spark"})
    def report() -> None:
        """One of the team's own."""

    mine = Definitions(
        assets=[report],
        resources={"spark": "ours", "run_log": "ours"},
        executor=multiprocess_executor,
    )
    definitions = Definitions.merge(
        build_definitions(world.project, executor=None),
        build_definitions(lake.project, executor=None, prefix="lake"),
        mine,
    )
    Definitions.validate_loadable(definitions)
    assert shown(definitions) == {"ods/events", "raw/events", "report"}
    for job in ("catch_up", "lake_catch_up"):
        config = {"ops": {job: {"config": {"now": "2022-01-03"}}}}
        result = definitions.resolve_job_def(job).execute_in_process(config, world.instance)
        assert result.success
    assert [status for _, status in world.log("ods.events")] == ["SUCCESS", "SUCCESS"]
    assert [status for _, status in lake.log("raw.events")] == ["SUCCESS", "SUCCESS"]
    assert lake.log("ods.events") == []


def test_two_projects_without_a_prefix_are_refused_by_dagster(world: World) -> None:
    lake = another(world, "lake").write({**EVENTS, "table": "raw.events"})
    ours = build_definitions(world.write(EVENTS).project)
    with pytest.raises(Exception, match="logdriven_spark"):
        Definitions.merge(ours, build_definitions(lake.project))


def test_a_prefix_must_be_a_name(world: World) -> None:
    with pytest.raises(UsageError, match="letters, digits and underscores"):
        build_definitions(world.write(EVENTS).project, prefix="our lake")


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("names", "tables", "jobs"),
    [
        ([], {"ods/events", "dwd/daily"}, {"catch_up", "nightly", "cleaning"}),
        (["ods.*"], {"ods/events"}, {"catch_up", "nightly"}),
        (["nightly"], {"ods/events"}, {"catch_up", "nightly"}),
        (["dwd.daily", "cleaning"], {"dwd/daily"}, {"catch_up", "cleaning"}),
    ],
)
def test_a_selection_shows_tables_and_the_jobs_that_run_no_others(
    world: World, names: list[str], tables: set[str], jobs: set[str]
) -> None:
    project = world.write(EVENTS, DAILY, jobs=(NIGHTLY, CLEANING)).project
    definitions = build_definitions(project, tables=names)
    assert shown(definitions) == tables
    everywhere = {"skip_windows", "unskip_windows"}
    assert {job.name for job in definitions.jobs or ()} == jobs | everywhere


def test_a_selection_that_fits_nothing_is_refused(world: World) -> None:
    project = world.write(EVENTS).project
    with pytest.raises(UsageError, match=r"did you mean 'ods\.events'"):
        build_definitions(project, tables=["ods.evnts"])


def test_only_selected_tables_are_run(world: World) -> None:
    project = world.write(EVENTS, DAILY).events(days=2).project
    definitions = build_definitions(project, tables=["ods.events"])
    job = definitions.resolve_job_def("catch_up")
    config = {"ops": {"catch_up": {"config": {"now": "2022-01-03"}}}}
    assert job.execute_in_process(config, world.instance).success
    assert len(world.log("ods.events")) == 2
    assert world.log("dwd.daily") == []


def test_a_project_may_be_split_over_code_locations(world: World) -> None:
    project = world.write(EVENTS | {"freshness": "auto"}, DAILY | {"freshness": "auto"}).project
    daily = build_definitions(project, tables=["dwd.daily"])
    Definitions.validate_loadable(daily)
    assert daily.resolve_asset_graph().get(AssetKey(["ods", "events"])).is_external
    events = build_definitions(project, tables=["ods.*"], prefix="ods")
    assert shown(Definitions.merge(daily, events)) == {"ods/events", "dwd/daily"}


def test_ops_have_the_pool_and_tags_that_are_asked_for(world: World) -> None:
    project = world.write(EVENTS).project
    op = OpSpec(pool="spark", tags={"team": "data"})
    (definition,) = build_definitions(project, op=op).resolve_asset_graph().assets_defs
    assert definition.op.pool == "spark"
    assert definition.op.tags["team"] == "data"
    with pytest.raises(UsageError, match="must not set name and description"):
        build_definitions(project, op=OpSpec(name="one"))


def test_eager_assets_behind_a_table_see_its_finished_windows_and_no_others(world: World) -> None:
    project = world.write(EVENTS).events(days=3).project
    days = partitions_of(project.tables["ods.events"].grid).definition
    condition = AutomationCondition.eager().without(AutomationCondition.in_latest_time_window())

    @asset(partitions_def=days, deps=[AssetKey(["ods", "events"])], automation_condition=condition)
    def report() -> None:
        """Behind a table, and not ours."""

    definitions = Definitions.merge(build_definitions(project), Definitions(assets=[report]))
    before = evaluate_automation_conditions(definitions, world.instance)
    list(open_runner(project).catch_up(at("2022-01-03")))  # by the command line
    tick(world)
    after = evaluate_automation_conditions(definitions, world.instance, cursor=before.cursor)
    assert after.get_requested_partitions(report.key) == {"2022-01-01", "2022-01-02"}
