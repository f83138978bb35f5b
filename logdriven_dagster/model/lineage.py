"""Column lineage: queries, the datasets that their names refer to, and origins of columns.

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
"""Spark SQL, a source read without a query, or a Python function, which cannot be analysed."""


@dataclass(frozen=True, slots=True)
class Container:
    """A dataset with columns: a table, file or query."""

    name: str
    """Table name, or `table#step` for a step's result, or the name of an external dataset.

    External names are paths, `connection:table` and `connection:topic`.
    """
    type: NodeType = NodeType.TABLE
    """`TEMP` for a dataset that exists only while a window runs."""


@dataclass(frozen=True, slots=True)
class ColumnRef:
    """A column, or with None all of its container's rows, as `count(*)` reads them."""

    container: Container
    column: str | None

    def __str__(self) -> str:
        return f"{self.container.name}.{'*' if self.column is None else self.column}"


@dataclass(frozen=True, slots=True)
class Query:
    """The query of one step of a table, with everything from which its lineage is derived."""

    table: str
    step_id: str
    type: QueryType
    text: str
    """Text with variables of the project and the table resolved; those of the window are not."""
    result: Container
    columns: tuple[str, ...]
    """The columns of the result, as written."""
    names: Mapping[str, Container] = field(default_factory=dict)
    """Datasets by the lower-case names that the text uses."""
    inner: "tuple[Query, str | None] | None" = None
    """Query behind the name `source`, and sqlglot's name of its dialect."""

    @property
    def digest(self) -> str:
        """Identifier of the query with its result."""
        parts = [
            [self.table, self.step_id, self.type, self.text, *self.columns],
            sorted((name, held.name, held.type.value) for name, held in self.names.items()),
            self.inner and self.inner[0].digest,
        ]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class ColumnOrigin:
    """Origin of one column of a result."""

    column: str
    origins: tuple[ColumnRef, ...] = ()
    """Columns it is computed from; empty for a constant."""
    functions: tuple[str, ...] = ()
    """Functions applied to its value, in lower case."""
    temps: tuple[str, ...] = ()
    """Intermediate common table expressions and subqueries."""


@dataclass(frozen=True, slots=True)
class QueryLineage:
    """The columns of one query, with the origin of each."""

    table: str
    step_id: str
    type: QueryType
    text: str
    result: Container
    columns: tuple[ColumnOrigin, ...]
    absent: str | None = None
    """Reason why lineage is missing for the query or some columns."""


def find_outer_origins(
    queries: Iterable[QueryLineage], result: Container
) -> dict[str, tuple[ColumnRef, ...]]:
    """Return the origins of a result's columns, traced through earlier steps.

    `queries` are those of one attempt in their order.
    """
    known: dict[Container, dict[str, tuple[ColumnRef, ...]]] = {}
    for query in queries:
        found = {
            made.column.lower(): tuple(
                dict.fromkeys(
                    outer for origin in made.origins for outer in _trace_through(origin, known)
                )
            )
            for made in query.columns
        }
        known[query.result] = found
        if query.result == result:
            return {made.column: found[made.column.lower()] for made in query.columns}
    return {}


def _trace_through(
    origin: ColumnRef, known: Mapping[Container, Mapping[str, tuple[ColumnRef, ...]]]
) -> tuple[ColumnRef, ...]:
    inner = known.get(origin.container)
    if inner is None:
        return (origin,)
    if origin.column is None:
        tables = {ref.container: None for refs in inner.values() for ref in refs}
        return tuple(ColumnRef(table, None) for table in tables)
    return inner.get(origin.column.lower(), ())
