"""Operations of S3 on one bucket: what a request asks, and the XML that answers it."""

import base64
import os
import re
import zlib
from collections.abc import Callable
from datetime import datetime, timezone
from email.utils import formatdate
from itertools import islice
from urllib.parse import quote, unquote
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

from scripts.lake.bucket import Bucket, Entry, S3Error, etag
from scripts.lake.serving import Answer, Request

_RANGE = re.compile(r"bytes=(\d*)-(\d*)$")


def xml(root: str, inner: str, status: int = 200) -> Answer:
    text = f'<?xml version="1.0" encoding="UTF-8"?>\n<{root}>{inner}</{root}>'
    return Answer(status, text.encode(), {"Content-Type": "application/xml"})


def failed(error: S3Error) -> Answer:
    said = {"Code": error.code, "Message": str(error), **error.details}
    inner = "".join(f"<{name}>{escape(text)}</{name}>" for name, text in said.items())
    return xml("Error", inner, error.status)


def source(request: Request) -> str:
    """`bucket/key` of what is copied, or nothing."""
    return unquote(request.headers.get("x-amz-copy-source") or "").lstrip("/")


def get(bucket: Bucket, key: str, request: Request) -> Answer:
    """The object, or a range of it; a HEAD request gets the headers alone."""
    path = bucket.file(key)
    if path.is_dir():
        return Answer(headers={"ETag": etag(path.stat())})
    try:
        file = path.open("rb")
    except FileNotFoundError as error:
        raise S3Error("NoSuchKey", 404, key) from error
    stat = os.fstat(file.fileno())
    headers = {
        "ETag": etag(stat),
        "Last-Modified": formatdate(stat.st_mtime, usegmt=True),
        "Accept-Ranges": "bytes",
        "Content-Type": "binary/octet-stream",
    }
    match, none_match = _conditions(request)
    if match not in {None, "*", headers["ETag"]} or none_match == headers["ETag"]:
        file.close()
        return failed(S3Error("PreconditionFailed", 412)) if match else Answer(304)
    first, end, status = 0, stat.st_size, 200
    if wanted := _RANGE.match(request.headers.get("Range") or ""):
        first, end, status = _bounds(wanted, stat.st_size)
        headers["Content-Range"] = f"bytes {first}-{end - 1}/{stat.st_size}"
    file.seek(first)
    return Answer(status, headers=headers, file=file, length=end - first)


def _bounds(wanted: "re.Match[str]", size: int) -> tuple[int, int, int]:
    first, last = wanted.groups()
    if not first:
        return max(size - int(last), 0), size, 206
    if int(first) >= size:
        raise S3Error("InvalidRange", 416, "The requested range is not satisfiable")
    return int(first), min(int(last) + 1, size) if last else size, 206


def put(bucket: Bucket, key: str, request: Request) -> Answer:
    tag = bucket.put(key, _content(request), *_conditions(request))
    return Answer(headers={"ETag": tag})


def copied(tag: str) -> Answer:
    return xml("CopyObjectResult", f"<ETag>{escape(tag)}</ETag>")


def delete(bucket: Bucket, key: str, request: Request) -> Answer:
    bucket.delete(key, _conditions(request)[0])
    return Answer(204)


def delete_several(bucket: Bucket, _: str, request: Request) -> Answer:
    keys = _texts(request, "Key")
    for key in keys:
        bucket.delete(key)
    deleted = "".join(f"<Deleted><Key>{escape(key)}</Key></Deleted>" for key in keys)
    return xml("DeleteResult", deleted)


def list_keys(bucket: Bucket, _: str, request: Request) -> Answer:
    """One page of the keys below a prefix."""
    asked = request.query
    token = asked.get("continuation-token")
    after = base64.b64decode(token).decode() if token else asked.get("start-after", "")
    most = min(int(asked.get("max-keys", 1000)), 1000)
    encode = quote if asked.get("encoding-type") == "url" else escape
    prefix, delimiter = asked.get("prefix", ""), asked.get("delimiter", "")
    found = list(islice(bucket.entries(prefix, delimiter, after), most + 1))
    page = found[:most]
    inner = f"<Prefix>{encode(prefix)}</Prefix><KeyCount>{len(page)}</KeyCount>"
    inner += f"<MaxKeys>{most}</MaxKeys><IsTruncated>{str(len(found) > most).lower()}</IsTruncated>"
    if len(found) > most and page:
        following = base64.b64encode(page[-1].key.encode()).decode()
        inner += f"<NextContinuationToken>{following}</NextContinuationToken>"
    inner += "<EncodingType>url</EncodingType>" if encode is quote else ""
    return xml("ListBucketResult", inner + "".join(_listed(entry, encode) for entry in page))


def _listed(entry: Entry, encode: Callable[[str], str]) -> str:
    if entry.stat is None:
        return f"<CommonPrefixes><Prefix>{encode(entry.key)}</Prefix></CommonPrefixes>"
    made = datetime.fromtimestamp(entry.stat.st_mtime, timezone.utc)
    size = 0 if entry.key.endswith("/") else entry.stat.st_size
    return (
        f"<Contents><Key>{encode(entry.key)}</Key><Size>{size}</Size>"
        f"<LastModified>{made:%Y-%m-%dT%H:%M:%S}.{made.microsecond // 1000:03}Z</LastModified>"
        f"<ETag>{escape(etag(entry.stat))}</ETag><StorageClass>STANDARD</StorageClass></Contents>"
    )


def start_upload(bucket: Bucket, key: str, _: Request) -> Answer:
    inner = f"<Key>{escape(key)}</Key><UploadId>{bucket.start_upload()}</UploadId>"
    return xml("InitiateMultipartUploadResult", inner)


def put_part(bucket: Bucket, _: str, request: Request) -> Answer:
    asked = request.query
    tag = bucket.put_part(asked["uploadId"], int(asked["partNumber"]), _content(request))
    return Answer(headers={"ETag": tag})


def complete(bucket: Bucket, key: str, request: Request) -> Answer:
    numbers = [int(number) for number in _texts(request, "PartNumber")]
    upload = request.query["uploadId"]
    tag = bucket.complete(upload, numbers, key, *_conditions(request))
    inner = f"<Key>{escape(key)}</Key><ETag>{escape(tag)}</ETag>"
    return xml("CompleteMultipartUploadResult", inner)


def abort(bucket: Bucket, _: str, request: Request) -> Answer:
    bucket.abort(request.query["uploadId"])
    return Answer(204)


def _conditions(request: Request) -> tuple[str | None, str | None]:
    return request.headers.get("If-Match"), request.headers.get("If-None-Match")


def _texts(request: Request, name: str) -> list[str]:
    """The texts of the elements of a name, in whatever name space they are."""
    root = ET.fromstring(_content(request))  # noqa: S314 - it comes from our own tests
    return [each.text or "" for each in root.iter() if each.tag.rpartition("}")[2] == name]


def _content(request: Request) -> bytes:
    """The body of a request, out of its chunks if it came as `aws-chunked`."""
    content, trailer = request.body, b""
    if (request.headers.get("x-amz-content-sha256") or "").startswith("STREAMING-"):
        content, trailer = _unchunked(request.body)
    said = request.headers.get("x-amz-checksum-crc32") or _trailing(trailer)
    if said and base64.b64decode(said) != zlib.crc32(content).to_bytes(4, "big"):
        raise S3Error("BadDigest", 400, "The checksum is not that of the content")
    return content


def _unchunked(body: bytes) -> tuple[bytes, bytes]:
    parts, rest = [], body
    while True:
        head, _, rest = rest.partition(b"\r\n")
        size = int(head.partition(b";")[0], 16)
        if size == 0:
            return b"".join(parts), rest
        parts.append(rest[:size])
        rest = rest[size + 2 :]


def _trailing(trailer: bytes) -> str:
    found = re.search(rb"x-amz-checksum-crc32:(\S+)", trailer)
    return found[1].decode() if found else ""
