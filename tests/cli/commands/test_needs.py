"""Commands that only look work with what is broken; `validate` and `run` say what it is."""

import pytest

CONNECTION = "\nconnections: {erp: {url: 'postgresql://etl:${env:NEEDS_TEST}@127.0.0.1/erp'}}\n"
TABLE = """
table: erp.items
period: 1 day
default_start: 2022-01-01
steps:
  - step: load
    source: {type: jdbc, connection: erp, table: items}
    target: {type: iceberg}
"""
TOLD = "connection erp: the environment variable NEEDS_TEST is not set"


@pytest.fixture
def erp(shop):
    with (shop / "logdriven.yaml").open("a") as file:
        file.write(CONNECTION)
    (shop / "tables/items.yaml").write_text(TABLE)
    return shop


@pytest.mark.parametrize(
    "command", [["plan"], ["status"], ["log"], ["graph"], ["find", "--connection", "erp"]]
)
def test_a_command_that_only_looks_works_without_the_variable(erp, logdriven, command):
    assert logdriven(*command).code == 0


def test_the_status_of_spark_needs_no_connection_and_none_of_its_own_settings(erp, logdriven):
    assert logdriven("spark", "status").out.endswith("is not running\n")
    project = erp / "logdriven.yaml"
    lacking = "config:\n    spark.x: ${env:NEEDS_TEST}"
    project.write_text(project.read_text().replace("config:", lacking, 1))
    assert logdriven("spark", "status").out.endswith("is not running\n")


def test_validate_lists_missing_packages_and_the_tables_that_need_them(erp, logdriven):
    result = logdriven("validate")
    assert result.code == 0
    assert f"Not available on this host: {TOLD}; needed by erp.items" in result.out
    [missing] = logdriven("validate", "--json").json["missing_here"]
    assert (missing["need"], missing["by"]) == ("connection erp", "erp.items")


@pytest.mark.usefixtures("long")
def test_run_reports_it_once_and_exits_with_1(erp, logdriven):
    result = logdriven("run", "erp.items", "--now", "2022-01-04")
    assert result.code == 1
    assert result.out == f"FAILURE  {TOLD}; not started: erp.items\n"
    told = logdriven("run", "erp.items", "--now", "2022-01-04", "--json").json
    assert [item["tables"] for item in told["unmet"]] == [["erp.items"]]
