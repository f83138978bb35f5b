"""Validation of conditions, delays and relations."""

from collections.abc import Iterable, Iterator, Mapping

from logdriven_dagster.config.models.dependencies import AssetDependency, Dependency
from logdriven_dagster.config.models.jobs import Relation, StandardJob
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.models.types.targets import HistoryTarget
from logdriven_dagster.config.sql.references import UnreadableSqlError
from logdriven_dagster.config.sql.row_conditions import find_changing_part
from logdriven_dagster.config.yaml.documents import Document
from logdriven_dagster.errors import ConfigError

_OTHER = {"success": "failure", "failure": "success"}


def check_conditions(
    table: TableConfig, document: Document, tables: Mapping[str, TableConfig]
) -> Iterator[ConfigError]:
    """Yield mistakes in `depends_on` of a table.

    For example, tables without data time have no windows in common with others. `tables` are those
    of the project with valid files, by name.
    """
    for n, dependency in enumerate(table.depends_on):
        if isinstance(dependency, AssetDependency):
            if table.is_sliced and dependency.window != "any":
                problem = (
                    f"only time windows can wait for partitions of an asset; {_name_slices(table)}"
                )
                fix = "use `window: any` to wait for any materialization"
                yield document.error(("depends_on", n), problem, fix)
            continue
        upstream = tables.get(dependency.table)
        of_snapshots = upstream is not None and upstream.incremental.is_snapshot
        if dependency.window == "newest" and not of_snapshots:
            problem = f"window: newest needs a full upstream; {dependency.table} is not full"
            fix = "for other tables, use window: overlapping"
            yield document.error(("depends_on", n, "window"), problem, fix)
        keeps_history = upstream is not None and upstream.output.write_mode.keeps_history
        if keeps_history and dependency.read == "window" and "read" in dependency.model_fields_set:
            problem = f"read: window is not possible; {dependency.table} is a history, read whole"
            fix = "remove read, and select versions by their times in the SQL"
            yield document.error(("depends_on", n, "read"), problem, fix)
        if dependency.condition == "success" and not dependency.delay:
            continue
        upstream = tables.get(dependency.table)
        for item in (table, upstream):
            if item is not None and item.is_sliced:
                problem = f"condition and delay need time windows; {_name_slices(item)}"
                yield document.error(("depends_on", n), problem)


def check_deletions(table: TableConfig, document: Document) -> Iterator[ConfigError]:
    """Yield mistakes in `deleted_when`: a rerun of a window must delete the same rows."""
    for n, step in enumerate(table.steps):
        if not isinstance(step.target, HistoryTarget) or step.target.deleted_when is None:
            continue
        place = ("steps", n, "target", "deleted_when")
        try:
            found = find_changing_part(step.target.deleted_when)
        except UnreadableSqlError as error:
            yield document.error(place, f"cannot read this SQL: {error}")
            continue
        if found is not None:
            problem = f"must depend on the columns of a row only, not on {found}"
            fix = "a rerun would delete other rows; load the value as a column of the changes"
            yield document.error(place, problem, fix)


def check_relations(
    job: StandardJob, document: Document, tables: Mapping[str, TableConfig]
) -> Iterator[ConfigError]:
    """Yield mistakes in the relations of a job whose table names are already validated.

    `tables` are those of the project with valid files, by name.
    """
    for n, relation in enumerate(job.relations):
        to = tables.get(relation.to)
        if to is None:
            continue
        if to.is_sliced:
            problem = f"relations need time windows; {_name_slices(to)}"
            yield document.error(("relations", n, "to"), problem)
        conditional = relation.condition != "success" or relation.delay
        for name in relation.upstream:
            upstream = tables.get(name)
            if upstream is not None and upstream.is_sliced and conditional:
                problem = f"condition and delay need time windows; {_name_slices(upstream)}"
                yield document.error(("relations", n, "from"), problem)
            if _is_contradicted(name, relation, _list_waits(job, to)):
                problem = f"{relation.to} waits for the success and for the failure of {name}"
                fix = "they exclude each other; use one relation with `always`"
                yield document.error(("relations", n), problem, fix)


def _list_waits(job: StandardJob, to: TableConfig) -> Iterable[Dependency | Relation]:
    return (*to.managed_dependencies, *(r for r in job.relations if r.to == to.table))


def _is_contradicted(name: str, relation: Relation, waits: Iterable[Dependency | Relation]) -> bool:
    """Return True if a table also waits for the opposite outcome of the same windows."""
    return any(
        wait.condition == _OTHER.get(relation.condition)
        and wait.window == relation.window
        and name in (wait.upstream if isinstance(wait, Relation) else (wait.table,))
        for wait in waits
    )


def _name_slices(table: TableConfig) -> str:
    return f"{table.table} has numbered windows ({table.incremental_type})"
