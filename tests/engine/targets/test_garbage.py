"""What `clean` finds in a warehouse, told without Spark."""

from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from logdriven_dagster.config import Project, load_project
from logdriven_dagster.engine.targets.garbage import find_garbage
from tests.builders import warehouse

NOW = timedelta(seconds=-60)
"""Everything is old enough."""
TARGETS = {
    "iceberg": {"type": "iceberg"},
    "delta": {"type": "delta"},
    "parquet": {"type": "parquet"},
    "jdbc": {"type": "jdbc", "connection": "lite", "table": "t"},
}


@pytest.fixture(params=TARGETS)
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Project:
    url = f"sqlite:///{tmp_path}/lite.db"
    settings = {"project": "p", "connections": {"lite": {"url": url}}}
    (tmp_path / "logdriven.yaml").write_text(yaml.safe_dump(settings))
    step = {"step": "s", "sql": "SELECT 1 AS n", "target": TARGETS[request.param]}
    table = {"table": "ods.t", "period": 1440, "default_start": "2022-01-01", "steps": [step]}
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables/t.yaml").write_text(yaml.safe_dump(table))
    return load_project(tmp_path)


def leave(project: Project, folder: str) -> Path:
    left = warehouse(project) / folder
    left.mkdir(parents=True)
    (left / "part-0.parquet").write_bytes(b"1234")
    return left


def test_rows_on_their_way_are_garbage_once_no_attempt_needs_them(project: Project):
    left = leave(project, "_staging/ods.t/7-s__rows")
    assert list(find_garbage(project, lambda job, name: (job, name) == (7, left.name), NOW)) == []
    (found,) = find_garbage(project, lambda *_: False, NOW)
    assert (found.table, found.kind, found.location, found.bytes) == ("ods.t", "rows", str(left), 4)
    found.remove()
    assert not left.exists()


def test_what_is_young_is_left_alone(project: Project):
    leave(project, "_staging/ods.t/7-s__rows")
    assert list(find_garbage(project, lambda *_: False, timedelta(hours=1))) == []


@pytest.mark.parametrize("project", ["iceberg", "delta", "parquet"], indirect=True)
def test_staged_folders_that_nothing_names_are_garbage(project: Project):
    left = leave(project, "ods/t/data/7-s")
    leave(project, "ods/t/data/of others")
    assert [item.location for item in find_garbage(project, lambda *_: False, NOW)] == [str(left)]
