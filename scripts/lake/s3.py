"""An S3 server over folders, with conditional writes.

`python -m scripts.lake.s3 lake=/some/folder --port 9000` serves the bucket `lake`. A bucket is a
folder and its keys are files, also those that a JVM writes there at the same time. It answers what
s3fs, PyArrow, boto3 and their like ask by path-style addresses; ACLs, versions and tags are unknown
to it. `scripts/lake/serving.py` says how it is told to fail.
"""

import argparse
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from scripts.lake import objects, signatures
from scripts.lake.bucket import Bucket, S3Error
from scripts.lake.objects import xml
from scripts.lake.serving import Answer, Request, Server, serve, serving

ACCESS_KEY, SECRET = "lake-access-key", "lake-secret-access-key"
REGION = "eu-central-1"

_OF_BUCKETS = {
    ("GET", "location"): "GetBucketLocation",
    ("GET", None): "ListObjectsV2",
    ("HEAD", None): "HeadBucket",
    ("POST", "delete"): "DeleteObjects",
}
_OF_OBJECTS = {
    ("GET", None): "GetObject",
    ("HEAD", None): "HeadObject",
    ("PUT", "uploadId"): "UploadPart",
    ("PUT", None): "PutObject",
    ("DELETE", "uploadId"): "AbortMultipartUpload",
    ("DELETE", None): "DeleteObject",
    ("POST", "uploads"): "CreateMultipartUpload",
    ("POST", "uploadId"): "CompleteMultipartUpload",
}
_OPERATIONS: dict[str, Callable[[Bucket, str, Request], Answer]] = {
    "GetBucketLocation": lambda *_: xml("LocationConstraint", REGION),
    "ListObjectsV2": objects.list_keys,
    "HeadBucket": lambda *_: Answer(headers={"x-amz-bucket-region": REGION}),
    "DeleteObjects": objects.delete_several,
    "GetObject": objects.get,
    "HeadObject": objects.get,
    "PutObject": objects.put,
    "DeleteObject": objects.delete,
    "CreateMultipartUpload": objects.start_upload,
    "UploadPart": objects.put_part,
    "CompleteMultipartUpload": objects.complete,
    "AbortMultipartUpload": objects.abort,
}


class S3:
    """Buckets that are folders, for whoever signs with one of the keys."""

    def __init__(
        self, buckets: Mapping[str, Path], secrets: Mapping[str, str] | None = None
    ) -> None:
        self.buckets = {name: Bucket(folder) for name, folder in buckets.items()}
        self.secrets = dict(secrets or {ACCESS_KEY: SECRET})

    def operation(self, request: Request) -> str:
        """The name of what is asked, in the words of S3."""
        bucket, _, key = request.path.lstrip("/").partition("/")
        if not bucket:
            return "ListBuckets"
        known = _OF_OBJECTS if key else _OF_BUCKETS
        asked = next((name for _, name in known if name in request.query), None)
        name = known.get((request.method, asked), f"{request.method} {request.raw_query}")
        return "CopyObject" if name == "PutObject" and objects.source(request) else name

    def answer(self, operation: str, request: Request) -> Answer:
        try:
            return self._answer(operation, request)
        except S3Error as error:
            return objects.failed(error)

    def _answer(self, operation: str, request: Request) -> Answer:
        if refused := signatures.refusal(request, self.secrets):
            raise S3Error(refused, 403)
        if operation == "ListBuckets":
            names = "".join(f"<Bucket><Name>{name}</Name></Bucket>" for name in self.buckets)
            return xml("ListAllMyBucketsResult", f"<Buckets>{names}</Buckets>")
        name, _, key = request.path.lstrip("/").partition("/")
        bucket = self._bucket(name)
        if operation == "CopyObject":
            name, _, source = objects.source(request).partition("/")
            return objects.copied(bucket.copy(key, self._bucket(name).file(source)))
        if operation not in _OPERATIONS:
            raise S3Error("NotImplemented", 501, f"This server does not know {operation}")
        return _OPERATIONS[operation](bucket, key, request)

    def failure(self, status: int) -> Answer:
        """What a fault answers."""
        code = "SlowDown" if status == 503 else "InternalError"
        return objects.failed(S3Error(code, status, "Please try again"))

    def _bucket(self, name: str) -> Bucket:
        if name not in self.buckets:
            raise S3Error("NoSuchBucket", 404, f"The specified bucket does not exist: {name}")
        return self.buckets[name]


def start(buckets: Mapping[str, Path], port: int = 0) -> AbstractContextManager[Server]:
    """Serve buckets in a thread of this process while the context is open."""
    return serving(S3(buckets), port=port)


def properties(endpoint: str) -> dict[str, str]:
    """The `storage:` block of a project that uses the server."""
    return {
        "s3.endpoint": endpoint,
        "s3.region": REGION,
        "s3.access-key-id": ACCESS_KEY,
        "s3.secret-access-key": SECRET,
    }


def spark_settings(bucket: str, folder: Path) -> dict[str, str]:
    """Settings by which a JVM that sees the folder, but has no client of S3, uses the bucket."""
    overloaded = "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme"
    return {
        "spark.hadoop.fs.s3.impl": overloaded,
        "spark.hadoop.fs.s3a.impl": overloaded,
        f"spark.hadoop.fs.viewfs.mounttable.{bucket}.linkFallback": folder.as_uri(),
        # As in a store: no checksums beside the files, which other writers would not renew.
        "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="An S3 server over folders")
    parser.add_argument("buckets", nargs="+", metavar="BUCKET=FOLDER")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=9000)
    options = parser.parse_args()
    named = dict(each.split("=", 1) for each in options.buckets)
    service = S3({name: Path(folder).resolve() for name, folder in named.items()})
    serve(service, options.host, options.port)


if __name__ == "__main__":
    main()
