"""A type of connection that an installed package registers: the one of docs/connections.md."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.extending.packages import install, register

PROGRAM = """
import sys
from logdriven_dagster.config import load_project
from logdriven_dagster.errors import LogdrivenError
try:
    project = load_project(sys.argv[1])
    for step in project.tables["ods.t"].steps:
        print(project.connection_settings(step.source.connection))
    print(type(project.config.connections["shop"]).__name__, project.connection("shop").url)
    project.connection("docs")
except LogdrivenError as error:
    print(error)
"""
CONNECTIONS = """
project: shop
connections:
  shop: {url: "sqlite:///shop.db"}
  typed: {type: kafka, kafka: {bootstrap.servers: "host:9092"}}
  docs: {type: mongodb, host: here, password: "${env:MONGO_PASSWORD}"}
"""
TABLE = """
table: ods.t
incremental_type: full
period: 1 day
default_start: 2022-01-01
steps:
  - step: load
    source: {type: collection, connection: docs, name: orders}
    target: {type: parquet}
"""
pytestmark = pytest.mark.usefixtures("slow")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    install("connections.md", tmp_path / "site")
    (tmp_path / "tables").mkdir()
    (tmp_path / "logdriven.yaml").write_text(CONNECTIONS)
    (tmp_path / "tables/t.yaml").write_text(TABLE)
    return tmp_path / "site"


def load(site: Path) -> list[str]:
    """Load the project of the site's folder; return what it prints."""
    variables = {"PYTHONPATH": str(site), "MONGO_PASSWORD": "sesame"}
    command = [sys.executable, "-c", PROGRAM, site.parent]
    ended = subprocess.run(
        command, env=os.environ | variables, capture_output=True, text=True, check=True
    )
    return ended.stdout.splitlines()


def test_its_fields_and_secrets_reach_a_reader_together_with_built_in_connections(site: Path):
    settings, ours, problem = load(site)
    assert settings == "{'type': 'mongodb', 'host': 'here', 'password': 'sesame'}"
    assert re.fullmatch(r"ConnectionConfig sqlite:///.*shop\.db", ours)
    assert problem == "connection docs leads to MongoDB"


@pytest.mark.parametrize(
    ("was", "becomes", "mistake"),
    [
        ("${env:MONGO_PASSWORD}", "sesame", "connections.docs.password: a secret in plain text"),
        ("host: here", "host: here, prt: 1", "connections.docs.prt: unknown field"),
        ("mongodb", "mongo", "connections.docs: unknown type 'mongo'; did you mean"),
        ("type: kafka, ", "type: database, ", "connections.typed: type database needs url"),
        ("sqlite:///shop.db", "nothing", "connections.shop.url"),
    ],
)
def test_a_mistake_in_it_is_reported_as_in_ours(site: Path, was: str, becomes: str, mistake: str):
    text = CONNECTIONS.replace(was, becomes)
    (site.parent / "logdriven.yaml").write_text(text)
    assert mistake in "\n".join(load(site))


def test_a_source_must_name_one_that_leads_to_its_kind(site: Path):
    (site.parent / "tables/t.yaml").write_text(TABLE.replace(" docs,", " shop,"))
    assert "connection 'shop' leads to a database" in "\n".join(load(site))


def test_one_that_cannot_be_used_gives_the_reason(site: Path):
    entries = ("[logdriven.connections]", "mongodb = toys.nowhere:Connection")
    sources = ("[logdriven.sources]", "collection = toys.mongo:CollectionSource")
    register(site, "\n".join([*entries, *sources]))
    printed = "\n".join(load(site))
    assert "unknown type 'mongodb'; toys.nowhere:Connection cannot be used" in printed
