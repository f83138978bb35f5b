"""Stand-ins: the project of a test, whose sources and upstream tables have the given rows.

The table under test keeps its queries, functions, rules, checks and write modes. Its targets are in
a temporary warehouse; a target in a database or a topic becomes an Iceberg table of the same mode.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from logdriven_dagster.config.models.dependencies import Dependency
from logdriven_dagster.config.models.frozen import Option
from logdriven_dagster.config.models.project import Defaults, ProjectConfig
from logdriven_dagster.config.models.steps import StepConfig
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.models.types.engines import SPARK
from logdriven_dagster.config.models.types.files import FileSource, FilesSource, TextSource
from logdriven_dagster.config.models.types.iceberg import IcebergTarget
from logdriven_dagster.config.models.types.sources import Source
from logdriven_dagster.config.models.types.targets import FolderTarget, Target
from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.targets.rejected import build_rejected_target
from logdriven_dagster.plugins.table_tests.given.target import GivenTarget

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_FIRST_COMPILER = "-XX:TieredStopAtLevel=1"
"""Java's option to use only its first compiler: tests end before the second one pays off."""
_FOR_FEW_ROWS: Mapping[str, Option] = {
    "spark.sql.adaptive.enabled": False,
    "spark.sql.codegen.wholeStage": False,
    "spark.sql.shuffle.partitions": 1,
}
"""Settings with which Spark processes a few rows faster; they do not change a result."""
_MESSAGES = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, "
    "timestampType INT, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)
"""The columns of a topic's messages."""
OFFSET = "offset"
SOURCE = "source"
"""The name of the only source of a table, in `given`."""


@dataclass(frozen=True, slots=True)
class Input:
    """A source or an upstream table of a table under test."""

    name: str
    """The name of the step that reads the source, or of the upstream table."""
    columns: str | None
    """The declared columns of the source."""
    is_table: bool = False
    has_offsets: bool = False
    """True if the rows are messages, which are read by their offsets."""

    @property
    def title(self) -> str:
        """The input in messages."""
        return self.name if self.is_table else f"the source of step {self.name}"


def list_inputs(table: TableConfig) -> Iterator[Input]:
    """Yield the sources and the upstream tables whose rows a test of the table gives."""
    for step in table.steps:
        if step.source is not None:
            columns = get_declared_columns(step.source)
            yield Input(step.step, columns, has_offsets=step.source.has_offsets)
    for dependency in table.managed_dependencies:
        if dependency.read != "none":
            yield Input(dependency.table, None, is_table=True)


def get_declared_columns(source: Source) -> str | None:
    """Return the columns of a source as Spark DDL, or None if they are not declared."""
    if isinstance(source, TextSource):
        return "value STRING"
    if source.has_offsets:
        return _MESSAGES
    columns = getattr(source, "columns", None)
    return None if columns is None or "${" in columns else str(columns)


def resolve_names(table: TableConfig) -> dict[str, str]:
    """Return the names that `given` may use, with the name of the input that each one means."""
    names = {each.name: each.name for each in list_inputs(table)}
    sources = [each.name for each in list_inputs(table) if not each.is_table]
    return {SOURCE: sources[0], **names} if len(sources) == 1 else names


def build_test_project(
    project: Project,
    table: TableConfig,
    folder: Path,
    files: Mapping[str, Path],
    variables: Mapping[str, Option],
    *,
    keys: tuple[int, int | None] | None = None,
) -> Project:
    """Return the project of a test, which reads given rows and writes below a folder.

    Args:
        project: the project under test.
        table: its table under test.
        folder: the temporary folder of the test.
        files: the Parquet file of each input, by its name.
        variables: values that replace those of the table and the project.
        keys: the key after which the first window begins, and its last key, if there is one.
    """
    tables = {
        name: _build_upstream(project.tables[name], files.get(name))
        for dependency in table.managed_dependencies
        if (name := dependency.table) != table.table
    }
    built = _with_keys(_build_table(table, files, variables), keys)
    tables[table.table] = built
    tables |= {each.table: each for each in _list_rejected(built)}
    config = build_config(project, folder)
    own = {name: value for name, value in variables.items() if name in config.variables}
    config = config.model_copy(update={"variables": {**config.variables, **own}})
    paths = {name: project.files.get(name, project.files[table.table]) for name in tables}
    return Project(folder, config, tables, {}, paths)


def _list_rejected(table: TableConfig) -> Iterator[TableConfig]:
    """Yield a table for each target of rejected rows, so that they can be read."""
    for step in table.steps:
        if (apart := build_rejected_target(table.table, step)) is not None:
            name, target = apart
            written = StepConfig.model_construct(step=step.step, sql="SELECT 1", target=target)
            yield table.model_copy(
                update={"table": name, "steps": (written,), "depends_on": (), "checks": ()}
            )


def build_config(project: Project, folder: Path) -> ProjectConfig:
    """Return the settings of a test: it writes only below `folder` and notifies no recipient."""
    given = project.config.spark.config
    java = f"{_FIRST_COMPILER} {given.get(_JAVA_OPTIONS, '')}".strip()
    settings = {**given, **_FOR_FEW_ROWS, _JAVA_OPTIONS: java}
    # A server has other settings, and another host does not have the files of the test.
    spark: dict[str, Any] = {"engine": SPARK, "remote": "classic", "config": settings}
    return project.config.model_copy(
        update={
            "run_log": "sqlite://",
            "warehouse": str(folder / "warehouse"),
            "storage": {},
            "catalog": None,
            "recipients": {},
            "lineage": False,
            "max_parallel": 1,
            "defaults": Defaults(),
            "spark": project.config.spark.model_copy(update=spark),
        }
    )


def build_offline_project(project: Project, names: Collection[str]) -> Project:
    """Return the project of some tables and their upstreams, for an analysis that reads no source.

    Sources with declared columns are empty; the columns of the others are unknown.
    """
    needed = _find_with_upstreams(project, names)
    tables = {
        name: table.model_copy(
            update={"steps": tuple(map(_build_offline_step, table.steps)), "checks": ()}
        )
        for name, table in project.tables.items()
        if name in needed
    }
    return replace(project, tables=tables, jobs={}, registering=None)


def with_deliveries(project: Project, upstream: TableConfig) -> Project:
    """Return the project in which an upstream table can run, to deliver windows without rows."""
    target = IcebergTarget(type="iceberg")
    written = StepConfig.model_construct(step="given", sql="SELECT 1", target=target)
    delivering = upstream.model_copy(update={"steps": (written,)})
    return project.with_tables({upstream.table: delivering})


def _find_with_upstreams(project: Project, names: Collection[str]) -> set[str]:
    """Return tables with all upstreams on which the columns of their results depend."""
    found, waiting = set[str](), list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            table = project.tables[name]
            if table.columns is None:
                waiting += [dependency.table for dependency in table.managed_dependencies]
    return found


def with_existing_rows(project: Project, table: TableConfig, start: datetime) -> Project:
    """Return the project in which a table is written by frames, in windows from `start` on.

    Rows of a table that keeps history are versions, which are written as they are.
    """
    step = next(step for step in reversed(table.steps) if step.target is table.output)
    target = table.output
    if target.write_mode.keeps_history:
        target = target.model_copy(update={"mode": "append"})
    written = StepConfig.model_construct(step=step.step, python="given:rows", target=target)
    update: dict[str, Any] = {"steps": (written,), "checks": (), "default_start": start}
    if table.is_sliced:
        update |= {"incremental_type": "time_window"}
    return project.with_tables({table.table: table.model_copy(update=update)})


def _build_offline_step(step: StepConfig) -> StepConfig:
    source = step.source
    if source is None:
        return step
    columns = get_declared_columns(source)
    if columns is None:
        unknown = {"source": None, "sql": None, "sql_file": None, "python": "unknown:source"}
        return step.model_copy(update=unknown)
    return step.model_copy(
        update={"source": FileSource(type="parquet", path="given", columns=columns)}
    )


def _build_table(
    table: TableConfig, files: Mapping[str, Path], variables: Mapping[str, Option]
) -> TableConfig:
    """Return the table under test: its windows wait for nothing and are not retried."""
    own = {name: value for name, value in variables.items() if name in table.variables}
    return table.model_copy(
        update={
            "steps": tuple(_build_step(step, files.get(step.step)) for step in table.steps),
            "depends_on": tuple(map(_without_conditions, table.managed_dependencies)),
            "variables": {**table.variables, **own},
            "ordered": table.is_sliced,
            "delay": timedelta(0),
            "lookback": 0,
            "retries": 0,
            "retry_interval": timedelta(0),
            "notify": (),
            "freshness": None,
            "enabled": True,
        }
    )


def _with_keys(table: TableConfig, keys: tuple[int, int | None] | None) -> TableConfig:
    """Return a table whose windows begin after a key; messages are read by offset as a key."""
    update: dict[str, Any] = {}
    if table.incremental_type == "kafka_offset":
        size = table.max_offsets_per_window
        update = {"incremental_type": "auto_inc_id", "default_start": -1, "window_size": size}
    if keys is not None:
        start, end = keys
        update["default_start"] = start
        update |= {} if end is None else {"window_size": end - start}
    return table.model_copy(update=update) if update else table


def _without_conditions(dependency: Dependency) -> Dependency:
    met = {"condition": "success", "delay": timedelta(0), "skipped": "ignore"}
    return dependency.model_copy(update=met)


def _build_step(step: StepConfig, file: Path | None) -> StepConfig:
    target = None if step.target is None else _build_target(step.target)
    update: dict[str, Any] = {"commit_before_read": (), "target": target}
    if step.source is not None:
        assert file is not None
        update["source"] = _build_source(step.source, file)
    return step.model_copy(update=update)


def _build_source(source: Source, file: Path) -> FileSource:
    key = OFFSET if source.has_offsets else source.key_column
    kept: dict[str, Any] = {"window_column": source.window_column, "key_column": key}
    if isinstance(source, FilesSource):
        kept |= {"on_empty": source.on_empty, "detect_changes_by": source.detect_changes_by}
    found = FileSource(type="parquet", path=str(file))
    return found.model_copy(update=kept)


def _build_target(target: Target) -> Target:
    if isinstance(target, IcebergTarget):
        return target
    if isinstance(target, FolderTarget):
        return target.model_copy(update={"path": None})
    fields = IcebergTarget.model_fields.keys() - {"type", "name", "options"}
    values = {name: getattr(target, name) for name in target.model_fields_set & fields}
    return IcebergTarget.model_validate({"type": "iceberg", "mode": "append", **values})


def _build_upstream(table: TableConfig, file: Path | None) -> TableConfig:
    """Return an upstream table whose rows are given; one with slices is read as a whole."""
    output = table.output
    target = GivenTarget(mode=output.mode, path=str(file), window_column=output.window_column)
    step = StepConfig.model_construct(step="given", sql="SELECT 1", target=target)
    update: dict[str, Any] = {
        "steps": (step,),
        "checks": (),
        "depends_on": (),
        "ordered": False,
        "notify": (),
        "freshness": None,
    }
    if table.is_sliced:
        update |= {"incremental_type": "full", "default_start": table.grid.origin}
    return table.model_copy(update=update)
