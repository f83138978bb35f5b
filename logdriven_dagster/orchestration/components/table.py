"""A table as a component of Dagster."""

from typing import Any

from dagster import (
    Component,
    ComponentLoadContext,
    ComponentTypeSpec,
    Definitions,
    scaffold_with,
)
from pydantic import BaseModel, ConfigDict

from logdriven_dagster.config.scaffolding.schemas import build_file_schemas
from logdriven_dagster.errors import UsageError
from logdriven_dagster.orchestration.components.project import LogdrivenProjectComponent
from logdriven_dagster.orchestration.components.scaffolding import TableScaffolder, project_of

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
