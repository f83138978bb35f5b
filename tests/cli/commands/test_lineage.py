"""`logdriven lineage` and `logdriven properties`. Checklist rows B29, B30, B31."""

import pytest

from logdriven_dagster.config import load_project
from logdriven_dagster.execution.definitions.homes import open_run_log
from logdriven_dagster.model.lineage import ColumnOrigin, ColumnRef, Container, QueryLineage
from logdriven_dagster.runlog.observed import lineage
from tests.builders import day
from tests.runlog.logbook import succeed


@pytest.fixture
def log(shop):
    """The log of a run of ods.t, whose query makes ods.t.two of one.csv.one."""
    opened = open_run_log(load_project(shop))
    succeed(opened, day(1))
    made = ColumnOrigin("two", (ColumnRef(Container("one.csv"), "one"),), ("upper",), ("cleaned",))
    query = QueryLineage(
        "ods.t", "load", "spark", "SELECT upper(one) AS two", Container("ods.t"), (made,)
    )
    with opened.begin() as conn:
        lineage.add_runs(conn, [1], [lineage.store(conn, "digest", query)])
    yield opened
    opened.engine.dispose()


def test_a_table_shows_its_neighbours_b29(shop, logdriven):
    answer = logdriven("lineage", "ods.orders", "--json").json
    assert (answer["name"], answer["kind"], answer["upstream"]) == ("ods.orders", "table", [])
    assert answer["downstream"] == [
        {
            "kind": "table",
            "name": "dws.daily_sales",
            "distance": 1,
            "because": ["depends_on"],
            "managed": True,
        }
    ]
    shown = logdriven("lineage", "dws.daily_sales", "--all").out
    assert "ods.orders" in shown
    assert "Nothing downstream." in shown


def test_an_attempt_shows_its_queries_b30(log, logdriven):
    answer = logdriven("lineage", "--job-id", 1, "--json").json
    assert (answer["job_id"], answer["table"]) == (1, "ods.t")
    (query,) = answer["queries"]
    assert query["query"] == "SELECT upper(one) AS two"
    assert query["columns"] == [
        {"column": "two", "from": ["one.csv.one"], "functions": ["upper"], "temps": ["cleaned"]}
    ]
    shown = logdriven("lineage", "--job-id", 1).out
    assert "step load (spark) makes ods.t:" in shown
    assert "upper(), cleaned" in shown


def test_a_column_shows_where_it_comes_from_and_what_is_made_of_it_b30(log, logdriven):
    up = logdriven("lineage", "ods.t.two", "--json").json["upstream"]
    assert [(link["source"], link["target"]) for link in up] == [("one.csv.one", "ods.t.two")]
    down = logdriven("lineage", "one.csv.one", "--json").json["downstream"]
    assert [(link["source"], link["target"]) for link in down] == [("one.csv.one", "ods.t.two")]
    assert "ods.t.load" in logdriven("lineage", "ods.t.two").out


def test_an_unknown_name_is_reported_with_a_fix(log, logdriven):
    assert "did you mean 'ods.orders'?" in logdriven("lineage", "ods.order").err
    assert "the lineage of ods.orders.x is unknown" in logdriven("lineage", "ods.orders.x").err
    assert "no attempt has the job_id 9" in logdriven("lineage", "--job-id", 9).err
    assert "no batch has the number 9" in logdriven("lineage", "--batch", 9).err
    assert "give exactly one of NAME" in logdriven("lineage").err


def test_properties_are_shown_by_group_b31(shop, logdriven):
    text = (shop / "logdriven.yaml").read_text()
    given = "properties: {source: {schema: sales}, api: {key: '${env:KEY}'}}"
    (shop / "logdriven.yaml").write_text(f"{text}\n{given}\n")
    everything = {"source": {"schema": "sales"}, "api": {"key": "${env:KEY}"}}
    assert logdriven("properties", "ods.orders", "--json").json == everything
    only = logdriven("properties", "ods.orders", "source", "--json").json
    assert only == {"source": {"schema": "sales"}}
    assert "${env:KEY}" in logdriven("properties", "ods.orders").out
    assert "its groups are source, api" in logdriven("properties", "ods.orders", "other").err


def test_a_table_without_properties_is_reported_as_such(shop, logdriven):
    assert "ods.orders has no properties." in logdriven("properties", "ods.orders").out
