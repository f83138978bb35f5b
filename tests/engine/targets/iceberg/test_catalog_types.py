"""Windows in Iceberg tables of every type of catalog, in an object store."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from logdriven_dagster.engine.targets.iceberg.catalog import (
    load_existing,
    open_catalog,
    remove_snapshots,
)
from logdriven_dagster.engine.targets.iceberg.commits import commit_files
from scripts.lake import s3
from scripts.lake.faults import Fault
from scripts.lake.serving import Server
from tests.builders import day
from tests.engine.laboratory import Lab
from tests.lake import CATALOGS, CatalogOf, Lake

QUERY = "SELECT int(day(:data_range_start)) AS day, v FROM VALUES (1), (2) AS t(v)"
STEP = {"sql": QUERY, "target": {"type": "iceberg", "mode": "append"}}
KINDS = ["lost", "dropped", "500", "late-500", "503", "late-503"]


def stored(lab: Lab, lake: Lake, settings: dict[str, Any]) -> Lab:
    """The project keeps its data in the bucket, and has a catalog of its own."""
    lab.settings |= lake.settings(lab.root) | settings
    lab.table("ods.t", STEP)
    return lab


@pytest.fixture(params=CATALOGS)
def shop(request: Any, lab: Lab, lake: Lake, catalog_of: CatalogOf) -> Lab:
    return stored(lab, lake, catalog_of(request.param))


@pytest.fixture
def rest_shop(lab: Lab, lake: Lake, catalog_of: CatalogOf) -> Lab:
    return stored(lab, lake, catalog_of("rest"))


@pytest.fixture
def rest(rest_shop: Lab, request: pytest.FixtureRequest) -> Server:
    """The server of the project's REST catalog."""
    return request.node.rest  # type: ignore[attr-defined,no-any-return]


@pytest.mark.sampled
def test_windows_add_up_and_repeating_one_leaves_the_same_rows(shop: Lab):
    for window in (day(1), day(2), day(1)):
        assert shop.run("ods.t", window).counts.target == 2
    assert shop.rows("ods.t") == [(1, 1), (1, 2), (2, 1), (2, 2)]
    assert shop.rows("ods.t", day(2)) == [(2, 1), (2, 2)]


@pytest.mark.sampled
def test_a_stale_commit_is_refused_and_not_tried_again(shop: Lab):
    shop.run("ods.t", day(1))
    catalog = open_catalog(shop.project)
    first, stale = (load_existing(catalog, ("ods", "t")) for _ in range(2))
    assert first is not None
    assert stale is not None
    assert commit_files(first, [], [], {})
    assert not commit_files(stale, [], [], {})
    assert len(open_catalog(shop.project).load_table("ods.t").metadata.snapshots) == 2


@pytest.mark.sampled
def test_a_snapshot_that_another_process_removed_is_no_error(shop: Lab):
    for window in (day(1), day(2), day(3)):
        shop.run("ods.t", window)
    catalog = open_catalog(shop.project)
    first, stale = (load_existing(catalog, ("ods", "t")) for _ in range(2))
    assert first is not None
    assert stale is not None
    oldest = first.metadata.snapshots[0].snapshot_id
    assert remove_snapshots(first, [oldest])
    assert not remove_snapshots(stale, [oldest])


@pytest.mark.sampled
def test_the_limit_of_metadata_files_is_set_where_pyiceberg_writes_them(
    shop: Lab, request: pytest.FixtureRequest
):
    by_a_server = request.node.callspec.params["shop"] == "rest"
    assert limits_metadata_files(shop) is not by_a_server


def test_a_custom_catalog_class_gets_no_limit_of_metadata_files(
    rest_shop: Lab,
):
    block = rest_shop.settings["catalog"]
    del block["type"]
    block["py-catalog-impl"] = "pyiceberg.catalog.rest.RestCatalog"
    assert not limits_metadata_files(rest_shop)


def limits_metadata_files(shop: Lab) -> bool:
    shop.run("ods.t", day(1))
    properties = open_catalog(shop.project).load_table("ods.t").properties
    assert properties["created-by"] == "logdriven_dagster"
    told = "write.metadata.previous-versions-max", "write.metadata.delete-after-commit.enabled"
    (said,) = {name in properties for name in told}
    return said


@pytest.mark.sampled
@pytest.mark.parametrize("kind", KINDS)
def test_a_commit_whose_answer_got_lost_is_neither_done_twice_nor_lost(
    rest_shop: Lab, rest: Server, kind: str
):
    rest_shop.run("ods.t", day(1))
    rest.faults.plan(Fault(kind, "CommitTable"))
    ran = rest_shop.run("ods.t", day(2))
    assert rest.faults.met.total() == 1
    assert rest_shop.rows("ods.t") == [(1, 1), (1, 2), (2, 1), (2, 2)]
    table = open_catalog(rest_shop.project).load_table("ods.t")
    newest = table.current_snapshot()
    assert newest is not None
    assert ran.published[0].snapshot_id == str(newest.snapshot_id)
    assert len(table.metadata.snapshots) == 2


@pytest.mark.sampled
@pytest.mark.parametrize("column", [None, "at"])
def test_the_requests_of_a_window_are_few_and_as_many_after_many_windows(
    rest_shop: Lab, rest: Server, lake: Lake, column: str | None
):
    query = QUERY.replace("SELECT", "SELECT CAST(:data_range_start AS TIMESTAMP) AS at,")
    target = STEP["target"] if column is None else {"type": "iceberg", "window_column": column}
    rest_shop.table("ods.t", {"sql": query, "target": target})
    rest_shop.run("ods.t", day(1))
    early, late = requests(rest_shop, rest, lake, 2), Counter[str]()
    for n in range(3, 12):
        late = requests(rest_shop, rest, lake, n)
    assert late == early
    assert late.total() <= 15, late


def requests(shop: Lab, rest: Server, lake: Lake, n: int) -> Counter[str]:
    """What one window asks of the store and of the catalog; Spark asks by other ways here."""
    lake.faults.forget()
    rest.faults.forget()
    shop.run("ods.t", day(n))
    return lake.faults.requests + rest.faults.requests


def test_no_secret_is_a_property_of_a_table(rest_shop: Lab, tmp_path: Path):
    rest_shop.run("ods.t", day(1))
    written = [path for path in tmp_path.rglob("*.metadata.json") if path.is_file()]
    assert written
    assert not any(s3.SECRET in path.read_text() for path in written)
