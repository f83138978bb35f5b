"""Settings of Spark for object stores, derived from the names that PyIceberg has."""

from pathlib import Path

import pytest

from logdriven_dagster.config import load_project
from logdriven_dagster.engine.spark.object_stores import hadoop_settings
from logdriven_dagster.engine.spark.settings import project_settings

S3 = {
    "s3.endpoint": "http://127.0.0.1:9000",
    "s3.region": "eu-central-1",
    "s3.access-key-id": "key",
    "s3.secret-access-key": "quite-secret",
    "s3.connect-timeout": "2.5",
}


def spark_settings(given: dict[str, str]) -> dict[str, str]:
    return {k.removeprefix("spark.hadoop."): v for k, v in hadoop_settings(given).items()}


def test_endpoint_region_and_keys_of_s3_are_those_of_s3a():
    settings = spark_settings(S3)
    assert settings["fs.s3a.endpoint"] == "http://127.0.0.1:9000"
    assert settings["fs.s3a.endpoint.region"] == "eu-central-1"
    assert settings["fs.s3a.access.key"] == "key"
    assert settings["fs.s3a.secret.key"] == "quite-secret"
    assert settings["fs.s3a.path.style.access"] == "true"
    assert settings["fs.s3a.connection.ssl.enabled"] == "false"
    assert settings["fs.s3a.connection.establish.timeout"] == "2500"


def test_s3_and_s3a_are_one_store_to_spark():
    assert spark_settings({})["fs.s3.impl"] == "org.apache.hadoop.fs.s3a.S3AFileSystem"


def test_without_credentials_those_of_the_platform_are_used():
    assert not {name for name in spark_settings({}) if "key" in name or "credentials" in name}
    assert "fs.s3a.aws.credentials.provider" not in spark_settings({"s3.region": "eu-central-1"})


def test_names_for_all_of_aws_are_used_where_s3_has_none():
    settings = spark_settings(
        {"client.region": "eu-west-1", "client.role-arn": "arn:aws:iam::1:role/etl"}
    )
    assert settings["fs.s3a.endpoint.region"] == "eu-west-1"
    assert settings["fs.s3a.assumed.role.arn"] == "arn:aws:iam::1:role/etl"
    assert "AssumedRole" in settings["fs.s3a.aws.credentials.provider"]


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        ({"adls.account-key": "k"}, "fs.azure.account.key.shop.dfs.core.windows.net", "k"),
        ({"adls.sas-token": "?sv=1"}, "fs.azure.sas.fixed.token.shop.dfs.core.windows.net", "sv=1"),
        ({"adls.client-secret": "x", "adls.client-id": "i", "adls.tenant-id": "t"},
         "fs.azure.account.oauth2.client.id.shop.dfs.core.windows.net", "i"),
    ],
)  # fmt: skip
def test_accounts_of_azure_are_identified_by_their_hosts(
    given: dict[str, str], name: str, value: str
):
    assert spark_settings({"adls.account-name": "shop", **given})[name] == value


def test_spark_options_of_the_project_win_and_secrets_are_redacted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("LAKE_SECRET", "quite-secret")
    (tmp_path / "tables").mkdir()
    (tmp_path / "logdriven.yaml").write_text(
        "project: shop\nwarehouse: s3://lake/shop\n"
        "storage: {s3.endpoint: 'http://a', s3.secret-access-key: '${env:LAKE_SECRET}'}\n"
        "spark: {config: {spark.hadoop.fs.s3a.endpoint: 'http://b'}}\n"
    )
    settings = project_settings(load_project(tmp_path))
    assert settings["spark.hadoop.fs.s3a.endpoint"] == "http://b"
    hidden = settings["spark.redaction.regex"]
    secret = [name for name, value in settings.items() if value == "quite-secret"]
    assert secret == ["spark.hadoop.fs.s3a.secret.key"]
    assert "secret" in hidden


def test_a_local_project_sets_no_store_options_of_spark(tmp_path: Path):
    (tmp_path / "tables").mkdir()
    (tmp_path / "logdriven.yaml").write_text("project: shop\n")
    assert not [n for n in project_settings(load_project(tmp_path)) if "fs.s3" in n]
