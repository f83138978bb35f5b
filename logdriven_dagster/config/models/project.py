"""Models of the project file, `logdriven.yaml`."""

import difflib
from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Literal, TypeAlias
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, Field, model_validator

from logdriven_dagster.config.models.fields import (
    DatabaseUrl,
    DurationField,
    InstantField,
    LocationText,
    PeriodField,
    StepName,
    ZoneField,
)
from logdriven_dagster.config.models.frozen import Model, Option
from logdriven_dagster.config.models.incremental.freshness import FreshnessField
from logdriven_dagster.config.models.notifications import NotifyRule, RecipientField
from logdriven_dagster.config.models.properties import Properties
from logdriven_dagster.config.models.quality import QualityRules
from logdriven_dagster.config.models.settings import RetryVersion
from logdriven_dagster.config.models.tables import (
    BatchSize,
    MissingColumns,
    OnChangeField,
    OnSourceChange,
    Preview,
    RowsOutside,
)
from logdriven_dagster.config.models.types.engines import AUTO, SPARK, EngineField
from logdriven_dagster.config.models.types.registered import ConnectionField
from logdriven_dagster.config.secrets import has_reference, names_secret
from logdriven_dagster.model.attempts import OnRunning


def _refuse_secrets(remote: str) -> str:
    given = dict(part.partition("=")[::2] for part in remote.split(";")[1:])
    if any(names_secret(name) and not has_reference(given[name]) for name in given):
        raise ValueError("a secret in plain text; write ${env:NAME} instead")
    return remote


class SparkConfig(Model):
    """Settings of the Spark session of a run."""

    master: str = Field(
        "local[*]",
        description="the master of classic Spark; local[*] is this host with all of its cores",
        examples=["local[4]", "spark://host:7077"],
    )
    engine: EngineField = Field(
        SPARK,
        description="the engine that runs the windows; every other engine than spark refuses "
        "tables that it does not support; auto: each table on the first other engine that "
        "supports it, the other tables on Spark",
    )
    remote: Annotated[str, AfterValidator(_refuse_secrets)] = Field(
        "classic",
        pattern=r"^(classic|auto|server|sc://\S+)$",
        description="classic: a JVM for each run; auto: the server of `logdriven spark start` "
        "if it is running, otherwise classic; server: the same server, which the first run or "
        "`logdriven ui` starts; sc://host:port/;token=${env:TOKEN}: this Spark Connect server",
        examples=["server", "sc://spark:15002"],
    )
    archive: Literal["auto", "manual"] = Field(
        "auto",
        description="auto: a small run of classic Spark without an archive of Spark's classes "
        "starts to make one in the background when it ends; manual: only `logdriven spark warm` "
        "makes one",
        examples=["manual"],
    )
    shared_files: bool = Field(
        False,
        description="whether a server on another host sees the project and the warehouse under "
        "the same paths",
    )
    app_name: str | None = Field(
        None,
        description="the name in Spark's UI; default: the project's name",
        examples=["shop-nightly"],
    )
    config: dict[str, Option] = Field(
        default_factory=dict,
        description="settings of Spark by their own names",
        examples=[{"spark.driver.memory": "4g"}],
    )

    @model_validator(mode="after")
    def _check_place(self) -> "SparkConfig":
        if self.engine == AUTO and self.remote != "classic":
            raise ValueError(
                f"engine: auto runs several engines on this machine, and remote: {self.remote} "
                "names a server; remove one of them"
            )
        return self


_NAMES = {
    "s3": "access-key-id anonymous connect-timeout endpoint force-virtual-addressing profile-name "
    "proxy-uri region request-timeout resolve-region retry-strategy-impl role-arn "
    "role-session-name secret-access-key server-side-encryption session-token signer "
    "signer.endpoint signer.uri sse-kms-key-id",
    "gcs": "access cache-timeout consistency default-bucket-location oauth2.token "
    "oauth2.token-expires-at project-id requester-pays service.host session-kwargs version-aware",
    "adls": "account-host account-key account-name anon blob-storage-authority blob-storage-scheme "
    "client-id client-secret connection-string credential dfs-storage-authority "
    "dfs-storage-scheme sas-token tenant-id token",
    "client": "access-key-id profile-name region role-arn role-session-name secret-access-key "
    "session-token",
}
STORAGE_PROPERTIES = frozenset(
    f"{store}.{name}" for store, names in _NAMES.items() for name in names.split()
)
"""Object store properties that PyIceberg reads; it ignores unknown names silently."""

CATALOG_TYPES = ("rest", "sql", "glue", "hive", "dynamodb", "bigquery")


def _validate_storage(given: Mapping[str, Option]) -> Mapping[str, Option]:
    for name in given:
        if name not in STORAGE_PROPERTIES:
            near = difflib.get_close_matches(name, sorted(STORAGE_PROPERTIES), n=1)
            hint = f"; did you mean {near[0]}?" if near else ", such as s3.endpoint"
            raise ValueError(f"{name} is not a property of PyIceberg's file systems{hint}")
    return given


def _validate_catalog(given: str | dict[str, Option]) -> str | dict[str, Option]:
    if isinstance(given, str):
        return given
    kind = given.get("type")
    if kind is None and "py-catalog-impl" not in given:
        raise ValueError(f"type: missing; write one of {', '.join(CATALOG_TYPES)}")
    if kind is not None and kind not in CATALOG_TYPES:
        raise ValueError(
            f"type: {kind} is not one of {', '.join(CATALOG_TYPES)}; for your own "
            "class, set py-catalog-impl instead"
        )
    if kind in ("rest", "sql", "hive") and not given.get("uri"):
        raise ValueError(f"uri: missing; a catalog of type {kind} needs one")
    return given


StorageProperties: TypeAlias = Annotated[dict[str, Option], AfterValidator(_validate_storage)]
CatalogField: TypeAlias = Annotated[
    DatabaseUrl | dict[str, Option], AfterValidator(_validate_catalog)
]


class Defaults(Model):
    """Default values for every table that does not set its own."""

    owners: tuple[str, ...] | None = None
    tags: dict[str, str] | None = None
    period: PeriodField | None = None
    default_start: InstantField | None = None
    end: InstantField | None = None
    delay: DurationField | None = None
    retries: int | None = None
    retry_interval: DurationField | None = None
    timeout: DurationField | None = None
    timeout_strategy: Literal["warn", "fail", "both"] | None = None
    on_running: OnRunning | None = None
    retry_version: RetryVersion | None = None
    priority: int | None = None
    worker_group: str | None = None
    ordered: bool | None = None
    batch_size: BatchSize | None = None
    on_upstream_refresh: Literal["rerun", "ignore"] | None = None
    on_source_change: OnSourceChange | None = None
    on_change: OnChangeField | None = None
    missing_columns: MissingColumns | None = None
    rows_outside: RowsOutside | None = None
    notify: tuple[NotifyRule, ...] | None = Field(
        None,
        description="the recipients of notifications about windows and jobs; a table or job "
        "opts out with an empty list",
        examples=[[{"to": "ops"}]],
    )
    freshness: FreshnessField = Field(
        None,
        description="the deadline of windows of tables with a schedule; a table opts out with "
        "`freshness: none`",
        examples=["auto"],
    )
    preview: Preview | None = Field(
        None,
        description="the number of rows of a window that Dagster shows; a table with private "
        "data opts out with `preview: 0`",
        examples=[5],
    )


class SensorConfig(Model):
    """Settings of the catch-up sensor."""

    enabled: bool = Field(False, description="whether it is running in a new deployment")
    interval: DurationField = Field(
        timedelta(minutes=1), description="the interval between checks for pending windows"
    )
    max_windows: int = Field(
        200, ge=1, description="the maximum number of windows of a requested run"
    )


def _validate_lease(lease: timedelta) -> timedelta:
    if lease < timedelta(seconds=1):
        raise ValueError(
            "must be at least 1 s; a shorter time than a few heartbeats ends healthy runs"
        )
    return lease


class ProjectConfig(Model):
    """The project file, `logdriven.yaml`."""

    project: StepName = Field(
        description="the project's name; it is the name of the code location in Dagster, too",
        examples=["shop"],
    )
    timezone: ZoneField = Field(
        ZoneInfo("UTC"), description="the time zone of days, months and schedules"
    )
    run_log: DatabaseUrl = Field(
        "sqlite:///.logdriven/run_log.db",
        description="the database of the run log, as an SQLAlchemy URL; a path is relative to "
        "the project. The environment variable LOGDRIVEN_RUN_LOG takes precedence",
        examples=["postgresql://etl:${env:PASSWORD}@host/etl"],
    )
    warehouse: LocationText = Field(
        ".logdriven/warehouse",
        description="the place of targets without a path: a folder, relative to the project, "
        "or a URL",
        examples=["s3://bucket/folder"],
    )
    storage: StorageProperties = Field(
        default_factory=dict,
        description="the settings of object stores, by PyIceberg's property names",
        examples=[{"s3.endpoint": "http://127.0.0.1:9000", "s3.region": "us-east-1"}],
    )
    catalog: CatalogField | None = Field(
        None,
        description="the Iceberg catalog: a SQLAlchemy URL, or PyIceberg's properties; a SQLite "
        "file in a warehouse of this machine by default",
        examples=[{"type": "rest", "uri": "https://catalog.example.com"}],
    )
    variables: dict[str, Option] = Field(
        default_factory=dict,
        description="values for all tables: `${name}` in texts, `:name` in queries",
        examples=[{"data": "/srv/data"}],
    )
    quality_rules: QualityRules = Field(
        default_factory=dict,
        description="data quality rules by name, for all tables",
        examples=[{"even": {"sql": ":column % 2 = 0"}}],
    )
    properties: Properties = Field(
        default_factory=dict,
        description="group → key → value, for tables without their own",
        examples=[{"limits": {"rows": 1000}}],
    )
    lineage: bool = Field(
        True, description="whether to record the lineage of each query in the log"
    )
    spark: SparkConfig = Field(SparkConfig(), description="the engine and Spark settings")
    connections: dict[str, ConnectionField] = Field(
        default_factory=dict,
        description="databases and Kafka clusters by the names that sources and targets use",
        examples=[{"shop": {"url": "postgresql://etl:${env:PASSWORD}@host/shop"}}],
    )
    recipients: dict[StepName, RecipientField] = Field(
        default_factory=dict,
        description="the recipients by name, as used in notify",
        examples=[{"ops": {"type": "slack", "url": "${env:SLACK_URL}"}}],
    )
    ui_url: str | None = Field(
        None,
        pattern=r"^https?://[^\s@]+$",
        description="the URL of Dagster, for links in messages and reports",
        examples=["https://dagster.example.com"],
    )
    defaults: Defaults = Field(
        Defaults(), description="values for all tables that do not set their own"
    )
    sensor: SensorConfig = Field(
        SensorConfig(), description="the sensor that requests catch-ups in Dagster"
    )
    max_parallel: int = Field(
        1,
        ge=1,
        description="the number of windows that a run processes at the same time",
        examples=[4],
    )
    lease: Annotated[DurationField, AfterValidator(_validate_lease)] = Field(
        timedelta(minutes=1),
        description="the time without a heartbeat after which other runners take over its windows",
    )
