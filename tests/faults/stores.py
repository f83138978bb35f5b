"""An S3 server and a REST catalog that fail now and then, for the projects of fault runs."""

import json
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from scripts.lake import rest_catalog, s3
from scripts.lake.faults import Fault
from scripts.lake.serving import Server

BUCKET = "lake"
_SECRETS = {"FAULTS_S3_SECRET": s3.SECRET, "FAULTS_CREDENTIAL": rest_catalog.CREDENTIAL}


@dataclass(frozen=True)
class Stores:
    """Servers that runners share, in this process, which nobody hurts."""

    folder: Path
    objects: Server
    catalog: Server

    def settings(self, project: str) -> str:
        """What the project file says of them, as one line of YAML for each field."""
        given = {
            "warehouse": f"s3://{BUCKET}/{project}",
            "storage": s3.properties(self.objects.url)
            | {"s3.secret-access-key": "${env:FAULTS_S3_SECRET}"},
            "catalog": rest_catalog.properties(self.catalog.url)
            | {"credential": "${env:FAULTS_CREDENTIAL}"},
        }
        return "\n".join(f"{field}: {json.dumps(value)}" for field, value in given.items())

    @property
    def spark(self) -> dict[str, str]:
        """Settings by which Spark, which has no client of S3 here, sees the bucket."""
        return s3.spark_settings(BUCKET, self.folder)

    def trouble(self) -> None:
        """Let requests fail before and after the work, and answers get lost, from here on."""
        self.objects.faults.plan(
            Fault("503", times=None, share=0.02),
            Fault("late-500", "Put*", times=None, share=0.03),
            Fault("lost", "Put*", times=None, share=0.03),
            Fault("dropped", "Get*", times=None, share=0.01),
            Fault("hang", times=None, share=0.005, seconds=3),
        )
        self.catalog.faults.plan(
            Fault("lost", "CommitTable", times=None, share=0.1),
            Fault("late-500", "CommitTable", times=None, share=0.1),
            Fault("503", times=None, share=0.05),
            Fault("hang", times=None, share=0.02, seconds=3),
        )

    def calm(self) -> Counter[str]:
        """Let nothing fail any more; what went wrong since the last time."""
        met: Counter[str] = Counter()
        for name, server in (("S3", self.objects), ("catalog", self.catalog)):
            server.faults.plan()
            for what, number in server.faults.met.items():
                met[f"{name}: {what.partition(' ')[2]}"] += number
            server.faults.forget()
        return met


@contextmanager
def failing_stores(folder: Path) -> Iterator[Stores]:
    """The servers, over a bucket in the folder, until the end of the block."""
    os.environ.update(_SECRETS)
    bucket = folder / "bucket"
    bucket.mkdir(parents=True)
    with s3.start({BUCKET: bucket}) as objects:
        reached = s3.properties(objects.url)
        uri = f"sqlite:///{folder / 'catalog.db'}"
        # The catalog's own way to the bucket does not fail: its server is not what is tested.
        with (
            s3.start({BUCKET: bucket}) as own,
            rest_catalog.start(
                uri, f"s3://{BUCKET}/tables", reached | {"s3.endpoint": own.url}
            ) as catalog,
        ):
            yield Stores(bucket, objects, catalog)
