"""Where columns come from: queries, what their names mean, and what is made of what.

Source: BDRE, lineage of queries: nodes (table, column, function, temporary table) and relations.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal, TypeAlias


class NodeType(str, Enum):
    """The types of nodes in a lineage. Source: BDRE, LINEAGE_NODE_TYPE."""

    TABLE = "table"
    COLUMN = "column"
    FUNCTION = "function"
    TEMP = "temp"


QueryType: TypeAlias = Literal["spark", "source", "python"]
"""A query in Spark SQL; a source taken as it is; a Python function, which nobody can look into."""


@dataclass(frozen=True, slots=True)
class Container:
    """A table, file or query that holds columns."""

    name: str
    """A table of ours by its name, a step's result as `table#step`, anything else as it is called:
    a path, `connection:table`, `connection:topic`."""
    type: NodeType = NodeType.TABLE
    """`TEMP` for what exists only while a window runs."""


@dataclass(frozen=True, slots=True)
class ColumnRef:
    """A column, or with None all of its container's rows, as `count(*)` reads them."""

    container: Container
    column: str | None

    def __str__(self) -> str:
        return f"{self.container.name}.{'*' if self.column is None else self.column}"


@dataclass(frozen=True, slots=True)
class Query:
    """What one step of a table asks for, with everything that its lineage follows from."""

    table: str
    step_id: str
    type: QueryType
    text: str
    """With the variables of the project and the table; those of the window stay references."""
    result: Container
    columns: tuple[str, ...]
    """The columns of the result, as it was written."""
    names: Mapping[str, Container] = field(default_factory=dict)
    """What a name means in the text, in small letters."""
    inner: "tuple[Query, str | None] | None" = None
    """The query that `source` means, and sqlglot's name of its dialect."""

    @property
    def digest(self) -> str:
        """What a query with its result is known by."""
        parts = [
            [self.table, self.step_id, self.type, self.text, *self.columns],
            sorted((name, held.name, held.type.value) for name, held in self.names.items()),
            self.inner and self.inner[0].digest,
        ]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class ColumnOrigin:
    """What one column of a result is made from."""

    column: str
    origins: tuple[ColumnRef, ...] = ()
    """None of them for a constant."""
    functions: tuple[str, ...] = ()
    """The functions that its value went through, in small letters."""
    temps: tuple[str, ...] = ()
    """Common table expressions and subqueries on the way."""


@dataclass(frozen=True, slots=True)
class QueryLineage:
    """The columns of one query, with what each is made from."""

    table: str
    step_id: str
    type: QueryType
    text: str
    result: Container
    columns: tuple[ColumnOrigin, ...]
    absent: str | None = None
    """Why there is none, or none of some columns."""


def outer_origins(
    queries: Iterable[QueryLineage], result: Container
) -> dict[str, tuple[ColumnRef, ...]]:
    """Column of a result → the columns that it comes from, through the steps before.

    `queries` are those of one attempt in their order.
    """
    known: dict[Container, dict[str, tuple[ColumnRef, ...]]] = {}
    for query in queries:
        found = {
            made.column.lower(): tuple(
                dict.fromkeys(outer for origin in made.origins for outer in _through(origin, known))
            )
            for made in query.columns
        }
        known[query.result] = found
        if query.result == result:
            return {made.column: found[made.column.lower()] for made in query.columns}
    return {}


def _through(
    origin: ColumnRef, known: Mapping[Container, Mapping[str, tuple[ColumnRef, ...]]]
) -> tuple[ColumnRef, ...]:
    inner = known.get(origin.container)
    if inner is None:
        return (origin,)
    if origin.column is None:
        tables = {ref.container: None for refs in inner.values() for ref in refs}
        return tuple(ColumnRef(table, None) for table in tables)
    return inner.get(origin.column.lower(), ())
