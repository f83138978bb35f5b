"""Assets of a team hold our windows back until Dagster shows that they are materialized."""

from typing import Any

import pytest
from dagster import (
    AssetExecutionContext,
    AssetKey,
    AssetSpec,
    DailyPartitionsDefinition,
    Definitions,
    HourlyPartitionsDefinition,
    StaticPartitionsDefinition,
    asset,
    build_sensor_context,
)

from logdriven_dagster.execution.opening import open_runner
from logdriven_dagster.orchestration.sensors.mirror import MIRROR
from tests.builders import at
from tests.cli.conftest import CommandLine, logdriven
from tests.orchestration.world import EVENTS, World

__all__ = ["logdriven"]

RAW = AssetKey(["raw", "events"])
NOW = "2022-01-11"


def waiting_for(**dependency: Any) -> dict[str, Any]:
    return {**EVENTS, "depends_on": [{"asset": "raw/events", **dependency}]}


def with_raw(world: World, partitions: Any) -> Definitions:
    """Our definitions and those of a team, in one code location."""

    @asset(key=RAW, partitions_def=partitions)
    def raw_events(context: AssetExecutionContext) -> None:
        context.log.info("a file has arrived")

    return Definitions.merge(world.definitions, Definitions(assets=[raw_events]))


def make(world: World, definitions: Definitions, partition: str | None) -> None:
    job = definitions.resolve_implicit_global_asset_job_def()
    result = job.execute_in_process(
        instance=world.instance, asset_selection=[RAW], partition_key=partition
    )
    assert result.success


def tick(world: World, definitions: Definitions) -> None:
    repository = definitions.get_repository_def()
    context = build_sensor_context(world.instance, repository_def=repository)
    definitions.resolve_sensor_def(MIRROR)(context)


def first(world: World) -> tuple[str, str, str]:
    """The first pending window, its state and why, as the command line plans it."""
    planned = next(open_runner(world.project).plan(at(NOW)).windows())
    return str(planned.window), planned.state.value, planned.reason


def test_the_mirror_notes_partitions_for_the_command_line(
    world: World, logdriven: CommandLine
) -> None:
    world.write(waiting_for()).events()
    definitions = with_raw(world, DailyPartitionsDefinition("2022-01-01"))
    make(world, definitions, "2022-01-01")
    tick(world, definitions)
    arguments = ["--project", str(world.root), "--now", NOW]
    assert logdriven("run", *arguments).code == 0
    assert world.log("ods.events") == [("20220101", "SUCCESS")]
    shown = " ".join(logdriven("plan", *arguments).out.split())
    assert "waits for asset raw/events [2022-01-02, 2022-01-03): is not materialized" in shown
    (noted,) = logdriven("log", "asset raw/events", "--json", *arguments[:2]).json
    assert (noted["run_trigger"], noted["status"]) == ("observed", "SUCCESS")


def test_one_run_makes_the_asset_and_then_the_table(world: World) -> None:
    world.write(waiting_for()).events()
    definitions = with_raw(world, DailyPartitionsDefinition("2022-01-01"))
    job = definitions.resolve_implicit_global_asset_job_def()
    both = job.execute_in_process(
        instance=world.instance,
        asset_selection=[RAW, AssetKey(["ods", "events"])],
        partition_key="2022-01-01",
        tags={"logdriven/now": NOW},
    )
    assert both.success
    assert world.log("ods.events") == [("20220101", "SUCCESS")]


@pytest.mark.usefixtures("long")
def test_a_window_is_refused_before_its_partition_and_runs_again_after_a_new_one(
    world: World,
) -> None:
    world.write(waiting_for(period="1 day")).events()
    definitions = with_raw(world, DailyPartitionsDefinition("2022-01-01"))
    assert not world.materialize("ods.events", "2022-01-01", definitions=definitions).success
    assert world.log("ods.events") == []
    for n in (1, 2):
        make(world, definitions, "2022-01-01")
        world.catch_up(now=NOW)
        assert world.log("ods.events") == [("20220101", "SUCCESS")] * n
    world.catch_up(now=NOW)
    assert len(world.log("ods.events")) == 2


def test_partitions_are_placed_by_their_own_definition(world: World) -> None:
    world.settings["timezone"] = "Europe/Amsterdam"
    world.write(waiting_for()).events()
    hourly = HourlyPartitionsDefinition("2022-01-01-00:00", timezone="UTC")
    definitions = with_raw(world, hourly)
    make(world, definitions, "2022-01-01-00:00")
    tick(world, definitions)
    # Midnight in UTC is one o'clock in Amsterdam.
    assert first(world)[2] == (
        "waits for asset raw/events [2022-01-01, 2022-01-01 01:00): is not materialized; "
        "asset raw/events [2022-01-01 02:00, 2022-01-02): is not materialized"
    )


def test_an_asset_of_another_code_location_is_read_as_the_file_configures_it(world: World) -> None:
    world.write(waiting_for(period="1 hour", timezone="Europe/Amsterdam")).events()
    elsewhere = with_raw(world, HourlyPartitionsDefinition("2022-01-01-00:00"))
    make(world, elsewhere, "2022-01-01-02:00")
    tick(world, world.definitions)
    assert first(world)[2] == (
        "waits for asset raw/events [2022-01-01, 2022-01-01 01:00): is not materialized; "
        "asset raw/events [2022-01-01 02:00, 2022-01-02): is not materialized"
    )


def test_an_hour_of_another_code_location_is_never_taken_for_a_day(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.write(waiting_for()).events()
    elsewhere = with_raw(world, HourlyPartitionsDefinition("2022-01-01-00:00"))
    make(world, elsewhere, "2022-01-01-00:00")
    tick(world, world.definitions)
    assert first(world)[1] == "blocked"
    assert (
        "asset raw/events: the length of its partitions is unknown: it is in another code "
        "location; add `period`, such as `period: 1 hour`, to `depends_on`"
    ) in caplog.text


def test_any_partition_suffices_with_any_key(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.write(waiting_for(window="any")).events()
    definitions = with_raw(world, StaticPartitionsDefinition(["EU", "US"]))
    tick(world, definitions)
    assert first(world)[1] == "blocked"
    make(world, definitions, "US")
    tick(world, definitions)
    assert first(world)[1] == "ready"
    assert "raw/events" not in caplog.text


def test_an_asset_without_partitions_has_to_be_newer_than_the_window(world: World) -> None:
    world.write(waiting_for()).events()
    definitions = with_raw(world, None)
    tick(world, definitions)
    assert first(world)[1] == "blocked"
    make(world, definitions, None)
    tick(world, definitions)
    assert first(world)[1] == "ready"


def test_partitions_without_a_time_are_reported_and_block(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.write(waiting_for()).events()
    definitions = with_raw(world, StaticPartitionsDefinition(["EU"]))
    make(world, definitions, "EU")
    tick(world, definitions)
    assert "asset raw/events: the partition 'EU' is not a time" in caplog.text
    assert first(world)[1] == "blocked"


def test_a_wiped_asset_is_awaited_again(world: World) -> None:
    world.write(waiting_for()).events()
    definitions = with_raw(world, DailyPartitionsDefinition("2022-01-01"))
    make(world, definitions, "2022-01-01")
    tick(world, definitions)
    assert first(world)[1] == "ready"
    world.instance.wipe_assets([RAW])
    tick(world, definitions)
    assert first(world)[1] == "blocked"


def test_the_asset_stands_before_the_table_in_the_graph(world: World) -> None:
    world.write(waiting_for())
    graph = world.definitions.resolve_asset_graph()
    assert graph.get(AssetKey(["ods", "events"])).parent_keys == {RAW}
    known = Definitions.merge(world.definitions, Definitions(assets=[AssetSpec(RAW)]))
    assert known.resolve_asset_graph().get(RAW).child_keys == {AssetKey(["ods", "events"])}
