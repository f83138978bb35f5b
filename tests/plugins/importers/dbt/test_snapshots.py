"""Tables with `mode: history` from dbt's snapshots.

`snapshots.json` has the relevant fields of a manifest that dbt 1.10.23 with dbt-duckdb wrote.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from logdriven_dagster.config import load_project
from logdriven_dagster.engine import Engine
from tests.plugins.importers.conftest import Folder

MANIFEST = Path(__file__).with_name("snapshots.json")
VERSIONS, ALL = "snapshot.shop.customer_versions", "snapshot.shop.customer_all"
Nodes = dict[str, Any]
Import = Callable[..., Any]


@pytest.fixture
def nodes() -> Nodes:
    content: Nodes = json.loads(MANIFEST.read_text())
    return content


@pytest.fixture
def brought(folder: Folder, nodes: Nodes, command: Callable[..., Any]) -> Import:
    """Import the manifest, and return its report; some tests of this manifest are listed."""
    folder.configure(timezone="UTC")

    def run() -> Any:
        folder.write("theirs/target/manifest.json", json.dumps(nodes))
        result = command("import-dbt", folder.root / "theirs", "--json", "--map", "raw=shop")
        assert result.code == 1, result.out + result.err
        load_project(folder.root)
        return result.json

    return run


def reasons(report: Any, item: str, key: str = "untranslated") -> str:
    return "\n".join(each["reason"] for each in report[key] if item in each["item"])


def target(folder: Folder, name: str) -> Any:
    return folder.values(f"tables/dbt/{name}.yaml")["steps"][-1]["target"]


def test_checked_columns_are_tracked_and_deleted_keys_are_closed(folder: Folder, brought: Import):
    report = brought()
    assert folder.values("tables/dbt/customer_versions.yaml")["incremental_type"] == "full"
    assert target(folder, "customer_versions") == {
        "type": "iceberg",
        "mode": "history",
        "key": ["id"],
        "snapshot": "true",
        "track": ["city"],
        "valid_from": "dbt_valid_from",
        "valid_to": "dbt_valid_to",
    }
    assert "at the start of the window" in reasons(report, VERSIONS, "notes")
    assert target(folder, "customer_old")["snapshot"] == "true"


def test_all_columns_are_tracked_missing_keys_stay_open_and_columns_keep_their_names(
    folder: Folder, brought: Import
):
    brought()
    assert target(folder, "customer_all") == {
        "type": "iceberg",
        "mode": "history",
        "key": ["id"],
        "snapshot": "false",
        "valid_from": "since",
        "valid_to": "until",
    }


def test_versions_by_a_time_of_change_are_reviewed(folder: Folder, nodes: Nodes, brought: Import):
    settings = {"strategy": "timestamp", "updated_at": "changed_at", "check_cols": None}
    nodes["nodes"][VERSIONS]["config"] |= settings
    assert "dbt's versions begin at changed_at" in reasons(brought(), VERSIONS)
    assert folder.values("tables/dbt/customer_versions.yaml")["release_state"] == "offline"
    assert target(folder, "customer_versions")["track"] == ["changed_at"]


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"hard_deletes": "new_record"}, "adds no row for a deleted key"),
        ({"dbt_valid_to_current": "to_date('9999-12-31')"}, "the current version has NULL there"),
        ({"updated_at": "changed_at"}, "its versions begin at changed_at"),
        ({"unique_key": "id || note"}, "unique_key id || note is not a column"),
        ({"check_cols": ["id"]}, "has only columns of unique_key"),
        ({"check_cols": ["lower(city)"]}, "check_cols lower(city) is not a column"),
        ({"strategy": "ours"}, "strategy: ours has no counterpart"),
        ({"strategy": "timestamp", "updated_at": "id"}, "id is a column of unique_key"),
    ],
)
def test_a_snapshot_with_another_meaning_fails(
    folder: Folder, nodes: Nodes, brought: Import, settings: Nodes, reason: str
):
    nodes["nodes"][VERSIONS]["config"] |= settings
    assert reason in reasons(brought(), VERSIONS)
    assert folder.values("tables/dbt/customer_versions.yaml")["release_state"] == "offline"


def test_readers_and_tests_of_columns_that_only_dbt_adds_are_refused(
    folder: Folder, brought: Import
):
    report = brought()
    absent = "it names dbt_scd_id, which mode history does not add to customer_versions"
    assert absent in reasons(report, "model.shop.scd_ids")
    assert absent in reasons(report, "unique_customer_versions_dbt_scd_id")
    assert "after its rules" in reasons(report, "not_null_customer_versions_dbt_valid_from")
    assert "of all windows" in reasons(report, "test unique_customer_versions_id")
    (last,) = folder.values("tables/dbt/customer_versions.yaml")["steps"]
    assert last["quality"] == {"columns": {"id": [{"rule": "not_null", "blocking": "true"}]}}


def test_versions_are_those_of_dbt(folder: Folder, nodes: Nodes, brought: Import, spark: Any):
    """The rows of dbt 1.10.23 after three runs; numbers are the days of the runs."""
    folder.spark = spark
    del nodes["nodes"]["model.shop.scd_ids"]
    brought()
    folder.execute("CREATE TABLE t_customers (id INTEGER, city VARCHAR(9), note VARCHAR(9))")
    days = [
        "(1, 'Delft', 'a'), (2, 'Ghent', 'a'), (3, NULL, 'a')",
        "(1, 'Leiden', 'b'), (2, 'Ghent', 'b'), (4, 'Bonn', 'a')",
        "(1, 'Leiden', 'b'), (2, NULL, 'b'), (3, NULL, 'c'), (4, 'Bonn', 'a')",
    ]
    for day, rows in enumerate(days):
        folder.execute("DELETE FROM t_customers", f"INSERT INTO t_customers VALUES {rows}")
        folder.run_all(days=day)
    assert read(folder, "customer_versions") == [
        (1, "Delft", "a", 0, 1),
        (1, "Leiden", "b", 1, None),
        (2, "Ghent", "a", 0, 2),
        (2, None, "b", 2, None),
        (3, None, "a", 0, 1),
        (3, None, "c", 2, None),
        (4, "Bonn", "a", 1, None),
    ]
    assert read(folder, "customer_all") == [
        (1, "Delft", "a", 0, 1),
        (1, "Leiden", "b", 1, None),
        (2, "Ghent", "a", 0, 1),
        (2, "Ghent", "b", 1, 2),
        (2, None, "b", 2, None),
        (3, None, "a", 0, 2),
        (3, None, "c", 2, None),
        (4, "Bonn", "a", 1, None),
    ]
    current = [(1, "Leiden"), (2, None), (3, None), (4, "Bonn")]
    assert sorted(folder.rows("dbt.current_customers")) == current


def read(folder: Folder, name: str) -> list[Any]:
    found = Engine(load_project(folder.root), folder.spark).read(f"dbt.{name}").collect()
    rows = sorted(found, key=lambda row: (row[0], row[3]))
    return [(*row[:3], *(at and at.day - 9 for at in row[3:5])) for row in rows]
