"""Finished windows whose source files changed are reported, or run again if their table says so."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdriven_dagster.model.attempts import Trigger
from logdriven_dagster.model.logs import ChangedFiles, ChangedWindow
from logdriven_dagster.model.source_rows import FileChange
from logdriven_dagster.planning.context import PlanningContext
from logdriven_dagster.planning.plan import plan
from logdriven_dagster.planning.readiness import Finished, build_readiness
from tests.builders import at, day, days, log, table

NOW = at("2022-01-11")
DAYS = range(1, 11)
changes = st.dictionaries(st.sampled_from(DAYS), st.sets(st.sampled_from(FileChange), min_size=1))


def changed(n: int, *kinds: FileChange) -> ChangedWindow:
    return ChangedWindow(day(n), tuple(ChangedFiles("load", kind, "/in/a.csv") for kind in kinds))


def queue(config, found):
    planned = plan({config.table: config}, {config.table: found}, NOW).queue(config.table)
    return [(each.window, each.trigger, each.reason) for each in planned]


@given(changes)
def test_by_default_changes_leave_the_plan_as_it_is(found):
    windows = tuple(changed(n, *found[n]) for n in sorted(found))
    assert queue(table(), log(days(1, 8), changed=windows)) == queue(table(), log(days(1, 8)))


@given(changes)
def test_exactly_the_windows_with_changed_or_new_files_run_again_oldest_first(found):
    windows = tuple(changed(n, *found[n]) for n in sorted(found))
    planned = queue(table(on_source_change="rerun"), log(days(1, 11), changed=windows))
    expected = [n for n in sorted(found) if found[n] != {FileChange.GONE}]
    assert [(window, trigger) for window, trigger, _ in planned] == [
        (day(n), Trigger.SOURCE) for n in expected
    ]


def test_the_plan_names_the_file_and_its_change():
    window = changed(2, FileChange.CHANGED)
    ((_, _, reason),) = queue(table(on_source_change="rerun"), log(days(1, 11), changed=(window,)))
    assert reason == "source files changed after it ran: /in/a.csv (changed)"


def test_a_window_with_a_refreshed_upstream_runs_again_once():
    found = log(days(1, 11), changed=(changed(2, FileChange.NEW),), stale=(day(2),))
    planned = queue(table(on_source_change="rerun"), found)
    assert [(window, trigger) for window, trigger, _ in planned] == [(day(2), Trigger.UPSTREAM)]


@pytest.mark.parametrize(("n", "refusal"), [(2, None), (3, Finished())])
def test_a_claim_accepts_a_changed_window_and_refuses_another_finished_one(n, refusal):
    config = table(on_source_change="rerun")
    found = log(days(1, 11), changed=(changed(2, FileChange.CHANGED),))
    readiness = build_readiness(config, PlanningContext({"ods.t": config}, {"ods.t": found}, NOW))
    assert readiness.judge(day(n), Trigger.SOURCE).refusal == refusal
