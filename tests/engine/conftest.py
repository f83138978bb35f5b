"""A project folder for each test of the engine, on the session of the process."""

from pathlib import Path
from typing import Any

import pytest

from tests.engine.laboratory import Lab
from tests.lake import CATALOG, STORAGE, CatalogOf, Lake
from tests.spark_session import CONNECTIONS

OF_A_DISK = {
    "test_what_a_log_names_by_its_path_is_taken_over_too": "logs that hold paths are of disks",
}
"""Tests that no bucket can have → why; `make test-lake` leaves them out."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    left_out = OF_A_DISK if STORAGE == "s3" else {}
    for item in items:
        if reason := left_out.get(item.name.partition("[")[0]):
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture
def lab(spark: Any, tmp_path: Path, lake: Lake, catalog_of: CatalogOf) -> Lab:
    stored = lake.settings(tmp_path) if STORAGE == "s3" else {}
    if (STORAGE, CATALOG) != ("local", "sql"):
        stored |= catalog_of(CATALOG)
    return Lab(tmp_path, spark, {"connections": {"lite": CONNECTIONS["lite"]}, **stored})
