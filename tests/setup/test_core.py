"""`logdriven_dagster-core`: the package for hosts without a Spark of their own, or a web server.

`make test-core` installs the built wheel as such a host would, and names the environment here.
"""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from logdriven_dagster import __version__
from logdriven_dagster.config import Project, load_project
from logdriven_dagster.config.project import REMOTE_VARIABLE
from logdriven_dagster.engine.spark.server import lifecycle as spark_server
from tests.spark_session import JAVA

ROOT = Path(__file__).resolve().parents[2]
LEFT_OUT = ("dagster-pyspark", "dagster-webserver", "pyspark")
HOST = os.environ.get("LOGDRIVEN_TEST_CORE")

on_a_host = pytest.mark.skipif(HOST is None, reason="make test-core makes such a host")

FUNCTION = """
def sizes(spark, source):
    return source.selectExpr("id", "id % 3 AS size").where("id > 1")
"""
SOURCE = {"type": "csv", "path": "a.csv", "columns": "id INT"}
STEPS = {
    "ods.t": {"source": SOURCE, "target": {"type": "iceberg"}},
    "ods.p": {"source": SOURCE, "python": "own.py:sizes", "target": {"type": "iceberg"}},
    "dwd.t": {"sql": "SELECT count(*) AS n FROM ods.t", "target": {"type": "parquet"}},
}

REFRESH = ("refresh", "ods.t", "--from", "2024-01-01", "--to", "2024-01-02")


def requirements(file: str, key: str) -> set[str]:
    """The strings of a list in a pyproject.toml, without spaces."""
    text = (ROOT / file).read_text()
    _, found, rest = text.partition(f"\n{key} = [")
    assert found, f"{file} has no {key}"
    lines = rest.partition("\n]")[0] if rest.startswith("\n") else rest.partition("\n")[0]
    return set(re.findall(r'"([^"]+)"', lines))


def name(requirement: str) -> str:
    return re.split(r"[\[<>=]", requirement)[0]


def test_it_needs_what_the_package_needs_but_for_spark_and_the_web_server():
    whole = requirements("pyproject.toml", "dependencies")
    core = requirements("core/pyproject.toml", "dependencies")
    apart = {each for each in whole if name(each) in LEFT_OUT}
    assert core == whole - apart
    extras = [requirements("core/pyproject.toml", extra) for extra in ("spark", "ui")]
    assert extras[0] | extras[1] == apart


EXTRAS = (
    "java",
    "postgres",
    "mysql",
    "kafka",
    "avro",
    "excel",
    "delta",
    "connect",
    "s3",
    "gs",
    "abfs",
    "notify",
)


def extras() -> list[str]:
    """The extras of the package but for that of its demo."""
    section = (ROOT / "pyproject.toml").read_text().partition("optional-dependencies]\n")[2]
    found = re.findall(r"^(\w+) = ", section.partition("\n[")[0], re.MULTILINE)
    return [each for each in found if each != "demo"]


@pytest.mark.parametrize("extra", extras())
def test_its_extras_are_those_of_the_package(extra: str):
    assert requirements("core/pyproject.toml", extra) == requirements("pyproject.toml", extra)


def plug_ins(file: str) -> list[str]:
    """The sections of the entry points by which our own plug-ins are found."""
    section = re.compile(r'^\[project\.entry-points\."logdriven\..*\n(?:.+\n)+', re.MULTILINE)
    return section.findall((ROOT / file).read_text())


def test_both_register_the_same_plug_ins():
    assert plug_ins("core/pyproject.toml") == plug_ins("pyproject.toml") != []


@pytest.mark.parametrize("file", ["pyproject.toml", "core/pyproject.toml"])
def test_both_have_the_version_of_the_code(file: str):
    assert f'\nversion = "{__version__}"\n' in (ROOT / file).read_text()


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A project, and a server for it that was started where Spark is."""
    root = tmp_path_factory.mktemp("core")
    config = {"spark.driver.extraJavaOptions": JAVA, "spark.driver.memory": "1g"}
    settings = {"project": "core", "spark": {"master": "local[2]", "config": config}}
    (root / "logdriven.yaml").write_text(yaml.safe_dump(settings))
    (root / "a.csv").write_text("1\n2\n3\n")
    (root / "tables").mkdir()
    (root / "tables/own.py").write_text(FUNCTION)
    window = {"period": 1440, "default_start": "2024-01-01", "end": "2024-01-03"}
    for table, step in STEPS.items():
        waits = {"depends_on": ["ods.t"]} if table == "dwd.t" else {}
        text = yaml.safe_dump({"table": table, "steps": [{"step": "s", **step}], **waits, **window})
        (root / f"tables/{table}.yaml").write_text(text)
    project = load_project(root)
    spark_server.start(project, lambda _: None)
    yield project
    spark_server.stop(project, lambda _: None)


def on_host(project: Project, *line: str, remote: str) -> subprocess.CompletedProcess[str]:
    assert HOST is not None
    program = Path(HOST).absolute() / "bin" / line[0]
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(project.root),
        "DAGSTER_HOME": str(project.root),
        "LOGDRIVEN_PROJECT": str(project.root),
        REMOTE_VARIABLE: remote,
    }
    return subprocess.run(
        [program, *line[1:]],
        cwd=project.root,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def server_url(project: Project) -> str:
    return spark_server.start(project, lambda _: None).server.url


@on_a_host
def test_such_a_host_has_neither_sparks_jars_nor_a_web_server():
    (packages,) = Path(str(HOST)).glob("lib/python*/site-packages")
    assert (packages / "pyspark").is_dir()
    assert not (packages / "pyspark/jars").exists()
    there = {path.name for path in packages.iterdir()}
    assert not {"dagster_webserver", "dagster_pyspark", "dagster_graphql", "py4j"} & there


def logged(project: Project) -> list[Any]:
    told = on_host(project, "logdriven", "log", "--json", remote="classic")
    return list(json.loads(told.stdout))


@on_a_host
def test_such_a_host_runs_windows_on_a_server(project: Project):
    ran = on_host(
        project, "logdriven", "run", "--now", "2024-01-02T12:00", remote=server_url(project)
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    counts = {row["job_name"]: row["steps"][0]["target_count"] for row in logged(project)}
    assert counts == {"ods.t": 3, "ods.p": 2, "dwd.t": 1}


@on_a_host
def test_such_a_host_runs_windows_for_dagster(project: Project):
    (project.root / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    job = ("dagster", "job", "execute", "-m", "logdriven_dagster.definitions", "-j", "catch_up")
    ran = on_host(project, *job, remote=server_url(project))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert {row["job_name"] for row in logged(project) if row["dagster_run_id"]} == set(STEPS)


@on_a_host
@pytest.mark.parametrize(
    ("line", "said"),
    [
        (("logdriven", "spark", "start"), "set a server with spark.remote: sc://host:port"),
        (("logdriven", *REFRESH), "set a server with spark.remote: sc://host:port"),
        (("logdriven", "ui"), "run `pip install 'logdriven_dagster-core[ui]'`"),
    ],
)
def test_limits_of_such_a_host_are_reported_with_the_fix(project: Project, line: Any, said: str):
    told = on_host(project, *line, remote="classic")
    assert told.returncode != 0
    assert said in told.stdout + told.stderr
    assert "Traceback" not in told.stdout + told.stderr
