"""The flights demo on a lake: S3, a REST catalog of Iceberg, and PostgreSQL for the run log.

`python -m scripts.lake.demo --folder .demo-lake --local .demo` starts the servers, runs the demo,
of which nothing but `logdriven.yaml` is another one, and has PyIceberg in a process of its own
compare every table with that of the finished local demo.
"""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from logdriven_dagster.examples import demo
from scripts import servers
from scripts.lake import rest_catalog, s3
from scripts.lake.blocks import with_secrets_outside

BUCKET = "lake"


def main() -> int:
    parser = argparse.ArgumentParser(prog="demo-lake", description="The flights demo on a lake")
    parser.add_argument("--folder", type=Path, default=Path(".demo-lake"))
    parser.add_argument("--local", type=Path, default=Path(".demo"))
    options = parser.parse_args()
    return demonstrate(options.folder.resolve(), options.local.resolve())


def demonstrate(folder: Path, local: Path) -> int:
    """Run the demo on servers of its own, whose data go with the folder; 0 if all is the same."""
    shutil.rmtree(folder, ignore_errors=True)
    bucket = folder / "bucket"
    root = Path("/var/tmp") / f"logdriven-demo-{os.getpid()}"  # noqa: S108 - nobody else's
    try:
        run_log = servers.start_postgres(root)
        with s3.start({BUCKET: bucket}) as store:
            storage = s3.properties(store.url)
            database = f"sqlite:///{folder}/catalog.db"
            warehouse = f"s3://{BUCKET}/tables"
            with rest_catalog.start(database, warehouse, storage) as catalog:
                block = {
                    "run_log": run_log,
                    "warehouse": f"s3://{BUCKET}/nycflights",
                    "storage": with_secrets_outside(storage),
                    "catalog": with_secrets_outside(rest_catalog.properties(catalog.url)),
                }
                demo.announce(
                    f"PostgreSQL, an S3 server ({store.url}, over {bucket}) and an Iceberg REST "
                    f"catalog ({catalog.url}) are there. The demo runs on them now; only its "
                    "logdriven.yaml is another one."
                )
                example = configured(folder / "example", block, s3.spark_settings(BUCKET, bucket))
                failed = demo.demonstrate(folder / "nycflights", example)
                demo.announce(f"Requests of S3: {dict(store.faults.requests.most_common())}")
                demo.announce(
                    f"Requests of the catalog: {dict(catalog.faults.requests.most_common())}"
                )
                return failed or compared(local, catalog.url, store.url)
    finally:
        servers.stop(root)


def configured(folder: Path, block: dict[str, Any], spark: dict[str, str]) -> Path:
    """The example with another `logdriven.yaml`."""
    shutil.copytree(demo.EXAMPLE, folder, ignore=shutil.ignore_patterns("__*"))
    file = folder / "logdriven.yaml"
    settings = yaml.safe_load(file.read_text()) | block
    settings["spark"]["config"] |= spark
    file.write_text(yaml.safe_dump(settings, sort_keys=False))
    return folder


def compared(local: Path, catalog: str, store: str) -> int:
    """0 if another process finds the rows of the local demo in every table."""
    demo.announce(
        "PyIceberg, without Spark and in a process of its own, reads all tables of the catalog "
        f"and their files on S3, and compares them with those of the local demo in {local}."
    )
    command = [sys.executable, "-m", "scripts.lake.comparison", str(local), catalog, store]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
