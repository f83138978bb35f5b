"""Assets of Dagster that are no tables of ours hold windows back."""

import pytest
from pydantic import ValidationError

from logdriven_dagster.planning.context import PlanningContext
from logdriven_dagster.planning.readiness import build_readiness
from tests.builders import at, day, days, hours, log, table

RAW = "asset raw/events"
NOW = at("2022-01-05")


def reason(config, window, logs):
    blocked = build_readiness(
        config, PlanningContext({config.table: config}, logs, NOW)
    ).find_obstacle(window)
    return None if blocked is None else blocked.reason


def test_a_window_waits_for_all_partitions_over_it():
    config = table(depends_on=[{"asset": "raw/events"}])
    assert reason(config, day(1), {}) == (
        "waits for asset raw/events [2022-01-01, 2022-01-02): is not materialized"
    )
    hourly = {RAW: log(hours(0, 23))}
    assert "[2022-01-01 23:00, 2022-01-02)" in reason(config, day(1), hourly)
    assert reason(config, day(1), {RAW: log(hours(0, 24))}) is None


def test_an_hour_waits_for_the_partition_that_holds_it():
    config = table(period=60, depends_on=[{"asset": "raw/events"}])
    assert reason(config, hours(0, 1), {RAW: log(day(2))}) is not None
    assert reason(config, hours(0, 1), {RAW: log(day(1))}) is None


def test_any_materialization_suffices_where_the_table_allows_it():
    config = table(depends_on=[{"asset": "raw/codes", "window": "any"}])
    assert "asset raw/codes" in reason(config, day(1), {})
    assert "has never been materialized" in reason(config, day(1), {})
    assert reason(config, day(1), {"asset raw/codes": log(days(20, 21))}) is None


def test_an_asset_is_awaited_in_addition_to_tables():
    config = table("b", depends_on=["ods.t", {"asset": "raw/events"}])
    tables = {"ods.t": table(), "b": config}
    logs = {"ods.t": log(day(1))}
    blocked = build_readiness(config, PlanningContext(tables, logs, NOW)).find_obstacle(day(1))
    assert blocked is not None
    assert blocked.reason.startswith("waits for asset raw/events")
    context = PlanningContext(tables, logs | {RAW: log(day(1))}, NOW)
    assert build_readiness(config, context).find_obstacle(day(1)) is None


@pytest.mark.parametrize("key", ["", "/raw", "raw/", "raw//x", "raw events", 'raw/"x"'])
def test_the_key_of_an_asset_is_made_of_parts(key):
    with pytest.raises(ValidationError):
        table(depends_on=[{"asset": key}])
