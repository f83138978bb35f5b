"""A project becomes a Dagster code location."""

import subprocess
import sys

import pytest
from dagster import AssetKey, DefaultScheduleStatus, Definitions, asset

from logdriven_dagster.orchestration.code_location import build_definitions
from tests.orchestration.world import ALONE, DAILY, EVENTS, World
from tests.patience import within

HOURLY = {**EVENTS, "table": "ods.hits", "period": 60}
HOURLY["steps"] = [{**EVENTS["steps"][0], "target": {"type": "parquet", "window_column": "at"}}]


def test_an_asset_describes_its_table(world: World) -> None:
    world.write(EVENTS, DAILY)
    spec = specs(world.definitions)["ods.events"]
    assert spec.key == AssetKey(["ods", "events"])
    assert spec.group_name == "ods"
    assert (spec.description or "").splitlines() == [
        "Four rows a day.",
        "",
        "Windows of 1 day from 2022-01-01; oldest first, never past a failed one.",
        "",
        "**load** reads csv `events.csv`; writes `iceberg ods.events`, mode overwrite_window",
    ]
    assert spec.owners == ["team:data"]
    assert spec.tags["domain"] == "web"
    assert spec.kinds == {"spark", "iceberg"}
    assert spec.metadata["period"] == "1 day"
    assert spec.metadata["owners"] == "team:data, Ann"
    assert spec.metadata["tag not a tag!"] == "x"
    assert spec.metadata["file"].value.endswith("ods.events.yaml")
    downstream = specs(world.definitions)["dwd.daily"]
    assert [dep.asset_key for dep in downstream.deps] == [AssetKey(["ods", "events"])]
    query = "```sql\nSELECT sum(value) AS total FROM ods.events\n```"
    assert query in (downstream.description or "")


def test_declared_columns_have_their_comments_in_dagster(world: World) -> None:
    columns = "value DECIMAL(9,2) NOT NULL COMMENT 'in euros, it\\'s net', `at`: TIMESTAMP"
    world.write({**EVENTS, "columns": columns})
    schema = specs(world.definitions)["ods.events"].metadata["dagster/column_schema"]
    assert [(each.name, each.type, each.description) for each in schema.columns] == [
        ("value", "DECIMAL(9,2)", "in euros, it's net"),
        ("at", "TIMESTAMP", None),
    ]


def test_an_unmanaged_upstream_is_an_external_asset_unless_a_team_defines_it(world: World) -> None:
    world.write({**EVENTS, "depends_on": [{"table": "crm.orders", "managed": False}]})
    graph = world.definitions.resolve_asset_graph()
    node = graph.get(AssetKey(["crm", "orders"]))
    assert node.is_external

    @asset(key=AssetKey(["crm", "orders"]))
    def orders() -> None:
        """A team's own."""

    both = Definitions.merge(world.definitions, Definitions(assets=[orders]))
    graph = both.resolve_asset_graph()
    assert graph.get(orders.key).child_keys == {AssetKey(["ods", "events"])}


def test_a_project_of_many_periods_is_valid(world: World) -> None:
    both = ["ods.hits", "ods.odd"]
    tables = [
        {**ALONE, "table": f"dwd.every_{n}", "period": period, "depends_on": both}
        for n, period in enumerate([15, 60, 90, 1440, "1 week", "1 month"])
    ]
    odd = {**HOURLY, "table": "ods.odd", "period": 45}
    Definitions.validate_loadable(world.write(HOURLY, odd, *tables).definitions)


def test_a_configured_job_is_a_dagster_job_with_its_schedule(world: World) -> None:
    world.settings["timezone"] = "Europe/Berlin"
    job = {"job": "morning", "tables": ["ods.events"], "schedule": "30 5 * * *"}
    definitions = world.write(EVENTS, DAILY, jobs=(job,)).definitions
    assert definitions.resolve_job_def("morning").name == "morning"
    schedule = definitions.resolve_schedule_def("morning_schedule")
    assert schedule.cron_schedule == "30 5 * * *"
    assert schedule.execution_timezone == "Europe/Berlin"
    assert schedule.default_status is DefaultScheduleStatus.STOPPED


def test_a_configured_job_runs_its_own_tables_only(world: World) -> None:
    world.write(EVENTS, DAILY, jobs=({"job": "events", "tables": ["ods.events"]},)).events(days=2)
    result = world.run("events", {"ops": {"events": {"config": {"now": "2022-01-03"}}}})
    assert result.success
    assert world.log("ods.events") == [("20220101", "SUCCESS"), ("20220102", "SUCCESS")]
    assert world.log("dwd.daily") == []


def test_catch_up_obeys_tables_and_max_windows(world: World) -> None:
    world.write(EVENTS, DAILY).events()
    assert world.catch_up(now="2022-01-11", tables=["ods.events"], max_windows=1).success
    assert world.log("ods.events") == [("20220101", "SUCCESS")]
    assert world.log("dwd.daily") == []


@pytest.mark.parametrize(
    ("config", "message"),
    [({"tables": ["ods.evnts"]}, "did you mean 'ods.events'"), ({"now": "soon"}, "not a date")],
)
def test_catch_up_refuses_what_it_cannot_use(world: World, config: dict, message: str) -> None:
    result = world.write(EVENTS).catch_up(**config)
    events = [event for event in result.all_events if event.is_step_failure]
    assert message in str(events[0].step_failure_data.error)


@pytest.mark.usefixtures("slow")
def test_loading_imports_no_spark(world: World) -> None:
    world.write(EVENTS, DAILY)
    program = "import sys, logdriven_dagster.definitions; sys.exit('pyspark' in sys.modules)"
    environment = {"LOGDRIVEN_PROJECT": str(world.root), "PYTHONPATH": ":".join(sys.path)}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)


@pytest.mark.usefixtures("slow")
def test_a_thousand_tables_are_a_thousand_assets(world: World) -> None:
    tables = [{**EVENTS, "table": f"ods.t{n}", "checks": []} for n in range(1000)]
    for n, table in enumerate(tables):
        step = EVENTS["steps"][0]
        table["steps"] = [{**step, "target": {"type": "iceberg", "name": f"ods.t{n}"}}]
    project = world.write(*tables).project
    with within(60):  # `benchmarks.loading` measures it
        repository = build_definitions(project).get_repository_def()
    assert len(repository.asset_graph.get_all_asset_keys()) == 1000


def specs(definitions: Definitions) -> dict:
    return {".".join(spec.key.path): spec for spec in definitions.resolve_all_asset_specs()}
