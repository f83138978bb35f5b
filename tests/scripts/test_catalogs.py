"""Glue and Hive's metastore, as the tests start them, are catalogs that refuse stale commits."""

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import CommitFailedException, TableAlreadyExistsError

from tests.lake import CATALOGS

ROWS = pa.table({"n": pa.array([1, 2], pa.int64())})


@pytest.fixture(params=[kind for kind in ("glue", "hive") if kind in CATALOGS])
def catalog(request, lake):
    block = request.getfixturevalue(f"{request.param}_catalog")
    catalog = load_catalog("any", **block, **lake.storage)
    catalog.create_namespace("ods")
    return catalog


@pytest.fixture
def table(catalog, lake, tmp_path):
    once = {"commit.retry.num-retries": "0"}
    place = lake.url(tmp_path / "t")
    return catalog.create_table("ods.t", ROWS.schema, location=place, properties=once)


@pytest.mark.usefixtures("slow")
def test_rows_are_committed_and_read(catalog, table):
    table.append(ROWS)
    assert catalog.load_table("ods.t").scan().to_arrow() == ROWS


@pytest.mark.usefixtures("slow")
def test_a_stale_commit_is_refused(catalog, table):
    stale = catalog.load_table("ods.t")
    table.append(ROWS)
    with pytest.raises(CommitFailedException):
        stale.append(ROWS)
    assert len(catalog.load_table("ods.t").scan().to_arrow()) == 2


@pytest.mark.usefixtures("slow")
def test_a_table_is_made_once(catalog, table):
    with pytest.raises(TableAlreadyExistsError):
        catalog.create_table("ods.t", ROWS.schema, location=table.location())
