"""The last change wins: files, versions, and what operators set."""

import pytest
from sqlalchemy.exc import IntegrityError

from logdriven_dagster.errors import InvalidProjectError, RunLogError
from logdriven_dagster.execution.definitions.registering import rehearse
from logdriven_dagster.model.definitions import Kind

pytestmark = pytest.mark.sampled("database_url")


def test_one_changed_table_writes_one_row_and_one_row_of_its_log(shop):
    shop.with_sales().apply()
    counted = [len(shop.rows(f"{kind}_definition_log")) for kind in KINDS]
    shop.edit("tables/sales.yaml", "1 day", "2 days")
    assert shop.apply() == [("dws.sales", "modify", 2)]
    after = [len(shop.rows(f"{kind}_definition_log")) for kind in KINDS]
    assert [n - m for n, m in zip(after, counted, strict=True)] == [0, 1, 0, 0, 0]


KINDS = ("project", "table", "job", "relation", "step")


def test_unchanged_content_writes_nothing(shop):
    shop.with_sales().apply()
    before = [shop.rows(f"{kind}_definition") for kind in KINDS]
    assert shop.apply() == []
    assert [shop.rows(f"{kind}_definition") for kind in KINDS] == before


def test_a_table_of_two_jobs_is_one_definition_with_a_relation_in_each(shop):
    shop.with_sales()
    shop.write(
        "jobs/weekly.yaml",
        """
        job: weekly
        tables: [dws.sales]
        relations:
          - {from: ods.orders, to: dws.sales, condition: always, delay: 30 min}
        """,
    )
    shop.apply()
    code = shop.code(Kind.TABLE, "dws.sales")
    assert len([row for row in shop.rows("table_definition") if row["code"] == code]) == 1
    relations = {
        (row["job_code"], row["condition_type"])
        for row in shop.rows("relation_definition")
        if row["post_code"] == code
    }
    jobs = [shop.code(Kind.JOB, name) for name in ("nightly", "weekly")]
    assert relations == {(None, 0), (jobs[0], 1), (jobs[1], 2)}


def test_the_definition_holds_the_latest_and_the_log_each_version_with_who_when_and_why(shop):
    shop.apply()
    shop.edit("tables/orders.yaml", "retries: 1", "retries: 2")
    shop.apply()
    shop.set("ods.orders", priority="5")
    shop.delete("tables/orders.yaml")
    shop.apply()
    assert shop.rows("table_definition") == []
    log = shop.registry.versions("ods.orders")
    assert [(v.version, v.operation.value) for v in log] == [
        *((1, "add"), (2, "modify"), (3, "modify"), (4, "delete")),
    ]
    assert [(v.columns["retries"], v.columns["priority"]) for v in log] == [
        *((1, 0), (2, 0), (2, 5), (2, 5)),
    ]
    assert (log[2].operator, log[2].reason) == ("ann", "set")
    assert all(v.operator and v.time for v in log)


def test_a_definition_that_comes_again_goes_on_with_its_versions(shop):
    shop.apply()
    content = (shop.root / "tables/orders.yaml").read_text()
    shop.delete("tables/orders.yaml")
    shop.apply()
    shop.write("tables/orders.yaml", content)
    assert shop.apply() == [("ods.orders", "add", 3)]


def test_definition_and_log_are_written_in_one_transaction(shop, monkeypatch):
    shop.apply()
    shop.sql(
        "INSERT INTO table_definition_log (code, version, project_code, name, content, digest, "
        "create_time, update_time, incremental_type, enabled, release_state, priority, operation, "
        "operator, operation_time) SELECT code, version + 1, project_code, name, content, digest, "
        "create_time, update_time, incremental_type, enabled, release_state, priority, 'modify', "
        "'somebody', create_time FROM table_definition"
    )
    shop.edit("tables/orders.yaml", "retries: 1", "retries: 2")
    with pytest.raises(RunLogError):
        shop.apply()
    (row,) = shop.rows("table_definition")
    assert (row["version"], row["retries"]) == (1, 1)


def test_codes_name_their_kind_and_follow_from_names(shop):
    shop.with_sales().apply()
    for kind in KINDS:
        for row in shop.rows(f"{kind}_definition"):
            assert row["code"].startswith(f"{kind.upper()}_")
            assert row["code"] == shop.code(Kind[kind.upper()], row["name"])


def test_references_hold_codes_without_versions(shop):
    shop.with_sales().apply()
    for row in shop.rows("relation_definition"):
        assert row["pre_code"] == shop.code(Kind.TABLE, "ods.orders")
        assert row["post_code"] == shop.code(Kind.TABLE, "dws.sales")


@pytest.mark.sampled
def test_a_file_that_did_not_change_does_not_undo_a_rollback_and_one_that_did_does(shop):
    shop.apply()
    shop.edit("tables/orders.yaml", "AS one", "AS two")
    shop.apply()
    shop.rollback("ods.orders", 1)
    assert shop.apply() == []
    assert shop.consulted().project.table("ods.orders").steps[0].sql == "SELECT 1 AS one"
    shop.edit("tables/orders.yaml", "AS two", "AS three")
    assert shop.apply() == [("ods.orders", "modify", 4)]
    assert shop.consulted().project.table("ods.orders").steps[0].sql == "SELECT 1 AS three"


@pytest.mark.sampled
def test_a_file_that_becomes_equal_to_the_registry_makes_no_version(shop):
    shop.apply()
    shop.edit("tables/orders.yaml", "AS one", "AS two")
    shop.apply()
    shop.rollback("ods.orders", 1)
    shop.edit("tables/orders.yaml", "AS two", "AS one")
    assert shop.apply() == []
    assert shop.consulted().kept[Kind.TABLE] == frozenset()
    shop.edit("tables/orders.yaml", "AS one", "AS two")
    assert shop.apply() == [("ods.orders", "modify", 4)]


@pytest.mark.sampled
def test_a_setting_that_an_operator_changed_overrides_the_file(shop):
    shop.apply()
    shop.set("ods.orders", retries="5", enabled="no")
    shop.edit("tables/orders.yaml", "retries: 1", "retries: 3")
    shop.apply()
    assert (shop.in_force()["retries"], shop.in_force()["enabled"]) == (5, 0)
    shop.set("ods.orders", retries=None)
    assert shop.in_force()["retries"] == 3
    shop.edit("tables/orders.yaml", "retries: 3", "retries: 4")
    shop.apply()
    assert shop.in_force()["retries"] == 4


def test_a_setting_that_is_so_already_makes_no_version(shop):
    shop.apply()
    assert shop.set("ods.orders", retries="1") == []
    assert shop.in_force()["version"] == 1


def test_plain_sql_on_a_setting_becomes_a_version_of_its_own(shop):
    shop.apply()
    shop.sql("UPDATE table_definition SET enabled = 0, retries = NULL")
    assert shop.in_force()["enabled"] == 0
    shop.edit("tables/orders.yaml", "AS one", "AS two")
    assert shop.apply() == [("ods.orders", "modify", 2), ("ods.orders", "modify", 3)]
    by_sql, applied = shop.registry.versions("ods.orders")[1:]
    assert by_sql.operator == "an SQL client"
    assert (by_sql.columns["enabled"], applied.columns["enabled"]) == (0, 0)
    assert applied.columns["retries"] is None


def test_plain_sql_is_a_version_even_if_no_file_changed(shop):
    shop.apply()
    shop.sql("UPDATE table_definition SET priority = 7")
    assert shop.apply() == [("ods.orders", "modify", 2)]
    assert shop.apply() == []


@pytest.mark.parametrize(
    "value",
    ["enabled = 2", "release_state = 'offlin'", "priority = 1000", "retries = -1"],
)
def test_the_database_refuses_settings_that_cannot_be(shop, value):
    shop.apply()
    with pytest.raises((RunLogError, IntegrityError)):
        shop.sql(f"UPDATE table_definition SET {value}")


@pytest.mark.sampled
def test_steps_of_a_maintenance_job_may_swap_orders_and_take_those_of_other_steps(shop):
    shop.with_sales().apply()
    shop.edit("jobs/upkeep.yaml", "exec_order: 1,", "exec_order: 9,")
    shop.edit("jobs/upkeep.yaml", "exec_order: 2,", "exec_order: 1,")
    shop.edit("jobs/upkeep.yaml", "exec_order: 9, step: first", "exec_order: 2, step: renamed")
    shop.apply()
    orders = {row["name"]: row["exec_order"] for row in shop.rows("step_definition")}
    assert orders == {"upkeep.second": 1, "upkeep.renamed": 2}
    shop.edit("jobs/upkeep.yaml", "exec_order: 1,", "exec_order: 9,")
    shop.edit("jobs/upkeep.yaml", "exec_order: 2,", "exec_order: 1,")
    shop.edit("jobs/upkeep.yaml", "exec_order: 9,", "exec_order: 2,")
    shop.apply()
    orders = {row["name"]: row["exec_order"] for row in shop.rows("step_definition")}
    assert orders == {"upkeep.second": 2, "upkeep.renamed": 1}


def test_a_disabled_step_stays_disabled_when_its_job_changes(shop):
    shop.with_sales().apply()
    shop.set("upkeep.first", enabled="no")
    shop.edit("jobs/upkeep.yaml", "exec_order: 1,", "exec_order: 0,")
    shop.apply()
    first = next(r for r in shop.rows("step_definition") if r["name"] == "upkeep.first")
    assert (first["enabled"], first["exec_order"], first["version"]) == (0, 0, 3)


def test_a_relation_is_written_again_only_if_it_changed(shop):
    shop.with_sales().apply()
    shop.edit("jobs/nightly.yaml", "condition: always", "condition: always, delay: 30 min")
    name = "nightly: ods.orders -> dws.sales on always"
    assert shop.apply() == [("nightly", "modify", 2), (name, "modify", 2)]


def test_a_rehearsal_writes_nothing_and_reports_the_effect(shop):
    from logdriven_dagster.execution.definitions.registering import register

    rehearsed = register(shop.with_sales().root, writing=rehearse).changes
    assert shop.rows("table_definition") == []
    assert shop.rows("project_definition") == []
    written = register(shop.root).changes
    assert rehearsed == written


def test_a_broken_project_changes_nothing(shop):
    shop.apply()
    shop.edit("tables/orders.yaml", "retries: 1", "retries: 2")
    shop.write("tables/broken.yaml", "table: x\nperiod: never")
    with pytest.raises(InvalidProjectError):
        shop.apply()
    assert shop.in_force()["version"] == 1


def test_files_next_to_a_table_belong_to_its_content(shop):
    shop.with_sales().apply()
    shop.edit("tables/sales.sql", "count(*)", "sum(1)")
    (change,) = shop.consulted().changes
    assert [d.path for d in change.differences()] == ["sales.sql"]
    assert shop.apply() == [("dws.sales", "modify", 2)]


def test_no_secret_reaches_the_registry(shop, monkeypatch):
    monkeypatch.setenv("SHOP_PASSWORD", "sesame-open")
    shop.write(
        "logdriven.yaml",
        """
        project: shop
        connections:
          erp: {url: "postgresql://me:${env:SHOP_PASSWORD}@host/erp"}
        """,
    )
    shop.apply()
    (row,) = shop.rows("project_definition")
    assert "${env:SHOP_PASSWORD}" in row["content"]
    assert "sesame" not in str([shop.rows(f"{kind}_definition_log") for kind in KINDS])
    shop.edit("logdriven.yaml", "${env:SHOP_PASSWORD}", "sesame-open")
    with pytest.raises(InvalidProjectError, match="plain text"):
        shop.apply()
    assert len(shop.rows("project_definition_log")) == 1
