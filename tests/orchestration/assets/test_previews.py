"""Some rows of a window stand beside it in Dagster, where the table's file asks for them."""

from threading import Event
from typing import Any

import pytest
from dagster import AssetKey

from logdriven_dagster.config.secrets import resolve
from logdriven_dagster.orchestration.assets import previews
from tests.orchestration.ticks import tick
from tests.orchestration.world import ALONE, EVENTS, World

pytestmark = pytest.mark.usefixtures("spark")

DAY = "2022-01-01"


def shown(world: World, table: str) -> list[str | None]:
    """The preview of each materialization, oldest first."""
    key = AssetKey(table.split("."))
    found = world.instance.fetch_materializations(key, limit=100, ascending=True).records
    each = [record.asset_materialization.metadata.get("preview") for record in found]
    return [None if preview is None else preview.value for preview in each]


def alone(sql: str, **fields: Any) -> dict[str, Any]:
    (step,) = ALONE["steps"]
    return {**ALONE, "preview": 5, "steps": [{**step, "sql": sql}], **fields}


@pytest.mark.usefixtures("long")
def test_a_table_shows_the_first_rows_of_each_window_and_by_default_none(world: World) -> None:
    world.write({**EVENTS, "preview": 2}, ALONE).events()
    assert world.materialize("ods.events", DAY, "2022-01-02").success
    assert world.materialize("ods.alone", DAY).success
    first, *_ = shown(world, "ods.events")
    assert first is not None
    assert first.replace("\\", "").splitlines() == [
        "| at | value |",
        "| --- | --- |",
        "| 2022-01-01 00:00:00 | 1 |",
        "| 2022-01-01 06:00:00 | 1 |",
    ]
    assert shown(world, "ods.alone") == [None]


def test_values_are_short_and_mean_nothing_in_markdown(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_PASSWORD", "hunter2-top-secret")
    resolve("${env:WORLD_PASSWORD}")
    evil = "![x](http://evil)|<b>\\n hunter2-top-secret"
    columns = ", ".join(f"{n} AS c{n}" for n in range(30))
    world.write(alone(f"SELECT '{evil}' AS evil, repeat('é', 500) AS long, {columns}"))
    assert world.materialize("ods.alone", DAY).success
    (told,) = shown(world, "ods.alone")
    assert told is not None
    cells = told.splitlines()[2].split(" | ")
    assert cells[0] == r"| \!\[x\]\(http\:\/\/evil\)\|\<b\> \*\*\*"
    assert cells[1] == "é" * 59 + "…"
    assert len(cells) == 20
    assert told.endswith("and 12 more columns")


def test_what_cannot_be_read_in_time_is_not_shown_and_harms_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    answer = Event()
    monkeypatch.setattr(previews, "_PATIENCE", 0.0)
    monkeypatch.setattr(previews, "rows_without_spark", lambda *_: answer.wait(60) and None)
    world.write(alone("SELECT 1 AS one"))
    assert world.materialize("ods.alone", DAY).success
    answer.set()
    assert shown(world, "ods.alone") == [None]
    assert "ods.alone: TimeoutError: no rows within 0 s" in caplog.text


@pytest.mark.sampled
@pytest.mark.parametrize("type_", ["delta", "parquet"])
def test_other_types_that_need_no_spark_are_shown_as_well(world: World, type_: str) -> None:
    (step,) = ALONE["steps"]
    world.write({**ALONE, "preview": 5, "steps": [{**step, "target": {"type": type_}}]})
    assert world.materialize("ods.alone", DAY).success
    (told,) = shown(world, "ods.alone")
    assert told is not None
    assert told.splitlines()[1:] == ["| --- |", "| 1 |"]


def test_no_spark_is_asked_for_a_target_that_only_spark_can_read(world: World) -> None:
    (step,) = ALONE["steps"]
    world.write({**ALONE, "preview": 5, "steps": [{**step, "target": {"type": "orc"}}]})
    assert world.materialize("ods.alone", DAY).success
    assert shown(world, "ods.alone") == [None]


def test_of_windows_that_ran_elsewhere_the_newest_one_has_rows(world: World) -> None:
    world.write(alone("SELECT 1 AS one"))
    assert world.materialize("ods.alone", DAY, "2022-01-02").success
    world.instance.wipe()
    tick(world)
    before, newest = shown(world, "ods.alone")
    assert before is None
    assert newest == "| one |\n| --- |\n| 1 |"
