"""Whatever ends a runner in the middle of a pass: nothing is lost, nothing is defined twice."""

from collections.abc import Callable
from typing import Any

import pytest

from logdriven_dagster.engine import WindowSession
from logdriven_dagster.errors import RunLogError
from logdriven_dagster.execution.events import WindowLost, WindowSetBack, WindowSucceeded
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.runlog.attempts import leases
from tests.builders import at
from tests.execution.conftest import World
from tests.stretches.conftest import EXPIRE, LINES, NOW, POINTS, hurt, together

STAGED, UNPUBLISHED, PUBLISHED = POINTS
NAMES: dict[Any, str] = {point: f"{point[2]} {point[1]}" for point in POINTS}
KINDS = ("iceberg", "delta", "parquet", "json")
OFTEN = {
    *((point, "iceberg") for point in POINTS),
    (STAGED, "parquet"),
    (PUBLISHED, "delta"),
    (UNPUBLISHED, "json"),
}
"""Each point and each kind of target; the other pairs are left to `make test-long`."""


def name(value: Any) -> str:
    return NAMES.get(value, str(value))


def pairs(*, often: bool) -> list[tuple[Any, str]]:
    """The pairs of a point and a kind of target that are tested often, or the others."""
    return [(p, kind) for p in POINTS for kind in KINDS if ((p, kind) in OFTEN) == often]


@pytest.mark.usefixtures("long")
@pytest.mark.parametrize(("point", "kind"), pairs(often=True), ids=name)
def test_a_successor_continues_window_by_window(
    numbers: World, monkeypatch: pytest.MonkeyPatch, point: tuple[Any, str, str], kind: str
):
    crash_and_continue(numbers, monkeypatch, point, kind)


@pytest.mark.usefixtures("long")
@pytest.mark.parametrize(("point", "kind"), pairs(often=False), ids=name)
def test_a_successor_continues_after_any_crash_into_any_kind(
    numbers: World, monkeypatch: pytest.MonkeyPatch, point: tuple[Any, str, str], kind: str
):
    crash_and_continue(numbers, monkeypatch, point, kind)


def crash_and_continue(
    numbers: World, monkeypatch: pytest.MonkeyPatch, point: tuple[Any, str, str], kind: str
) -> None:
    """Let a pass crash at a point; a second one loads each window once, by itself."""
    numbers.write("tables/numbers.yaml", together(f"{{type: {kind}, window_column: day}}"))
    crash(numbers, monkeypatch, point)
    events = numbers.catch_up(now=NOW)
    assert sum(isinstance(event, WindowSucceeded) for event in events) == 6
    statuses = [status for _, status in numbers.statuses("ods.numbers")]
    assert statuses == ["FAILURE"] * 6 + ["SUCCESS"] * 6
    assert len(numbers.rows("ods.numbers")) == 21


def crash(world: World, monkeypatch: pytest.MonkeyPatch, point: tuple[Any, str, str]) -> None:
    """Run into an error at a point as if the process were gone, and let its leases expire."""
    with monkeypatch.context() as patched:
        hurt(patched, point, RunLogError("as if the process were gone"))
        with pytest.raises(RunLogError):
            world.catch_up(now=NOW)
    world.sql(EXPIRE)


SERVERS = ("postgresql", "mariadb")


@pytest.mark.usefixtures("long")
@pytest.mark.parametrize(
    ("point", "database_url"),
    [*((point, "sqlite") for point in POINTS), *((PUBLISHED, server) for server in SERVERS)],
    indirect=["database_url"],
    ids=name,
)
def test_a_database_gets_each_window_once(
    database: World,
    sql_of_shop: Callable[[str], list[Any]],
    monkeypatch: pytest.MonkeyPatch,
    point: tuple[Any, str, str],
):
    crash_into_database(database, sql_of_shop, monkeypatch, point)


@pytest.mark.usefixtures("long")
@pytest.mark.parametrize("database_url", SERVERS, indirect=True)
@pytest.mark.parametrize("point", [STAGED, UNPUBLISHED], ids=name)
def test_a_server_gets_each_window_once_after_any_crash(
    database: World,
    sql_of_shop: Callable[[str], list[Any]],
    monkeypatch: pytest.MonkeyPatch,
    point: tuple[Any, str, str],
):
    crash_into_database(database, sql_of_shop, monkeypatch, point)


def crash_into_database(
    database: World,
    sql_of_shop: Callable[[str], list[Any]],
    monkeypatch: pytest.MonkeyPatch,
    point: tuple[Any, str, str],
) -> None:
    """Let a pass crash at a point; a second one loads each window into the database once."""
    target = "{type: jdbc, connection: shop, table: numbers, window_column: day, mode: append}"
    database.write("tables/numbers.yaml", together(target))
    crash(database, monkeypatch, point)
    events = database.catch_up(now=NOW)
    assert sum(isinstance(event, WindowSucceeded) for event in events) == 6
    assert len(database.rows("ods.numbers")) == 21
    assert sql_of_shop("SELECT count(*) FROM logdriven_commit") == [(6,)]


@pytest.mark.usefixtures("long")
def test_a_window_that_a_database_refuses_leaves_those_before_it_there_once(
    database: World, sql_of_shop: Callable[[str], list[Any]]
):
    sql_of_shop("CREATE TABLE numbers (day DATE, n INTEGER CHECK (n < 40))")
    target = "{type: jdbc, connection: shop, table: numbers, window_column: day, mode: append}"
    database.write("tables/numbers.yaml", together(target))
    database.catch_up(now=NOW)
    refused = [(f"0{n}", "DISCARDED") for n in range(1, 7)]
    first_half = [("01", "SUCCESS"), ("02", "SUCCESS"), ("03", "SUCCESS")]
    second_half = [("04", "DISCARDED"), ("05", "DISCARDED"), ("06", "DISCARDED")]
    tried = refused + first_half + second_half + [("04", "FAILURE")]
    assert database.statuses("ods.numbers") == tried
    rows = sql_of_shop("SELECT n FROM numbers ORDER BY n")
    assert [n for (n,) in rows] == [10, 20, 21, 30, 31, 32]


def test_an_interrupted_pass_is_discarded_and_runs_again_as_one(
    numbers: World, monkeypatch: pytest.MonkeyPatch
):
    with monkeypatch.context() as patched:
        hurt(patched, POINTS[0], KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            numbers.catch_up(now=NOW)
    assert {status for _, status in numbers.statuses("ods.numbers")} == {"DISCARDED"}
    events = numbers.catch_up(now=NOW)
    published = [e.published[0].snapshot_id for e in events if isinstance(e, WindowSucceeded)]
    assert len(published) == 6
    assert len(set(published)) == 1
    assert len(numbers.rows("ods.numbers")) == 21


@pytest.mark.usefixtures("long")
def test_one_lost_window_stops_the_pass_and_no_other(
    numbers: World, monkeypatch: pytest.MonkeyPatch
):
    original = WindowSession.publish

    def discarded_meanwhile(*args: Any) -> Any:
        patched.undo()
        third = numbers.log("ods.numbers")[2]["job_id"]
        with numbers.runner.run_log.begin() as conn:
            leases.discard(conn, third, numbers.runner.owner)
        return original(*args)

    with monkeypatch.context() as patched:
        patched.setattr(WindowSession, "publish", discarded_meanwhile)
        events = numbers.catch_up(now=NOW)
    assert sum(isinstance(event, WindowLost) for event in events) == 1
    assert sum(isinstance(event, WindowSetBack) for event in events) == 5
    numbers.catch_up(now=NOW)
    assert len(numbers.rows("ods.numbers")) == 21


@pytest.mark.usefixtures("long")
def test_a_range_is_refreshed_in_one_pass(numbers: World):
    numbers.catch_up(now=NOW)
    numbers.numbers(*LINES, "2022-01-03,99")
    span = TimeWindow(at("2022-01-02"), at("2022-01-05"))
    events = list(numbers.runner.refresh("ods.numbers", span, NOW))
    published = [e.published[0].snapshot_id for e in events if isinstance(e, WindowSucceeded)]
    assert len(published) == 3
    assert len(set(published)) == 1
    assert len(numbers.rows("ods.numbers")) == 22


def test_a_limit_counts_windows(numbers: World):
    events = numbers.catch_up(now=NOW, max_windows=4)
    assert sum(isinstance(event, WindowSucceeded) for event in events) == 4
