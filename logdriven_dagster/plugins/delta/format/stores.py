"""Object store options of delta-rs, derived from PyIceberg's properties in the project.

delta-rs uses conditional PUTs for commits on each of these stores, without further options. Without
credentials here, it uses those of the platform.
"""

from collections.abc import Iterator, Mapping

_SAME = {
    "s3.endpoint": "aws_endpoint_url",
    "s3.region": "aws_region",
    "client.region": "aws_region",
    "s3.access-key-id": "aws_access_key_id",
    "client.access-key-id": "aws_access_key_id",
    "s3.secret-access-key": "aws_secret_access_key",
    "client.secret-access-key": "aws_secret_access_key",
    "s3.session-token": "aws_session_token",
    "client.session-token": "aws_session_token",
    "s3.force-virtual-addressing": "aws_virtual_hosted_style_request",
    "s3.anonymous": "aws_skip_signature",
    "s3.proxy-uri": "proxy_url",
    "adls.account-name": "azure_storage_account_name",
    "adls.account-key": "azure_storage_account_key",
    "adls.sas-token": "azure_storage_sas_key",
    "adls.tenant-id": "azure_storage_tenant_id",
    "adls.client-id": "azure_storage_client_id",
    "adls.client-secret": "azure_storage_client_secret",
}
"""Property of PyIceberg → equivalent option of delta-rs."""

_SECONDS = {"s3.connect-timeout": "connect_timeout", "s3.request-timeout": "timeout"}
_PATIENT = {"connect_timeout": "10s", "timeout": "60s"}
"""Default timeouts: a store that does not answer must not block a run."""


def store_options(properties: Mapping[str, str]) -> dict[str, str]:
    """Return delta-rs' options for the properties of a project's `storage`."""
    return _PATIENT | dict(_options(properties))


def _options(properties: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    # Properties of S3 override those of all clients.
    for name in sorted(properties):
        if name in _SAME:
            yield _SAME[name], properties[name]
        if name in _SECONDS:
            yield _SECONDS[name], f"{properties[name]}s"
    if properties.get("s3.endpoint", "").startswith("http://"):
        yield "aws_allow_http", "true"
