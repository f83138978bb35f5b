"""Planning around the changes of clocks, in zones of every kind."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from logdriven_dagster.model.attempts import Trigger
from logdriven_dagster.model.logs import TableLog
from logdriven_dagster.model.ranges import subtract, unite
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.planning.context import PlanningContext
from logdriven_dagster.planning.pending import find_unfinished_windows
from logdriven_dagster.planning.plan import plan
from logdriven_dagster.planning.reruns import Reruns
from logdriven_dagster.planning.stretches import find_stretch
from tests.builders import table
from tests.clock_changes import around_a_change

PERIODS = st.sampled_from(["15 min", "1 hour", "6 hours", "1 day"])


def of(place, period, name="ods.t", **fields):
    zone, begin = place
    start = begin.astimezone(zone).isoformat()
    return table(name, zone=zone.key, period=period, default_start=start, **fields)


def covered(windows):
    return list(unite(sorted(windows)))


@given(around_a_change(), PERIODS, st.integers(1, 60), st.sets(st.integers(0, 20)))
def test_finished_and_unfinished_windows_are_all_that_are_due(place, period, hours, done):
    config = of(place, period)
    now = place[1] + timedelta(hours=hours)
    whole = list(find_unfinished_windows(config, TableLog(), now))
    finished = [window for n, window in enumerate(whole) if n in done]
    left = find_unfinished_windows(config, TableLog(finished=tuple(covered(finished))), now)
    assert list(left) == [window for n, window in enumerate(whole) if n not in done]
    assert covered([*left, *finished]) == covered(whole)
    assert subtract(covered(whole), finished) == covered(left)
    assert [window.zone for window in left] == [place[0]] * len(left)


@given(around_a_change(), PERIODS, st.integers(1, 40))
def test_all_that_is_due_may_run_in_one_stretch(place, period, hours):
    config = of(place, period)
    found = plan({"ods.t": config}, {}, place[1] + timedelta(hours=hours))
    ready = next(iter(found.ready()), None)
    if ready is not None:
        unfinished = list(found.tables["ods.t"].unfinished)
        assert list(find_stretch(found, ready, 10_000)) == unfinished


@given(around_a_change(), PERIODS, PERIODS, st.integers(24, 60))
def test_what_waits_runs_after_all_that_it_waits_for(place, upper, lower, hours):
    tables = {
        "ods.t": of(place, upper),
        "dwd.t": of(place, lower, "dwd.t", depends_on=["ods.t"]),
    }
    now, finished = place[1] + timedelta(hours=hours), {name: [] for name in tables}
    for _ in range(1000):
        logs = {name: TableLog(finished=tuple(covered(of))) for name, of in finished.items()}
        planned = next(iter(plan(tables, logs, now).ready()), None)
        if planned is None:
            break
        if planned.table == "dwd.t":
            upstream = tables["ods.t"].grid
            awaited = upstream.covering(planned.window)
            from_origin = TimeWindow(max(awaited.start, upstream.origin), awaited.end)
            assert not subtract([from_origin], covered(finished["ods.t"]))
        finished[planned.table].append(planned.window)
    assert covered(finished["ods.t"]) == covered(
        find_unfinished_windows(tables["ods.t"], TableLog(), now)
    )


@given(around_a_change(), PERIODS)
def test_every_stale_window_runs_again_for_itself(place, period):
    config = of(place, period)
    windows = tuple(config.grid.window(n) for n in range(12))
    log = TableLog(finished=tuple(covered(windows)), stale=windows)
    again = Reruns(
        config, PlanningContext({"ods.t": config}, {"ods.t": log}, windows[-1].end)
    ).list_due()
    assert again == [(window, Trigger.UPSTREAM) for window in windows]
