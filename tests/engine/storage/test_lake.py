"""The lake of the tests: Spark and clients of S3 see one bucket, by the same names."""

from pathlib import Path
from typing import Any

import pytest
import s3fs

from tests.lake import Lake

ROWS = "SELECT id, id % 3 AS g FROM range(100)"


@pytest.fixture
def client(lake: Lake) -> s3fs.S3FileSystem:
    given = lake.storage
    return s3fs.S3FileSystem(
        key=given["s3.access-key-id"],
        secret=given["s3.secret-access-key"],
        endpoint_url=given["s3.endpoint"],
        use_listings_cache=False,
    )


@pytest.mark.sampled
@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_what_spark_writes_is_in_the_bucket(
    spark: Any, lake: Lake, client: s3fs.S3FileSystem, tmp_path: Path, scheme: str
):
    url = lake.url(tmp_path / "t").replace("s3:", f"{scheme}:")
    spark.sql(ROWS).write.partitionBy("g").parquet(url)
    folders = {key.rpartition("/")[0] for key in client.glob(f"{url}/*/*.parquet")}
    assert {folder.rpartition("/")[2] for folder in folders} == {"g=0", "g=1", "g=2"}
    read = spark.read.parquet(url)
    assert read.count() == 100
    assert all(name.startswith(f"{url}/g=") for name in read.inputFiles())


def test_what_is_put_into_the_bucket_is_read_by_spark(
    spark: Any, lake: Lake, client: s3fs.S3FileSystem, tmp_path: Path
):
    url = lake.url(tmp_path / "in")
    client.pipe_file(f"{url}/x.csv", b"a,b\n1,2\n")
    assert [tuple(row) for row in spark.read.csv(url, header=True).collect()] == [("1", "2")]
    client.rm_file(f"{url}/x.csv")
    assert not (tmp_path / "in").exists()


def test_spark_replaces_what_is_there(
    spark: Any, lake: Lake, client: s3fs.S3FileSystem, tmp_path: Path
):
    url = lake.url(tmp_path / "t")
    for _ in range(2):
        spark.sql(ROWS).coalesce(1).write.mode("overwrite").parquet(url)
    assert len(client.glob(f"{url}/*.parquet")) == 1
    assert client.exists(f"{url}/_SUCCESS")
