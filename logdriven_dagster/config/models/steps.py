"""What a step reads, how it transforms and where it writes."""

from typing import Annotated, Literal, TypeAlias

from pydantic import BeforeValidator, Field, StringConstraints, model_validator

from logdriven_dagster.config.models.fields import (
    LocalFolder,
    Model,
    PercentField,
    StepName,
    TableName,
    as_tuple,
)
from logdriven_dagster.config.models.looping import LoopField
from logdriven_dagster.config.models.quality import QualityConfig

Option: TypeAlias = str | int | float | bool
"""The value of a Spark reader or writer option."""


class _Source(Model):
    window_column: str | None = Field(
        None, description="read only rows whose value of this column lies in the window"
    )
    key_column: str | None = Field(
        None, description="of auto_inc_id tables: read only rows whose key lies in the window"
    )
    options: dict[str, Option] = Field(
        default_factory=dict, description="any option of Spark's reader"
    )


class FilesSource(_Source):
    """What is said of files that are registered one by one, `incremental_type: files`.

    Sources: BDRE, file registry; Sharp ETL, throwExceptionIfEmpty and deleteSource.
    """

    path: str = Field(description="a file, folder or glob; relative to the project folder")
    columns: str | None = Field(None, description="Spark DDL, such as `id BIGINT, at TIMESTAMP`")
    version: Literal["modified", "hash"] = Field(
        "modified",
        description="what makes a file with a known path a new one: its size and time of "
        "modification, or the hash of its content",
    )
    on_empty: Literal["skip_following_steps", "succeed", "fail"] = Field(
        "skip_following_steps",
        description="when no new file is there: nothing runs; the steps run without its rows; or "
        "the window fails",
    )
    after_success: Literal["keep", "delete", "move"] = Field(
        "keep", description="what becomes of files whose rows are published"
    )
    move_to: str | None = Field(None, description="the folder for after_success: move")

    @model_validator(mode="after")
    def _moves_somewhere(self) -> "FilesSource":
        if (self.after_success == "move") != (self.move_to is not None):
            raise ValueError("after_success: move and move_to belong together")
        return self


class FileSource(FilesSource):
    """Files of a format that carries its own types."""

    type: Literal["parquet", "orc"]


_FIELDS_OF_OPTIONS = {
    "mode": "mode",
    "sep": "sep",
    "delimiter": "sep",
    "header": "header",
    "nullvalue": "null_value",
    "multiline": "multiline",
}
"""Options of Spark's readers that a source of text has as fields of its own."""


class RecordsSource(FilesSource):
    """Files of text, whose records may not be what they should be."""

    mode: Literal["FAILFAST", "PERMISSIVE", "DROPMALFORMED"] = Field(
        "FAILFAST",
        description="what becomes of a record that does not fit: FAILFAST, its window fails; "
        "PERMISSIVE, what cannot be read of it is NULL; DROPMALFORMED, it is left out. Of the last "
        "two the log tells how many there were",
    )

    @model_validator(mode="after")
    def _one_place_for_what_has_a_field(self) -> "RecordsSource":
        for name in self.options:
            field = _FIELDS_OF_OPTIONS.get(name.lower())
            if field in type(self).model_fields:
                raise ValueError(f"options.{name}: write {field} beside options, not in it")
        return self

    @property
    def is_strict(self) -> bool:
        """Whether a record that does not fit fails its window."""
        return self.mode == "FAILFAST"


class TextSource(RecordsSource):
    """Lines of text, in a column `value`."""

    type: Literal["text"]


class CsvSource(RecordsSource):
    """Comma-separated files, with quotes doubled within quotes (RFC 4180)."""

    type: Literal["csv"]
    header: bool = Field(False, description="whether the first line of each file names the columns")
    sep: str = ","
    null_value: str | None = Field(
        None,
        description="what stands for NULL, in quotes or not; by default nothing between two "
        'commas does, and `""` is an empty text',
    )


class JsonSource(RecordsSource):
    """JSON lines, or whole documents with `multiline`."""

    type: Literal["json"]
    multiline: bool = False
    unknown_fields: Literal["refuse", "ignore"] = Field(
        "refuse",
        description="what becomes of fields that columns does not name: the window fails, or they "
        "are left out",
    )


class JdbcSource(_Source):
    """A table or query of a connection."""

    type: Literal["jdbc"]
    connection: str
    table: str | None = None
    query: str | None = None
    partitions: int = Field(
        1, ge=1, description="of auto_inc_id tables: read a window by so many queries at once"
    )

    @model_validator(mode="after")
    def _one_origin(self) -> "JdbcSource":
        if (self.table is None) == (self.query is None):
            raise ValueError("give either table or query")
        return self


class CatalogSource(_Source):
    """A table of Spark's own catalog."""

    type: Literal["table"]
    name: str


class KafkaSource(_Source):
    """Topics of a Kafka cluster: key, value, topic, partition, offset, timestamp, headers."""

    type: Literal["kafka"]
    connection: str
    topic: str | tuple[str, ...] = Field(description="one topic, or a list of them")
    on_gap: Literal["fail", "report"] = Field(
        "fail",
        description="what happens when messages were deleted before they were read, or their topic "
        "was made anew: nothing is read, or what is there is and the log says what is lost",
    )

    @property
    def topics(self) -> tuple[str, ...]:
        return (self.topic,) if isinstance(self.topic, str) else self.topic


Source: TypeAlias = Annotated[
    FileSource | TextSource | CsvSource | JsonSource | JdbcSource | CatalogSource | KafkaSource,
    Field(discriminator="type"),
]


class _Target(Model):
    window_column: str | None = Field(
        None,
        description="the column whose value places a row in a window; "
        "without it a technical column `_window_start` does",
    )
    options: dict[str, Option] = Field(
        default_factory=dict, description="any option of Spark's writer"
    )


class _TableTarget(_Target):
    """A table that others may have filled before the first window comes."""

    mode: Literal["append", "overwrite_window", "overwrite", "upsert"] = "overwrite_window"
    existing_rows: Literal["refuse", "keep", "replace"] = Field(
        "refuse",
        description="when no row of the table has a `_window_start`, as others wrote them: the "
        "first window is refused; they stay beside what is loaded; or the first window replaces "
        "them all",
    )

    @model_validator(mode="after")
    def _existing_rows_have_a_meaning(self) -> "_TableTarget":
        if "existing_rows" not in self.model_fields_set:
            return self
        whatever = "whoever wrote them"
        if self.mode == "upsert":
            raise ValueError(f"mode upsert updates rows by their key, {whatever}: no existing_rows")
        if self.mode == "overwrite":
            raise ValueError(f"mode overwrite replaces all rows, {whatever}: no existing_rows")
        if self.mode == "overwrite_window" and self.window_column:
            problem = f"a window replaces all rows of its window_column, {whatever}"
            raise ValueError(f"{problem}: no existing_rows")
        return self


class IcebergTarget(_TableTarget):
    """An Iceberg table of the project's catalog, the default."""

    type: Literal["iceberg"]
    name: TableName | None = Field(None, description="the table's own name by default")
    key: tuple[str, ...] = Field((), description="the columns that identify a row, for upsert")


class FileTarget(_Target):
    """Plain files below the warehouse, published window by window."""

    type: Literal["parquet", "orc", "csv", "json"]
    mode: Literal["append", "overwrite_window", "overwrite"] = "overwrite_window"
    path: LocalFolder | None = Field(
        None, description="a folder; `<warehouse>/<layer>/<name>` by default"
    )
    existing_rows: Literal["refuse", "keep"] = Field(
        "refuse",
        description="when the folder holds files of others before the first window: it is refused; "
        "or they stay there, and no reader of this table sees them",
    )


class JdbcTarget(_TableTarget):
    """A table of a database; one transaction moves a window into place."""

    type: Literal["jdbc"]
    connection: str
    table: str
    key: tuple[str, ...] = Field((), description="the columns that identify a row, for upsert")
    pre_sql: tuple[str, ...] = Field(
        (),
        description="statements that run first in the transaction that publishes, after the step "
        "has read; for statements before the read: commit_before_read of the step",
    )


class KafkaTarget(_Target):
    """A topic; one Kafka transaction sends a window. Columns key, value, headers as in Spark."""

    type: Literal["kafka"]
    connection: str
    topic: str
    mode: Literal["append"] = "append"


Target: TypeAlias = Annotated[
    IcebergTarget | FileTarget | JdbcTarget | KafkaTarget,
    Field(discriminator="type"),
]

PythonReference = Annotated[str, StringConstraints(pattern=r"^[^:\s]+:[A-Za-z_][A-Za-z0-9_]*$")]


class CommittedSql(Model):
    """Statements that a step commits on a connection before it reads anything.

    Source: Kettle, "Execute SQL script" of the transformation template.
    """

    connection: str
    sql: Annotated[
        tuple[str, ...],
        BeforeValidator(as_tuple, json_schema_input_type=str | tuple[str, ...]),
    ] = Field(min_length=1, description="statements; `${name}` are variables, as in paths")
    transaction: bool = Field(
        True,
        description="all statements are committed together; false: each by itself, which DDL and "
        "TRUNCATE need on MariaDB",
    )


class StepConfig(Model):
    """Read → transform → write; the result is also a view of the step's name for later steps.

    Source: Sharp ETL, steps of a workflow; Kettle, transformation template.
    """

    step: StepName
    commit_before_read: tuple[CommittedSql, ...] = Field(
        (),
        description="statements that are executed and committed before the step reads, whether or "
        "not the window is published then, and again with each attempt and each retry",
    )
    source: Source | None = None
    sql: str | None = Field(None, description="a query; reads `source`, earlier steps and tables")
    sql_file: str | None = Field(None, description="a file with the query, beside this file")
    python: PythonReference | None = Field(
        None, description="`package.module:function` or `file.py:function`, DataFrames in and out"
    )
    loop_over: LoopField | None = Field(
        None,
        description="run source and query once for each row of a query or an earlier step, whose "
        "columns are `:row_name` and `${row_name}`",
    )
    target: Target | None = None
    quality: QualityConfig | None = None
    max_rows: int | None = Field(
        None,
        ge=0,
        description="the most rows that a window may write, of an upsert those that it changes; "
        "more of them are not published",
    )
    never_empty: bool = Field(
        False, description="true: a result without rows does not replace rows that are published"
    )
    change_at_most: PercentField | None = Field(
        None,
        description="by how many percent the number of rows may differ from that of the published "
        "rows which the result replaces; more is not published",
    )
    on_empty: Literal["continue", "skip_following_steps"] = "continue"
    can_recover: bool = Field(
        True, description="false: an attempt that is taken over never starts with this step"
    )

    @property
    def compares_replaced(self) -> bool:
        """Whether the result is compared with the published rows that it replaces."""
        return self.never_empty or self.change_at_most is not None

    @model_validator(mode="after")
    def _has_an_origin(self) -> "StepConfig":
        if not (self.source or self.sql or self.sql_file or self.python):
            raise ValueError("a step needs a source, sql, sql_file or python")
        if sum(given is not None for given in (self.sql, self.sql_file, self.python)) > 1:
            raise ValueError("give only one of sql, sql_file and python")
        target = self.target
        if target is None and self.on_empty != "continue":
            raise ValueError("on_empty needs a target: only written rows are counted")
        if target is None and (self.quality or self.max_rows is not None):
            raise ValueError("quality and max_rows need a target: only written rows are looked at")
        if self.compares_replaced and (
            target is None or target.type == "kafka" or target.mode == "upsert"
        ):
            raise ValueError(
                "never_empty and change_at_most need a target whose published rows are replaced: "
                "none of type kafka, and no mode upsert (max_rows limits what that changes)"
            )
        if isinstance(target, (IcebergTarget, JdbcTarget)):
            if target.mode == "upsert" and not target.key:
                raise ValueError("target.mode upsert needs target.key, the columns of a row's key")
            if target.mode != "upsert" and target.key:
                raise ValueError("target.key is only for target.mode upsert")
        return self


class CheckConfig(Model):
    """A query over the staged result; any row that it returns stops publication."""

    check: StepName
    sql: str = Field(description="reads step results by step name, and tables")
    description: str | None = None
