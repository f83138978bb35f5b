"""Features of a project that are not proven to behave on Sail as on Spark: docs/plugins/sail.md.

Features that are not on a list here, or in `supported_sql`, are rejected before anything runs.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from logdriven_dagster.config.checking.engines import Documents
from logdriven_dagster.config.locations import is_remote
from logdriven_dagster.config.models.jobs import MaintenanceJob
from logdriven_dagster.config.models.project import ProjectConfig
from logdriven_dagster.config.models.steps import CheckConfig, StepConfig
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.models.types.declared_columns import describe_columns
from logdriven_dagster.config.models.types.files import CsvSource
from logdriven_dagster.config.models.types.sources import Source
from logdriven_dagster.config.models.types.targets import TableTarget, Target
from logdriven_dagster.config.models.types.time_columns import TimeColumn, WindowColumn
from logdriven_dagster.config.project import Project
from logdriven_dagster.config.sql.references import UnreadableSqlError
from logdriven_dagster.config.yaml.documents import Document, Location
from logdriven_dagster.errors import ConfigError
from logdriven_dagster.plugins.sail.supported_casts import UnprovenError, type_named
from logdriven_dagster.plugins.sail.supported_queries import Columns, build_safe_query
from logdriven_dagster.plugins.sail.supported_sql import COMPARED, STORED

SOURCES: Final[Mapping[str, frozenset[str]]] = {
    "parquet": frozenset({"type", "path", "columns", "window_column"}),
    "csv": frozenset({"type", "path", "columns", "window_column", "header", "sep", "mode"}),
}
"""Supported fields by type of source."""

TARGETS: Final[Mapping[str, frozenset[str]]] = {
    "iceberg": frozenset({"type", "mode", "window_column", "name", "existing_rows", "key"}),
    "parquet": frozenset({"type", "mode", "window_column", "path", "existing_rows"}),
}
SEPARATORS: Final = (",", ";", "|", "\t")
MODES: Final = {
    "iceberg": ("append", "overwrite_window", "overwrite", "upsert"),
    "parquet": ("append", "overwrite_window", "overwrite"),
}
WINDOW_COLUMNS: Final = {"source": ("timestamp",), "target": ("timestamp", "date")}
STEP: Final = frozenset(
    {"step", "source", "sql", "sql_file", "target", "max_rows", "on_empty", "can_recover"}
)
"""Supported fields of a step."""

ZONES: Final = ("UTC", "Etc/UTC")
SETTINGS: Final = frozenset(
    {
        "spark.sql.session.timeZone",
        "spark.sql.shuffle.partitions",
        "spark.sql.parquet.outputTimestampType",
    }
)
"""Spark SQL settings that do not affect rows; Sail ignores settings of the JVM."""

_FIX = "rewrite it, or run the project on Spark (spark.engine: spark)"
_BOUND = re.compile(r":data_range_(?:start|end)\b")
_COLUMN = re.compile(
    r"`?(\w+)`?\s*:?\s+([a-z]+(?:\s*\(\s*\d+\s*(?:,\s*\d+\s*)?\))?)", re.IGNORECASE
)
_ALIASES = {"integer": "int", "long": "bigint", "bool": "boolean", "numeric": "decimal"}


def find_unsupported(project: Project, documents: Documents) -> Iterator[ConfigError]:
    """Yield an error for each feature of a project that Sail does not support."""
    yield from find_unsupported_settings(documents.main, project.config)
    known: dict[str, Columns] = {}
    for name, document in documents.tables.items():
        table = project.tables[name]
        queries = {step.step: project.step_sql(table, step) for step in table.steps}
        yield from find_unsupported_in_table(table, document, queries, known)

    for name, job in project.jobs.items():
        if isinstance(job, MaintenanceJob):
            yield from _check_upkeep(job, documents.jobs[name])


def find_unsupported_in_table(
    table: TableConfig,
    document: Document,
    queries: Mapping[str, str | None],
    known: dict[str, Columns],
) -> Iterator[ConfigError]:
    """Yield an error for each feature of a table that is not supported on Sail.

    `queries` are those of its steps. `known` holds the columns of earlier tables; this table's
    columns are added.
    """
    return _Table(table, document, queries, known).find_unsupported()


def _check_upkeep(job: MaintenanceJob, document: Document) -> Iterator[ConfigError]:
    """Yield an error for each maintenance step that needs Spark."""
    for n, step in enumerate(job.steps):
        if step.sql is not None and step.connection is None:
            yield _build_error(document, ("steps", n, "sql"), "a statement without a connection")
        if step.python is not None:
            yield _build_error(document, ("steps", n, "python"), "a Python function")
        if step.upkeep == "compact_files":
            yield _build_error(document, ("steps", n, "upkeep"), "compact_files")


def find_unsupported_settings(document: Document, config: ProjectConfig) -> Iterator[ConfigError]:
    """Yield an error for each project setting that keeps all tables from running on Sail."""
    spark = config.spark
    if str(config.timezone) not in ZONES:
        problem = f"times in {config.timezone} are not supported on Sail"
        yield document.error(("timezone",), problem, "use UTC")
    if spark.remote != "classic":
        problem = "Sail starts its own server"
        yield document.error(("spark", "remote"), problem, "remove remote, or engine: sail")
    for name in sorted(spark.config):
        if name.startswith("spark.sql.") and name not in SETTINGS:
            yield _build_error(document, ("spark", "config"), f"the setting {name}")
    if is_remote(config.warehouse):
        yield _build_error(document, ("warehouse",), "an object store")


def _check_csv(source: CsvSource, document: Document, place: Location) -> Iterator[ConfigError]:
    if not source.header:
        yield _build_error(document, (*place, "header"), "a CSV file without a header")
    if source.sep not in SEPARATORS:
        yield _build_error(document, (*place, "sep"), f"sep: {source.sep!r}")
    if source.mode != "FAILFAST":
        yield _build_error(document, (*place, "mode"), f"mode: {source.mode}")


@dataclass(frozen=True, slots=True)
class _Table:
    """A table, the queries of its steps, and the columns of earlier tables."""

    table: TableConfig
    document: Document
    queries: Mapping[str, str | None]
    known: dict[str, Columns]
    """Columns by table; this table's columns are added."""
    made: dict[str, Columns] = field(default_factory=dict)
    """Columns by the step that writes them."""

    def find_unsupported(self) -> Iterator[ConfigError]:
        table, document = self.table, self.document
        if table.incremental_type != "time_window":
            what = f"incremental_type: {table.incremental_type}"
            yield _build_error(document, ("incremental_type",), what)
        if table.missing_columns != "refuse":
            yield _build_error(document, ("missing_columns",), "missing_columns: allow")
        if any(column.is_required for column in describe_columns(table.columns or "")):
            yield _build_error(document, ("columns",), "NOT NULL in columns")
        for n, step in enumerate(table.steps):
            place = ("steps", n)
            found = list(_check_fields(step, document, place))
            yield from found
            if not found:
                yield from self._check_rows(step, place)
        for n, check in enumerate(table.checks):
            yield from self._check_quality_check(check, ("checks", n, "sql"))

    def _check_quality_check(self, check: CheckConfig, place: Location) -> Iterator[ConfigError]:
        """Yield an error if a check's query is not proven; it may read steps and tables."""
        try:
            build_safe_query(fill_bounds(check.sql), {**self.known, **self.made})
        except UnprovenError as error:
            yield _build_error(self.document, place, str(error))
        except UnreadableSqlError as error:
            yield self.document.error(place, f"cannot read this query: {error}")

    def _check_rows(self, step: StepConfig, place: Location) -> Iterator[ConfigError]:
        """Yield an error for each type in a step's source or query that is not proven."""
        where: Location = (*place, "source", "columns")
        try:
            columns: Columns = {}
            if step.source is not None:
                columns = parse_declared_columns(getattr(step.source, "columns", None))
                where = (*place, "source", "window_column")
                _refuse_window_column(step.source.window_column, columns, "source")
            if (sql := self.queries[step.step]) is not None:
                where = (*place, "sql_file" if step.sql_file else "sql")
                tables = {**self.known, **({"source": columns} if step.source else {})}
                columns = build_safe_query(fill_bounds(sql), tables).columns
            where = (*place, "target", "window_column")
            assert step.target is not None
            _refuse_window_column(step.target.window_column, columns, "target")
            if isinstance(step.target, TableTarget):
                where = (*place, "target", "key")
                _refuse_key(step.target.key, columns)
            self.known[self.table.table] = self.made[step.step] = columns
        except UnprovenError as error:
            yield _build_error(self.document, where, str(error))
        except UnreadableSqlError as error:
            yield self.document.error(where, f"cannot read this query: {error}")


def _check_fields(step: StepConfig, document: Document, place: Location) -> Iterator[ConfigError]:
    for name in sorted(step.model_fields_set - STEP):
        if getattr(step, name) != type(step).model_fields[name].get_default(
            call_default_factory=True
        ):
            yield _build_error(document, (*place, name), name)
    if step.source is not None:
        yield from _check_part(step.source, SOURCES, document, (*place, "source"))
    if step.target is None:
        yield _build_error(document, place, "a step without a target")
    else:
        yield from _check_part(step.target, TARGETS, document, (*place, "target"))
        if step.target.mode not in MODES.get(step.target.type, (step.target.mode,)):
            what = f"mode: {step.target.mode}"
            yield _build_error(document, (*place, "target", "mode"), what)


def _check_part(
    part: Source | Target,
    proven: Mapping[str, frozenset[str]],
    document: Document,
    place: Location,
) -> Iterator[ConfigError]:
    known = proven.get(part.type)
    kind = place[-1]
    if known is None:
        yield _build_error(document, (*place, "type"), f"a {kind} of type {part.type}")
        return
    for name in sorted(part.model_fields_set - known):
        if getattr(part, name):
            yield _build_error(document, (*place, name), f"{name} of a {kind} of type {part.type}")
    if isinstance(part, CsvSource):
        yield from _check_csv(part, document, place)
    path: Any = getattr(part, "path", None)
    if path is not None and (is_remote(path) or set(path) & set("*?[]{}\\")):
        what = f"the path {path} of a {kind} (use one local file or folder)"
        yield _build_error(document, (*place, "path"), what)
    existing = getattr(part, "existing_rows", "refuse")
    if existing != "refuse":
        yield _build_error(document, (*place, "existing_rows"), f"existing_rows: {existing}")


def parse_declared_columns(ddl: str | None) -> Columns:
    """Parse the columns of a source. Raises UnprovenError for other types or without columns."""
    if ddl is None:
        raise UnprovenError("a source without columns, whose types are unknown,")
    columns = {}
    for part in re.split(r",(?![^(]*\))", ddl):
        found = _COLUMN.fullmatch(part.strip())
        if found is None:
            raise UnprovenError(f"the column {part.strip()}")
        kind = re.sub(r"\s", "", found[2].lower())
        head, bracket, rest = kind.partition("(")
        kind = _ALIASES.get(head, head) + bracket + rest
        if re.fullmatch(r"decimal\(\d+\)", kind):
            kind = f"{kind[:-1]},0)"
        columns[found[1]] = type_named("decimal(10,0)" if kind == "decimal" else kind)
        if columns[found[1]].kind not in STORED:
            raise UnprovenError(f"a column of type {kind}")
    return columns


def fill_bounds(sql: str) -> str:
    """Return a query with literal timestamps instead of the bounds of its window."""
    return _BOUND.sub("TIMESTAMP '2024-01-01 00:00:00Z'", sql)


def _refuse_window_column(name: WindowColumn | None, columns: Columns, kind: str) -> None:
    if name is None:
        return
    if isinstance(name, TimeColumn):
        raise UnprovenError(f"a window_column with {name.shown}")
    found = columns.get(name)
    if found is None:
        raise UnprovenError(f"a window_column {name} without a column of exactly this name")
    if found.kind not in WINDOW_COLUMNS[kind]:
        raise UnprovenError(f"a window_column of type {found}")


def _refuse_key(key: Sequence[str], columns: Columns) -> None:
    for name in key:
        if name not in columns:
            raise UnprovenError(f"a key {name} without a column of exactly this name")
        if columns[name].kind not in COMPARED:
            raise UnprovenError(f"a key of type {columns[name]}")


def _build_error(document: Document, place: Location, what: str) -> ConfigError:
    problem = f"{what} is not supported on Sail"
    return document.error(place, problem.replace(", is", " is"), _FIX)
