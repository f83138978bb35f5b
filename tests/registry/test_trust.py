"""What an import, or rows that somebody has edited by SQL, can do, and what they cannot."""

import json
import os
from pathlib import Path

import pytest
import sqlalchemy as sa
import yaml
from sqlalchemy.engine import make_url

from logdriven_dagster.errors import InvalidProjectError, UsageError
from logdriven_dagster.model.definitions import Kind

ROOT = Path(__file__).resolve().parents[2]
ELSEWHERE = [
    "/outside.sql",
    "C:/outside.sql",
    "C:outside.sql",
    "..\\outside.sql",
    "\\\\host\\x.sql",
]


def files_of(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, but for the run log's own."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and "run_log.db" not in path.name
    }


def with_file(exported: str, path: str, *, history: bool) -> str:
    """An export in which the table dws.sales names another file, with the same text."""
    export = yaml.safe_load(exported)
    place = export["history"] if history else export["definitions"]
    (sales,) = [item for item in place["tables"] if item["name"] == "dws.sales"]
    content = sales["versions"][0]["content"] if history else sales["content"]
    content["values"]["steps"][0]["sql_file"] = path
    content["files"] = {path: "SELECT 1 AS planted"}
    return yaml.safe_dump(export)


@pytest.mark.sampled
@pytest.mark.parametrize("history", [False, True])
@pytest.mark.parametrize("path", ELSEWHERE)
def test_an_import_that_names_a_file_elsewhere_is_refused(lite_shop, path, history):
    lite_shop.with_sales().apply()
    exported = lite_shop.export(history=True)
    with pytest.raises(UsageError, match="must be a relative path") as refused:
        lite_shop.import_(with_file(exported, path, history=history))
    assert "dws.sales" in str(refused.value)
    assert lite_shop.export(history=True) == exported


def planted(shop, path: str) -> None:
    """Edit the version in force by SQL, so that it names another file."""
    code = shop.code(Kind.TABLE, "dws.sales")
    (row,) = [row for row in shop.rows("table_definition") if row["code"] == code]
    content = json.loads(row["content"])
    content["values"]["steps"][0]["sql_file"] = path
    content["files"] = {path: "SELECT 1 AS planted"}
    for log, more in (("table_definition", ""), ("table_definition_log", " AND version = 3")):
        statement = sa.text(f"UPDATE {log} SET content = :content WHERE code = :code{more}")
        with shop.registry.run_log.begin() as conn:
            conn.execute(statement, {"content": json.dumps(content), "code": code})


@pytest.fixture
def rolled_back(lite_shop):
    """A shop in which the registry's version of dws.sales wins over its file."""
    lite_shop.with_sales().apply()
    lite_shop.write("tables/sales.sql", "SELECT 2 AS n")
    lite_shop.apply()
    lite_shop.rollback("dws.sales", 1)
    return lite_shop


def test_what_only_looks_writes_no_file(rolled_back):
    before = files_of(rolled_back.root)
    project = rolled_back.consulted().project
    assert "count(*)" in str(project.step_sql(*_sales(project)))
    assert files_of(rolled_back.root) == before


def _sales(project):
    table = project.tables["dws.sales"]
    return table, table.steps[0]


@pytest.mark.parametrize("path", ["{}/outside.sql", "C:/outside.sql"])
def test_a_content_edited_by_sql_writes_nothing_elsewhere(rolled_back, tmp_path: Path, path: str):
    planted(rolled_back, path.format(tmp_path))
    before = files_of(tmp_path)
    for command in (rolled_back.consulted, rolled_back.apply):
        with pytest.raises(InvalidProjectError, match="must be a relative path") as refused:
            command()
        assert "version 3 in the registry" in str(refused.value)
    assert files_of(tmp_path) == before


def test_a_path_that_leads_upwards_stays_below_the_folder_of_definitions(rolled_back):
    planted(rolled_back, "../../../../../../../../outside.sql")
    outside = files_of(rolled_back.root.parent).keys()
    rolled_back.apply()
    new = files_of(rolled_back.root.parent).keys() - outside
    assert new
    assert all(path.startswith("shop/.logdriven/definitions/") for path in new)


def test_a_link_in_the_folder_of_definitions_is_not_followed(rolled_back, tmp_path: Path):
    target = tmp_path / "target"
    target.mkdir()
    folder = rolled_back.root / ".logdriven" / "definitions"
    folder.mkdir(parents=True)
    (folder / rolled_back.code(Kind.TABLE, "dws.sales")).symlink_to(target)
    with pytest.raises(InvalidProjectError, match="lies behind a link"):
        rolled_back.apply()
    assert files_of(target) == {}


@pytest.mark.parametrize("path", ["../../outside.sql", "linked.sql", "/outside.sql"])
def test_a_file_that_a_table_names_lies_below_the_project(lite_shop, tmp_path: Path, path: str):
    (tmp_path / "outside.sql").write_text("SELECT 1 AS one")
    lite_shop.with_sales()
    (lite_shop.root / "tables" / "linked.sql").symlink_to(tmp_path / "outside.sql")
    lite_shop.edit("tables/sales.yaml", "sales.sql", path)
    with pytest.raises(InvalidProjectError) as refused:
        lite_shop.apply()
    assert "sales.yaml:7: steps[0].sql_file" in str(refused.value)
    assert "put the file into the project folder" in str(refused.value)


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_an_operator_with_the_documented_grants_sets_settings_and_nothing_else(shop):
    shop.apply()
    role = f"operator_{os.getpid()}"
    text = (ROOT / "docs/definitions.md").read_text().split("-- PostgreSQL\n")[1].split("```")[0]
    with shop.registry.run_log.begin() as conn:
        conn.exec_driver_sql(f"CREATE ROLE {role}")
        for statement in text.replace("etl_operator", role).split(";\n"):
            conn.exec_driver_sql(statement)
    engine = sa.create_engine(make_url(shop.url), poolclass=sa.NullPool)
    try:
        with engine.begin() as conn:
            conn.exec_driver_sql(f"SET LOCAL ROLE {role}")
            conn.exec_driver_sql("UPDATE table_definition SET retries = 4")
            conn.exec_driver_sql("UPDATE job_log SET status = 'FAILURE' WHERE job_id = 1")
        assert shop.in_force()["retries"] == 4
        for edit in ("table_definition SET content = '{}'", "step_log SET staged = '{}'"):
            with engine.connect() as conn:
                conn.exec_driver_sql(f"SET LOCAL ROLE {role}")
                with pytest.raises(sa.exc.ProgrammingError, match="denied"):
                    conn.exec_driver_sql(f"UPDATE {edit}")
    finally:
        with engine.begin() as conn:
            conn.exec_driver_sql(f"DROP OWNED BY {role}")
            conn.exec_driver_sql(f"DROP ROLE {role}")
