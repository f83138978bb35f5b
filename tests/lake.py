"""A lake for tests: an S3 server over pytest's own folder, which Spark sees by the same names.

A project in `tmp_path` may have `s3://lake/…` as its warehouse: its files lie where they lie with
the same project on local storage. `LOGDRIVEN_TEST_STORAGE=s3` has the tests of the engine do so,
and `LOGDRIVEN_TEST_CATALOG=rest`, `glue` or `hive` has them use such a catalog of Iceberg.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from scripts.lake import glue, hive, rest_catalog, s3
from scripts.lake.blocks import with_secrets_outside
from scripts.lake.faults import Faults
from scripts.lake.serving import Server

STORAGE = os.environ.get("LOGDRIVEN_TEST_STORAGE", "local")
"""`s3` has every project of the engine's tests keep its warehouse in a bucket."""

CATALOG = os.environ.get("LOGDRIVEN_TEST_CATALOG", "sql")
"""The type of the Iceberg catalog that every project of the engine's tests has."""

CATALOGS = ["sql", "rest", "glue", *(["hive"] if CATALOG == "hive" else [])]
"""The types that tests of catalogs try; a metastore starts in 20 s: `make test-lake`."""

BUCKET = "lake"


@dataclass(frozen=True)
class Lake:
    """A bucket that is a folder, and how to reach it."""

    folder: Path
    server: Server

    @property
    def faults(self) -> Faults:
        """What goes wrong, and the requests by operation."""
        return self.server.faults

    @property
    def storage(self) -> dict[str, str]:
        """The `storage:` block of a project."""
        return s3.properties(self.server.url)

    @property
    def spark(self) -> dict[str, str]:
        """Settings by which Spark uses the bucket; the tests' local files stay as they are."""
        settings = s3.spark_settings(BUCKET, self.folder)
        if STORAGE == "local":
            del settings["spark.hadoop.fs.file.impl"]
        return settings

    def url(self, path: Path) -> str:
        """Where a path below the folder lies in the bucket."""
        return f"s3://{BUCKET}/{path.relative_to(self.folder).as_posix()}"

    def settings(self, project: Path) -> dict[str, Any]:
        """What a project there says of its storage: its files lie as they would without."""
        warehouse = self.url(project / ".logdriven" / "warehouse")
        return {"warehouse": warehouse, "storage": with_secrets_outside(self.storage)}


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """The folder of all tests of this process as a bucket."""
    folder = tmp_path_factory.getbasetemp()
    with s3.start({BUCKET: folder}) as server:
        yield Lake(folder, server)


CatalogOf = Callable[[str], dict[str, Any]]
"""The type of a catalog → the settings of a project whose catalog is empty and of that type."""


@pytest.fixture
def catalog_of(lake: Lake, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[CatalogOf]:
    """Catalogs of all types, empty, whose tables lie where the project's storage says."""
    with ExitStack() as opened:

        def settings(kind: str) -> dict[str, Any]:
            if kind == "sql":
                return {"catalog": f"sqlite:///{tmp_path}/catalog.db"}
            if kind == "rest":
                database = f"sqlite:///{tmp_path}/rest{next(_NUMBERS)}.db"
                # Its own way to the bucket: the requests of the project are counted alone.
                own = s3.properties(opened.enter_context(s3.start({BUCKET: lake.folder})).url)
                started = rest_catalog.start(database, lake.url(tmp_path), own)
                request.node.rest = opened.enter_context(started)
                return {
                    "catalog": with_secrets_outside(rest_catalog.properties(request.node.rest.url))
                }
            return {"catalog": with_secrets_outside(request.getfixturevalue(f"{kind}_catalog"))}

        yield settings


_NUMBERS = count()


@pytest.fixture(scope="session")
def glue_url() -> Iterator[str]:
    with glue.glue() as url:
        yield url


@pytest.fixture
def glue_catalog(glue_url: str) -> dict[str, str]:
    """An empty Glue."""
    urlopen(Request(f"{glue_url}/moto-api/reset", method="POST")).close()
    return glue.properties(glue_url)


@pytest.fixture(scope="session")
def metastore(lake: Lake, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URI of a Hive metastore that sees the bucket as Spark does."""
    with hive.metastore(tmp_path_factory.mktemp("metastore"), lake.spark) as uri:
        yield uri


@pytest.fixture
def hive_catalog(metastore: str) -> Iterator[dict[str, str]]:
    """A Hive metastore that is empty again afterwards."""
    from pyiceberg.catalog import load_catalog

    yield hive.properties(metastore)
    catalog = load_catalog("hive", **hive.properties(metastore))
    for (namespace,) in catalog.list_namespaces():
        for table in catalog.list_tables(namespace):
            catalog.drop_table(table)
        if namespace != "default":
            catalog.drop_namespace(namespace)
