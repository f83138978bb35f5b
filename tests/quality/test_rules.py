"""What each rule finds, and what becomes of the rows. Checklist S36, S37."""

import pytest

from logdriven_dagster.config.models.rules import BUILT_IN
from logdriven_dagster.engine.quality.rules import CONDITIONS
from logdriven_dagster.errors import TerminalStepError
from tests.builders import day, warehouse
from tests.quality.orders import DAY, Orders

ID = {"id": ["id"]}


@pytest.mark.connect
def test_rows_with_errors_are_kept_out_and_rows_with_warnings_stay(orders: Orders):
    orders.given((1, 10, "DE"), (2, None, "DE"), (3, -5, "FR"), (4, None, "XX"))
    rules = {"amount": ["not_null", {"rule": "positive", "level": "warn"}]}
    orders.check({**ID, "columns": rules})
    assert orders.ids == [1, 3]
    assert (orders.result("not_null").count, orders.broken("not_null")) == (2, [2, 4])
    assert (orders.result("positive").count, orders.broken("positive")) == (1, [3])


def test_counts_stay_true(orders: Orders):
    orders.given((1, 10, "DE"), (2, None, "DE"), (3, 5, "FR"))
    orders.check({**ID, "columns": {"amount": ["not_null"]}})
    counts = orders.ran.counts
    assert (counts.source, counts.target, counts.success, counts.failure) == (3, 2, 2, 1)
    assert (orders.report.checked, orders.report.rejected) == (3, 1)


def test_a_row_that_breaks_two_rules_is_one_rejected_row(orders: Orders):
    orders.given((1, -1, ""), (2, 2, "DE"))
    orders.check({**ID, "columns": {"amount": ["positive"], "country": ["not_null"]}})
    assert (orders.report.rejected, orders.ids) == (1, [2])
    assert orders.broken("positive") == orders.broken("not_null") == [1]


def test_the_keys_of_the_first_thousand_rows_by_id_are_named(orders: Orders):
    orders.given(*((n, -1, "DE") for n in range(1500, 0, -1)))
    orders.check({**ID, "columns": {"amount": ["positive"]}})
    assert orders.result("positive").count == 1500
    assert orders.broken("positive") == list(range(1, 1001))


def test_only_the_id_columns_are_named(orders: Orders):
    orders.given((1, -1, "DE"))
    orders.check({"id": ["id", "country"], "columns": {"amount": ["positive"]}})
    assert orders.result("positive").ids == ({"id": 1, "country": "DE"},)


def test_without_an_id_rows_are_only_counted(orders: Orders):
    orders.given((1, -1, "DE"))
    orders.check({"columns": {"amount": ["positive"]}})
    assert (orders.result("positive").count, orders.result("positive").ids) == (1, ())


def test_of_duplicates_the_newest_stays_and_the_others_are_errors(orders: Orders):
    rows = [(1, "2022-01-01", "old"), (1, "2022-01-03", "new"), (1, None, "none"), (2, None, "one")]
    orders.given(*rows, columns="id, updated, note")
    orders.check({**ID, "deduplicate_order_by": "updated desc"})
    assert [(row[0], row[2]) for row in orders.rows("ods.orders")] == [(1, "new"), (2, "one")]
    duplicates = orders.result("Duplicated PK check")
    assert (duplicates.level, duplicates.column, duplicates.count) == ("error", "id", 2)


@pytest.mark.usefixtures("long")
def test_of_equally_new_duplicates_it_is_always_the_same_that_stays(orders: Orders):
    rows = [(1, "2022-01-01", "a"), (1, "2022-01-01", "b"), (1, "2022-01-01", "c")]
    kept = set()
    for turned in (rows, rows[::-1], rows[1:] + rows[:1]):
        orders.given(*turned, columns="id, updated, note").check(
            {**ID, "deduplicate_order_by": "updated"}
        )
        kept.add(orders.rows("ods.orders")[0][2])
    assert len(kept) == 1


def test_rows_without_an_id_are_no_duplicates_of_each_other(orders: Orders):
    orders.given((None, 1, "a"), (None, 1, "b"))
    orders.check({**ID, "deduplicate_order_by": "amount"})
    assert len(orders.rows("ods.orders")) == 2


def test_a_duplicate_breaks_no_other_rule(orders: Orders):
    orders.given((1, -1, "a", 1), (1, 5, "a", 2), columns="id, amount, country, version")
    orders.check(
        {
            **ID,
            "deduplicate_order_by": "version",
            "columns": {"amount": ["positive"], "id": ["unique"]},
        }
    )
    assert (orders.ids, orders.result("positive").count, orders.result("unique").count) == (
        [1],
        0,
        0,
    )


ABOUT_MISSING = [
    ("not_null", "1", ""),
    ("null check", "1", ""),
    ("not_null_text", "1", " NULL "),
    ("power null check", "1", ""),
    ("not_empty", "1", '""'),
    ("not_blank", "1", '" "'),
]
ABOUT_VALUES = [
    ({"rule": "one_of", "values": ["a", "b"]}, "a", "c"),
    ({"rule": "none_of", "values": ["a", "b"]}, "c", "a"),
    ({"rule": "mismatch dim check", "level": "error"}, "7", "-1"),
    ({"rule": "in_range", "min": 1}, "1", "0"),
    ({"rule": "in_range", "max": 9}, "9", "10"),
    ({"rule": "in_range", "min": "2022-01-01", "max": "2022-01-31"}, "2022-01-31", "2022-02-01"),
    ("positive", "1", "0"),
    ("not_negative", "0", "-1"),
    ({"rule": "matches", "pattern": "^[A-Z]{2}$"}, "DE", "Germany"),
    ({"rule": "castable", "type": "DATE"}, "2022-02-28", "2022-02-30"),
    ({"rule": "min_length", "min": 2}, "ab", "a"),
    ({"rule": "max_length", "max": 2}, "ab", "abc"),
]


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("rule", "good", "bad"), ABOUT_MISSING + ABOUT_VALUES, ids=lambda value: str(value)[:30]
)
def test_a_built_in_rule_separates_good_from_bad_rows(orders: Orders, rule, good, bad):
    nullable = '""' if bad == '""' else ""
    orders.given((1, good), (2, bad), columns="id, text")
    orders.declare({**ID, "columns": {"text": [rule]}}, {"type": "parquet"})
    sql = "SELECT id, " + ("coalesce(text, '') AS text" if nullable else "text") + " FROM source"
    orders.check({**ID, "columns": {"text": [rule]}}, {"type": "parquet"}, step={"sql": sql})
    name = rule if isinstance(rule, str) else rule["rule"]
    assert orders.broken(name) == [2]


def test_every_built_in_rule_has_a_condition():
    assert set(BUILT_IN) == {*CONDITIONS, "unique", "references"}


@pytest.mark.sampled
@pytest.mark.parametrize("rule", [rule for rule, _, _ in ABOUT_VALUES], ids=str)
def test_a_missing_value_breaks_only_rules_about_it(orders: Orders, rule):
    orders.given((1, None), columns="id, text")
    orders.check({**ID, "columns": {"text": [rule]}})
    assert orders.ids == [1]


def test_all_rows_with_a_repeated_value_break_unique(orders: Orders):
    orders.given((1, 5, "a"), (2, 5, "b"), (3, 6, "b"), (4, None, "c"), (5, None, "d"))
    quality = {**ID, "columns": {"amount": ["unique"]}}
    orders.check({**quality, "rows": [{"rule": "unique", "columns": ["amount", "country"]}]})
    assert orders.ids == [3, 4, 5]
    assert [result.count for result in orders.report.results] == [2, 0]


@pytest.mark.connect
def test_a_value_must_be_in_the_table_that_it_refers_to(orders: Orders):
    orders.table("ods.countries", {"sql": "SELECT 'DE' AS code", "target": {"type": "parquet"}})
    orders.run("ods.countries", DAY)
    orders.given((1, 1, "DE"), (2, 1, "XX"), (3, 1, None))
    rule = {"rule": "references", "table": "ods.countries", "column": "code"}
    orders.check({**ID, "columns": {"country": [rule]}}, depends_on=["ods.countries"])
    assert (orders.ids, orders.broken("references")) == ([1, 3], [2])
    assert orders.ran.counts.source == 3  # the countries are no source


def test_sql_is_a_condition_that_rows_fulfil_and_unknown_is_no_violation(orders: Orders):
    orders.given((1, 1, "DE"), (2, 9, "DE"), (3, None, "DE"))
    rule = {"rule": "small", "sql": ":column < 5"}
    orders.check({**ID, "columns": {"amount": [rule]}})
    assert (orders.ids, orders.broken("small")) == ([1, 3], [2])


def test_fails_when_is_the_opposite_as_in_sharp_etl(orders: Orders):
    orders.settings["quality_rules"] = {"big": {"fails_when": ":column > 5", "level": "warn"}}
    orders.given((1, 1, "DE"), (2, 9, "DE"))
    orders.check({**ID, "columns": {"amount": ["big"]}})
    assert (orders.ids, orders.broken("big"), orders.result("big").level) == ([1, 2], [2], "warn")


def test_conditions_know_the_windows_variables(orders: Orders):
    orders.given((1, 1, "DE"), (2, 9, "DE"))
    rule = {"rule": "limit", "sql": "amount < :most AND '${job}' = 'night'"}
    orders.check({**ID, "rows": [rule]}, variables={"most": 5, "job": "night"})
    assert orders.broken("limit") == [2]


def test_a_query_shows_the_ids_of_bad_rows(orders: Orders):
    orders.given((1, 1, "DE"), (2, 9, "DE"), (3, 2, "FR"))
    rule = {
        "rule": "lonely",
        "sql": "SELECT max(id) AS id FROM rows GROUP BY country HAVING count(*) = 1",
    }
    orders.check({**ID, "rows": [rule]})
    assert (orders.ids, orders.broken("lonely")) == ([1, 2], [3])
    assert orders.ran.counts.source == 3


CODE = """
from pyspark.sql import functions as sf

def negative(column):
    return sf.col(column) < 0

def above_average(rows):
    mean = rows.agg(sf.avg("amount")).first()[0]
    return rows.where(sf.col("amount") > mean).select("id")

def nonsense(rows):
    return 7
"""


@pytest.mark.usefixtures("long")
def test_a_python_rule_returns_a_condition_or_the_ids_of_bad_rows(orders: Orders):
    orders.given((1, 1, "DE"), (2, 9, "DE"), (3, -2, "FR"))
    orders.file("tables/rules.py", CODE)
    orders.settings["quality_rules"] = {"negative": {"python": "rules.py:negative"}}
    above = {"rule": "outlier", "python": "rules.py:above_average", "level": "warn"}
    orders.check({**ID, "columns": {"amount": ["negative"]}, "rows": [above]})
    assert (orders.ids, orders.broken("negative"), orders.broken("outlier")) == ([1, 2], [3], [2])


def test_a_python_rule_that_returns_anything_else_is_reported(orders: Orders):
    orders.given((1, 1, "DE")).file("tables/rules.py", CODE)
    rule = {"rule": "odd", "python": "rules.py:nonsense"}
    with pytest.raises(TerminalStepError, match="returned int; it must return a boolean Column or"):
        orders.check({**ID, "rows": [rule]})


def test_a_column_that_is_not_there_is_reported_before_anything_is_written(orders: Orders):
    orders.given((1, 1, "DE"))
    with pytest.raises(TerminalStepError, match="no column price; it has id, amount, country"):
        orders.check({**ID, "columns": {"price": ["not_null"]}})


TARGETS = [
    {"type": "iceberg"},
    {"type": "delta"},
    {"type": "parquet"},
    {"type": "csv"},
    {"type": "jdbc", "connection": "lite", "table": "orders"},
    {"type": "iceberg", "mode": "upsert", "key": ["id"]},
]


@pytest.mark.sampled
@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t["type"] + t.get("mode", ""))
def test_every_kind_of_target_takes_only_good_rows(orders: Orders, target):
    orders.given((1, 10, "DE"), (2, None, "DE"), (1, 7, "DE"))
    orders.check(
        {**ID, "deduplicate_order_by": "amount", "columns": {"amount": ["not_null"]}}, target
    )
    assert orders.rows("ods.orders") == [(1, 10, "DE")]
    counts = orders.ran.counts
    assert (counts.source, counts.target, counts.failure) == (3, 1, 2)


def test_a_bad_row_outside_of_the_window_is_an_error_of_its_rule(orders: Orders):
    orders.given((1, "2022-01-01 05:00:00"), (2, "1970-01-01"), columns="id, updated")
    rule = {"rule": "in_range", "min": "2000-01-01"}
    target = {"type": "iceberg", "window_column": "updated"}
    orders.check({**ID, "columns": {"updated": [rule]}}, target)
    assert (orders.ids, orders.broken("in_range")) == ([1], [2])


@pytest.mark.sampled
@pytest.mark.connect
@pytest.mark.parametrize("target", TARGETS[:4], ids=lambda t: t["type"])
def test_good_and_bad_rows_are_separated(orders: Orders, target):
    orders.given((1, 10, "DE"), (2, None, ""), (3, 5, "FR"))
    rules = {"amount": ["not_null"], "country": [{"rule": "not_null", "name": "has country"}]}
    orders.check({**ID, "keep_rejected": True, "columns": rules}, target)
    assert orders.ids == [1, 3]
    assert orders.rejected() == [(2, None, None, "not_null, has country")]
    assert orders.ran.counts.source == 3


def test_a_rerun_replaces_the_rejected_rows_of_its_window(orders: Orders):
    orders.given((1, 10, "DE"), (2, None, "DE"))
    quality = {**ID, "keep_rejected": True, "columns": {"amount": ["not_null"]}}
    orders.check(quality)
    orders.run("ods.orders", day(2))
    assert [row[0] for row in orders.rejected()] == [2, 2]
    orders.given((1, None, "DE"), (2, 5, "DE")).check(quality)
    assert [row[0] for row in orders.rejected()] == [1, 2]


def test_nothing_is_left_of_rows_that_were_staged_to_be_looked_at(orders: Orders):
    orders.given((1, 10, "DE"))
    rule = {"rule": "any", "sql": "SELECT id FROM rows WHERE amount > 100"}
    orders.check({**ID, "keep_rejected": True, "rows": [rule]})
    assert not list((warehouse(orders.project) / "_staging").rglob("*.parquet"))


def test_an_empty_source_is_perfectly_good(orders: Orders):
    orders.given().check(
        {**ID, "min_pass": 99, "deduplicate_order_by": "amount", "columns": {"amount": ["unique"]}}
    )
    assert (orders.report.checked, orders.report.good_percent) == (0, 100)
    assert orders.report.refusal is None


def test_what_was_found_comes_with_rows_that_are_taken_over(orders: Orders):
    orders.given((1, 10, "DE"), (2, None, "DE"))
    quality = {**ID, "keep_rejected": True, "columns": {"amount": ["not_null"]}}
    orders.declare(quality)
    step = orders.project.table("ods.orders").steps[0]
    with orders.session("ods.orders", DAY) as dead:
        (staged,) = dead.stage(step)
    with orders.session("ods.orders", DAY) as session:
        (restored,) = session.restore(step, [staged.state])
        session.publish(step.step, lambda: None)
    assert restored.quality == staged.quality
    assert (orders.ids, [row[0] for row in orders.rejected()]) == ([1], [2])
