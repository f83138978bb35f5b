"""A lake for tests: an S3 server over pytest's own folder, which Spark sees by the same names.

A project in `tmp_path` may have `s3://lake/…` as its warehouse: its files lie where they lie with
the same project on local storage. `LOGDRIVEN_TEST_STORAGE=s3` has the tests of the engine do so.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from scripts.lake import s3
from scripts.lake.faults import Faults
from scripts.lake.serving import Server

STORAGE = os.environ.get("LOGDRIVEN_TEST_STORAGE", "local")
"""`s3` has every project of the engine's tests keep its warehouse in a bucket."""

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
        warehouse = project / ".logdriven" / "warehouse"
        secret = "${env:LAKE_SECRET}"
        return {
            "warehouse": self.url(warehouse),
            "storage": self.storage | {"s3.secret-access-key": secret},
        }


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """The folder of all tests of this process as a bucket."""
    os.environ["LAKE_SECRET"] = s3.SECRET
    folder = tmp_path_factory.getbasetemp()
    with s3.start({BUCKET: folder}) as server:
        yield Lake(folder, server)
