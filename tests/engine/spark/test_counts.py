"""Rows are counted exactly, in the pass that writes them."""

import pytest

from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.model.attempts import Counts
from tests.builders import day, days
from tests.engine.laboratory import Lab
from tests.spark_session import MODE

pytestmark = pytest.mark.connect

HOURS = "time_hour,origin\n" + "".join(
    f"2022-01-{d:02d} {h:02d}:00:00,{'EWR' if h % 2 else 'JFK'}\n"
    for d in range(1, 11)
    for h in range(24)
)
SOURCE = {
    "type": "csv",
    "path": "hours.csv",
    "header": True,
    "columns": "time_hour TIMESTAMP, origin STRING",
}
WINDOW = "time_hour >= :data_range_start AND time_hour < :data_range_end"


@pytest.fixture
def hours_lab(lab: Lab) -> Lab:
    lab.file("hours.csv", HOURS)
    return lab


def counts(lab: Lab, sql: str | None, target: str = "parquet", **fields: object) -> Counts:
    step = {"source": {**SOURCE, **fields}, "target": {"type": target}}
    if target == "jdbc":
        step["target"] = {"type": "jdbc", "connection": "lite", "table": "t"}
    lab.table("ods.t", step | ({"sql": sql} if sql else {}), missing_columns="allow")
    return lab.run("ods.t", day(3)).counts


@pytest.mark.sampled
@pytest.mark.parametrize("target", ["iceberg", "parquet", "orc", "csv", "json", "jdbc"])
def test_the_windows_filter_decides_what_counts_as_read(hours_lab: Lab, target: str):
    sql = f"SELECT * FROM source WHERE {WINDOW}"
    assert counts(hours_lab, sql, target) == Counts(24, 24, 24, 0)


def test_a_window_column_of_the_source_filters_before_anything_else(hours_lab: Lab):
    sql = "SELECT origin, count(*) AS n FROM source GROUP BY origin"
    assert counts(hours_lab, sql, window_column="time_hour") == Counts(24, 2, 2, 0, outside=0)


def test_without_a_filter_the_whole_source_counts_as_read(hours_lab: Lab):
    assert counts(hours_lab, None) == Counts(240, 240, 240, 0)


def test_filters_above_an_aggregation_do_not_change_what_was_read(hours_lab: Lab):
    sql = f"SELECT origin, count(*) n FROM source WHERE {WINDOW} GROUP BY origin HAVING n > 99"
    assert counts(hours_lab, sql) == Counts(24, 0, 0, 0)


def test_every_source_of_a_join_counts(hours_lab: Lab):
    sql = f"SELECT s.* FROM source s JOIN (SELECT 'EWR' AS origin) o USING (origin) WHERE {WINDOW}"
    assert counts(hours_lab, sql).target == 12
    twice = f"SELECT a.origin FROM source a JOIN source b USING (time_hour) WHERE {WINDOW}"
    assert counts(hours_lab, twice) == Counts(48, 24, 24, 0)


@pytest.mark.parametrize("condition", ["1 = 0", "time_hour > '2050-01-01'"])
def test_an_empty_window_counts_zero(hours_lab: Lab, condition: str):
    # Spark reads nothing for the first one, and no server of others says so.
    known = None if (MODE, condition) == ("foreign", "1 = 0") else 0
    assert counts(hours_lab, f"SELECT * FROM source WHERE {condition}") == Counts(known, 0, 0, 0)


def test_a_limit_hides_how_many_rows_were_read(hours_lab: Lab):
    assert counts(hours_lab, "SELECT * FROM source LIMIT 5") == Counts(None, 5, 5, 0)


def once(rows: int) -> int | None:
    """What is known of rows that Spark reads twice: a server of others tells nobody that it did."""
    return None if MODE == "foreign" else rows


@pytest.mark.sampled
@pytest.mark.parametrize("target", ["iceberg", "csv", "jdbc"])
def test_rows_that_spark_reads_twice_to_sort_them_count_once(hours_lab: Lab, target: str):
    sql = f"SELECT * FROM source WHERE {WINDOW} ORDER BY origin, time_hour"
    assert counts(hours_lab, sql, target) == Counts(once(24), 24, 24, 0)


def test_a_sorted_join_counts_each_source_once(hours_lab: Lab):
    pairs = "SELECT a.origin, a.time_hour FROM source a JOIN source b USING (time_hour)"
    for hint in ("BROADCAST(b)", "MERGE(b)"):
        sql = pairs.replace("SELECT", f"SELECT /*+ {hint} */") + f" WHERE {WINDOW} ORDER BY 1"
        assert counts(hours_lab, sql) == Counts(once(48), 24, 24, 0)


def test_an_aggregate_that_is_sorted_counts_its_source_once(hours_lab: Lab):
    sql = f"SELECT origin, count(*) n FROM source WHERE {WINDOW} GROUP BY origin ORDER BY n, origin"
    assert counts(hours_lab, sql) == Counts(once(24), 2, 2, 0)


def test_the_count_of_a_product_that_rereads_each_side_is_unknown(hours_lab: Lab):
    sides = "(SELECT origin, explode(sequence(1, 2)) AS x FROM source WHERE {}) {}"
    a, b = sides.format(WINDOW, "a"), sides.format(WINDOW, "b")
    hint = "SELECT /*+ SHUFFLE_REPLICATE_NL(a, b) */ a.origin"
    found = counts(hours_lab, f"{hint} FROM {a} CROSS JOIN {b}")
    assert found == Counts(None, 48 * 48, 48 * 48, 0)


def test_rows_of_the_querys_own_text_are_no_source(lab: Lab):
    lab.table("ods.t", {"sql": "SELECT * FROM VALUES (1), (2)", "target": {"type": "parquet"}})
    assert lab.run("ods.t", day(1)).counts == Counts(0, 2, 2, 0)


def test_an_empty_side_of_a_join_neither_hangs_nor_lies(hours_lab: Lab):
    nobody = "SELECT * FROM source WHERE origin = 'XXX'"
    sql = f"SELECT a.* FROM source a JOIN ({nobody}) b USING (time_hour)"
    found = counts(hours_lab, sql)
    assert found.target == 0
    assert found.source in (0, 240, None)


def test_upstream_tables_count_the_rows_of_the_windows_that_are_read(hours_lab: Lab):
    load = {
        "source": SOURCE,
        "sql": f"SELECT * FROM source WHERE {WINDOW}",
        "target": {"type": "iceberg"},
    }
    hours_lab.table("ods.hours", load)
    for n in (1, 2, 3):
        hours_lab.run("ods.hours", day(n))
    query = "SELECT origin, count(*) AS n FROM ods.hours GROUP BY origin"
    hours_lab.table(
        "dwd.t", {"sql": query, "target": {"type": "iceberg"}}, depends_on=["ods.hours"]
    )
    assert hours_lab.run("dwd.t", day(2)).counts == Counts(24, 2, 2, 0)
    two_days = hours_lab.run("dwd.t", day(3), reads={"ods.hours": (days(2, 4),)})
    assert two_days.counts.source == 48
    everything = hours_lab.run("dwd.t", day(3), reads={"ods.hours": None})
    assert everything.counts.source == 72


@pytest.mark.usefixtures("long")
def test_a_shuffle_before_a_database_counts_its_source(hours_lab: Lab):
    step = {
        "source": SOURCE,
        "sql": f"SELECT origin, count(*) AS n FROM source WHERE {WINDOW} GROUP BY origin",
        "target": {"type": "jdbc", "connection": "lite", "table": "t"},
    }
    hours_lab.table("ods.t", step)
    for _ in range(2):
        assert hours_lab.run("ods.t", day(2)).counts == Counts(24, 2, 2, 0)


def test_the_same_step_run_again_counts_the_same(hours_lab: Lab):
    sql = f"SELECT * FROM source WHERE {WINDOW}"
    assert counts(hours_lab, sql) == counts(hours_lab, sql)


def test_a_step_without_a_target_has_no_counts(hours_lab: Lab):
    hours_lab.table(
        "ods.t",
        {"source": SOURCE, "sql": f"SELECT * FROM source WHERE {WINDOW}"},
        {"sql": "SELECT origin FROM step_1", "target": {"type": "iceberg"}},
    )
    ran = hours_lab.run("ods.t", day(3))
    assert ran.staged[0].counts == Counts()
    assert ran.counts == Counts(24, 24, 24, 0)


def test_what_a_function_reads_counts(hours_lab: Lab):
    hours_lab.file(
        "tables/own.py",
        "def read(source):\n"
        "    return source.where('hour(time_hour) < 12').groupBy('origin').count()\n",
    )
    read = {"python": "own.py:read", "source": {**SOURCE, "window_column": "time_hour"}}
    hours_lab.table("ods.t", {**read, "target": {"type": "iceberg"}})
    assert hours_lab.run("ods.t", day(3)).counts.source in (12, 24)  # where it is counted


def test_what_a_subquery_asks_for_counts(hours_lab: Lab):
    fields = {"window_column": "time_hour"}
    seen = "SELECT * FROM source a WHERE EXISTS (SELECT 1 FROM source b WHERE b.origin = a.origin)"
    assert counts(hours_lab, seen, **fields) == Counts(48, 24, 24, 0, outside=0)
    least = "SELECT * FROM source WHERE origin = (SELECT max(origin) FROM source)"
    found = counts(hours_lab, least, **fields)
    assert found.target == 12
    assert found.source in (36, 48)  # where Spark asks the condition with the subquery first


def test_rows_of_an_earlier_step_count_for_the_one_that_reads_them(hours_lab: Lab):
    hours_lab.table(
        "ods.t",
        {
            "source": SOURCE,
            "sql": f"SELECT * FROM source WHERE {WINDOW}",
            "target": {"type": "iceberg"},
        },
        {
            "sql": "SELECT count(*) AS n FROM step_1",
            "target": {"type": "iceberg", "name": "ods.n"},
        },
    )
    assert hours_lab.run("ods.t", day(3)).counts == Counts(24, 1, 1, 0)


def test_a_failed_write_leaves_no_counts_behind(hours_lab: Lab):
    with pytest.raises(TerminalStepError):
        counts(hours_lab, "SELECT CAST(origin AS INT) AS n FROM source")
    assert counts(hours_lab, f"SELECT * FROM source WHERE {WINDOW}") == Counts(24, 24, 24, 0)
