"""Whether a request to S3 is signed by one of the keys that the server knows (Signature V4)."""

import hashlib
import hmac
import re
from collections.abc import Mapping
from urllib.parse import parse_qsl, quote

from scripts.lake.serving import Request

_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<key>[^/]+)/(?P<scope>[^,]+), ?"
    r"SignedHeaders=(?P<headers>[^,]+), ?Signature=(?P<signature>\w+)"
)


def refusal(request: Request, secrets: Mapping[str, str]) -> str | None:
    """The code of the error that S3 answers to whoever may not ask, or None."""
    found = _AUTHORIZATION.match(request.headers.get("Authorization") or "")
    if not found:
        return "AccessDenied"
    secret = secrets.get(found["key"])
    if secret is None:
        return "InvalidAccessKeyId"
    right = _signature(request, secret, found["scope"], found["headers"].split(";"))
    return None if hmac.compare_digest(right, found["signature"]) else "SignatureDoesNotMatch"


def _signature(request: Request, secret: str, scope: str, names: list[str]) -> str:
    pairs = sorted(
        (quote(name, safe="-_.~"), quote(value, safe="-_.~"))
        for name, value in parse_qsl(request.raw_query, keep_blank_values=True)
    )
    canonical = [
        request.method,
        quote(request.path, safe="/-_.~"),
        "&".join(f"{name}={value}" for name, value in pairs),
        *(f"{name}:{' '.join((request.headers.get(name) or '').split())}" for name in names),
        "",
        ";".join(names),
        request.headers.get("x-amz-content-sha256") or "UNSIGNED-PAYLOAD",
    ]
    digest = hashlib.sha256("\n".join(canonical).encode()).hexdigest()
    instant = request.headers.get("x-amz-date") or ""
    text = f"AWS4-HMAC-SHA256\n{instant}\n{scope}\n{digest}"
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.digest(key, text.encode(), "sha256").hex()
