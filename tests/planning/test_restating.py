"""Windows by older versions run again if their table or an operator restates them."""

import pytest

from logdriven_dagster.model.attempts import Trigger
from logdriven_dagster.model.logs import OldWindow
from logdriven_dagster.planning.context import PlanningContext
from logdriven_dagster.planning.plan import State, plan
from logdriven_dagster.planning.readiness import Finished, build_readiness
from tests.builders import at, day, days, log, table

NOW = at("2022-01-06")
OLD = tuple(OldWindow(day(n), 1) for n in (1, 2, 3))
DONE = log(days(1, 6), old=OLD)


def reruns(config, found):
    result = plan({config.table: config}, {config.table: found}, NOW)
    return [(each.window, each.trigger, each.reason) for each in result.queue(config.table)]


def restated(config, found):
    return [window for window, trigger, _ in reruns(config, found) if trigger is Trigger.RESTATE]


def test_by_default_nothing_runs_again():
    assert reruns(table(), DONE) == []


def test_old_windows_run_again_oldest_first_with_the_version_that_made_them():
    found = reruns(table(on_change="restate"), DONE)
    assert found == [(day(n), Trigger.RESTATE, "was made by version 1") for n in (1, 2, 3)]


@pytest.mark.parametrize("limit", [{"from": "2022-01-03"}, {"last": "3 days"}], ids=str)
def test_a_limit_leaves_windows_that_end_before_it(limit):
    assert restated(table(on_change={"restate": limit}), DONE) == [day(3)]


def test_a_request_of_an_operator_needs_no_on_change():
    asked = OldWindow(day(2), 1, "new threshold (ann)")
    found = reruns(table(), log(days(1, 6), old=(OLD[0], asked)))
    reason = "was made by version 1; restated: new threshold (ann)"
    assert found == [(day(2), Trigger.RESTATE, reason)]


def test_of_a_snapshot_only_the_newest_is_restated():
    config = table(incremental_type="full", on_change="restate")
    assert restated(config, log(day(4), days(4, 6), old=(*OLD, OldWindow(day(5), 1)))) == [day(5)]


def test_a_restated_window_does_not_wait_for_an_unfinished_one_of_an_ordered_table():
    found = log(days(1, 4), failed=(day(4),), old=OLD)
    result = plan({"ods.t": table(on_change="restate")}, {"ods.t": found}, NOW)
    assert next(result.queue("ods.t")).state is State.READY


def test_a_claim_accepts_an_old_window_and_refuses_another_finished_one():
    config = table(on_change="restate")
    readiness = build_readiness(config, PlanningContext({"ods.t": config}, {"ods.t": DONE}, NOW))
    assert readiness.judge(day(2), Trigger.RESTATE).refusal is None
    assert readiness.judge(day(5), Trigger.RESTATE).refusal == Finished()
