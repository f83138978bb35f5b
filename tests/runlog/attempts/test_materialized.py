"""What is materialized of assets that are not ours is noted as attempts that succeeded."""

from datetime import timedelta

import pytest

from logdriven_dagster.model.attempts import Trigger
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.runlog.archive import archive
from logdriven_dagster.runlog.attempts.materialized import Materialized, Seen, note
from logdriven_dagster.runlog.history.logs import read_table_logs
from tests.builders import at, day, days, table
from tests.runlog.logbook import ME, execute, rows, succeed

pytestmark = pytest.mark.sampled("database_url")

TABLE = table(depends_on=[{"asset": "raw/events"}])
ASSET = "asset raw/events"


def look(log, *found, is_all=True):
    """Somebody sees these partitions, each with its number; how many came and went."""
    seen = Seen(ASSET, "project", ME, at("2022-02-01"))
    numbered = [Materialized(window, number) for window, number in found]
    return log.write(lambda conn: note(conn, seen, numbered, is_all=is_all))


def logs(log):
    return log.ask(lambda conn: read_table_logs(conn, [TABLE]))


def finished(log):
    return logs(log)[ASSET].finished


def test_partitions_are_noted_once(log):
    assert look(log, (day(1), 7), (day(2), 8), (day(4), 9)) == (3, 0)
    assert finished(log) == (days(1, 3), day(4))
    assert look(log, (day(1), 7), (day(2), 8), (day(4), 9)) == (0, 0)
    noted = rows(log, "SELECT * FROM job_log ORDER BY job_id")
    assert [(r["job_name"], r["status"], r["run_trigger"]) for r in noted] == [
        (ASSET, "SUCCESS", "observed")
    ] * 3


def test_what_is_made_from_a_partition_is_stale_when_it_is_materialized_again(log):
    look(log, (day(1), 7), (day(2), 8))
    succeed(log, day(1))
    succeed(log, day(2))
    assert logs(log)["ods.t"].stale == ()
    assert look(log, (day(1), 7), (day(2), 12)) == (1, 0)
    assert logs(log)["ods.t"].stale == (day(2),)
    succeed(log, day(2), trigger=Trigger.UPSTREAM)
    assert logs(log)["ods.t"].stale == ()


def test_a_partition_that_was_wiped_is_awaited_again(log):
    look(log, (day(1), 7), (day(2), 8), (day(3), 9))
    assert look(log, (day(1), 7), (day(3), 9)) == (0, 1)
    assert finished(log) == (day(1), day(3))
    succeed(log, day(2))
    look(log, (day(1), 7), (day(2), 10), (day(3), 9))
    assert finished(log) == (days(1, 4),)
    assert logs(log)["ods.t"].stale == (day(2),)


def test_who_has_not_seen_all_takes_nothing_away(log):
    look(log, (day(1), 7))
    assert look(log, (day(2), 1), is_all=False) == (1, 0)
    assert finished(log) == (days(1, 3),)


def test_an_asset_without_partitions_has_all_up_to_its_newest_materialization(log):
    ever = at("1970-01-01")
    look(log, (TimeWindow(ever, day(2).start), 7))
    succeed(log, day(1))
    look(log, (TimeWindow(ever, day(3).start), 8))
    assert finished(log) == (TimeWindow(ever, day(3).start),)
    assert logs(log)["ods.t"].stale == ()
    assert len(rows(log, "SELECT * FROM log_range WHERE job_name LIKE 'asset%'")) == 1


def test_what_is_noted_is_not_archived(log):
    look(log, (day(1), 7))
    succeed(log, day(1))
    execute(log, "UPDATE job_log SET job_end_time = '2022-01-01 00:00:00.000000'")
    assert log.write(lambda conn: archive(conn, [TABLE], timedelta(days=1))) == 1
    assert look(log, (day(1), 7)) == (0, 0)
    assert finished(log) == (day(1),)
