"""Export and import: the same codes and versions in another database."""

import json

import pytest
import yaml
from sqlalchemy.engine import make_url

from logdriven_dagster.config.derived.exchange import format_yaml, parse_export
from logdriven_dagster.errors import InvalidProjectError, UsageError
from logdriven_dagster.model.definitions import Kind
from tests.registry.conftest import SALES

pytestmark = pytest.mark.sampled("database_url")


@pytest.fixture
def lived(shop):
    """A shop whose definitions have been edited, set, rolled back and deleted."""
    shop.with_sales().apply()
    shop.edit("tables/orders.yaml", "AS one", "AS two")
    shop.apply()
    shop.set("ods.orders", retries="7", timeout="30 min")
    shop.rollback("ods.orders", 1)
    shop.set("upkeep.second", enabled="no")
    shop.write("tables/gone.yaml", SALES.replace("dws.sales", "dws.gone"))
    shop.apply()
    shop.delete("tables/gone.yaml")
    shop.apply()
    shop.set("dws.sales", worker_group="big")
    return shop


@pytest.fixture
def elsewhere(lived, tmp_path, monkeypatch):
    """The same project folder with an empty run log."""
    return lambda: lived.elsewhere(make_url(f"sqlite:///{tmp_path}/other.db"), monkeypatch)


@pytest.mark.sampled
@pytest.mark.parametrize("history", [False, True])
def test_an_export_imported_elsewhere_is_exported_as_the_same_text(lived, elsewhere, history):
    exported = lived.export(history=history)
    other = elsewhere()
    other.import_(exported)
    assert other.export(history=history) == exported
    assert other.import_(exported) == []
    assert other.apply() == []


@pytest.mark.sampled
def test_codes_and_versions_are_the_same_after_an_import(lived, elsewhere):
    def present(shop):
        return {
            (row["code"], row["version"], row["enabled"], row["retries"], row["timeout"])
            for row in shop.rows("table_definition")
        }

    before, exported = present(lived), lived.export()
    other = elsewhere()
    other.import_(exported)
    assert present(other) == before
    assert other.consulted().project.versions == lived.consulted().project.versions


@pytest.mark.sampled
def test_an_import_brings_the_latest_versions_and_history_all_of_them(lived, elsewhere):
    exported = lived.export(history=True)
    told = lived.registry.versions("dws.gone")
    other = elsewhere()
    other.import_(exported)
    assert other.registry.versions("dws.gone") == told
    assert other.versions("dws.gone")[-1] == (2, "delete")


@pytest.mark.sampled
def test_what_was_imported_is_undone_by_a_file_only_when_it_changes(lived, elsewhere):
    exported = lived.export()
    other = elsewhere()
    other.edit("tables/orders.yaml", "AS two", "AS three")
    other.import_(exported)
    assert other.apply() == []
    assert other.consulted().kept[Kind.TABLE] == {"ods.orders"}
    other.edit("tables/orders.yaml", "AS three", "AS four")
    assert [name for name, _, _ in other.apply()] == ["ods.orders"]


@pytest.mark.sampled
def test_definitions_without_files_are_in_force_after_an_import(lived, elsewhere):
    exported = lived.export()
    other = elsewhere()
    for path in ("tables/sales.yaml", "tables/sales.sql", "jobs/nightly.yaml"):
        other.delete(path)
    other.import_(exported)
    assert other.apply() == []
    project = other.consulted().project
    table = project.table("dws.sales")
    assert project.step_sql(table, table.steps[0]).startswith("SELECT count(*)")
    assert "nightly" in project.jobs


@pytest.mark.sampled
def test_importing_over_definitions_makes_versions_only_where_they_differ(lived):
    exported = lived.export()
    assert lived.import_(exported) == []
    lived.set("dws.sales", worker_group=None)
    lived.edit("jobs/nightly.yaml", "condition: always", "condition: always, delay: 5 min")
    lived.apply()
    told = {name for name, _, _ in lived.import_(exported)}
    assert told == {"dws.sales", "nightly", "nightly: ods.orders -> dws.sales on always"}
    assert lived.in_force("dws.sales")["worker_group"] == "big"


@pytest.mark.sampled
def test_json_is_the_same_export(lived):
    assert json.loads(lived.exported_json()) == yaml.safe_load(lived.export())
    assert lived.import_(lived.exported_json()) == []


@pytest.mark.sampled
def test_sql_stands_as_it_was_written(lived):
    lines = lived.export().splitlines()
    at = next(n for n, line in enumerate(lines) if line.endswith("sales.sql: |"))
    assert [line.strip() for line in lines[at + 1 : at + 3]] == [
        "SELECT count(*) AS n",
        "FROM ods.orders",
    ]


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda e: e.update(project="other"), "is of project other"),
        (lambda e: _table(e).update(code="TABLE_1"), "is not its code"),
        (lambda e: _table(e).update(settings={"enabled": 3}), "enabled: 3 is not allowed"),
        (lambda e: _table(e).update(settings={"colour": 3}), "no setting 'colour'"),
        (lambda e: _table(e)["content"].update(files={"../x.sql": ""}), "not contain the file"),
        (lambda e: _table(e)["content"]["values"].update(table="a.b"), "content belongs to a.b"),
        (lambda e: _table(e)["content"]["values"].update(period="never"), "period"),
        (lambda e: _table(e)["content"]["values"].update(depends_on=["no.where"]), "unknown table"),
        (lambda e: e.update(definitions={"cats": []}), "cats is not part of an export"),
        (lambda e: e.update(logdriven_export=2), "not an export of definitions"),
        (
            lambda e: e["definitions"]["project"][0]["content"]["values"].update(
                connections={"erp": {"url": "postgresql://me:sesame@host/erp"}}
            ),
            "plain text",
        ),
    ],
)
def test_an_export_that_is_not_sound_is_refused_and_nothing_is_written(lite_shop, change, problem):
    lite_shop.with_sales().apply()
    exported = yaml.safe_load(lite_shop.export())
    change(exported)
    before = lite_shop.export(history=True)
    with pytest.raises((UsageError, InvalidProjectError), match=problem):
        lite_shop.import_(format_yaml(exported))
    assert lite_shop.export(history=True) == before


def test_an_export_with_a_secret_in_a_table_is_refused(lite_shop):
    lite_shop.apply()
    exported = yaml.safe_load(lite_shop.export())
    _table(exported)["content"]["values"]["variables"] = {"hook_token": "planted-word"}
    with pytest.raises(InvalidProjectError, match="a secret in plain text") as caught:
        lite_shop.import_(format_yaml(exported))
    assert "planted" not in str(caught.value)


def _table(export):
    return export["definitions"]["tables"][0]


def test_a_history_with_gaps_or_other_columns_is_refused(lite_shop):
    lite_shop.apply()
    lite_shop.set("ods.orders", retries="4")
    exported = yaml.safe_load(lite_shop.export(history=True))
    exported["history"]["tables"][0]["versions"][1]["version"] = 5
    with pytest.raises(UsageError, match="history is invalid"):
        lite_shop.import_(format_yaml(exported))


def test_what_is_no_export_is_refused(tmp_path):
    for name, text in (("a.yaml", "a: [b"), ("a.json", "{"), ("a.yaml", "a: 1"), ("a.yaml", "")):
        with pytest.raises(UsageError, match="a\\."):
            parse_export(tmp_path / name, text)
