"""Hadoop settings for object stores, derived from PyIceberg's properties.

Hadoop's connectors must be on Spark's class path: `hadoop-aws` for S3, the connector of Google, or
`hadoop-azure`. Credentials that the properties do not name come from the platform.
"""

from collections.abc import Callable, Iterator, Mapping
from urllib.parse import urlsplit

_S3A = "org.apache.hadoop.fs.s3a"
_SPARK = "spark.hadoop."


def hadoop_settings(properties: Mapping[str, str]) -> dict[str, str]:
    """Return Spark's settings for the object stores that the properties configure."""
    given = dict(_s3(properties)) | dict(_gcs(properties)) | dict(_adls(properties))
    return {f"{_SPARK}{name}": value for name, value in (_FILE_SYSTEMS | given).items()}


_FILE_SYSTEMS = {
    # Hadoop's own name for S3 is s3a; other engines, and the paths that they write, use s3.
    "fs.s3.impl": f"{_S3A}.S3AFileSystem",
    "fs.s3n.impl": f"{_S3A}.S3AFileSystem",
    "fs.AbstractFileSystem.s3.impl": f"{_S3A}.S3A",
    "fs.gs.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem",
    "fs.AbstractFileSystem.gs.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFS",
}


def _milliseconds(seconds: str) -> str:
    return str(round(float(seconds) * 1000))


def _encryption(name: str) -> str:
    return {"aws:kms": "SSE-KMS", "aws:kms:dsse": "DSSE-KMS"}.get(name, name)


_S3_NAMES: dict[str, tuple[str, Callable[[str], str]]] = {
    "endpoint": ("fs.s3a.endpoint", str),
    "region": ("fs.s3a.endpoint.region", str),
    "access-key-id": ("fs.s3a.access.key", str),
    "secret-access-key": ("fs.s3a.secret.key", str),
    "session-token": ("fs.s3a.session.token", str),
    "role-arn": ("fs.s3a.assumed.role.arn", str),
    "role-session-name": ("fs.s3a.assumed.role.session.name", str),
    "connect-timeout": ("fs.s3a.connection.establish.timeout", _milliseconds),
    "request-timeout": ("fs.s3a.connection.timeout", _milliseconds),
    "server-side-encryption": ("fs.s3a.encryption.algorithm", _encryption),
    "sse-kms-key-id": ("fs.s3a.encryption.key", str),
}


def _s3(given: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, (hadoop, convert) in _S3_NAMES.items():
        value = given.get(f"s3.{name}") or given.get(f"client.{name}")
        if value:
            yield hadoop, convert(value)
    if endpoint := given.get("s3.endpoint"):
        virtual = given.get("s3.force-virtual-addressing", "false").lower() == "true"
        yield "fs.s3a.path.style.access", str(not virtual).lower()
        yield "fs.s3a.connection.ssl.enabled", str(not endpoint.startswith("http://")).lower()
    if given.get("s3.role-arn") or given.get("client.role-arn"):
        yield "fs.s3a.aws.credentials.provider", f"{_S3A}.auth.AssumedRoleCredentialProvider"
    elif given.get("s3.anonymous", "false").lower() == "true":
        yield "fs.s3a.aws.credentials.provider", f"{_S3A}.AnonymousAWSCredentialsProvider"
    if proxy := given.get("s3.proxy-uri"):
        place = urlsplit(proxy)
        yield "fs.s3a.proxy.host", place.hostname or ""
        yield "fs.s3a.proxy.port", str(place.port or 80)


def _gcs(given: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    if project := given.get("gcs.project-id"):
        yield "fs.gs.project.id", project
    if host := given.get("gcs.service.host"):
        yield "fs.gs.storage.root.url", host


def _adls(given: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    account = given.get("adls.account-name")
    if account is None:
        return
    host = given.get("adls.account-host", f"{account}.dfs.core.windows.net")
    if key := given.get("adls.account-key"):
        yield f"fs.azure.account.key.{host}", key
    if token := given.get("adls.sas-token"):
        yield f"fs.azure.account.auth.type.{host}", "SAS"
        yield f"fs.azure.sas.fixed.token.{host}", token.removeprefix("?")
    if secret := given.get("adls.client-secret"):
        tenant, client = given.get("adls.tenant-id", ""), given.get("adls.client-id", "")
        oauth = "org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider"
        yield f"fs.azure.account.auth.type.{host}", "OAuth"
        yield f"fs.azure.account.oauth.provider.type.{host}", oauth
        yield (
            f"fs.azure.account.oauth2.client.endpoint.{host}",
            f"https://login.microsoftonline.com/{tenant}/oauth2/token",
        )
        yield f"fs.azure.account.oauth2.client.id.{host}", client
        yield f"fs.azure.account.oauth2.client.secret.{host}", secret
