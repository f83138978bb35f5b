"""A project and its tables as components of Dagster."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from dagster import (
    AssetExecutionContext,
    AssetSpec,
    Component,
    ComponentLoadContext,
    ComponentTypeSpec,
    Definitions,
    Model,
    Resolvable,
    Resolver,
    in_process_executor,
    scaffold_with,
)
from dagster.components.resolved.core_models import OpSpec
from dagster.components.utils.translation import TranslationFn, TranslationFnResolver
from pydantic import BaseModel, ConfigDict, ValidationError

from logdriven_dagster.config.models.project import ProjectConfig, SensorConfig
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.models.wording import describe_problem
from logdriven_dagster.config.project import Project
from logdriven_dagster.config.scaffolding.schemas import build_file_schemas
from logdriven_dagster.errors import UsageError
from logdriven_dagster.execution.definitions.registering import load_for_code_location
from logdriven_dagster.orchestration.assets.translator import LogdrivenTranslator
from logdriven_dagster.orchestration.code_location import build_definitions
from logdriven_dagster.orchestration.components.scaffolding import (
    ProjectScaffolder,
    TableScaffolder,
    project_of,
)
from logdriven_dagster.orchestration.location import Location
from logdriven_dagster.orchestration.table_assets import Results, run_table


class SensorAttributes(Resolvable, Model):
    """Settings of the sensor that requests catch-ups, by code location."""

    enabled: bool | None = None
    interval: str | None = None
    max_windows: int | None = None


@scaffold_with(ProjectScaffolder)
@dataclass
class LogdrivenProjectComponent(Component, Resolvable):
    """Tables of a logdriven project as partitioned assets, with the jobs and sensors that run them.

    `dg scaffold defs logdriven_dagster.LogdrivenProjectComponent shop` makes a small project that
    runs right away: `logdriven.yaml`, a file for each table in `tables/`, and `defs.yaml`.

    A run log in a database, not the history of Dagster, decides which windows run: the oldest
    unfinished window first, never past a failed one. So tables may be run from the UI, by the
    sensor, by `dg launch` and by the `logdriven` command alike.

    Subclasses may override `get_asset_spec` and `execute`.
    """

    project: Annotated[
        Path,
        Resolver(
            lambda context, folder: context.resolve_source_relative_path(folder).resolve(),
            model_field_type=str,
            description="The folder of logdriven.yaml, relative to the folder of this file.",
            examples=["."],
        ),
    ]
    tables: Annotated[
        Sequence[str],
        Resolver.default(
            description="Names of tables and jobs, or patterns of tables, to show and run here; "
            "default: all.",
            examples=[["ods.*", "nightly"]],
        ),
    ] = ()
    translation: (
        Annotated[
            TranslationFn[TableConfig],
            TranslationFnResolver(lambda table: {"table": table}),
        ]
        | None
    ) = None
    op: OpSpec | None = None
    prefix: Annotated[
        str,
        Resolver.default(
            description="Prefix of the names of ops, jobs, sensors and resources, for code "
            "locations where another project has the same names.",
        ),
    ] = ""
    sensor: SensorAttributes | None = None
    run_log: Annotated[
        str | None,
        Resolver.default(
            description="The URL of the run log, instead of the project's.",
            examples=["${env:RUN_LOG}"],
        ),
    ] = None
    executor: Annotated[
        Literal["in_process", "none"],
        Resolver.default(
            description="in_process: the steps of a run share one Spark session. none: use the "
            "executor of the code location."
        ),
    ] = "in_process"

    @classmethod
    def get_spec(cls) -> ComponentTypeSpec:
        """Return the component type's specification, which `dg` shows."""
        return ComponentTypeSpec(tags=["spark", "etl", "iceberg"])

    @cached_property
    def translator(self) -> LogdrivenTranslator:
        """The translator that creates a table's asset before `translation` is applied."""
        return LogdrivenTranslator()

    def get_asset_spec(self, table: TableConfig, project: Project) -> AssetSpec:
        """Return the specification of a table's asset; a subclass may change it.

        ```python
        class OurComponent(LogdrivenProjectComponent):
            def get_asset_spec(self, table, project):
                spec = super().get_asset_spec(table, project)
                return spec.merge_attributes(tags={"cost_centre": table.tags["domain"]})
        ```
        """
        spec = self.translator.get_asset_spec(table, project)
        return self.translation(spec, table) if self.translation else spec

    def execute(
        self, context: AssetExecutionContext, table: TableConfig, location: Location
    ) -> Results:
        """Process the partitions of a run, oldest window first; a subclass may extend it.

        ```python
        class OurComponent(LogdrivenProjectComponent):
            def execute(self, context, table, location):
                context.log.info("for the data team")
                yield from super().execute(context, table, location)
        ```
        """
        yield from run_table(context, table, location)

    def build_defs(self, context: ComponentLoadContext) -> Definitions:  # noqa: ARG002 - Dagster's
        """Build the assets, jobs, schedules and sensors of the project."""
        return build_definitions(
            load_for_code_location(self.project, self._apply_attributes),
            tables=self.tables,
            translator=_Translator(self),
            prefix=self.prefix,
            executor=in_process_executor if self.executor == "in_process" else None,
            op=self.op,
            execute=self.execute,
        )

    def _apply_attributes(self, config: ProjectConfig) -> ProjectConfig:
        changed: dict[str, Any] = {"run_log": self.run_log} if self.run_log else {}
        if self.sensor is not None:
            given = self.sensor.model_dump(exclude_none=True)
            try:
                changed["sensor"] = SensorConfig.model_validate(config.sensor.model_dump() | given)
            except ValidationError as error:
                name = error.errors()[0]["loc"][-1]
                raise UsageError(f"sensor: {name}: {describe_problem(error)}") from None
        return config.model_copy(update=changed)


@dataclass(frozen=True)
class _Translator(LogdrivenTranslator):
    """A translator that delegates to the component, which a subclass may have changed."""

    component: LogdrivenProjectComponent

    def get_asset_spec(self, table: TableConfig, project: Project) -> AssetSpec:
        return self.component.get_asset_spec(table, project)


_EXAMPLE = {
    "table": "ods.orders",
    "default_start": "2026-01-01",
    "period": "1 day",
    "steps": [
        {
            "step": "load",
            "source": {"type": "parquet", "path": "orders", "window_column": "ordered_at"},
            "target": {"type": "iceberg", "window_column": "ordered_at"},
        }
    ],
}
"""The example of the type in `dg docs` and similar commands."""


class TableAttributes(BaseModel):
    """The fields of a table file. The project that it belongs to checks them."""

    model_config = ConfigDict(extra="allow")

    @classmethod
    def model_json_schema(cls, *_: Any, **__: Any) -> dict[str, Any]:
        """Return the schema of table files, which `dg check yaml` and editors use."""
        return build_file_schemas()["table"] | {"examples": [_EXAMPLE]}


@scaffold_with(TableScaffolder)
class TableComponent(Component):
    """A table of a logdriven project: its `defs.yaml` is a table file.

    `dg scaffold defs logdriven_dagster.TableComponent shop/tables/orders` writes one. It lies below
    `tables/` of the project, where the `logdriven` command finds it, too; its asset is among those
    of the project's `LogdrivenProjectComponent`.
    """

    @classmethod
    def get_spec(cls) -> ComponentTypeSpec:
        """Return the component type's specification, which `dg` shows."""
        return ComponentTypeSpec(tags=["spark", "etl", "iceberg"])

    @classmethod
    def get_model_cls(cls) -> type[BaseModel]:
        """Return the model of `attributes`."""
        return TableAttributes

    @classmethod
    def load(cls, *_: Any) -> "TableComponent":
        """Return the component of a file; the project reads the attributes."""
        return cls()

    def build_defs(self, context: ComponentLoadContext) -> Definitions:
        """Build nothing, since the project has the asset.

        Raises UsageError if no project shows it.
        """
        project = project_of(context.path)
        shown = context.component_tree.get_all_components(LogdrivenProjectComponent)
        if not any(component.project == project for component in shown):
            fix = f"add a LogdrivenProjectComponent whose `project` is {project}"
            raise UsageError(f"{context.path}: no component loads its project; {fix}")
        return Definitions()
