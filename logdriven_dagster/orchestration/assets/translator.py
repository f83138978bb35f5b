"""The mapping of tables to assets: the class to subclass for custom rules."""

from typing import Any

from dagster import AssetSpec, DagsterInvalidDefinitionError

from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.project import Project
from logdriven_dagster.orchestration.assets.descriptions import description
from logdriven_dagster.orchestration.assets.metadata import kinds, table_metadata
from logdriven_dagster.orchestration.location import default_key


class LogdrivenTranslator:
    """The mapping of tables to asset specifications. Override `get_asset_spec` to change it.

    ```python
    class Ours(LogdrivenTranslator):
        def get_asset_spec(self, table, project):
            spec = super().get_asset_spec(table, project)
            return spec.replace_attributes(key=spec.key.with_prefix("lake"), group_name="lake")
    ```
    """

    def get_asset_spec(self, table: TableConfig, project: Project) -> AssetSpec:
        """Return the specification of a table's asset: key, group, owners, tags, kinds and so on.

        Keys of the tables that it depends on are added afterwards, as these tables are translated,
        to the `deps` of this specification; so are its partitions, which are the table's windows.
        """
        tags = {k: v for k, v in table.tags.items() if _is_valid(tags={k: v})}
        refused = {f"tag {k}": v for k, v in table.tags.items() if k not in tags}
        return AssetSpec(
            default_key(table.table),
            description=description(project, table),
            group_name=table.layer,
            owners=[owner for owner in table.owners if _is_valid(owners=[owner])],
            tags=tags,
            kinds=kinds(project, table),
            metadata=table_metadata(project, table) | refused,
        )


def _is_valid(**fields: Any) -> bool:
    """Return True if Dagster accepts the tags or owners of an asset."""
    try:
        AssetSpec("any", **fields)
    except DagsterInvalidDefinitionError:
        return False
    return True
