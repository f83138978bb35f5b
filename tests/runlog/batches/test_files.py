"""The registry of files. Checklist rows in the names."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier

import pytest

from logdriven_dagster.errors import FileKnownError, LifeCycleError
from logdriven_dagster.model.batches import ALL_BATCHES, Enqueuer, Route, SubProcess
from logdriven_dagster.model.files import join_locations
from logdriven_dagster.runlog import transitions
from logdriven_dagster.runlog.batches import files
from tests.builders import UTC
from tests.patience import PATIENCE
from tests.runlog import bdre
from tests.runlog.bdre import ACCESSED, NEW, a_file
from tests.runlog.logbook import open_log, rows

pytestmark = pytest.mark.sampled("database_url")

A, B, C = (a_file(f"{name}.csv", minute=n) for n, name in enumerate("abc"))


def table_of(name):
    return bdre.process(name, SubProcess("read", (Enqueuer(name, required=False),)))


KNOWN = bdre.registry(table_of("files"), table_of("other"))
MINE, OTHER = (Route(name, "read", Enqueuer(name), UTC) for name in ("files", "other"))


def register(log, item, batch_id=None):
    return log.write(lambda conn: files.register_file(conn, item, batch_id))


def enqueue(log, *items, route=MINE):
    return log.write(lambda conn: files.enqueue_files(conn, route, items, "2014-12-16"))


def unknown(log, *items, route=MINE):
    with log.read() as conn:
        return files.find_unknown_files(conn, route, items)


def between(log, first, last):
    with log.read() as conn:
        return files.list_files_between(conn, first, last)


def refused(code):
    return pytest.raises(LifeCycleError, match=rf"\({code}\)")


def consume(log, number=0, table="files"):
    started = bdre.init(log, KNOWN, table, ALL_BATCHES, number=number)
    bdre.succeed(log, KNOWN, started)
    return started.taken


def test_a_file_without_a_batch_gets_a_new_one_b25(log):
    first = register(log, A)
    assert register(log, B) != first
    assert register(log, C, first) == first
    with log.read() as conn:
        found = files.list_files_of_batches(conn, [first])
    assert [(item.path, item.batch_id) for item in found] == [(A.path, first), (C.path, first)]
    assert found[0].created == A.created


def test_a_version_is_registered_once_b25(log):
    number = register(log, A)
    with pytest.raises(FileKnownError, match=f"/in/a.csv already exists, in batch {number}"):
        register(log, A)
    assert len(rows(log, "SELECT * FROM batch")) == 1
    register(log, replace(A, server="sftp://elsewhere"))


def test_another_hash_is_a_new_version_b25(log):
    first = register(log, A)
    assert register(log, replace(A, hash="2")) != first


def test_a_batch_that_does_not_exist_is_refused_b25(log):
    with refused(114):
        register(log, A, 99)


def test_a_file_that_arrives_is_registered_and_queued_oldest_first_b26(log):
    numbers = enqueue(log, C, A)
    assert bdre.queue(log, "files") == [(number, NEW) for number in numbers]
    assert [item.path for item in between(log, *numbers)] == [A.path, C.path]
    assert enqueue(log, A, C) == []


def test_on_an_error_there_is_nothing_b26(log):
    def work(conn):
        files.enqueue_files(conn, MINE, [A, B], "")
        raise KeyError

    with pytest.raises(KeyError):
        log.write(work)
    for name in ("batch", "file", "batch_queue"):
        assert rows(log, f"SELECT * FROM {name}") == []


def test_a_file_that_another_consumer_has_comes_in_the_same_batch_b22(log):
    numbers = enqueue(log, A, B)
    assert enqueue(log, B, C, A, route=OTHER)[:2] == numbers
    assert len(rows(log, "SELECT * FROM batch")) == 3


def test_files_are_unknown_until_they_were_queued_for_the_consumer(log):
    register(log, A)
    assert unknown(log, C, A) == [A, C]
    enqueue(log, A)
    assert unknown(log, A, C) == [C]
    consume(log)
    assert unknown(log, A, C) == [C]
    assert unknown(log, replace(A, hash="2")) == [replace(A, hash="2")]
    assert unknown(log, A, route=OTHER) == [A]


def test_a_version_that_comes_again_later_is_not_read_twice(log):
    enqueue(log, A)
    enqueue(log, replace(A, hash="2"))
    consume(log)
    assert enqueue(log, A) == []


def test_a_run_gets_the_files_of_its_batches_b12(log):
    enqueue(log, A, B)
    enqueue(log, C)
    (intake,) = consume(log).intakes
    assert join_locations(intake.files) == "/in/a.csv;/in/b.csv;/in/c.csv"


def test_a_run_that_has_looked_takes_what_came_for_the_batch_that_it_was_to_make(log):
    enqueue(log, A)
    started = bdre.init(log, KNOWN, "files", 0)
    assert started.taken.batches == ()
    enqueue(log, B, C)
    process = KNOWN.parent("files")
    for _ in range(2):  # looking again changes nothing
        looked = log.write(lambda conn: transitions.take(conn, process, started, 2))
        assert len(looked.taken.batches) == 2
        assert looked.taken.target_batch_id == started.taken.target_batch_id
    assert [state for _, state in bdre.queue(log, "files")] == [ACCESSED, ACCESSED, NEW]


def test_batches_of_a_query_must_be_of_one_step_b24(log):
    (first,) = enqueue(log, A)
    (second,) = enqueue(log, B, route=OTHER)
    with refused(113):
        between(log, first, second)
    with refused(114):
        between(log, first, 99)


def test_files_of_a_range_are_named_with_their_servers_b27(log):
    remote = replace(B, server="sftp://far")
    first, second, _ = enqueue(log, A, remote, C)
    enqueue(log, replace(A, path="/in/x.csv"), route=OTHER)
    assert join_locations(between(log, first, second)) == "/in/a.csv;sftp://far/in/b.csv"
    consume(log)
    assert len(between(log, first, second)) == 2


@pytest.mark.sampled
def test_callers_at_once_queue_each_file_once(log, database_url):
    barrier = Barrier(4)

    def work(route):
        each = open_log(database_url)
        barrier.wait(PATIENCE)
        try:
            for n in range(10):
                enqueue(each, *(a_file(f"{n}-{k}.csv") for k in range(20)), route=route)
        finally:
            each.engine.dispose()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, [MINE, MINE, OTHER, OTHER]))
    for name in ("files", "other"):
        assert len(bdre.queue(log, name)) == 200
    assert len(rows(log, "SELECT * FROM file")) == 200


@pytest.mark.usefixtures("long")
def test_tens_of_thousands_of_files_are_no_trouble(log):
    many = [a_file(f"{n:06}.csv") for n in range(20_000)]
    assert len(enqueue(log, *many)) == 20_000
    assert unknown(log, *many, A) == [A]
    assert len(consume(log).intakes[0].files) == 20_000
    assert enqueue(log, *many) == []
