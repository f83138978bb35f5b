"""Lineage in the log and its answers, on three databases. Checklist row B30."""

import threading

import pytest

from logdriven_dagster.errors import UsageError
from logdriven_dagster.model.lineage import (
    ColumnOrigin,
    ColumnRef,
    Container,
    NodeType,
    Query,
    QueryLineage,
)
from logdriven_dagster.runlog.observed import lineage, lineage_answers
from logdriven_dagster.runlog.schema.observations import lineage_node, lineage_query
from tests.builders import day
from tests.runlog import bdre
from tests.runlog.logbook import open_log, start, succeed

pytestmark = pytest.mark.sampled("database_url")

KNOWN = bdre.registry(bdre.transfer(), bdre.hive(None))


def ref(text):
    """`ods.flights.origin`, or `ods.flights.*` for its rows."""
    held, _, column = text.rpartition(".")
    return ColumnRef(Container(held), None if column == "*" else column)


def made(column, *origins, functions=(), temps=()):
    return ColumnOrigin(column, tuple(map(ref, origins)), functions, temps)


def query(table, *columns, step="load", text="SELECT 1"):
    return QueryLineage(table, step, "spark", text, Container(table), columns)


def store(log, item, digest=None):
    names = tuple(column.column for column in item.columns)
    told = Query(item.table, item.step_id, item.type, item.text, item.result, names)
    with log.begin() as conn:
        return lineage.store(conn, digest or told.digest, item)


def ran(log, job_id, *items):
    """The attempt ran queries that nobody ran before."""
    ids = [store(log, item) for item in items]
    log.write(lambda conn: lineage.add_runs(conn, [job_id], ids))
    return ids


def ask(log, question, *arguments):
    return log.ask(lambda conn: question(conn, *arguments))


def links(log, text, direction):
    found = ask(log, lineage_answers.find_by_column, ref(text))
    return {
        (link.distance, str(link.source), str(link.target))
        for link in found
        if link.direction == direction
    }


def count(log, table):
    return len(ask(log, lambda conn: conn.execute(table.select()).all()))


FLIGHTS = query(
    "dwd.flights",
    made("origin", "ods.flights.Origin", functions=("upper", "trim"), temps=("cleaned",)),
    made("flights", "ods.flights.*", functions=("count",)),
    made("mark"),
)


def test_a_query_is_read_as_it_was_stored_b30(log):
    query_id = store(log, FLIGHTS)
    assert ask(log, lineage.read, [query_id]) == {query_id: FLIGHTS}


def test_its_nodes_are_tables_columns_functions_and_temps_b30(log):
    store(log, FLIGHTS)
    rows = ask(log, lambda conn: conn.execute(lineage_node.select()).all())
    assert {(row.node_type, row.display_name) for row in rows} == {
        ("table", "ods.flights"),
        ("table", "dwd.flights"),
        ("column", "Origin"),
        ("column", "origin"),
        ("column", "flights"),
        ("column", "mark"),
        ("function", "upper"),
        ("function", "trim"),
        ("function", "count"),
        ("temp", "cleaned"),
    }
    names = {row.node_id: row.display_name for row in rows}
    held = {row.display_name: names.get(row.container_node_id) for row in rows}
    assert held["Origin"] == "ods.flights"
    assert held["origin"] == "dwd.flights"


def test_nodes_are_shared_by_queries_and_differ_by_more_than_case(log):
    store(log, FLIGHTS)
    before = count(log, lineage_node)
    again = query("dwd.flights", made("ORIGIN", "ODS.Flights.origin"), text="SELECT 2")
    store(log, again)
    assert count(log, lineage_node) == before


def test_it_answers_by_attempt_b30(log):
    succeed(log, day(1))
    ran(log, 1, FLIGHTS)
    answer = ask(log, lineage_answers.find_by_attempt, 1)
    assert (answer.job_id, answer.table, answer.queries) == (1, "ods.t", (FLIGHTS,))


def test_attempts_of_the_same_query_share_it_b30(log):
    (query_id,) = ran(log, 1, FLIGHTS)
    log.write(lambda conn: lineage.add_runs(conn, [2], [query_id]))
    assert count(log, lineage_query) == 1


def test_it_answers_by_batch_with_the_batches_behind_it_b30(log):
    upstream = bdre.init_window(log, KNOWN)
    bdre.succeed(log, KNOWN, upstream)
    started = bdre.init(log, KNOWN, max_batches=100)
    bdre.succeed(log, KNOWN, started)
    ran(log, started.job_id, FLIGHTS)
    answer = ask(log, lineage_answers.find_by_batch, started.taken.target_batch_id)
    (attempt,) = answer.attempts
    assert (attempt.job_id, attempt.queries) == (started.job_id, (FLIGHTS,))
    ((source, _, job_id),) = answer.sources
    assert (source, job_id) == (bdre.TRANSFER, upstream.job_id)


def test_it_answers_by_column_over_tables_b30(log):
    ran(log, 1, query("a", made("x", "file.csv.x")))
    ran(log, 2, query("b", made("y", "a.x"), made("z", "a.other")))
    ran(log, 3, query("c", made("n", "b.*"), made("y", "b.y")))
    assert links(log, "b.y", "U") == {(1, "a.x", "b.y"), (2, "file.csv.x", "a.x")}
    assert links(log, "a.x", "D") == {
        (1, "a.x", "b.y"),
        (2, "b.y", "c.y"),
        (2, "b.*", "c.n"),
    }


def test_names_of_columns_are_asked_for_in_any_case(log):
    ran(log, 1, query("a", made("Xyz", "file.csv.x")))
    assert links(log, "A.xYZ", "U") == {(1, "file.csv.x", "a.Xyz")}


def test_a_table_that_reads_itself_ends(log):
    ran(log, 1, query("a", made("x", "a.x", "b.x")))
    assert links(log, "a.x", "U") == {(1, "a.x", "a.x"), (1, "b.x", "a.x")}


def test_only_the_query_that_a_step_ran_last_counts(log):
    old = query("b", made("y", "a.old"))
    (old_id,) = ran(log, 1, old)
    ran(log, 2, query("b", made("y", "a.new"), text="SELECT 2"))
    assert links(log, "b.y", "U") == {(1, "a.new", "b.y")}
    log.write(lambda conn: lineage.add_runs(conn, [3], [old_id]))  # rolled back to it
    assert links(log, "b.y", "U") == {(1, "a.old", "b.y")}


def test_the_columns_of_a_table_are_those_of_its_last_query(log):
    ran(log, 1, query("a", made("x"), made("gone")))
    ran(log, 2, query("a", made("x"), made("New"), text="SELECT 2"))
    held = Container("a")
    assert ask(log, lineage.read_known_columns, [held, Container("b")]) == {held: ("x", "New")}


def test_why_lineage_is_absent_is_stored(log):
    broken = QueryLineage(
        "a", "load", "spark", "SELEC", Container("a", NodeType.TEMP), (made("x"),), "no SQL"
    )
    query_id = store(log, broken)
    assert ask(log, lineage.read, [query_id])[query_id] == broken


@pytest.mark.usefixtures("slow")
@pytest.mark.sampled
def test_wide_tables_are_stored_in_one_go(log):
    wide = query("a", *(made(f"c{n}", f"b.c{n}", functions=("f",)) for n in range(3000)))
    query_id = store(log, wide)
    assert ask(log, lineage.read, [query_id])[query_id] == wide


def test_two_writers_of_the_same_nodes_leave_them_once(log, database_url):
    other = open_log(database_url)
    failures = []

    def write(run_log, n):
        for _ in range(5):
            try:
                store(run_log, query("a", *(made(f"c{i}", f"b.c{i}") for i in range(50)), text=n))
            except Exception as error:  # noqa: BLE001 - looked at below
                failures.append(error)
            else:
                return

    threads = [
        threading.Thread(target=write, args=(run, n)) for n, run in (("1", log), ("2", other))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    other.engine.dispose()
    assert count(log, lineage_query) == 2
    assert count(log, lineage_node) == 102
    assert len(failures) < 5


def test_an_unknown_number_or_table_is_reported(log):
    start(log, day(1))
    assert ask(log, lineage_answers.find_by_attempt, 1).queries == ()
    for question, number in (
        (lineage_answers.find_by_attempt, 7),
        (lineage_answers.find_by_batch, 7),
    ):
        with pytest.raises(UsageError):
            ask(log, question, number)
    with pytest.raises(UsageError, match=r"the lineage of a\.x is unknown"):
        ask(log, lineage_answers.find_by_column, ref("a.x"))
