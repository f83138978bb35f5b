"""Rules and checks are asset checks of the table, one evaluation per partition."""

from typing import Any

import pytest
from dagster import AssetCheckKey, AssetKey, build_sensor_context
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus
from dagster._core.storage.event_log.base import PartitionKeyFilter

from logdriven_dagster.config.models.rules import LATEST_REFRESH
from logdriven_dagster.execution.opening import open_runner
from tests.builders import at
from tests.orchestration.world import EVENTS, World

KEY = AssetKey(["ods", "events"])
RULES: dict[str, Any] = {
    "id": ["at"],
    "columns": {
        "value": [
            {"rule": "positive", "level": "error"},
            {"rule": "in_range", "max": 3, "level": "warn"},
        ],
    },
}
CHECKED = {
    **EVENTS,
    "steps": [{**EVENTS["steps"][0], "quality": RULES}],
    "checks": [{"check": "some", "sql": "SELECT 1 FROM load HAVING count(*) = 99"}],
}


def evaluation(world: World, name: str, partition: str):
    (record,) = world.instance.event_log_storage.get_asset_check_execution_history(
        AssetCheckKey(KEY, name), limit=1, partition_filter=PartitionKeyFilter(key=partition)
    )
    found = record.event.dagster_event.event_specific_data
    return record.status, found


def passed(world: World, name: str, partition: str) -> bool:
    status, found = evaluation(world, name, partition)
    assert (status is AssetCheckExecutionRecordStatus.SUCCEEDED) is found.passed
    return found.passed


def blocking(quality: dict[str, Any]) -> dict[str, Any]:
    return {**CHECKED, "steps": [{**EVENTS["steps"][0], "quality": quality}]}


def specs(world: World) -> dict[str, Any]:
    """The checks of windows: all but the one of the latest refresh, which every table has."""
    graph = world.definitions.resolve_asset_graph()
    keys = [key for key in graph.asset_check_keys if key.name != LATEST_REFRESH]
    return {key.name: graph.get_check_spec(key) for key in keys}


def test_every_rule_and_check_is_an_asset_check_of_partitions(world: World):
    found = specs(world.write(blocking({**RULES, "min_pass": 90, "blocking": True})).events())
    assert {name: spec.blocking for name, spec in found.items()} == {
        "value_positive": True,
        "value_in_range": False,
        "min_pass": True,
        "some": True,
    }
    assert all(spec.partitions_def is not None for spec in found.values())
    assert found["value_in_range"].description == "min ≤ value ≤ max (max: 3)"


@pytest.mark.sampled
@pytest.mark.parametrize("how", ["materialize", "catch_up"])
def test_every_window_of_a_run_is_evaluated(spark: Any, world: World, how):
    world.write(CHECKED).events(bad_day=2, days=4)
    run = (
        world.materialize("ods.events", "2022-01-01", "2022-01-04")
        if how == "materialize"
        else world.catch_up(now="2022-01-05 00:00")
    )
    assert run.success
    days = [f"2022-01-0{day}" for day in (1, 2, 3, 4)]
    assert [passed(world, "value_positive", day) for day in days] == [True, False, True, True]
    assert [passed(world, "value_in_range", day) for day in days] == [True, True, True, False]
    assert all(passed(world, "some", day) for day in days)
    assert world.colours("ods.events")["materialized"] == days


@pytest.mark.usefixtures("long")
def test_an_evaluation_has_severity_counts_and_first_ids(spark: Any, world: World):
    world.write(CHECKED).events(bad_day=2, days=4).catch_up(now="2022-01-05 00:00")
    _, error = evaluation(world, "value_positive", "2022-01-02")
    assert (error.severity.value, error.blocking, error.metadata["rows"].value) == (
        "ERROR",
        False,
        4,
    )
    assert error.metadata["checked_rows"].value == 4
    assert list(error.metadata["first_ids"].value[0]) == ["at"]
    _, warning = evaluation(world, "value_in_range", "2022-01-04")
    assert warning.severity.value == "WARN"


@pytest.mark.usefixtures("long")
def test_a_materialization_counts_the_rows_that_were_rejected(spark: Any, world: World):
    world.write(CHECKED).events(bad_day=2, days=2).catch_up(now="2022-01-03 00:00")
    newest, before = world.instance.fetch_materializations(KEY, limit=2).records
    counts = [
        record.asset_materialization.metadata["rejected_count"].value for record in (before, newest)
    ]
    assert counts == [0, 4]


def test_a_blocking_rule_turns_its_partition_red_and_shows_what_it_found(spark: Any, world: World):
    world.write(blocking({**RULES, "blocking": ["positive"]})).events(bad_day=2, days=4)
    run = world.materialize("ods.events", "2022-01-01", "2022-01-04")
    assert not run.success
    assert world.colours("ods.events") == {"materialized": ["2022-01-01"], "failed": ["2022-01-02"]}
    status, found = evaluation(world, "value_positive", "2022-01-02")
    assert (status.value, found.blocking, found.metadata["rows"].value) == ("FAILED", True, 4)


@pytest.mark.usefixtures("long")
def test_a_check_that_finds_rows_is_shown_as_failed(spark: Any, world: World):
    check = {"check": "positive", "sql": "SELECT * FROM load WHERE value < 0"}
    world.write({**EVENTS, "checks": [check]}).events(bad_day=2, days=2)
    world.catch_up(now="2022-01-03 00:00")
    assert passed(world, "positive", "2022-01-01")
    assert not passed(world, "positive", "2022-01-02")
    _, found = evaluation(world, "positive", "2022-01-02")
    assert "4 violations" in found.metadata["error"].value


@pytest.mark.usefixtures("slow")
def test_the_latest_result_is_that_of_a_window_not_of_one_that_was_refused(world: World):
    world.write(CHECKED).events()
    assert world.materialize("ods.events", "2022-01-01", "2022-01-02").success
    assert not world.materialize("ods.events", "2022-01-05", "2022-01-06").success
    keys = [AssetCheckKey(KEY, name) for name in ("some", "value_positive", "value_in_range")]
    storage = world.instance.event_log_storage
    for record in storage.get_latest_asset_check_execution_by_key(keys).values():
        assert (record.partition, record.status.value) == ("2022-01-02", "SUCCEEDED")


@pytest.mark.usefixtures("long")
def test_behind_a_failed_window_no_check_is_left_open(spark: Any, world: World):
    world.write(blocking({**RULES, "blocking": ["positive"]})).events(bad_day=2, days=4)
    assert not world.materialize("ods.events", "2022-01-01", "2022-01-04").success
    (latest,) = world.instance.event_log_storage.get_latest_asset_check_execution_by_key(
        [AssetCheckKey(KEY, "value_positive")]
    ).values()
    assert (latest.partition, latest.status.value) == ("2022-01-02", "FAILED")


@pytest.mark.usefixtures("long")
def test_what_was_run_elsewhere_is_evaluated_too(world: World, spark: Any):
    world.write(CHECKED).events(bad_day=2, days=2)
    runner = open_runner(world.project, spark=lambda: spark)
    list(runner.catch_up(at("2022-01-03 00:00")))
    mirror = world.definitions.resolve_sensor_def("run_log_mirror")
    mirror(build_sensor_context(world.instance))
    days = ["2022-01-01", "2022-01-02"]
    assert [passed(world, "value_positive", day) for day in days] == [True, False]
    assert [passed(world, "some", day) for day in days] == [True, True]
    _, found = evaluation(world, "value_positive", "2022-01-02")
    assert (found.metadata["rows"].value, len(found.metadata["first_ids"].value)) == (4, 4)


QUERY = """
query Checks($key: AssetKeyInput!) {
  assetNodeOrError(assetKey: $key) { ... on AssetNode { assetChecksOrError { ... on AssetChecks {
    checks { name blocking canExecuteIndividually partitionDefinition { name }
      executionForLatestMaterialization { status evaluation { severity success partition } } }
  } } } }
}
"""


@pytest.mark.usefixtures("slow")
def test_the_web_server_shows_them(world: World, monkeypatch: pytest.MonkeyPatch):
    from dagster._core.workspace.context import WorkspaceProcessContext
    from dagster._core.workspace.load_target import ModuleTarget
    from dagster_graphql.test.utils import execute_dagster_graphql

    world.write(CHECKED).events(bad_day=2, days=2).catch_up(now="2022-01-03 00:00")
    monkeypatch.setenv("LOGDRIVEN_PROJECT", str(world.root))
    target = ModuleTarget("logdriven_dagster.definitions", None, str(world.root), "here")
    with WorkspaceProcessContext(world.instance, target) as process:
        context = process.create_request_context()
        answer = execute_dagster_graphql(context, QUERY, {"key": {"path": KEY.path}})
    checks = answer.data["assetNodeOrError"]["assetChecksOrError"]["checks"]
    shown = {check["name"]: check for check in checks}
    assert set(shown) == {"latest_refresh", "value_positive", "value_in_range", "some"}
    assert shown["some"]["blocking"]
    assert shown["value_positive"]["canExecuteIndividually"] == "REQUIRES_MATERIALIZATION"
