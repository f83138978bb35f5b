"""Windows that an operator skips for good, and what is downstream of them."""

import pytest

from logdriven_dagster.errors import AlreadyDoneError, AlreadyRunningError, UsageError
from logdriven_dagster.execution.catching_up.skipping import find_windows_to_skip
from logdriven_dagster.execution.upkeep import archive_log
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.planning.plan import State
from tests.builders import at, day, days, hours
from tests.execution.conftest import NOW, NUMBERS, SUMS, World

WAITING = SUMS.replace("[ods.numbers]", "[{table: ods.numbers, skipped: wait}]")
SLICED = """
    table: ods.slices
    incremental_type: auto_inc_id
    period: 1 day
    default_start: 0
    steps:
      - step: load
        source: {type: csv, path: data/*.csv, header: true, columns: "n INT", key_column: n}
        target: {type: parquet}
"""


@pytest.fixture
def broken(world: World) -> World:
    """The second day cannot be read; the days behind it wait."""
    world.numbers("2022-01-01,11", "2022-01-02,oops", "2022-01-03,31")
    world.catch_up()
    assert world.statuses("ods.numbers") == [("01", "SUCCESS"), ("02", "FAILURE")]
    return world


def skip(world: World, *windows: TimeWindow, by: str = "ann") -> None:
    world.runner.skip("ods.numbers", list(windows), NOW, "the file is lost", by)


def unskip(world: World, *windows: TimeWindow) -> None:
    world.runner.unskip("ods.numbers", list(windows), NOW, "the file was found", "ben")


def reasons(world: World, table: str) -> dict[TimeWindow, tuple[State, str]]:
    plan = world.runner.plan(NOW)
    return {w.window: (w.state, w.reason) for w in plan.windows() if w.table == table}


def test_behind_a_skipped_window_its_table_goes_on(broken: World):
    skip(broken, day(2))
    broken.catch_up()
    assert broken.statuses("ods.numbers")[2:] == [
        ("02", "SKIPPED"),
        ("03", "SUCCESS"),
        ("04", "SUCCESS"),
    ]


def test_what_is_downstream_runs_with_the_rows_that_are_there(broken: World):
    skip(broken, day(2))
    state, reason = reasons(broken, "dws.sums")[day(2)]
    assert state is State.READY
    assert reason.endswith(f"runs without ods.numbers {day(2)}: skipped by ann: the file is lost")
    broken.catch_up()
    assert [status for _, status in broken.statuses("dws.sums")] == ["SUCCESS"] * 4


def test_downstream_tables_wait_if_configured(broken: World):
    broken.write("tables/sums.yaml", WAITING)
    skip(broken, day(2))
    state, reason = reasons(broken, "dws.sums")[day(2)]
    assert state is State.BLOCKED
    assert (
        "skipped by ann: the file is lost; make it pending again with `logdriven unskip`" in reason
    )
    broken.catch_up()
    assert broken.statuses("dws.sums") == [("01", "SUCCESS")]


def test_the_log_records_who_skipped_a_window_and_why(broken: World):
    skip(broken, day(2))
    row = broken.log("ods.numbers")[-1]
    assert (row["status"], row["run_trigger"]) == ("SKIPPED", "skip")
    assert [step["output"] for step in row["steps"]] == ["skipped by ann: the file is lost"]
    assert [step["status"] for step in row["steps"]] == ["SKIPPED"]


def test_an_unskipped_window_runs_and_what_ran_without_it_runs_again(broken: World):
    skip(broken, day(2))
    broken.catch_up()
    unskip(broken, day(2))
    assert broken.log("ods.numbers")[-1]["status"] == "DISCARDED"
    broken.numbers("2022-01-02,21")
    broken.catch_up()
    assert broken.statuses("ods.numbers")[-1] == ("02", "SUCCESS")
    assert broken.statuses("dws.sums")[-1] == ("02", "SUCCESS")
    assert len(broken.statuses("dws.sums")) == 5


def test_a_window_may_be_skipped_before_it_is_due(world: World):
    skip(world, day(4))
    world.catch_up()
    assert ("04", "SUCCESS") not in world.statuses("ods.numbers")
    assert [s for d, s in world.statuses("dws.sums") if d == "04"] == ["SUCCESS"]


def test_a_skipped_window_may_be_refreshed(broken: World):
    skip(broken, day(2))
    broken.numbers("2022-01-02,21")
    list(broken.runner.refresh("ods.numbers", day(2), NOW))
    assert broken.statuses("ods.numbers")[-1] == ("02", "SUCCESS")


def test_skipping_survives_an_archive(broken: World):
    skip(broken, day(2))
    broken.catch_up()
    broken.sql("UPDATE job_log SET job_end_time = '2021-01-01'")
    project = broken.runner.project
    assert sum(archive_log(project, broken.runner.run_log, at("2022-01-03") - at("2022-01-01")))
    assert [w.window for w in broken.runner.plan(NOW).windows()] == []
    unskip(broken, day(2))
    assert [w.window for w in broken.runner.plan(NOW).windows()] == [day(2)]


def test_a_window_that_a_rule_passed_over_may_be_unskipped(world: World):
    world.catch_up(tables=["ods.numbers"], mode="latest_only")
    assert world.statuses("ods.numbers")[0] == ("01", "SKIPPED")
    unskip(world, day(1))
    assert day(1) in reasons(world, "ods.numbers")


def test_a_finished_window_is_not_skipped_and_nothing_of_the_range_is(broken: World):
    with pytest.raises(AlreadyDoneError, match="has finished and cannot be skipped"):
        skip(broken, day(2), day(1))
    assert broken.statuses("ods.numbers")[-1] == ("02", "FAILURE")


def test_a_window_that_never_runs_is_not_skipped(world: World):
    wrong_year = TimeWindow(at("2021-01-01"), at("2021-01-02"))
    with pytest.raises(UsageError, match=r"never runs: it is before default_start 2022-01-01"):
        skip(world, wrong_year)
    assert world.statuses("ods.numbers") == []


def test_a_running_window_is_not_skipped(world: World):
    events = world.runner.catch_up(NOW, tables=["ods.numbers"])
    next(events)
    with pytest.raises(AlreadyRunningError, match=r"running in job 1; stop it with `logdriven"):
        skip(world, day(1))
    events.close()


def test_what_is_not_skipped_is_not_unskipped(world: World):
    with pytest.raises(UsageError, match=r"ods\.numbers .* is not skipped"):
        unskip(world, day(1))


def test_a_range_is_skipped_at_once(world: World):
    windows = world.runner.windows("ods.numbers", days(1, 3))
    skip(world, *windows)
    assert world.statuses("ods.numbers") == [("01", "SKIPPED"), ("02", "SKIPPED")]
    assert [d for d, _ in world.statuses("ods.numbers")] == ["01", "02"]


def test_slices_are_not_skipped(world: World):
    world.write("tables/slices.yaml", SLICED)
    with pytest.raises(UsageError, match="numbered windows, which cannot be skipped"):
        world.runner.skip("ods.slices", [day(1)], NOW, "why", "ann")


def named(world: World, start: str, end: str | None = None) -> list[TimeWindow]:
    runner = world.runner
    until = None if end is None else at(end)
    return find_windows_to_skip(runner.project, runner.run_log, "ods.numbers", at(start), until)


def test_a_window_is_named_by_where_it_begins(world: World):
    assert named(world, "2022-01-02") == [day(2)]
    with pytest.raises(UsageError, match=r"window that contains it is \[2022-01-02, 2022-01-03\)"):
        named(world, "2022-01-02 05:00")
    with pytest.raises(UsageError, match=r"that contain it are \[2022-01-02, 2022-01-03\)"):
        named(world, "2022-01-02 05:00", "2022-01-02 07:00")


HOURLY = NUMBERS.replace("1 day", "1 hour")
WEEKLY = NUMBERS.replace("1 day", "7 days")


def test_windows_of_an_earlier_grid_are_named_as_they_ran_or_were_skipped(world: World):
    world.catch_up(now=at("2022-01-02"), tables=["ods.numbers"])
    skip(world, day(2))
    world.write("tables/numbers.yaml", HOURLY)
    for start, whole in (("2022-01-01 05:00", day(1)), ("2022-01-02 05:00", day(2))):
        with pytest.raises(UsageError, match="that contains it is") as error:
            named(world, start)
        assert str(error.value).endswith(str(whole))
        assert named(world, f"{whole.start:%Y-%m-%d}") == [whole]
    first = named(world, "2022-01-02", "2022-01-04")
    assert (first[:2], len(first)) == ([day(2), hours(0, 1, of_day=3)], 25)


def test_a_window_of_an_earlier_grid_whose_refresh_did_not_end_is_skipped_as_a_whole(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    world.catch_up(now=at("2022-01-02"), tables=["ods.numbers"])
    with monkeypatch.context() as patched:
        patched.setattr(world.session_class, "publish", lambda *_: 1 / 0)
        list(world.runner.refresh("ods.numbers", day(1), NOW))
    world.write("tables/numbers.yaml", HOURLY)
    assert next(iter(reasons(world, "ods.numbers"))) == day(1)
    assert named(world, "2022-01-01") == [day(1)]
    skip(world, day(1))
    assert next(iter(reasons(world, "ods.numbers"))) == hours(0, 1, of_day=2)
    unskip(world, *named(world, "2022-01-01"))
    assert next(iter(reasons(world, "ods.numbers"))).overlaps(day(1))


def test_a_part_of_a_skipped_window_is_neither_skipped_nor_unskipped(world: World):
    skip(world, day(2))
    world.write("tables/numbers.yaml", HOURLY)
    for change in (skip, unskip):
        for first in (0, 7):
            with pytest.raises(UsageError, match="was skipped as a whole; name all of it"):
                change(world, hours(first, first + 1, of_day=2))
    assert world.statuses("ods.numbers") == [("02", "SKIPPED")]
    assert not any(day(2).overlaps(window) for window in reasons(world, "ods.numbers"))
    unskip(world, *named(world, "2022-01-02"))
    pending = [window for window in reasons(world, "ods.numbers") if day(2).overlaps(window)]
    assert pending == [hours(n, n + 1, of_day=2) for n in range(24)]


@pytest.mark.parametrize("last", [5, 24])
def test_shorter_windows_that_were_skipped_are_unskipped_with_the_longer_one(
    world: World, last: int
):
    world.write("tables/numbers.yaml", HOURLY)
    first = 0 if last == 24 else 3
    skipped = [hours(n, n + 1) for n in range(first, last)]
    skip(world, *skipped)
    world.write("tables/numbers.yaml", NUMBERS)
    assert not reasons(world, "ods.numbers").keys() & {day(1), *skipped}
    unskip(world, day(1))
    assert next(iter(reasons(world, "ods.numbers"))) == day(1)
    world.catch_up()
    assert world.statuses("ods.numbers")[-4:] == [(f"0{n}", "SUCCESS") for n in (1, 2, 3, 4)]


def test_the_remainder_of_a_window_next_to_finished_ones_is_skipped_by_itself(world: World):
    world.catch_up(now=at("2022-01-03"), tables=["ods.numbers"])
    world.write("tables/numbers.yaml", WEEKLY)
    now = at("2022-01-15")
    (rest, _) = (w.window for w in world.runner.plan(now, ["ods.numbers"]).windows())
    assert rest == days(3, 8)
    skip(world, *named(world, "2022-01-03"))
    assert [w.window for w in world.runner.plan(now, ["ods.numbers"]).windows()] == [days(8, 15)]
    unskip(world, *named(world, "2022-01-03", "2022-01-08"))
    assert next(iter(world.runner.plan(now, ["ods.numbers"]).windows())).window == rest
