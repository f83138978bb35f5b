"""Going back, comparing, and what is refused."""

import pytest

from logdriven_dagster.errors import InvalidProjectError, UsageError
from logdriven_dagster.execution.definitions.changes import diff
from logdriven_dagster.model.definitions import Kind
from tests.registry.conftest import SALES

pytestmark = pytest.mark.sampled("database_url")


def test_a_rollback_is_a_new_version_with_the_old_content_and_its_settings(shop):
    shop.apply()
    shop.set("ods.orders", priority="3")
    shop.edit("tables/orders.yaml", "AS one", "AS two")
    shop.apply()
    shop.set("ods.orders", priority="4", retries="9")
    assert shop.rollback("ods.orders", 2) == [("ods.orders", "modify", 5)]
    settings = shop.in_force()
    assert (settings["priority"], settings["retries"], settings["version"]) == (3, 1, 5)
    assert shop.consulted().project.table("ods.orders").steps[0].sql == "SELECT 1 AS one"
    assert shop.registry.versions("ods.orders")[-1].reason == "rollback to 2"


@pytest.mark.sampled
def test_a_file_that_was_not_applied_yet_is_applied_before_a_rollback(shop):
    shop.apply()
    shop.edit("tables/orders.yaml", "AS one", "AS two")
    assert shop.rollback("ods.orders", 1) == [
        ("ods.orders", "modify", 2),
        ("ods.orders", "modify", 3),
    ]
    assert shop.apply() == []


@pytest.mark.sampled
def test_relations_follow_a_rollback(shop):
    shop.with_sales().apply()
    shop.write("tables/sales.yaml", SALES.replace("depends_on: [ods.orders]", "retries: 2"))
    shop.write("tables/sales.sql", "SELECT 1 AS n")
    shop.apply()
    shop.rollback("dws.sales", 1)
    assert shop.versions("ods.orders -> dws.sales") == [(1, "add"), (2, "delete"), (3, "add")]
    assert (
        shop.consulted().project.step_sql(*_last_step(shop.consulted().project.table("dws.sales")))
        == "SELECT count(*) AS n\nFROM ods.orders\n"
    )


def _last_step(table):
    return table, table.steps[-1]


@pytest.mark.sampled
def test_a_deleted_definition_comes_back_by_a_rollback_and_stays_without_a_file(shop):
    shop.apply()
    shop.write("tables/orders2.yaml", SALES.replace("sql_file: sales.sql", "sql: SELECT 1 AS n"))
    shop.apply()
    shop.delete("tables/orders2.yaml")
    shop.apply()
    assert shop.rollback("dws.sales", 1)[0] == ("dws.sales", "add", 3)
    assert shop.apply() == []
    assert "dws.sales" in shop.consulted().project.tables


def test_a_version_that_fits_no_more_is_refused_and_nothing_is_written(shop):
    shop.with_sales().apply()
    shop.write("tables/sales.yaml", SALES.replace("depends_on: [ods.orders]", ""))
    shop.write("tables/sales.sql", "SELECT 1 AS n")
    shop.delete("jobs/nightly.yaml")
    shop.delete("tables/orders.yaml")
    shop.apply()
    with pytest.raises(UsageError, match=r"is not valid .*nothing was changed:\n.*unknown table"):
        shop.rollback("dws.sales", 1)
    assert shop.versions("dws.sales") == [(1, "add"), (2, "modify")]


@pytest.mark.sampled
def test_a_kept_version_that_fits_no_more_is_named_with_its_code_and_the_fix(shop):
    shop.with_sales().apply()
    shop.write("tables/sales.yaml", SALES.replace("depends_on: [ods.orders]", ""))
    shop.write("tables/sales.sql", "SELECT 1 AS n")
    shop.delete("jobs/nightly.yaml")
    shop.apply()
    shop.rollback("dws.sales", 1)
    shop.delete("tables/orders.yaml")
    code = shop.code(Kind.TABLE, "dws.sales")
    with pytest.raises(InvalidProjectError) as refused:
        shop.apply()
    assert f"version 3 in the registry, {code}" in str(refused.value)
    assert "`logdriven rollback dws.sales VERSION`" in str(refused.value)
    shop.rollback("dws.sales", 2)
    assert shop.apply() == []


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("ods.order", "did you mean 'ods.orders'"),
        ("shop", "logdriven.yaml has no versions to set"),
        ("ods.orders -> dws.sales", "roll back the table or job"),
        ("upkeep.first", "roll back the table or job"),
    ],
)
def test_only_tables_and_jobs_are_rolled_back(lite_shop, name, problem):
    lite_shop.with_sales().apply()
    with pytest.raises(UsageError, match=problem):
        lite_shop.rollback(name, 1)


def test_versions_that_there_are_not_are_refused(lite_shop):
    lite_shop.apply()
    with pytest.raises(UsageError, match="has no version 7; it has 1 to 1"):
        lite_shop.rollback("ods.orders", 7)
    with pytest.raises(UsageError, match="has no version 7"):
        diff(lite_shop.root, "ods.orders", 7, None)


def test_settings_and_values_that_cannot_be_are_refused(lite_shop):
    lite_shop.with_sales().apply()
    for name, field, value, problem in (
        ("ods.orders", "retires", "1", "did you mean 'retries'"),
        ("ods.orders", "retries", "-1", "must be at least 0"),
        ("ods.orders", "release_state", "off", "online"),
        ("ods.orders", "timeout", "soon", "timeout"),
        ("upkeep.first", "retries", "1", "no setting"),
        ("ods.orders -> dws.sales", "enabled", "no", "has no settings"),
    ):
        with pytest.raises(UsageError, match=problem):
            lite_shop.set(name, **{field: value})
    assert lite_shop.in_force()["version"] == 1


def test_settings_change_even_while_files_are_broken(lite_shop):
    lite_shop.apply()
    lite_shop.write("tables/broken.yaml", "table: x\nperiod: never")
    lite_shop.set("ods.orders", enabled="no")
    assert lite_shop.in_force()["enabled"] == 0


@pytest.mark.usefixtures("long")
def test_a_history_of_100_versions_is_diffable(shop):
    shop.apply()
    for n in range(99):
        shop.set("ods.orders", priority=str(n - 50))
    assert shop.versions("ods.orders")[-1] == (100, "modify")
    (difference,) = diff(shop.root, "ods.orders", 1, 100).differences
    assert (difference.path, difference.before, difference.after) == ("priority", 0, 48)
    (last,) = diff(shop.root, "ods.orders", None, None).differences
    assert (last.before, last.after) == (47, 48)


def test_a_diff_with_the_file_shows_what_applying_would_change(lite_shop):
    lite_shop.apply()
    lite_shop.edit("tables/orders.yaml", "AS one", "AS two")
    (difference,) = diff(lite_shop.root, "ods.orders", 1, "file").differences
    assert (difference.path, difference.after) == ("steps.load.sql", "SELECT 1 AS two")
