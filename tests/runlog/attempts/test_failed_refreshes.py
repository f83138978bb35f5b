"""A failed refresh: what was published before it stands, and nothing waits. Checklist row S08."""

import pytest

from logdriven_dagster.errors import AlreadyDoneError, AttemptLostError
from logdriven_dagster.execution import upkeep
from logdriven_dagster.model.attempts import Status, Trigger
from logdriven_dagster.runlog import transitions
from logdriven_dagster.runlog.archive import archive
from logdriven_dagster.runlog.attempts import claiming, leases, progress
from logdriven_dagster.runlog.history import refreshes
from tests.builders import at, day, days, table
from tests.runlog.logbook import (
    ME,
    end,
    execute,
    expire,
    fail,
    fail_refresh,
    request,
    rows,
    start,
    succeed,
    table_log,
)

pytestmark = pytest.mark.sampled("database_url")

UPSTREAM = (table("ods.t"), table("b", depends_on=["ods.t"]))


@pytest.fixture
def done(log):
    """Days 1 and 2 are finished."""
    succeed(log, day(1))
    succeed(log, day(2))
    return log


def marked(log):
    return [
        (row["job_id"], row["status"], row["latest"], row["failed_refresh"])
        for row in rows(log, "SELECT * FROM job_log ORDER BY job_id")
    ]


def test_its_window_stays_finished_and_nothing_is_open_s08(done):
    fail_refresh(done, day(1))
    found = table_log(done)
    assert (found.finished, found.open) == ((days(1, 3),), ())
    [failed] = found.failed_refreshes
    assert (failed.window, failed.status, failed.error) == (day(1), Status.FAILURE, "broken")
    assert marked(done) == [
        (1, "SUCCESS", 1, None),
        (2, "SUCCESS", 1, None),
        (3, "FAILURE", None, 1),
    ]


def test_an_attempt_that_may_have_published_leaves_its_window_open(done):
    end(done, start(done, day(1), Trigger.REFRESH), Status.FAILURE, "in the middle of it")
    found = table_log(done)
    assert (found.finished, [item.window for item in found.open]) == ((day(2),), [day(1)])


def test_a_refresh_that_died_is_open_until_it_has_run(done):
    start(done, day(1), Trigger.REFRESH)
    expire(done)
    assert [item.window for item in table_log(done).open] == [day(1)]
    attempt = start(done, day(1))
    end(done, attempt, Status.FAILURE, "again", nothing=True)  # of the dead one nobody knows
    assert [item.window for item in table_log(done).open] == [day(1)]
    succeed(done, day(1))
    assert table_log(done).finished == (days(1, 3),)


def test_the_next_attempt_counts_on_and_ends_the_mark(done):
    fail_refresh(done, day(1))
    fail_refresh(done, day(1))
    [failed] = table_log(done).failed_refreshes
    assert failed.failures == 2
    attempt = start(done, day(1), Trigger.REFRESH)
    assert attempt.attempt_number == 4
    tokens = [row["fencing_token"] for row in rows(done, "SELECT * FROM job_log ORDER BY job_id")]
    assert tokens == sorted(set(tokens))
    assert table_log(done).failed_refreshes == ()
    end(done, attempt)
    assert marked(done)[2:] == [
        (3, "FAILURE", None, 0),
        (4, "FAILURE", None, 0),
        (5, "SUCCESS", 1, None),
    ]


def test_a_pending_run_still_finds_the_window_done(done):
    fail_refresh(done, day(1))
    with pytest.raises(AlreadyDoneError):
        start(done, day(1))


def test_a_skipped_window_stays_skipped(done):
    done.write(lambda conn: claiming.skip(conn, [request(day(3))]))
    fail_refresh(done, day(3))
    assert table_log(done).skipped == (day(3),)
    assert table_log(done).open == ()


def test_an_interrupted_refresh_is_no_other(done):
    end(done, start(done, day(1), Trigger.REFRESH), Status.DISCARDED, "interrupted", nothing=True)
    assert table_log(done).finished == (days(1, 3),)
    assert [item.status for item in table_log(done).failed_refreshes] == [Status.DISCARDED]


def test_a_repeat_for_late_data_is_due_again(done):
    late = table(lookback=1)
    before = table_log(done, late).within_lookback
    fail_refresh(done, day(2), Trigger.LOOKBACK)
    assert table_log(done, late).within_lookback == before


def test_a_repeat_for_a_refreshed_upstream_is_due_again(done):
    succeed(done, day(1), name="b")
    succeed(done, day(1), trigger=Trigger.REFRESH)
    assert table_log(done, *UPSTREAM)["b"].stale == (day(1),)
    fail_refresh(done, day(1), Trigger.UPSTREAM, name="b")
    assert table_log(done, *UPSTREAM)["b"].stale == (day(1),)


@pytest.mark.parametrize("again", ["upstream", "downstream"])
def test_no_bookmark_passes_what_counts_again_if_a_repeat_fails(done, again):
    succeed(done, day(1), name="b")
    succeed(done, day(1), trigger=Trigger.REFRESH)
    name = "ods.t" if again == "upstream" else "b"
    running = start(done, day(1), Trigger.REFRESH, name=name)
    succeed(done, day(2), name="b")
    succeed(done, day(2), trigger=Trigger.REFRESH)
    succeed(done, day(2), trigger=Trigger.UPSTREAM, name="b")
    execute(done, "UPDATE job_log SET job_end_time = '2022-01-01 00:00:00.000000'")
    with done.begin() as conn:
        refreshes.advance_bookmarks(conn, UPSTREAM[1], UPSTREAM)
    end(done, running, Status.FAILURE, "broken", nothing=True)
    assert day(1) in table_log(done, *UPSTREAM)["b"].stale


def test_a_window_that_an_operator_sets_to_failure_is_open(done):
    fail_refresh(done, day(1))
    execute(done, "UPDATE job_log SET status = 'FAILURE' WHERE job_schedule_id LIKE '%20220101%'")
    assert [item.window for item in table_log(done).open] == [day(1)]


def test_a_success_that_was_archived_stands_too(done):
    execute(done, "UPDATE job_log SET job_end_time = '2022-01-01 00:00:00.000000'")
    with done.begin() as conn:
        archive(conn, [table()], at("2022-02-01") - at("2022-01-31"))
    assert rows(done, "SELECT * FROM job_log") == []
    fail_refresh(done, day(1))
    assert table_log(done).finished == (days(1, 3),)
    fail_refresh(done, day(1))
    assert table_log(done).finished == (days(1, 3),)
    succeed(done, day(1), trigger=Trigger.REFRESH)
    assert [row["attempt_number"] for row in rows(done, "SELECT * FROM job_log")] == [2, 3, 4]


def test_a_window_that_never_succeeded_fails_as_before(done):
    end(done, start(done, day(3)), Status.FAILURE, "broken", nothing=True)
    fail(done, day(3))
    assert [item.window for item in table_log(done).open] == [day(3)]


def test_one_that_is_discarded_before_it_changed_anything_leaves_its_window_finished(done):
    begun = start(done, day(1), Trigger.REFRESH, definition="d")
    attempt = start(done, day(2), Trigger.REFRESH, definition="d")
    done.write(lambda conn: progress.note_change(conn, [attempt]))
    for each in (begun, attempt):
        done.write(lambda conn, each=each: leases.discard(conn, each.job_id, ME))
        done.write(lambda conn, each=each: transitions.leave_standing(conn, each.job_id))
    found = table_log(done)
    assert (found.finished, [item.window for item in found.open]) == ((day(1),), [day(2)])
    assert [item.status for item in found.failed_refreshes] == [Status.DISCARDED]


def killed(log, *, changed=False, **fields):
    """A refresh of day 1 that was killed, after it had begun to publish or before."""
    attempt = start(log, day(1), Trigger.REFRESH, definition="d", **fields)
    if changed:
        log.write(lambda conn: progress.note_change(conn, [attempt]))
    expire(log)
    return attempt


def test_who_goes_on_with_one_that_was_killed_knows_what_stands_s08(done):
    killed(done)
    [item] = table_log(done).open
    assert item.stands
    attempt = start(done, day(1), definition="d")
    assert (attempt.previous, attempt.standing) == (Status.FAILURE, 1)
    end(done, attempt, Status.FAILURE, "its source is gone", nothing=True)
    assert (table_log(done).finished, table_log(done).open) == ((days(1, 3),), ())
    assert marked(done)[2:] == [(3, "FAILURE", None, 0), (4, "FAILURE", None, 1)]


def test_it_may_be_killed_again_and_again(done):
    for _ in range(3):
        killed(done)
    end(done, start(done, day(1), definition="d"), Status.FAILURE, "broken", nothing=True)
    assert table_log(done).finished == (days(1, 3),)
    succeed(done, day(1), trigger=Trigger.REFRESH)
    assert table_log(done).finished == (days(1, 3),)
    numbers = [row["attempt_number"] for row in rows(done, "SELECT * FROM job_log ORDER BY job_id")]
    assert numbers == [1, 1, *range(2, 7)]


def test_one_that_was_killed_after_it_began_to_publish_is_open_until_it_has_run(done):
    killed(done, changed=True)
    attempt = start(done, day(1), definition="d")
    assert attempt.standing is None
    end(done, attempt, Status.FAILURE, "broken", nothing=True)
    assert [item.window for item in table_log(done).open] == [day(1)]


def test_one_whose_lease_is_over_cannot_begin_to_publish(done):
    attempt = killed(done)
    start(done, day(1), definition="d")
    with pytest.raises(AttemptLostError):
        done.write(lambda conn: progress.note_change(conn, [attempt]))


def test_what_cleans_up_behind_one_that_was_killed_leaves_what_stands(done):
    killed(done)
    upkeep.bury_expired(done, ME)
    found = table_log(done)
    assert (found.finished, found.open) == ((days(1, 3),), ())
    assert [item.window for item in found.failed_refreshes] == [day(1)]


def test_a_window_that_was_skipped_stays_so_behind_one_that_was_killed(done):
    done.write(lambda conn: claiming.skip(conn, [request(day(3))]))
    start(done, day(3), Trigger.REFRESH, definition="d")
    expire(done)
    end(done, start(done, day(3), definition="d"), Status.FAILURE, "broken", nothing=True)
    assert (table_log(done).skipped, table_log(done).open) == ((day(3),), ())


def test_a_window_behind_one_that_was_killed_is_not_passed_over(done):
    killed(done)
    assert done.write(lambda conn: claiming.skip(conn, [request(day(1))])) == []
    found = table_log(done)
    assert (found.finished, found.skipped, found.open) == ((days(1, 3),), (), ())


def test_an_archived_success_stands_behind_one_that_was_killed(done):
    execute(done, "UPDATE job_log SET job_end_time = '2022-01-01 00:00:00.000000'")
    with done.begin() as conn:
        archive(conn, [table()], at("2022-02-01") - at("2022-01-31"))
    killed(done)
    end(done, start(done, day(1), definition="d"), Status.FAILURE, "broken", nothing=True)
    assert table_log(done).finished == (days(1, 3),)
