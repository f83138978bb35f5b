"""Secrets that are written out are found by place, kind and entropy; ordinary values are not."""

import random
import re
import string
import textwrap

import pytest

from logdriven_dagster.config import load_project
from logdriven_dagster.config.checking.secret_texts import KINDS, find_secrets
from logdriven_dagster.errors import InvalidProjectError

LETTERS = string.ascii_letters + string.digits


def made_up(length: int, characters: str = LETTERS) -> str:
    """A random word of our own; no test holds what somebody could use."""
    chance = random.Random(length)
    return "".join(chance.choice(characters) for _ in range(length))


HEX = "0123456789abcdef"
OF_PROVIDERS = {
    "private key": f"-----BEGIN RSA PRIVATE KEY-----\n{made_up(60)}\n-----END RSA PRIVATE KEY-----",
    "JSON Web Token": f"eyJ{made_up(20)}.eyJ{made_up(30)}.{made_up(40)}",
    "age": f"AGE-SECRET-KEY-1{made_up(58, string.ascii_uppercase)}",
    "Airtable": f"pat{made_up(14)}.{made_up(64, HEX)}",
    "Anthropic or OpenAI": f"sk-proj-{made_up(40)}",
    "Atlassian": f"ATATT3xFfGF0{made_up(60)}=1234ABCD",
    "AWS session": f"FwoGZXIvYXdz{made_up(60)}",
    "Azure Storage": f"DefaultEndpointsProtocol=https;AccountName=a;AccountKey={made_up(86)}==",
    "Azure Service Bus": f"Endpoint=sb://x/;SharedAccessKeyName=a;SharedAccessKey={made_up(43)}=",
    "Azure Entra": f"abc8Q~{made_up(34)}",
    "Databricks": f"dapi{made_up(32, HEX)}",
    "DigitalOcean": f"dop_v1_{made_up(64, HEX)}",
    "Discord": f"https://discord.com/api/webhooks/123456789/{made_up(68)}",
    "Doppler": f"dp.st.prd.{made_up(40)}",
    "Dropbox": f"sl.{made_up(60)}",
    "Dynatrace": f"dt0c01.{made_up(24)}.{made_up(64)}",
    "GitHub": f"ghp_{made_up(36)}",
    "GitLab": f"glpat-{made_up(20)}",
    "Grafana": f"glsa_{made_up(32)}_{made_up(8, HEX)}",
    "Google": f"AIza{made_up(35)}",
    "Hugging Face": f"hf_{made_up(34)}",
    "Linear": f"lin_api_{made_up(40)}",
    "Mailgun": f"key-{made_up(32, HEX)}",
    "Mapbox": f"sk.eyJ{made_up(80)}.{made_up(22)}",
    "Mattermost": f"https://chat.example.com/hooks/{made_up(26, string.ascii_lowercase)}",
    "Microsoft Teams": f"https://a.webhook.office.com/webhookb2/x@y/IncomingWebhook/{made_up(32)}/z",
    "New Relic": f"NRAK-{made_up(27, string.ascii_uppercase)}",
    "npm": f"npm_{made_up(36)}",
    "Opsgenie": "GenieKey 123e4567-e89b-12d3-a456-426614174000",
    "PyPI": f"pypi-{made_up(60)}",
    "SendGrid": f"SG.{made_up(22)}.{made_up(43)}",
    "Shopify": f"shpat_{made_up(32, HEX)}",
    "Slack": f"https://hooks.slack.com/services/T0000/B0000/{made_up(24)}",
    "Stripe": f"sk_live_{made_up(24)}",
    "Telegram": f"123456789:AA{made_up(33)}",
    "Terraform": f"{made_up(14)}.atlasv1.{made_up(67)}",
    "Twilio": f"SK{made_up(32, HEX)}",
    "Vault": f"hvs.{made_up(24)}",
}
BY_PLACE = {
    "webhook's query": "https://x.example.com/run?sp=%2Ft&sv=1.0&sig=hunter2hunter2",
    "token of a URL": "https://x.example.com/run?token=hunter2",
    "code of a URL": "https://x.azurewebsites.net/api/run?code=hunter2hunter2",
    "access token": "https://x.example.com/#access_token=hunter2",
    "password of a URL": "postgresql://u:hunter2@h/d",
    "odbc_connect": "mssql+pyodbc:///?odbc_connect=DRIVER%3DX%3BUID%3Du%3BPWD%3Dhunter2",
    "odbc_connect, encoded twice": "mssql+pyodbc:///?odbc_connect=UID%253Du%253BPWD%253Dhunter2",
    "Oracle": "jdbc:oracle:thin:scott/hunter2@//h:1521/d",
    "JDBC": "jdbc:sqlserver://h;user=sa;password=hunter2",
    "private key of a URL": "jdbc:bigquery://x;OAuthPvtKey=hunter2;ProjectId=p",
    "SAS": "sv=2022-11-02&ss=b&sig=hunter2hunter2",
    "JAAS": 'x.PlainLoginModule required username="u" password="hunter2";',
    "header": "Bearer hunter2hunter2",
}
IN_COMMANDS = {
    "mysql": "mysql -h db -u shop -phunter2 sales < orders.sql",
    "mysqldump, quoted": "mysqldump -u shop '-phunter 2' sales",
    "sshpass": "sshpass -p hunter2 ssh h",
    "curl": "curl -s -u shop:hunter2 https://x.example.com",
    "curl, quoted": "curl --user 'shop:hunter2' https://x.example.com",
    "header of curl": "curl -H 'Authorization: Bearer hunter2hunter2' https://x.example.com",
    "redis-cli": "redis-cli -h h -a hunter2 PING",
    "sqlplus": "sqlplus -s scott/hunter2@//h:1521/d",
    "sqlcmd": "sqlcmd -S h -U sa -P hunter2",
    "docker": "docker login -u shop -p hunter2 registry.example.com",
    "openssl": "openssl enc -aes-256-cbc -pass pass:hunter2 -in a",
    "aws": "aws configure set aws_secret_access_key hunter2",
    "gpg": "gpg --batch --passphrase hunter2! -d a",
    "environment": "PGPASSWORD=hunter2 psql -h h",
    "environment of MySQL": "export MYSQL_PWD='hunter2'; mysql",
    "environment, token": "API_TOKEN=hunter2 ./load.sh",
    "long option": "load.sh --password=hunter2",
    "long option, separate": "beeline -u jdbc:hive2://h --password hunter2",
    "options of Spark": "CREATE VIEW v USING jdbc OPTIONS (user 'a', password 'hunter2')",
    "options of Flink": "CREATE TABLE t (id INT) WITH ('url' = 'u', 'password' = 'hunter2')",
    "user of a database": "CREATE USER shop IDENTIFIED BY 'hunter2'",
}
BY_ENTROPY = {
    "AWS secret key": made_up(40),
    "hexadecimal": made_up(32, HEX),
    "base64": made_up(43) + "=",
    "part of a path": f"https://hooks.example.com/in/{made_up(32)}",
    "user of a URL": f"https://{made_up(32, HEX)}@errors.example.com/1",
    "parameter of any name": f"https://x.example.com/?q={made_up(32)}",
}
SECRETS = OF_PROVIDERS | BY_PLACE | IN_COMMANDS | BY_ENTROPY
ORDINARY = [
    "/mnt/Data/2022/Orders",
    "/mnt/lake/Raw/v2/Export_2024_Q1_EU_Final",
    "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.10.0,org.postgresql:postgresql:42.7.4",
    "software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider",
    "com.amazonaws.auth.DefaultAWSCredentialsProviderChain",
    "https://abcdef0123456789abcdef0123456789.r2.cloudflarestorage.com/warehouse",
    "https://sqs.eu-central-1.amazonaws.com/123456789012/Orders2024",
    "s3://lake/warehouse/Orders_2024_01_05/part-00000",
    "jdbc:sqlserver://h:1433;databaseName=Shop;encrypt=true;trustServerCertificate=true",
    "mysql+pymysql://u:${env:PASSWORD}@h/d?charset=utf8mb4&ssl_ca=/etc/ssl/ca.pem",
    "https://x.example.com/run?sig=${env:SIG}&sv=1.0",
    "https://x.example.com/?key=id&code=200&useToken=true",
    "jdbc:oracle:thin:scott/${env:PASSWORD}@//h:1521/d",
    "jdbc:oracle:thin:@//h:1521/service",
    "123e4567-e89b-12d3-a456-426614174000",
    "-----BEGIN CERTIFICATE-----\nMIIBszCCAVmgAwIBAgIUQ0\n-----END CERTIFICATE-----",
    "yyyy-MM-dd'T'HH:mm:ss.SSSXXX",
    "SubscriptionCustomerAddress2024Snapshot",
    "data/${YEAR}/${MONTH}/${DAY}/*.csv",
    "SASL_SSL",
    "mysql -h db -P 3306 -u shop -p --protocol=tcp sales",
    "mysql -u shop -p$MYSQL_PWD; mysql -p${DB_PASS}; mysql -p<password>; mysql -p'{{ password }}'",
    "PGPASSWORD=${env:PASSWORD} psql -p 5432; PGPASSWORD=$(cat secret) psql",
    "curl -u shop:$TOKEN -u $USER:${TOKEN} -H 'Authorization: Bearer $TOKEN' https://x",
    "mkdir -p data && cp -p a b",
    "docker run -p 80:80 x; docker login -p $PASS; openssl enc -pass env:PASS",
    "https://x.example.com/hooks/orders",
    "https://shop@x.example.com/orders",
    "load.sh --password-file=/run/secret --password ${env:PASSWORD}",
    "USING jdbc OPTIONS (password '${env:PASSWORD}', 'password' '<password>')",
    "password STRING COMMENT 'of the user', identified_by STRING",
]


def test_every_provider_has_an_example():
    assert OF_PROVIDERS.keys() == KINDS.keys()


@pytest.mark.parametrize("kind", SECRETS)
def test_a_secret_is_found_by_its_provider_place_or_entropy(kind):
    assert find_secrets(SECRETS[kind])


@pytest.mark.parametrize("text", ORDINARY)
def test_an_ordinary_value_is_no_secret(text):
    assert find_secrets(text) == []


def test_a_command_with_a_secret_is_found_in_a_description_and_in_sql(tmp_path):
    """Prose and SQL are full of words that only have another meaning in a command."""
    (tmp_path / "logdriven.yaml").write_text("project: p\n")
    (tmp_path / "tables").mkdir()
    fields = {"variable": "a", "path": "a.csv", "option": "b"}
    for kind, command in IN_COMMANDS.items():
        sql = f'"SELECT 1 /* {command} */"'
        text = textwrap.dedent(TABLE).format(**fields, sql=sql) + f'description: "{command}"\n'
        (tmp_path / "tables/t.yaml").write_text(text)
        found = mistakes(tmp_path)
        assert re.search("description: a (secret|password) in plain text", found), kind
        assert re.search(r"steps\[0\].sql: a (secret|password) in plain text", found), kind
        assert "hunter" not in found


PLACES = {
    "recipients.hook.url": "recipients: {{hook: {{type: webhook, url: {0}}}}}",
    "recipients.hook.headers.X-A": (
        "recipients: {{hook: {{type: webhook, url: 'https://x', headers: {{X-A: {0}}}}}}}"
    ),
    "connections.k.kafka.ssl.key.pem": (
        "connections: {{k: {{kafka: {{bootstrap.servers: h, ssl.key.pem: {0}}}}}}}"
    ),
    "connections.d.url": "connections: {{d: {{url: {0}}}}}",
    "connections.d.jdbc.url": "connections: {{d: {{url: 'oracle://h/d', jdbc: {{url: {0}}}}}}}",
    "variables.x": "variables: {{x: {0}}}",
    "properties.g.x": "properties: {{g: {{x: {0}}}}}",
    "spark.config.x": "spark: {{config: {{x: {0}}}}}",
    "storage.s3.endpoint": "storage: {{s3.endpoint: {0}}}",
    "run_log": "run_log: {0}",
}


def mistakes(root) -> str:
    with pytest.raises(InvalidProjectError) as caught:
        load_project(root)
    return str(caught.value)


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        (place, kind)
        for place in PLACES
        for kind in ("webhook's query", "odbc_connect", "private key", "Oracle")
        # Where the URL of a database belongs, other texts are refused as such.
        if place not in ("connections.d.url", "run_log")
        or kind in ("webhook's query", "odbc_connect")
    ],
)
def test_every_place_of_a_project_has_the_same_detector(tmp_path, place, kind):
    secret = '"' + SECRETS[kind].replace("\n", "\\n") + '"'
    (tmp_path / "logdriven.yaml").write_text(f"project: p\n{PLACES[place].format(secret)}\n")
    found = mistakes(tmp_path)
    assert f"{place}: a " in found
    assert "in plain text; write ${env:" in found
    assert "hunter2" not in found


TABLE = """
    table: ods.t
    period: 1 day
    default_start: 2022-01-01
    variables: {{x: {variable}}}
    steps:
    - step: s
      source: {{type: csv, path: {path}, columns: a STRING}}
      sql: {sql}
      target: {{type: parquet, options: {{x: {option}}}}}
"""


@pytest.mark.parametrize(
    ("field", "place"),
    [
        ("variable", "variables.x"),
        ("path", "steps[0].source.path"),
        ("sql", "steps[0].sql"),
        ("option", "steps[0].target.options.x"),
    ],
)
def test_every_place_of_a_table_has_the_same_detector(tmp_path, field, place):
    (tmp_path / "logdriven.yaml").write_text("project: p\n")
    (tmp_path / "tables").mkdir()
    fields = {"variable": "a", "path": "a.csv", "sql": "SELECT a FROM source", "option": "b"}
    fields[field] = f'"SELECT 1 -- {OF_PROVIDERS["GitHub"]}"'
    text = textwrap.dedent(TABLE).format(**fields)
    (tmp_path / "tables/t.yaml").write_text(text)
    assert f"{place}: a secret in plain text" in mistakes(tmp_path)


def test_a_comparison_in_sql_is_no_secret(tmp_path):
    (tmp_path / "logdriven.yaml").write_text("project: p\n")
    (tmp_path / "tables").mkdir()
    fields = {"variable": "a", "path": "a.csv", "option": "b"}
    sql = f"\"SELECT * FROM source WHERE password = 'x' AND token='{made_up(32)}'\""
    text = textwrap.dedent(TABLE).format(**fields, sql=sql)
    (tmp_path / "tables/t.yaml").write_text(text)
    load_project(tmp_path)
