"""Contracts: the frozen columns of a table, and the changes that break them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from logdriven_dagster.config.changes.effects import read_table
from logdriven_dagster.config.changes.fields import Effect
from logdriven_dagster.config.changes.readers import Reader
from logdriven_dagster.config.changes.tables import TableChange
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.models.types.declared_columns import DeclaredColumn, describe_columns
from logdriven_dagster.config.project import Project
from logdriven_dagster.config.sql.known_names import examine_query


def find_broken_contracts(
    project: Project,
    before: Mapping[str, Any] | None,
    after: TableConfig | None,
    changes: Sequence[TableChange],
    readers: Sequence[Reader],
) -> Iterator[TableChange]:
    """Yield what a change of a table breaks: its own frozen columns, and those of its readers.

    Args:
        project: The project with the changed table.
        before: The registered content of the table; None if it is new.
        after: The changed table; None if it is deleted.
        changes: The differences between both.
        readers: The downstream tables that see them.
    """
    known = None if before is None else read_table(before)
    texts: list[str] = []
    if known is not None and known.schema_rule == "frozen":
        texts += _compare_frozen(known, after)
    if after is not None:
        texts += _compare_with_result(project, after)
    for reader in readers:
        config = project.tables[reader.table]
        if config.schema_rule == "frozen" and _may_change_columns(changes):
            through = f" through {reader.through}" if reader.through else ""
            texts.append(f"frozen columns of {reader.table}, which reads it{through}")
    for text in texts:
        yield TableChange(Effect.CONTRACT, text, ages_windows=False)


def _compare_frozen(before: TableConfig, after: TableConfig | None) -> Iterator[str]:
    """Yield the promises of frozen columns that a table no longer makes."""
    if after is None:
        yield "the frozen table is deleted"
        return
    if after.schema_rule != "frozen":
        yield "its columns are no longer frozen"
        return
    new = _by_name(after)
    for name, column in _by_name(before).items():
        if name not in new:
            yield f"removed frozen column {column.name}"
        elif _normalize(new[name].type) != _normalize(column.type):
            yield f"frozen column {column.name} is {new[name].type}, not {column.type}"
        elif column.is_required and not new[name].is_required:
            yield f"frozen column {column.name} may be NULL"


def _compare_with_result(project: Project, table: TableConfig) -> Iterator[str]:
    """Yield the names that distinguish the result from the frozen columns, if they are known."""
    step = next(step for step in table.steps if step.target is table.output)
    query = None if step.loop_over is not None else project.step_sql(table, step)
    if table.schema_rule != "frozen" or query is None:
        return
    result = examine_query(query, {}, examines_functions=False).columns
    if result is None:
        return
    declared, made = _by_name(table), {name.lower(): name for name in result}
    for name in sorted(made.keys() - declared.keys()):
        yield f"the result has column {made[name]}, which is not among the frozen columns"
    for name in sorted(declared.keys() - made.keys()):
        yield f"the result lacks the frozen column {declared[name].name}"


def _may_change_columns(changes: Sequence[TableChange]) -> bool:
    """Return True if a change may add, remove or retype columns that readers see."""
    classes = (Effect.ADDITIVE, Effect.SHAPE)
    return any(change.effect in classes and change.ages_windows for change in changes)


def _normalize(kind: str) -> str:
    """Return the one name of a type, such as BIGINT for `long`, also in its fields."""
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    try:
        return exp.DataType.build(kind, dialect="spark").sql("spark")
    except SqlglotError:
        return "".join(kind.lower().split())


def _by_name(table: TableConfig) -> dict[str, DeclaredColumn]:
    return {column.name.lower(): column for column in describe_columns(table.columns or "")}
