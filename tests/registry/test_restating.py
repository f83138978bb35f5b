"""Requests to restate windows, on every database."""

from collections.abc import Iterator

import pytest

from logdriven_dagster.execution.catching_up.restating import restate
from logdriven_dagster.execution.logs import read_logs
from logdriven_dagster.execution.opening import open_runner
from logdriven_dagster.model.logs import TableLog
from logdriven_dagster.runlog.definitions.rows import Author
from logdriven_dagster.runlog.history import restating
from logdriven_dagster.testing.null_engine import NullEngine, null_engine
from tests.builders import at, day
from tests.registry.conftest import Shop

pytestmark = pytest.mark.sampled("database_url")

NOW = at("2022-01-04")


@pytest.fixture
def old_shop(shop: Shop) -> Iterator[Shop]:
    """A table with three finished days, whose query has changed since."""
    with null_engine(NullEngine()):
        shop.apply()
        catch_up(shop)
        shop.edit("tables/orders.yaml", "SELECT 1 AS one", "SELECT 2 AS one")
        shop.apply()
        yield shop


def catch_up(shop: Shop) -> list[str]:
    registered = shop.consulted()
    runner = open_runner(registered.project, run_log=registered.run_log)
    return [type(event).__name__ for event in runner.catch_up(NOW, ["ods.orders"])]


def read_log(shop: Shop) -> TableLog:
    registered = shop.consulted()
    logs = registered.run_log.ask(lambda conn: read_logs(conn, registered.project, ["ods.orders"]))
    return logs["ods.orders"]


def test_a_request_makes_windows_pending_until_they_have_run_again(old_shop: Shop):
    registered = old_shop.consulted()
    asked = (registered.project, registered.run_log, ["ods.orders"])
    assert read_log(old_shop).old == ()
    assert restate(*asked, day(2), Author("ann", "two"))[0].windows == 1
    reasons = [(each.window, each.version, each.reason) for each in read_log(old_shop).old]
    assert (day(2), 1, "two (ann)") in reasons
    assert catch_up(old_shop).count("WindowSucceeded") == 1
    done = read_log(old_shop)
    assert all(each.reason is None for each in done.old)
    assert len(done.restated) == 1
    catch_up(old_shop)
    assert read_log(old_shop).restated == ()


@pytest.mark.sampled
def test_a_request_is_recorded_with_its_range_operator_and_reason(old_shop: Shop):
    registered = old_shop.consulted()
    restate(registered.project, registered.run_log, ["ods.orders"], None, Author("ann", "all"))
    with registered.run_log.read() as conn:
        (found,) = restating.read_restatements(conn, ["ods.orders"])["ods.orders"]
    assert (found.operator, found.reason, found.version) == ("ann", "all", 2)
    assert (found.start, found.end) == (None, None)
