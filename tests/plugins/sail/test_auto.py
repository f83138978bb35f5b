"""`engine: auto`: each table on Sail if all that it uses is proven there, else on Spark."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from logdriven_dagster.config import load_project
from logdriven_dagster.config.checking.engines import EngineChoice
from logdriven_dagster.errors import InvalidProjectError
from tests.plugins.sail.projects import log_of, published, run_on_sail

pytestmark = pytest.mark.usefixtures("long")

COLUMNS = "id BIGINT, name STRING, amount DECIMAL(12,2)"
PLAIN = "id,name,amount\n1,a,1.50\n2,,3.25\n"
QUOTED = 'id,name,amount\n3,"b, c",4.75\n'
PROVEN = "SELECT id, upper(name) AS name, amount + amount AS twice FROM source"
UNPROVEN = "SELECT id, reverse(name) AS name, amount + amount AS twice FROM source"
ENGINES = """
SELECT j.job_name, j.application_id, j.status, s.output, s.target_count
FROM job_log j JOIN step_log s ON s.job_id = j.job_id ORDER BY j.job_name, j.job_id
"""


def write(root: Path, engine: str = "auto", **spark: str) -> None:
    settings = {"engine": engine, "master": "local[2]", **spark}
    project = {"project": "shop", "timezone": "UTC", "spark": settings}
    (root / "logdriven.yaml").write_text(yaml.safe_dump(project))
    (root / "tables").mkdir(exist_ok=True)


def add(root: Path, name: str, sql: str, text: str | None = PLAIN, **fields: Any) -> None:
    step: dict[str, Any] = {"step": "load", "sql": sql, "target": {"type": "iceberg"}}
    if text is not None:
        step["source"] = {"type": "csv", "path": name, "columns": COLUMNS, "header": True}
        (root / name).mkdir()
        (root / name / "all.csv").write_text(text)
    table = {"table": name, "period": "1 day", "default_start": "2024-01-01", "steps": [step]}
    (root / f"tables/{name}.yaml").write_text(yaml.safe_dump({**table, **fields}))


def logdriven(root: Path, *words: str, **environment: str) -> str:
    """What `logdriven` says, in a process of its own; it must succeed."""
    done = run_on_sail(root, *words, **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project that ran once: tables of both engines, and one whose file only Spark can read."""
    root = tmp_path_factory.mktemp("auto")
    write(root)
    add(root, "a.proven", PROVEN)
    add(root, "b.unproven", UNPROVEN)
    add(root, "c.quoted", PROVEN, QUOTED)
    add(root, "d.above", "SELECT p.id, p.twice FROM a.proven p", None, depends_on=["a.proven"])
    add(root, "e.beside", "SELECT u.id FROM b.unproven u", None, depends_on=["b.unproven"])
    logdriven(root, "run", "--now", "2024-01-03")
    return root


def test_each_table_runs_on_sail_if_it_can_and_the_log_reports_it(mixed: Path) -> None:
    ran = {row["job_name"]: row["application_id"] for row in log_of(mixed, ENGINES)}
    assert {name for name, engine in ran.items() if engine.startswith("sail-0.7.2-")} == {
        "a.proven",
        "d.above",
    }
    assert ran["b.unproven"].startswith("local-")
    assert ran["e.beside"] == ran["b.unproven"]
    assert {row["status"] for row in log_of(mixed, ENGINES)} == {"SUCCESS"}


def test_what_sail_cannot_read_is_left_to_spark_in_the_same_attempt(mixed: Path) -> None:
    rows = [row for row in log_of(mixed, ENGINES) if row["job_name"] == "c.quoted"]
    assert len(rows) == 2
    for row in rows:
        assert row["application_id"].startswith("local-")
        assert "could not run it" in row["output"]
        assert "a quote" in row["output"]
    assert [row["name"] for row in published(mixed, "c.quoted")] == ["B, C", "B, C"]


def test_the_rows_are_those_of_spark(mixed: Path, tmp_path: Path) -> None:
    for folder in ("a.proven", "b.unproven", "c.quoted", "tables"):
        shutil.copytree(mixed / folder, tmp_path / folder)
    write(tmp_path, "spark")
    logdriven(tmp_path, "run", "--now", "2024-01-03")
    for name in load_project(tmp_path).tables:
        assert published(mixed, name) == published(tmp_path, name)


@pytest.mark.parametrize("parallel", [1, 2])
def test_where_java_does_not_start_what_runs_on_sail_runs(tmp_path: Path, parallel: int) -> None:
    write(tmp_path)
    with (tmp_path / "logdriven.yaml").open("a") as file:
        file.write(f"max_parallel: {parallel}\n")
    add(tmp_path, "a.quoted", PROVEN, QUOTED)
    add(tmp_path, "b.unproven", UNPROVEN)
    add(tmp_path, "c.unproven", UNPROVEN)
    add(tmp_path, "d.proven", PROVEN)
    java = tmp_path / "home/bin/java"
    java.parent.mkdir(parents=True)
    java.write_text("""#!/bin/sh\necho 'openjdk version "17.0.1"' >&2; exit $(($# > 1))""")
    java.chmod(0o700)
    home = str(tmp_path / "home")
    done = run_on_sail(tmp_path, "run", "--now", "2024-01-02", JAVA_HOME=home)
    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 1, said
    assert "Spark: it does not start" in said
    assert "not started: b.unproven, c.unproven" in said
    quoted, proven = log_of(tmp_path, ENGINES)
    assert (quoted["job_name"], quoted["status"]) == ("a.quoted", "FAILURE")
    assert (proven["job_name"], proven["status"]) == ("d.proven", "SUCCESS")
    assert proven["application_id"].startswith("sail-")
    assert "a quote" in said
    assert "the fallback engine failed as well: Spark: could not start it" in said


def test_validate_shows_the_engine_of_each_table_and_why(mixed: Path) -> None:
    said = logdriven(mixed, "validate")
    assert "On Sail: a.proven, c.quoted, d.above." in said
    assert "On Spark: b.unproven (steps[0].sql: the function reverse is not supported" in said
    assert "e.beside (steps[0].sql: the table b.unproven, whose columns are not known" in said


def test_an_environment_without_sail_runs_all_on_spark(mixed: Path) -> None:
    remote = {"LOGDRIVEN_SPARK_REMOTE": "sc://localhost:1"}
    said = logdriven(mixed, "validate", **remote)
    assert "LOGDRIVEN_SPARK_REMOTE names a Spark server" in said
    assert "On Sail" not in said


def test_a_server_of_spark_is_no_choice(tmp_path: Path) -> None:
    write(tmp_path, remote="auto")
    add(tmp_path, "a.proven", PROVEN)
    with pytest.raises(InvalidProjectError, match="names a server; remove one of them"):
        load_project(tmp_path)


def test_another_zone_keeps_all_tables_from_sail(tmp_path: Path) -> None:
    write(tmp_path)
    text = (tmp_path / "logdriven.yaml").read_text()
    (tmp_path / "logdriven.yaml").write_text(text.replace("UTC", "Europe/Berlin"))
    add(tmp_path, "a.proven", PROVEN)
    engine, reason = EngineChoice(load_project(tmp_path)).engine_and_reason("a.proven")
    assert engine == "spark"
    assert reason == "timezone: times in Europe/Berlin are not supported on Sail"
