"""Queueing and taking batches. Checklist rows in the names."""

from dataclasses import replace
from datetime import timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import event

from logdriven_dagster.config.derived.processes import (
    build_process,
    build_processes,
    get_max_batches,
)
from logdriven_dagster.errors import LifeCycleError
from logdriven_dagster.model.attempts import Trigger
from logdriven_dagster.model.batches import (
    ALL_BATCHES,
    Batch,
    Enqueuer,
    SubProcess,
    build_marking,
    cut,
    find_recoverable,
    merge_markings,
    reach,
)
from logdriven_dagster.model.files import FoundFile
from logdriven_dagster.model.windows import Slice
from logdriven_dagster.runlog import archive
from logdriven_dagster.runlog.batches import offering
from logdriven_dagster.runlog.history import waiting
from logdriven_dagster.runlog.schema.attempts import batch_archive, batch_queue
from tests.builders import STEP, UTC, at, day, days, hours, table
from tests.runlog import bdre
from tests.runlog.bdre import HIVE, NEW, TRANSFER
from tests.runlog.logbook import execute, rows

pytestmark = pytest.mark.sampled("database_url")

ALONE = bdre.registry(bdre.transfer())
"""Process 85 before anybody consumes it."""
KNOWN = bdre.registry(bdre.transfer(), bdre.hive(None))


def spans(log, name=HIVE):
    """The windows in a queue, in its order."""
    found = bdre.found(log, batch_queue, "window_start", "window_end", job_name=name)
    return [tuple(map(int, span)) for span in found]


def span(window):
    return int(window.start.timestamp()), int(window.end.timestamp())


def queued(log, known=KNOWN, names=(HIVE,)):
    with log.read() as conn:
        found = waiting.read_waiting(conn, [known.parent(name) for name in names])
        return {name: of.queued for name, of in found.items()}


def enlist(log, known=KNOWN, name=HIVE):
    (route,) = known.parent(name).routes
    log.write(lambda conn: offering.enlist(conn, route))


def consume(log, known=KNOWN, *, number, max_batches=100):
    started = bdre.init(log, known, max_batches=max_batches, number=number)
    bdre.succeed(log, known, started)
    return started.taken


# Offering.


def test_what_waits_stays_when_more_comes_b21(log):
    """BDRE's code deletes it."""
    for n in (1, 2, 3):
        bdre.load(log, KNOWN, day(n))
    assert spans(log) == [span(day(n)) for n in (1, 2, 3)]


def test_each_consumer_has_a_row_of_its_own_b22(log):
    other = bdre.process("7", SubProcess("a", (Enqueuer(TRANSFER),), next=("b",)))
    other = bdre.process("7", *other.steps, SubProcess("b", (Enqueuer(TRANSFER),)))
    known = bdre.registry(bdre.transfer(), bdre.hive(None), other)
    made = bdre.load(log, known)
    consume(log, known, number=0)
    assert bdre.queue(log) == []
    assert bdre.queue(log, "7") == [(made, NEW), (made, NEW)]


def test_a_consumer_that_comes_later_gets_the_whole_history_in_its_order_s22(log):
    for n in (2, 1, 3):
        bdre.load(log, ALONE, day(n))
    bdre.load(log, KNOWN, day(4))
    assert spans(log) == [span(day(n)) for n in (1, 2, 3, 4)]


@pytest.mark.sampled
def test_history_is_found_when_the_consumer_starts_and_in_the_archive_s22(log):
    for n in (1, 2):
        bdre.load(log, ALONE, day(n))
    execute(log, "UPDATE job_log SET job_end_time = '2000-01-01 00:00:00.000000'")
    with log.begin() as conn:
        archive.archive(conn, [], at("2022-01-01") - at("2021-12-31"))
    bdre.load(log, ALONE, day(3))
    assert queued(log) == {HIVE: {("125", TRANSFER): 3}}
    taken = consume(log, number=0)
    assert [batch.span for batch in taken.batches] == [span(day(n)) for n in (1, 2, 3)]
    assert queued(log) == {HIVE: {("125", TRANSFER): 0}}


def test_what_a_runner_finished_that_did_not_know_the_consumer_is_offered_later_s22(log):
    bdre.load(log, KNOWN, day(1))
    consume(log, number=0)
    bdre.load(log, ALONE, day(2))
    assert queued(log)[HIVE] == {("125", TRANSFER): 1}
    bdre.load(log, KNOWN, day(3))
    assert spans(log) == [span(day(2)), span(day(3))]


def test_only_the_latest_successes_count_s22(log):
    bdre.load(log, ALONE, day(1))
    bdre.load(log, ALONE, day(1), trigger=Trigger.REFRESH)
    bdre.fail(log, ALONE, bdre.init_window(log, ALONE, day(2)), "load")
    enlist(log)
    assert spans(log) == [span(day(1))]


def test_a_refreshed_upstream_window_is_pending_again_s23(log):
    first = bdre.load(log, KNOWN, day(1))
    consume(log, number=0)
    again = bdre.load(log, KNOWN, day(1), trigger=Trigger.REFRESH)
    assert again != first
    assert spans(log) == [span(day(1))]
    assert [batch.batch_id for batch in consume(log, number=1).batches] == [again]


def test_an_attempt_that_began_before_one_that_ended_first_is_offered_too(log):
    slow = bdre.init_window(log, KNOWN, day(1))
    bdre.load(log, KNOWN, day(2))
    bdre.succeed(log, KNOWN, slow)
    assert spans(log) == [span(day(2)), span(day(1))]


def test_enlisting_again_changes_nothing(log):
    for n in (1, 2):
        bdre.load(log, ALONE, day(n))
    for _ in range(3):
        enlist(log)
    assert len(spans(log)) == 2
    consume(log, number=0, max_batches=1)
    enlist(log)
    assert len(spans(log)) == 1


def test_a_consuming_step_that_is_renamed_goes_on_where_it_was(log):
    for n in (1, 2, 3):
        bdre.load(log, KNOWN, day(n))
    consume(log, number=0, max_batches=1)
    renamed = bdre.process(HIVE, SubProcess("new", (Enqueuer(TRANSFER),)))
    known = bdre.registry(bdre.transfer(), renamed)
    assert queued(log, known) == {HIVE: {("new", TRANSFER): 2}}
    taken = consume(log, known, number=1)
    assert [batch.span for batch in taken.batches] == [span(day(2)), span(day(3))]


def test_an_attempt_makes_one_batch_for_all_who_come(log):
    bdre.load(log, ALONE)
    other = bdre.process("7", SubProcess("a", (Enqueuer(TRANSFER),)))
    known = bdre.registry(bdre.transfer(), bdre.hive(None), other)
    enlist(log, known)
    enlist(log, known, "7")
    assert bdre.queue(log) == bdre.queue(log, "7")
    assert len(rows(log, "SELECT * FROM batch")) == 1


def test_history_keeps_the_marking_that_its_job_was_given(log):
    other = bdre.process("7", SubProcess("a", (Enqueuer(TRANSFER),)))
    bdre.load(log, bdre.registry(bdre.transfer(), other), day(1), marking="EOD-IN@2014-04-25")
    bdre.load(log, ALONE, day(2))
    enlist(log)
    marks = bdre.found(log, batch_queue, "batch_marking", job_name=HIVE)
    assert marks == ["EOD-IN@2014-04-25", "2022-01-02,EOD@2022-01-02"]


def test_a_database_that_returns_nothing_of_inserts_makes_batches_one_by_one(log, monkeypatch):
    """MySQL is one."""
    returns = "insert_executemany_returning_sort_by_parameter_order"
    monkeypatch.setattr(log.engine.dialect, returns, False)
    for n in (2, 1):
        bdre.load(log, ALONE, day(n))
    enlist(log)
    assert spans(log) == [span(day(1)), span(day(2))]


# For planning.


def test_waiting_batches_are_counted_without_writing(log):
    for n in (1, 2):
        bdre.load(log, ALONE, day(n))
    assert queued(log) == {HIVE: {("125", TRANSFER): 2}}
    assert rows(log, "SELECT * FROM batch_queue") == []
    bdre.load(log, KNOWN, day(3))
    assert queued(log) == {HIVE: {("125", TRANSFER): 3}}
    bdre.init(log, KNOWN, max_batches=1)
    assert queued(log) == {HIVE: {("125", TRANSFER): 2}}


def test_with_a_cut_pattern_what_can_be_cut_off_is_counted(log):
    known = bdre.registry(bdre.transfer(), bdre.hive("EOD"))
    for n in (21, 22):
        bdre.load(log, ALONE, hours(n, n + 1))
    assert queued(log, known)[HIVE] == {("125", TRANSFER): 0}
    bdre.load(log, ALONE, hours(23, 24))
    bdre.load(log, known, hours(0, 1, of_day=2))
    assert queued(log, known)[HIVE] == {("125", TRANSFER): 3}


@pytest.mark.parametrize("number", [0, -1])
def test_to_take_no_batch_is_refused_with_the_fix(log, number):
    bdre.load(log, KNOWN, day(1))
    with pytest.raises(LifeCycleError, match="give 1 or more"):
        bdre.init(log, KNOWN, max_batches=number)


@pytest.mark.parametrize(("field", "most"), [("hash", 128), ("server", 128)])
def test_what_servers_do_not_hold_of_a_file_is_refused_where_it_is_found(field, most):
    found = FoundFile("", "/in/a.csv", 1, "h", at("2022-01-01"))
    assert replace(found, **{field: "x" * most})
    with pytest.raises(ValueError, match=f"{field} has 129 characters"):
        replace(found, **{field: "x" * (most + 1)})


def test_an_attempt_is_restated_by_a_batch_that_waits_behind_the_pattern(log):
    known = bdre.registry(bdre.transfer(), bdre.hive("EOD"))
    for n in range(21, 24):
        bdre.load(log, known, hours(n, n + 1))
    started = bdre.init(log, known, max_batches=None)
    bdre.succeed(log, known, started)
    bdre.load(log, known, hours(0, 1, of_day=2))

    def waits():
        with log.read() as conn:
            return waiting.read_waiting(conn, [known.parent(HIVE)])[HIVE]

    pair = ("125", TRANSFER)
    assert (waits().queued, waits().unmarked, waits().restated) == ({pair: 0}, {pair: 1}, ())
    bdre.load(log, known, hours(21, 22), trigger=Trigger.REFRESH)
    assert waits().unmarked == {pair: 2}
    assert waits().restated == (started.job_id,)


def test_the_next_batches_are_taken_in_their_order(log):
    bdre.fill(log, [5, 3, 4])
    taken = bdre.init(log, KNOWN, max_batches=2).taken
    assert [item.batch_id for item in taken.batches] == [5, 3]


@pytest.mark.usefixtures("slow")
@pytest.mark.sampled
def test_planning_a_thousand_tables_takes_a_few_queries(log):
    processes = [bdre.process(f"t{n}", SubProcess("1", (Enqueuer(TRANSFER),))) for n in range(1000)]
    bdre.load(log, ALONE)
    counted = []
    event.listen(log.engine, "before_cursor_execute", lambda *_: counted.append(1))
    with log.read() as conn:
        found = waiting.read_waiting(conn, processes)
    assert len(counted) < 10
    assert [found[f"t{n}"].queued for n in (0, 500, 999)] == [{("1", TRANSFER): 1}] * 3


def test_the_windows_of_a_run_can_be_read_while_it_runs_and_afterwards(log):
    for n in (1, 2):
        bdre.load(log, KNOWN, day(n))
    started = bdre.init(log, KNOWN, max_batches=2)

    def read(kept):
        mine = {"job_name": HIVE, "target_batch_id": started.taken.target_batch_id}
        rows = bdre.found(log, kept, "source_job_name", "window_start", "window_end", **mine)
        return [(source, int(start), int(end)) for source, start, end in rows]

    expected = [(TRANSFER, *span(day(1))), (TRANSFER, *span(day(2)))]
    assert read(batch_queue) == expected
    bdre.succeed(log, KNOWN, started)
    assert (read(batch_queue), read(batch_archive)) == ([], expected)


# Values.


def a_batch(number, marking=""):
    return Batch(number, number, "125", TRANSFER, None, marking, None)


some = st.lists(st.sampled_from(["2014-12-16", "EOD@2014-12-16", "MID@2014-12-16"]), max_size=12)


@given(some, st.integers(1, 15))
def test_a_number_takes_the_oldest(markings, most):
    queue = [a_batch(n, marking) for n, marking in enumerate(markings)]
    assert list(cut(queue, None, most)) == queue[:most]


@given(some, st.none() | st.integers(1, 3))
def test_a_pattern_takes_all_up_to_the_first_match_for_any_number_b08(markings, most):
    queue = [a_batch(n, marking) for n, marking in enumerate(markings)]
    taken = cut(queue, "^EOD", most)
    marked = ["EOD" in batch.marking for batch in taken]
    assert list(taken) == queue[: len(taken)]
    assert marked == [False] * (len(taken) - 1) + [True] if taken else "EOD" not in str(markings)


@given(some)
def test_cuts_together_reach_the_last_match_and_nothing_twice(markings):
    queue = [a_batch(n, marking) for n, marking in enumerate(markings)]
    taken = []
    while part := cut(queue[len(taken) :], "EOD", None):
        taken += part
    assert taken == queue[: reach(markings, "EOD")]


@given(st.lists(some))
def test_a_union_holds_every_mark_once_b12(several):
    marks = merge_markings(",".join(markings) for markings in several).split(",")
    assert marks == sorted({mark for markings in several for mark in markings} or {""})


@pytest.mark.parametrize(
    ("window", "marking"),
    [
        (day(1), "2022-01-01,EOD@2022-01-01"),
        (days(1, 4), "2022-01-01,2022-01-02,2022-01-03,EOD@2022-01-03"),
        (hours(22, 23), "2022-01-01"),
        (hours(23, 24), "2022-01-01,EOD@2022-01-01"),
        (hours(12, 36), "2022-01-01,2022-01-02"),
        (days(1, 100), "2022-01-01,2022-04-09,EOD@2022-04-09"),
        (Slice.nth(3, "", None, UTC), "2022-03-01"),
    ],
)
def test_a_window_is_marked_with_its_dates(window, marking):
    assert build_marking(window, UTC, at("2022-03-01 10:00")) == marking


def test_dates_are_those_of_the_projects_zone():
    berlin = ZoneInfo("Europe/Berlin")
    assert build_marking(hours(22, 23), berlin, at("2022-03-01")) == "2022-01-01,EOD@2022-01-01"
    late = at("2022-03-01 23:30").astimezone(timezone.utc)
    assert build_marking(bdre.nth(0), berlin, late) == "2022-03-02"


FORK = bdre.process(
    "f",
    SubProcess("split", next=("a", "b")),
    SubProcess("a", next=("join",)),
    SubProcess("b", next=("join",)),
    SubProcess("join", can_recover=False, next=("end",)),
    SubProcess("end"),
)


@pytest.mark.parametrize(
    ("succeeded", "goes_on"),
    [
        ("", ""),
        ("split", "a b"),
        ("split a", "a b"),
        ("split a b", "join"),
        ("split a b join", "join"),
        ("split a b join end", ""),
    ],
)
def test_a_fork_that_failed_starts_again_as_a_whole_b11(succeeded, goes_on):
    assert find_recoverable(FORK, succeeded.split()) == tuple(goes_on.split())


# From the configuration.


def upstream_table(**fields):
    extra = {"step": "second", "sql": "SELECT 1 AS one", "target": {"type": "iceberg"}}
    same = {"incremental_type": "upstream", "default_start": None, "steps": [STEP, extra]}
    return table("dwd.t", **same, **fields)


def files_table(**fields):
    step = STEP | {"source": {"type": "csv", "path": "in/*.csv"}, "sql": None}
    return table("ods.f", incremental_type="files", default_start=None, steps=[step], **fields)


def test_the_dependencies_of_an_upstream_table_are_enqueuers_of_their_steps():
    depends_on = [
        "ods.a",
        {"table": "ods.b", "step": "second", "cut_pattern": "EOD"},
        {"table": "ods.c", "managed": False},
    ]
    first, second = build_process(upstream_table(depends_on=depends_on)).steps
    assert first == SubProcess("load", (Enqueuer("ods.a"),), next=("second",))
    assert second == SubProcess("second", (Enqueuer("ods.b", "EOD"),))


def test_a_table_of_files_enqueues_itself_and_others_have_no_enqueuers():
    (route,) = build_process(files_table()).routes
    assert (route.table, route.source, route.enqueuer.required) == ("ods.f", "ods.f", False)
    assert build_processes([files_table()]).consumers("ods.f") == ()
    assert build_process(table("ods.t", depends_on=["ods.a"])).routes == ()


def test_how_many_batches_a_window_takes_by_default():
    assert get_max_batches(files_table()) == ALL_BATCHES
    assert get_max_batches(files_table(max_batches=3)) == 3
    assert get_max_batches(upstream_table(depends_on=["ods.a"])) == 1
    assert get_max_batches(upstream_table(depends_on=["ods.a"], max_batches=7)) == 7
    assert get_max_batches(table()) is None
