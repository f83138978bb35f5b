"""CREATE statements of Sharp ETL's steps: databases and tables that targets create by themselves.

Sharp ETL inserts rows into the table that the statement creates, with the types of its columns. A
target here creates its table with the types of the query, so the query converts its columns.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from logdriven_dagster.config.sql.references import UnreadableSqlError, parse_query
from logdriven_dagster.plugins.importers.drafts import UntranslatableError
from logdriven_dagster.plugins.importers.sharpetl.parser import Step, Workflow
from logdriven_dagster.plugins.importers.sharpetl.sources import SPARK

if TYPE_CHECKING:
    from sqlglot import exp

LAKE = frozenset({"hive", "spark_sql", "delta_lake"})
"""Targets that are tables of Spark's catalog."""


@dataclass(frozen=True, slots=True)
class CreatedTable:
    """A table that a CREATE TABLE statement defines."""

    name: str
    """The name with its database, in lower case."""
    columns: dict[str, str]
    """Type of each column."""
    partitions: frozenset[str]
    """Columns by which the table is partitioned, in lower case."""
    replaces: bool
    """True if the statement removes existing rows."""


def find_replacement(workflow: Workflow, step: Step) -> str | None:
    """Return the reason why a CREATE statement is not needed, or None if it has to be listed."""
    from sqlglot import exp

    statement = _parse(step)
    if statement is None:
        return None
    if statement.kind in ("SCHEMA", "DATABASE"):
        return "the statement is left out: a target creates the namespace of its table"
    created = _read(statement)
    later = workflow.steps[workflow.steps.index(step) + 1 :]
    writers = [each for each in later if created and _target_name(each) == created.name]
    overwrites = [_write_mode(each) == "overwrite" for each in writers]
    if not writers or (created and created.replaces and not all(overwrites)):
        return None
    kept = exp.PartitionedByProperty, exp.FileFormatProperty, exp.SchemaCommentProperty
    given = statement.args.get("properties")
    others = [each for each in given.expressions if not isinstance(each, kept)] if given else []
    left = f", and without {', '.join(each.sql('spark') for each in others)}" if others else ""
    return (
        "the statement is left out: the target creates the table with the first window, in the "
        f"format of the target{left}"
    )


def find_created(workflow: Workflow, step: Step) -> CreatedTable | None:
    """Return the table that an earlier statement creates for the target of a step, or None."""
    if step.target.kind not in LAKE:
        return None
    for other in reversed(workflow.steps[: workflow.steps.index(step)]):
        statement = _parse(other)
        created = _read(statement) if statement is not None else None
        if created and created.name == _target_name(step) and find_replacement(workflow, other):
            return created
    return None


def convert_to_declared(sql: str | None, created: CreatedTable) -> str:
    """Return a query with the types of a table's columns.

    Raises UntranslatableError if the columns of the query are unknown or others: Sharp ETL
    inserts them by position or by name, and fills a missing one with NULL.
    """
    try:
        names = parse_query(sql).named_selects if sql else []
    except UnreadableSqlError:
        names = []
    if [name.lower() for name in names] != [name.lower() for name in created.columns]:
        expected = ", ".join(created.columns)
        raise UntranslatableError(
            f"its query must name the columns of CREATE TABLE {created.name} in their order: "
            f"{expected}"
        )
    columns = ",\n".join(
        f"  CAST(`{name}` AS {kind}) AS `{name}`" for name, kind in created.columns.items()
    )
    return f"SELECT\n{columns}\nFROM (\n{sql}\n)\n"


def _parse(step: Step) -> "exp.Create | None":
    """Return the CREATE statement of a step, or None."""
    from sqlglot import exp

    if step.source.kind not in SPARK or not step.sql.lstrip().lower().startswith("create"):
        return None
    try:
        statement = parse_query(step.sql)
    except UnreadableSqlError:
        return None
    return statement if isinstance(statement, exp.Create) else None


def _read(statement: "exp.Create") -> CreatedTable | None:
    """Return a table with plain columns, or None for views, constraints, copies and queries."""
    from sqlglot import exp

    schema = statement.this
    if statement.kind != "TABLE" or statement.expression or not isinstance(schema, exp.Schema):
        return None
    properties = statement.args.get("properties")
    partitions = properties.find(exp.PartitionedByProperty) if properties else None
    keys = partitions.find_all(exp.Identifier) if partitions else ()
    columns: dict[str, str] = {}
    declared = [*schema.expressions]
    if partitions and isinstance(partitions.this, exp.Schema):  # Hive declares them there
        declared += [each for each in partitions.this.expressions if each.args.get("kind")]
    for column in declared:
        if isinstance(column, exp.Identifier):
            continue
        if not isinstance(column, exp.ColumnDef) or column.args.get("kind") is None:
            return None
        rules = [each.kind for each in column.args.get("constraints") or ()]
        if any(not isinstance(rule, exp.CommentColumnConstraint) for rule in rules):
            return None
        columns[column.name] = column.args["kind"].sql("spark")
    name = exp.table_name(schema.this).lower()
    by = frozenset(key.name.lower() for key in keys)
    return CreatedTable(name, columns, by, bool(statement.args.get("replace")))


def _target_name(step: Step) -> str | None:
    return (step.target.table or None) if step.target.kind in LAKE else None


def _write_mode(step: Step) -> str:
    return step.headers["writeMode"].value.lower() if "writeMode" in step.headers else ""
