"""BDRE's life cycle, its documented test cases first. Checklist rows in the names."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from threading import Barrier

import pytest
from sqlalchemy import select

from logdriven_dagster.errors import (
    LIFE_CYCLE_MESSAGES,
    AlreadyDoneError,
    AlreadyRunningError,
    AttemptLostError,
    EarlierWindowError,
    LifeCycleError,
    RefusedError,
    UsageError,
)
from logdriven_dagster.model.attempts import OnRunning, Owner, Status, Trigger
from logdriven_dagster.model.batches import (
    BatchState,
    Enqueuer,
    SubProcess,
)
from logdriven_dagster.runlog.attempts import leases
from logdriven_dagster.runlog.lifecycle import EXEC_STATES, ExecState
from logdriven_dagster.runlog.schema.attempts import batch_archive, batch_queue, job_log, step_log
from tests.builders import day, hours
from tests.patience import PATIENCE
from tests.runlog import bdre
from tests.runlog.bdre import ACCESSED, FAILED, HIVE, NEW, PROCESSED, TRANSFER
from tests.runlog.logbook import ME, execute, expire, open_log, rows

pytestmark = pytest.mark.sampled("database_url")

KNOWN = bdre.registry()
OTHER = Owner("there", 1, 2)


def refused(code):
    """The life cycle refuses with this code of the document."""
    return pytest.raises(LifeCycleError, match=rf"{LIFE_CYCLE_MESSAGES[code]} \({code}\): ")


def statuses(log, job_id):
    with log.read() as conn:
        query = select(step_log.c.step_id, step_log.c.status).where(step_log.c.job_id == job_id)
        return {row.step_id: row.status for row in conn.execute(query)}


def job(log, job_id):
    with log.read() as conn:
        return conn.execute(select(job_log).where(job_log.c.job_id == job_id)).one()


def batch_times(log, **where):
    return bdre.found(log, batch_queue, "start_ts", "end_ts", **where)


# The document's own cases.


def test_init_job_case_1_b08_b12(log):
    bdre.fill_as_documented(log)
    started = bdre.init(log, KNOWN, HIVE, 20)
    (intake,) = started.taken.intakes
    assert intake.step == "125"
    assert (intake.min_batch, intake.max_batch) == (11, 33)
    assert (intake.min_marking, intake.max_marking) == ("2014-12-16", "2014-12-16")
    assert started.taken.target_marking == "2014-12-16,EOD@2014-12-16"
    assert started.taken.last_recoverable_step == ()
    row = job(log, started.job_id)
    assert (row.status, row.target_batch_id) == ("RUNNING", started.taken.target_batch_id)
    assert (row.data_range_start, row.data_range_end) == ("11", "33")
    assert set(bdre.queue(log)) == {(number, ACCESSED) for number in range(11, 34)}


def test_init_job_case_2_b01(log):
    bdre.fill_as_documented(log)
    with refused(102):
        bdre.init(log, KNOWN, "200", 1, steps=("124",))
    with refused(102):
        bdre.init(log, KNOWN, "124", 1, steps=("124",))
    assert rows(log, "SELECT * FROM job_log") == []
    assert {state for _, state in bdre.queue(log)} == {NEW}


def test_init_step_case_1_b16(log):
    bdre.fill_as_documented(log)
    attempt = bdre.init(log, KNOWN, HIVE, 20)
    assert set(statuses(log, attempt.job_id).values()) == {"READY"}
    assert bdre.init_step(log, KNOWN, HIVE, "124") == (attempt.job_id, "124")
    assert statuses(log, attempt.job_id) == {"124": "RUNNING", "125": "READY"}


def test_init_step_case_2_b14(log):
    with refused(108):
        bdre.init_step(log, KNOWN, HIVE, "124")


@pytest.mark.sampled
def test_halt_step_case_1_b17(log):
    bdre.fill_as_documented(log)
    attempt = bdre.init(log, KNOWN, HIVE, 20)
    bdre.run_steps(log, KNOWN, HIVE, "124")
    assert statuses(log, attempt.job_id)["124"] == "SUCCESS"


def test_halt_step_case_2_b15(log):
    bdre.fill_as_documented(log)
    bdre.init(log, KNOWN, HIVE, 20)
    with refused(107):
        bdre.halt_step(log, KNOWN, HIVE, "124")


def test_halt_job_case_1_b20(log):
    bdre.fill_as_documented(log)
    attempt = bdre.init(log, KNOWN, HIVE, 20)
    bdre.run_steps(log, KNOWN, HIVE, "124", "125")
    bdre.halt_job(log, KNOWN, HIVE, "sample_batch_marking")
    assert job(log, attempt.job_id).status == "SUCCESS"
    assert job(log, attempt.job_id).job_end_time is not None
    assert bdre.queue(log) == []
    assert bdre.archived(log) == [(number, PROCESSED) for number in range(11, 34)]


# InitJob.


@pytest.mark.parametrize("number", [0, 1])
def test_a_running_process_is_not_started_again_b02(log, number):
    bdre.fill_as_documented(log)
    bdre.init(log, KNOWN)
    with pytest.raises(AlreadyRunningError, match="already running") as error:
        bdre.init(log, KNOWN, number=number)
    assert error.value.code == 104


def test_a_running_step_of_an_ended_job_is_refused_b03(log):
    bdre.fill_as_documented(log)
    attempt = bdre.init(log, KNOWN)
    bdre.run_steps(log, KNOWN, attempt, "124")
    bdre.fail(log, KNOWN, attempt, "125")
    execute(log, "UPDATE step_log SET status = 'RUNNING' WHERE step_id = '125'")
    with refused(110):
        bdre.init(log, KNOWN)


def test_without_a_cut_pattern_the_number_of_batches_must_be_given_b04(log):
    known = bdre.registry(bdre.transfer(), bdre.hive(None))
    bdre.fill_as_documented(log)
    with refused(101):
        bdre.init(log, known)
    bdre.init(log, known, max_batches=1)


def test_a_cut_pattern_needs_a_batch_of_its_own_step_b05(log):
    """BDRE's code is content with a batch of any process."""
    other = bdre.process("7", SubProcess("7.1", (Enqueuer(TRANSFER, "EOD"),)))
    known = bdre.registry(bdre.transfer(), bdre.hive(), other)
    bdre.fill(log, [1, 2])
    bdre.fill(log, [3], {3: "EOD@2014-12-16"}, table="7", step="7.1")
    with refused(109):
        bdre.init(log, known)
    assert bdre.queue(log) == [(1, NEW), (2, NEW)]


@pytest.mark.parametrize("end", ["halt", "term", "pass over"])
def test_a_step_that_ended_may_begin_again_within_its_run(log, end):
    bdre.fill_as_documented(log)
    attempt = bdre.init(log, KNOWN)
    if end == "pass over":
        bdre.halt_step(log, KNOWN, HIVE, "125", Status.SKIPPED)
    else:
        bdre.init_step(log, KNOWN, HIVE, "125")
        (bdre.halt_step if end == "halt" else bdre.term_step)(log, KNOWN, HIVE, "125")
    assert bdre.init_step(log, KNOWN, HIVE, "125") == (attempt.job_id, "125")
    assert {state for _, state in bdre.queue(log)} == {ACCESSED}
    with refused(106):
        bdre.init_step(log, KNOWN, HIVE, "125")
    bdre.halt_step(log, KNOWN, HIVE, "125")
    bdre.run_steps(log, KNOWN, HIVE, "124")
    bdre.halt_job(log, KNOWN, HIVE)
    assert statuses(log, attempt.job_id) == {"124": "SUCCESS", "125": "SUCCESS"}


def test_batches_of_a_step_that_never_ran_are_not_archived(log):
    """BDRE archives what was never processed."""
    bdre.fill_as_documented(log)
    bdre.init(log, KNOWN)
    bdre.run_steps(log, KNOWN, HIVE, "124")
    with refused(107):
        bdre.halt_job(log, KNOWN, HIVE)
    assert set(bdre.queue(log)) == {(number, ACCESSED) for number in range(11, 34)}
    bdre.halt_step(log, KNOWN, HIVE, "125", Status.SKIPPED)
    bdre.halt_job(log, KNOWN, HIVE)
    assert bdre.queue(log) == []


def test_a_step_without_batches_need_not_run(log):
    bdre.fill_as_documented(log)
    bdre.init(log, KNOWN)
    bdre.run_steps(log, KNOWN, HIVE, "125")
    bdre.halt_job(log, KNOWN, HIVE)
    assert bdre.queue(log) == []


@pytest.mark.parametrize(
    ("most", "taken"), [(1, [1, 4]), (2, [1, 4]), (3, [1, 2, 4]), (4, [1, 2, 3, 4])]
)
def test_the_number_of_batches_counts_for_a_step_not_for_each_upstream(log, most, taken):
    both = SubProcess("125", (Enqueuer(TRANSFER), Enqueuer("86")))
    known = bdre.registry(bdre.transfer(), bdre.process(HIVE, both))
    bdre.fill(log, [1, 2, 3])
    bdre.fill(log, [4, 5, 6], source="86")
    (intake,) = bdre.init(log, known, max_batches=most).taken.intakes
    assert [batch.batch_id for batch in intake.batches] == taken


@pytest.mark.parametrize(
    ("pattern", "taken"),
    [("like:EOD%", 3), ("like:%2014%", 1), ("like:EOD", 0), (r"like:E\_D%", 0), ("like:E_D@%", 3)],
)
def test_a_cut_pattern_may_be_one_of_like_as_bdre_has_it(log, pattern, taken):
    known = bdre.registry(bdre.transfer(), bdre.hive(pattern))
    bdre.fill(log, [1, 2, 3, 4], {3: "EOD@2014-12-16"})
    if not taken:
        with refused(109):
            bdre.init(log, known)
        return
    (intake,) = bdre.init(log, known).taken.intakes
    assert [batch.batch_id for batch in intake.batches] == list(range(1, taken + 1))


def test_a_cut_pattern_is_checked_when_it_is_written():
    with pytest.raises(UsageError, match=r"cut_pattern '\(' of 85 is not a regular expression"):
        Enqueuer(TRANSFER, "(")


def test_every_enqueuer_must_have_sent_a_batch_b06(log):
    both = SubProcess("125", (Enqueuer(TRANSFER), Enqueuer("86")))
    known = bdre.registry(bdre.transfer(), bdre.process(HIVE, both))
    bdre.fill(log, [1])
    with refused(112):
        bdre.init(log, known, max_batches=5)
    bdre.fill(log, [2], source="86")
    (intake,) = bdre.init(log, known, max_batches=5).taken.intakes
    assert [batch.source for batch in intake.batches] == [TRANSFER, "86"]


def test_a_pattern_that_no_batch_has_comes_before_a_missing_batch_b05(log):
    both = SubProcess("125", (Enqueuer("86"), Enqueuer(TRANSFER, cut_pattern="EOD")))
    known = bdre.registry(bdre.transfer(), bdre.process(HIVE, both))
    with refused(109):
        bdre.init(log, known, max_batches=5)
    bdre.fill(log, [1], {1: "EOD"})
    with refused(112):
        bdre.init(log, known, max_batches=5)


def test_the_oldest_are_taken_up_to_the_number_given_b07(log):
    known = bdre.registry(bdre.transfer(), bdre.hive(None))
    bdre.fill(log, range(1, 34))
    started = bdre.init(log, known, max_batches=20)
    assert bdre.queue(log) == [(n, ACCESSED if n <= 20 else NEW) for n in range(1, 34)]
    targets = bdre.found(log, batch_queue, "target_batch_id")
    assert targets == [started.taken.target_batch_id] * 20 + [None] * 13
    assert job(log, started.job_id).has_more == 1


def test_a_cut_leaves_what_comes_after_it_b08(log):
    bdre.fill(log, range(1, 6), {3: "EOD@2014-12-16", 5: "EOD@2014-12-17"})
    started = bdre.init(log, KNOWN)
    assert [state for _, state in bdre.queue(log)] == [ACCESSED] * 3 + [NEW] * 2
    bdre.succeed(log, KNOWN, started)
    assert [b.batch_id for b in bdre.init(log, KNOWN, number=1).taken.batches] == [4, 5]


def test_fewer_than_the_number_given_are_all_taken_b09(log):
    known = bdre.registry(bdre.transfer(), bdre.hive(None))
    bdre.fill(log, [1, 2])
    started = bdre.init(log, known, max_batches=20)
    assert len(started.taken.batches) == 2
    assert job(log, started.job_id).has_more == 0


def test_after_a_failure_the_same_batches_are_taken_for_the_same_target_b10(log):
    bdre.fill_as_documented(log)
    first = bdre.init(log, KNOWN)
    bdre.fail(log, KNOWN, first, "124")
    bdre.fill(log, [50], {50: "EOD@2014-12-17"})
    again = bdre.init(log, KNOWN)
    assert again.taken.target_batch_id == first.taken.target_batch_id
    assert again.job_id > first.job_id
    assert [b.batch_id for b in again.taken.batches] == list(range(11, 34))
    assert bdre.queue(log)[-1] == (50, NEW)


@pytest.mark.parametrize("end", ["expired", "discarded", "replaced", "interrupted"])
def test_so_it_is_however_the_attempt_ended_b10(log, end):
    bdre.fill_as_documented(log)
    first = bdre.init(log, KNOWN)
    fields = {}
    match end:
        case "expired":
            expire(log)
        case "discarded":
            log.write(lambda conn: leases.discard(conn, first.job_id, OTHER))
        case "interrupted":
            bdre.term_job(log, KNOWN, first, Status.DISCARDED)
        case "replaced":
            fields = {"on_running": OnRunning.REPLACE}
    again = bdre.init(log, KNOWN, owner=OTHER, **fields)
    assert again.taken.target_batch_id == first.taken.target_batch_id
    assert len(again.taken.batches) == 23
    with pytest.raises(AttemptLostError):
        bdre.term_job(log, KNOWN, first)
    assert {state for _, state in bdre.queue(log)} == {ACCESSED}


def test_batches_of_a_failed_slice_hold_the_next_one_b10(log):
    bdre.fill(log, [1, 2], {1: "EOD", 2: "EOD"})
    bdre.fail(log, KNOWN, bdre.init(log, KNOWN), "124")
    with pytest.raises(EarlierWindowError, match="window 0"):
        bdre.init(log, KNOWN, number=1)


def three_steps(*, recovers):
    first = SubProcess("1", (Enqueuer(TRANSFER, "EOD"),), next=("2",))
    second = SubProcess("2", can_recover=recovers, next=("3",))
    return bdre.registry(bdre.transfer(), bdre.process(HIVE, first, second, SubProcess("3")))


@pytest.mark.parametrize(("recovers", "step"), [(True, "3"), (False, "2")])
def test_a_run_goes_on_after_the_last_step_that_can_recover_b11(log, recovers, step):
    known = three_steps(recovers=recovers)
    bdre.fill(log, [1], {1: "EOD"}, step="1")
    first = bdre.init(log, known)
    assert first.taken.last_recoverable_step == ()
    bdre.run_steps(log, known, HIVE, "1", "2")
    bdre.fail(log, known, first, "3")
    assert bdre.init(log, known).taken.last_recoverable_step == (step,)


def test_the_runs_and_files_of_the_batches_are_named_b12(log):
    known = bdre.registry(bdre.transfer(), bdre.hive(None))
    for n in (1, 2):
        bdre.load(log, known, day(n))
    started = bdre.init(log, known, max_batches=5)
    (intake,) = started.taken.intakes
    assert intake.source_job_ids == (1, 2)
    assert started.taken.target_marking == "2022-01-01,2022-01-02,EOD@2022-01-01,EOD@2022-01-02"
    spans = tuple(int(day(n).start.timestamp()) for n in (1, 2, 3))
    assert [batch.span for batch in intake.batches] == [spans[:2], spans[1:]]


def test_a_first_process_consumes_pseudo_batch_0_b13(log):
    started = bdre.init_window(log, KNOWN)
    ((number, state, target),) = bdre.found(
        log, batch_queue, "source_batch_id", "batch_state", "target_batch_id", job_name=TRANSFER
    )
    assert (number, state, target) == (0, ACCESSED, started.taken.target_batch_id)
    made = bdre.succeed(log, KNOWN, started)
    assert made == target
    assert bdre.archived(log, TRANSFER) == [(0, PROCESSED)]


def test_windows_side_by_side_have_one_each_and_keep_it_after_a_failure_b13(log):
    first, second = (bdre.init_window(log, KNOWN, day(n)) for n in (1, 2))
    bdre.fail(log, KNOWN, first, "load")
    assert bdre.queue(log, TRANSFER) == [(0, FAILED), (0, ACCESSED)]
    again = bdre.init_window(log, KNOWN, day(1))
    assert again.taken.target_batch_id == first.taken.target_batch_id
    assert bdre.succeed(log, KNOWN, again) != bdre.succeed(log, KNOWN, second)


@pytest.mark.sampled
def test_a_process_without_consumers_makes_no_batches_b13(log):
    alone = bdre.registry(bdre.transfer())
    started = bdre.init_window(log, alone)
    assert started.taken.target_batch_id is None
    assert bdre.succeed(log, alone, started) is None
    assert bdre.queue(log, TRANSFER) == []


def test_a_finished_window_is_not_started_again(log):
    bdre.load(log, KNOWN)
    with pytest.raises(AlreadyDoneError):
        bdre.init_window(log, KNOWN)
    bdre.fill(log, [50, 51], {51: "EOD"})
    bdre.succeed(log, KNOWN, bdre.init(log, KNOWN))
    with pytest.raises(AlreadyDoneError):
        bdre.init(log, KNOWN)


def test_a_refreshed_slice_takes_its_own_batches_again_and_makes_a_new_one(log):
    bdre.fill(log, [1, 2, 3], {2: "EOD", 3: "EOD"})
    first = bdre.init(log, KNOWN)
    bdre.succeed(log, KNOWN, first)
    again = bdre.init(log, KNOWN, trigger=Trigger.REFRESH)
    assert [batch.batch_id for batch in again.taken.batches] == [1, 2]
    assert again.taken.target_batch_id != first.taken.target_batch_id
    bdre.fail(log, KNOWN, again, "124")
    third = bdre.init(log, KNOWN)
    assert third.taken.target_batch_id == again.taken.target_batch_id
    bdre.succeed(log, KNOWN, third)
    assert bdre.queue(log) == [(3, NEW)]
    assert [number for number, _ in bdre.archived(log)] == [1, 2, 1, 2]


# InitStep, HaltStep, TermStep.


def started_job(log):
    bdre.fill_as_documented(log)
    return bdre.init(log, KNOWN)


@pytest.mark.parametrize("call", [bdre.init_step, bdre.halt_step, bdre.term_step])
def test_only_steps_of_a_running_process_b14(log, call):
    with refused(108):
        call(log, KNOWN, HIVE, "125")
    attempt = started_job(log)
    with refused(103):
        call(log, KNOWN, HIVE, "126")
    with refused(103):
        call(log, KNOWN, attempt, TRANSFER)
    with refused(102):
        call(log, KNOWN, "124", "124")


@pytest.mark.parametrize("call", [bdre.halt_step, bdre.term_step])
def test_a_step_starts_before_it_ends_and_once_b15(log, call):
    attempt = started_job(log)
    with refused(107):
        call(log, KNOWN, attempt, "124")
    bdre.init_step(log, KNOWN, attempt, "124")
    with refused(106):
        bdre.init_step(log, KNOWN, attempt, "124")


def test_a_step_notes_when_it_picked_up_its_batches_b16(log):
    attempt = started_job(log)
    bdre.init_step(log, KNOWN, attempt, "124")
    assert {start for start, _ in batch_times(log)} == {None}
    bdre.init_step(log, KNOWN, attempt, "125")
    assert all(start and not end for start, end in batch_times(log))


def test_the_batches_of_a_step_that_succeeds_are_processed_b17(log):
    attempt = started_job(log)
    bdre.run_steps(log, KNOWN, attempt, "124")
    assert {state for _, state in bdre.queue(log)} == {ACCESSED}
    bdre.run_steps(log, KNOWN, attempt, "125")
    assert {state for _, state in bdre.queue(log)} == {PROCESSED}
    assert all(start and end for start, end in batch_times(log))


def test_the_batches_of_a_step_that_fails_are_not_processed_b18(log):
    """BDRE's code marks them PROCESSED."""
    attempt = started_job(log)
    bdre.init_step(log, KNOWN, attempt, "125")
    bdre.term_step(log, KNOWN, attempt, "125")
    assert statuses(log, attempt.job_id)["125"] == "FAILURE"
    assert {state for _, state in bdre.queue(log)} == {FAILED}


def test_a_step_may_be_passed_over_without_being_started(log):
    attempt = started_job(log)
    bdre.halt_step(log, KNOWN, attempt, "124", Status.SKIPPED)
    assert statuses(log, attempt.job_id)["124"] == "SKIPPED"


# HaltJob, TermJob.


@pytest.mark.parametrize("call", [bdre.halt_job, bdre.term_job])
def test_only_a_running_process_ends_and_after_its_steps_b19(log, call):
    with refused(102):
        call(log, KNOWN, "124")
    with refused(105):
        call(log, KNOWN, HIVE)
    attempt = started_job(log)
    bdre.init_step(log, KNOWN, attempt, "124")
    with refused(110):
        call(log, KNOWN, attempt)
    assert job(log, attempt.job_id).status == "RUNNING"


def test_a_job_with_a_failed_step_cannot_succeed_b19(log):
    attempt = started_job(log)
    bdre.init_step(log, KNOWN, attempt, "124")
    bdre.term_step(log, KNOWN, attempt, "124")
    with refused(111):
        bdre.halt_job(log, KNOWN, attempt)
    bdre.term_job(log, KNOWN, attempt)


def test_what_a_job_has_made_is_queued_in_the_transaction_that_ends_it_b20(log):
    started = bdre.init_window(log, KNOWN)
    bdre.run_steps(log, KNOWN, started, "load")
    bdre.halt_job(log, KNOWN, started, "EOD-IN@2014-04-25")
    columns = ("step_id", "source_batch_id", "source_job_id", "batch_state", "batch_marking")
    (row,) = bdre.found(log, batch_queue, *columns, job_name=HIVE)
    made = started.taken.target_batch_id
    assert row == ("125", made, started.job_id, NEW, "EOD-IN@2014-04-25")


def test_a_job_that_cannot_end_queues_nothing_b20(log):
    started = bdre.init_window(log, KNOWN)
    bdre.run_steps(log, KNOWN, started, "load")
    stranger = replace(started, fencing_token=started.fencing_token - 1)
    with pytest.raises(AttemptLostError):
        bdre.halt_job(log, KNOWN, stranger)
    assert bdre.queue(log) == []
    assert bdre.queue(log, TRANSFER) == [(0, PROCESSED)]


def test_a_chain_hands_on_the_union_of_its_markings_b20(log):
    last = bdre.process("200", SubProcess("1", (Enqueuer(HIVE),)))
    known = bdre.registry(bdre.transfer(), bdre.hive(), last)
    bdre.load(log, known, hours(22, 23))
    bdre.load(log, known, hours(23, 24))
    made = bdre.succeed(log, known, bdre.init(log, known))
    (batch,) = bdre.init(log, known, "200", 1).taken.batches
    assert (batch.batch_id, batch.marking) == (made, "2022-01-01,EOD@2022-01-01")


def test_only_the_batches_of_the_attempt_are_archived_b20(log):
    bdre.fill(log, [1, 2], {1: "EOD"})
    bdre.succeed(log, KNOWN, bdre.init(log, KNOWN))
    assert (bdre.queue(log), bdre.archived(log)) == ([(2, NEW)], [(1, PROCESSED)])


def test_the_batches_of_a_failed_job_stay_queued_b23(log):
    attempt = started_job(log)
    bdre.term_job(log, KNOWN, attempt)
    assert job(log, attempt.job_id).status == "FAILURE"
    assert bdre.queue(log) == [(number, FAILED) for number in range(11, 34)]
    assert bdre.archived(log) == []


def test_the_name_of_a_table_with_several_running_attempts_is_not_enough(log):
    first = bdre.init_window(log, KNOWN, day(1))
    bdre.init_window(log, KNOWN, day(2))
    with pytest.raises(UsageError, match="1, 2"):
        bdre.init_step(log, KNOWN, TRANSFER, "load")
    bdre.init_step(log, KNOWN, first, "load")


def test_a_table_of_files_without_a_new_one_starts_with_nothing(log):
    """What that means is for `on_empty` to say; it hands on no batch."""
    read = SubProcess("read", (Enqueuer("files", required=False),))
    follows = bdre.process("next", SubProcess("1", (Enqueuer("files"),)))
    known = bdre.registry(bdre.process("files", read), follows)
    started = bdre.init(log, known, "files", 10)
    assert started.taken.batches == ()
    assert started.window.is_empty
    assert bdre.succeed(log, known, started) is None
    assert bdre.queue(log, "next") == []


def test_states_are_those_of_the_document_b28():
    words = {state.value: state.name for state in ExecState}
    assert words == dict(
        enumerate(["NOT_RUNNING", "RUNNING", "SUCCESS", "PAUSED", "SUSPENDED", "FAILED"], 1)
    )
    assert set(EXEC_STATES) == set(Status)
    assert set(EXEC_STATES.values()) == set(ExecState)
    assert [state.name for state in BatchState] == ["NEW", "PROCESSED", "ACCESSED", "FAILED"]
    assert [state.value for state in BatchState] == [0, 1, 2, 3]


# Two at once.


def at_once(url, *calls):
    """Call all at the same instant, each with a log of its own; results or exceptions."""
    barrier = Barrier(len(calls))

    def work(call):
        log = open_log(url)
        try:
            barrier.wait(PATIENCE)
            return call(log)
        except (AlreadyRunningError, AlreadyDoneError) as error:
            return error
        finally:
            log.engine.dispose()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(work, calls))


@pytest.mark.sampled
@pytest.mark.parametrize("numbers", [(0, 0, 0, 0), (0, 1, 0, 1)])
def test_of_two_starts_at_once_one_wins_and_the_other_takes_nothing_b35(log, database_url, numbers):
    known = bdre.registry(bdre.transfer(), bdre.hive(None))
    bdre.fill(log, range(1, 31))
    calls = [
        lambda each, n=n, number=number: bdre.init(
            each, known, max_batches=5 + n, number=number, owner=Owner("race", n, n)
        )
        for n, number in enumerate(numbers)
    ]
    results = at_once(database_url, *calls)
    (won,) = (result for result in results if not isinstance(result, Exception))
    assert all(r.code == 104 for r in results if isinstance(r, Exception))
    taken = {(batch.batch_id, ACCESSED) for batch in won.taken.batches}
    assert {row for row in bdre.queue(log) if row[1] != NEW} == taken
    assert set(bdre.found(log, batch_queue, "target_batch_id")) == {
        None,
        won.taken.target_batch_id,
    }


@pytest.mark.sampled
def test_consumers_and_enqueuers_at_once_lose_and_double_nothing(log, database_url):
    """Two upstream runners and two consumers that begin late: every window arrives once."""
    known = bdre.registry(bdre.transfer(), bdre.hive(None))
    alone = bdre.registry(bdre.transfer())
    for n in range(1, 4):
        bdre.load(log, alone, day(n))

    def enqueue(first):
        def call(each):
            for n in range(first, first + 4):
                bdre.load(each, known, day(n))

        return call

    def consume(each):
        for number in range(6):
            with suppress(RefusedError):
                started = bdre.init(each, known, max_batches=2, number=number)
                bdre.succeed(each, known, started)

    at_once(database_url, enqueue(4), enqueue(8), consume, consume)
    where = {"job_name": HIVE}
    spans = bdre.found(log, batch_queue, "window_start", **where)
    spans += bdre.found(log, batch_archive, "window_start", **where)
    assert sorted(spans) == [int(day(n).start.timestamp()) for n in range(1, 12)]


def test_the_owner_of_a_run_that_is_named_stays(log):
    started_job(log)
    bdre.init_step(log, KNOWN, HIVE, "124")
    assert job(log, 1).owner == str(ME)
