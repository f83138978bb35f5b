"""The tests' S3 server keeps its promises to the clients that people use."""

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.request import Request, urlopen

import boto3
import pyarrow.fs
import pytest
import s3fs
from botocore.config import Config
from botocore.exceptions import ClientError, HTTPClientError, ReadTimeoutError

from scripts.lake import s3
from scripts.lake.faults import Fault


@pytest.fixture
def bucket(tmp_path) -> Path:
    return tmp_path / "bucket"


@pytest.fixture
def server(bucket):
    with s3.start({"lake": bucket}) as started:
        yield started


def boto(server, key=s3.ACCESS_KEY, secret=s3.SECRET, **options):
    once = Config(retries={"max_attempts": 0}, **options)
    return boto3.client(
        "s3",
        endpoint_url=server.url,
        region_name=s3.REGION,
        aws_access_key_id=key,
        aws_secret_access_key=secret,
        config=once,
    )


@pytest.fixture
def client(server):
    return boto(server)


@pytest.fixture
def fsspec_s3(server):
    return s3fs.S3FileSystem(
        key=s3.ACCESS_KEY,
        secret=s3.SECRET,
        endpoint_url=server.url,
        skip_instance_cache=True,
        use_listings_cache=False,
    )


@pytest.fixture
def arrow(server):
    return pyarrow.fs.S3FileSystem(
        access_key=s3.ACCESS_KEY,
        secret_key=s3.SECRET,
        endpoint_override=server.url,
        region=s3.REGION,
    )


def code(raised) -> str:
    return raised.value.response["Error"]["Code"]


def put(client, key, body=b"x", **options):
    return client.put_object(Bucket="lake", Key=key, Body=body, **options)


def content(client, key, **options) -> bytes:
    return client.get_object(Bucket="lake", Key=key, **options)["Body"].read()


def listed(client, **options) -> list[str]:
    pages = client.get_paginator("list_objects_v2").paginate(Bucket="lake", **options)
    return [
        each.get("Key") or each["Prefix"]
        for page in pages
        for each in [*page.get("Contents", ()), *page.get("CommonPrefixes", ())]
    ]


def test_keys_are_files_and_files_are_keys(client, bucket):
    put(client, "a/b c=1/ü.txt", b"content")
    (bucket / "a/other").write_text("of a JVM")

    assert (bucket / "a/b c=1/ü.txt").read_bytes() == b"content"
    assert content(client, "a/other") == b"of a JVM"
    assert listed(client) == ["a/b c=1/ü.txt", "a/other"]


def test_a_range_is_answered_alone(client):
    put(client, "k", b"0123456789")
    assert content(client, "k", Range="bytes=2-4") == b"234"
    assert content(client, "k", Range="bytes=-3") == b"789"
    assert content(client, "k", Range="bytes=8-") == b"89"
    with pytest.raises(ClientError) as raised:
        content(client, "k", Range="bytes=10-")
    assert code(raised) == "InvalidRange"


def test_a_key_that_is_there_is_not_put_if_it_must_not_be(client):
    put(client, "k", b"first", IfNoneMatch="*")
    with pytest.raises(ClientError) as raised:
        put(client, "k", b"second", IfNoneMatch="*")
    assert code(raised) == "PreconditionFailed"
    assert content(client, "k") == b"first"


def test_a_key_is_put_over_the_version_that_was_read_alone(client):
    tag = put(client, "k", b"first")["ETag"]
    assert client.head_object(Bucket="lake", Key="k")["ETag"] == tag
    put(client, "k", b"second", IfMatch=tag)
    with pytest.raises(ClientError) as raised:
        put(client, "k", b"third", IfMatch=tag)
    assert code(raised) == "PreconditionFailed"
    with pytest.raises(ClientError) as raised:
        put(client, "nowhere", IfMatch=tag)
    assert code(raised) == "NoSuchKey"
    assert content(client, "k") == b"second"


def test_the_same_content_again_is_another_version(client):
    tags = {put(client, "k", b"same")["ETag"] for _ in range(50)}
    assert len(tags) == 50


@pytest.mark.parametrize("condition", ["IfNoneMatch", "IfMatch"])
def test_one_of_many_writers_wins(client, condition):
    value = "*" if condition == "IfNoneMatch" else put(client, "k", b"before")["ETag"]
    together = threading.Barrier(16)

    def write(n: int) -> bytes | None:
        together.wait()
        try:
            put(client, "k", b"%d" % n, **{condition: value})
        except ClientError:
            return None
        return b"%d" % n

    with ThreadPoolExecutor(16) as pool:
        winners = [each for each in pool.map(write, range(16)) if each is not None]
    assert winners == [content(client, "k")]


def test_a_reader_never_sees_half_an_object(client):
    contents = {bytes([n]) * 300_000 for n in range(4)}
    put(client, "k", min(contents))
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            for each in contents:
                put(client, "k", each)

    writer = threading.Thread(target=write)
    writer.start()
    seen = {content(client, "k") for _ in range(50)}
    stop.set()
    writer.join()
    assert seen <= contents


def test_a_multipart_upload_is_there_when_it_is_completed_and_its_condition_holds(client):
    def upload(body: bytes) -> None:
        made = client.create_multipart_upload(Bucket="lake", Key="k")["UploadId"]
        where = {"Bucket": "lake", "Key": "k", "UploadId": made}
        parts = [
            {"PartNumber": n, "ETag": client.upload_part(PartNumber=n, Body=body, **where)["ETag"]}
            for n in (1, 2)
        ]
        assert listed(client) == present
        client.complete_multipart_upload(MultipartUpload={"Parts": parts}, IfNoneMatch="*", **where)

    present: list[str] = []
    upload(b"ab")
    present = ["k"]
    with pytest.raises(ClientError) as raised:
        upload(b"cd")
    assert code(raised) == "PreconditionFailed"
    assert content(client, "k") == b"abab"


def test_an_aborted_upload_is_gone(client):
    where = {"Bucket": "lake", "Key": "k"}
    where["UploadId"] = client.create_multipart_upload(**where)["UploadId"]
    client.abort_multipart_upload(**where)
    with pytest.raises(ClientError) as raised:
        client.upload_part(PartNumber=1, Body=b"x", **where)
    assert code(raised) == "NoSuchUpload"


def test_keys_are_listed_in_the_order_of_s3_by_pages(client):
    keys = ["a-b/x", "a.txt", "a/1", "a/2/3", "a0", "b/1", "ä"]
    for key in keys:
        put(client, key)
    assert listed(client, PaginationConfig={"PageSize": 2}) == keys
    assert listed(client, Prefix="a/") == ["a/1", "a/2/3"]
    assert listed(client, Prefix="a/", StartAfter="a/1") == ["a/2/3"]
    assert listed(client, Prefix="a/1/") == []


def test_a_delimiter_makes_common_prefixes(client):
    for key in ["a/1", "a/2/3", "a/2/4", "b", "c/d"]:
        put(client, key)
    assert sorted(listed(client, Delimiter="/")) == ["a/", "b", "c/"]
    assert sorted(listed(client, Delimiter="/", Prefix="a/")) == ["a/1", "a/2/"]
    by_one = {"PaginationConfig": {"PageSize": 1}}
    assert listed(client, Delimiter="/", **by_one) == ["a/", "b", "c/"]


def test_empty_folders_are_no_objects(client, bucket):
    (bucket / "a/b").mkdir(parents=True)
    assert listed(client) == listed(client, Delimiter="/") == []


def test_a_folder_goes_with_its_last_key(client, bucket):
    put(client, "a/b/c")
    put(client, "a/d")
    client.delete_object(Bucket="lake", Key="a/b/c")
    assert not (bucket / "a/b").exists()
    assert listed(client) == ["a/d"]


def test_deleting_what_is_not_there_is_no_error(client):
    client.delete_object(Bucket="lake", Key="a/b")
    gone = {"Objects": [{"Key": "x/y"}, {"Key": "z"}]}
    assert len(client.delete_objects(Bucket="lake", Delete=gone)["Deleted"]) == 2


def test_an_object_is_copied(client):
    put(client, "a b", b"content")
    client.copy_object(Bucket="lake", Key="c", CopySource={"Bucket": "lake", "Key": "a b"})
    assert content(client, "c") == b"content"


def test_an_error_has_the_code_of_s3(server, client):
    with pytest.raises(ClientError) as raised:
        content(client, "nowhere")
    assert code(raised) == "NoSuchKey"
    with pytest.raises(ClientError) as raised:
        client.list_objects_v2(Bucket="elsewhere")
    assert code(raised) == "NoSuchBucket"
    with pytest.raises(ClientError) as raised:
        put(boto(server, key="wrong"), "k")
    assert code(raised) == "InvalidAccessKeyId"
    with pytest.raises(ClientError) as raised:
        put(boto(server, secret="wrong"), "k")
    assert code(raised) == "SignatureDoesNotMatch"


def test_buckets_are_found(client):
    assert [each["Name"] for each in client.list_buckets()["Buckets"]] == ["lake"]
    assert client.head_bucket(Bucket="lake")["BucketRegion"] == s3.REGION
    assert client.get_bucket_location(Bucket="lake")["LocationConstraint"] == s3.REGION


def test_fsspec_creates_what_is_not_there_alone(fsspec_s3):
    fsspec_s3.pipe_file("lake/p/k", b"first", mode="create")
    with pytest.raises(FileExistsError):
        fsspec_s3.pipe_file("lake/p/k", b"second", mode="create")
    assert fsspec_s3.cat_file("lake/p/k") == b"first"


def test_fsspec_lists_finds_moves_and_removes(fsspec_s3):
    fsspec_s3.pipe({"lake/a/b/1": b"one", "lake/a/2": b"two"})
    assert fsspec_s3.find("lake/a") == ["lake/a/2", "lake/a/b/1"]
    assert sorted(fsspec_s3.ls("lake/a", detail=False)) == ["lake/a/2", "lake/a/b"]
    assert fsspec_s3.isdir("lake/a")
    fsspec_s3.mv("lake/a/2", "lake/c")
    assert fsspec_s3.cat_file("lake/c", start=1) == b"wo"
    fsspec_s3.rm("lake/a", recursive=True)
    assert not fsspec_s3.exists("lake/a")


def test_fsspec_writes_in_parts(fsspec_s3):
    with fsspec_s3.open("lake/big", "wb", block_size=5 << 20) as file:
        for n in range(12):
            file.write(bytes([n]) * (1 << 20))
    assert fsspec_s3.info("lake/big")["size"] == 12 << 20


def test_arrow_writes_reads_and_removes(arrow):
    with arrow.open_output_stream("lake/t/a=1/f") as stream:
        stream.write(b"x" * (11 << 20))
    assert arrow.get_file_info("lake/t/a=1/f").size == 11 << 20
    found = arrow.get_file_info(pyarrow.fs.FileSelector("lake/t", recursive=True))
    assert sorted(each.path for each in found) == ["lake/t/a=1", "lake/t/a=1/f"]
    with arrow.open_input_file("lake/t/a=1/f") as file:
        file.seek(5)
        assert file.read(3) == b"xxx"
    arrow.delete_file("lake/t/a=1/f")
    assert arrow.get_file_info("lake/t/a=1/f").type is pyarrow.fs.FileType.NotFound


def test_arrow_makes_and_removes_folders(arrow):
    arrow.create_dir("lake/a/b")
    assert arrow.get_file_info("lake/a/b").type is pyarrow.fs.FileType.Directory
    arrow.delete_dir("lake/a")
    assert arrow.get_file_info("lake/a").type is pyarrow.fs.FileType.NotFound


def test_requests_are_counted_by_operation(server, client):
    put(client, "k")
    put(client, "k")
    content(client, "k")
    with urlopen(f"{server.url}/_requests") as answer:
        assert json.load(answer) == {"PutObject": 2, "GetObject": 1}
    urlopen(Request(f"{server.url}/_requests", method="DELETE")).close()
    assert server.faults.requests == {}


@pytest.mark.parametrize(("kind", "name"), [("503", "SlowDown"), ("500", "InternalError")])
def test_a_server_that_fails_does_nothing(server, client, kind, name):
    server.faults.plan(Fault(kind, "PutObject"))
    with pytest.raises(ClientError) as raised:
        put(client, "k")
    assert code(raised) == name
    assert listed(client) == []
    put(client, "k")  # once, unless told otherwise


def test_a_lost_answer_is_that_of_something_done(server, client):
    server.faults.plan(Fault("lost", "PutObject", path="/lake/k"))
    put(client, "other")
    with pytest.raises(HTTPClientError):
        put(client, "k")
    assert listed(client) == ["k", "other"]


@pytest.mark.usefixtures("slow")
def test_a_server_can_be_made_to_hang_by_a_request(server):
    told = json.dumps([{"kind": "hang", "seconds": 5, "times": None}]).encode()
    urlopen(Request(f"{server.url}/_faults", told, method="PUT")).close()
    started = time.monotonic()
    with pytest.raises(ReadTimeoutError):
        put(boto(server, read_timeout=1), "k")
    assert time.monotonic() - started < 4


@pytest.mark.usefixtures("slow")
def test_faults_may_hit_a_share_of_the_requests(server, client):
    server.faults.plan(Fault("late-500", times=None, share=0.3))
    failures = 0
    for n in range(60):
        try:
            put(client, f"k{n:02}")
        except ClientError:
            failures += 1
    server.faults.plan()
    assert 5 < failures < 35
    assert server.faults.met == {"PutObject late-500": failures}
    assert len(listed(client)) == 60
