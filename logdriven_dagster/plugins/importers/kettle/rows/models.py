"""A row step of Kettle, and what its query reads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from logdriven_dagster.plugins.importers.kettle.hops import is_set, read_text

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element


@dataclass(frozen=True, slots=True)
class Lookup:
    """A query of a database that a row step needs, as a step of its own."""

    step: str
    connection: str
    schema: str
    table: str
    columns: tuple[str, ...]
    all_columns: bool = False
    """True if the query reads other columns as well."""
    is_numbered_by_database: bool = False
    """True for a dimension whose technical key the database numbers."""


def is_lookup(step: "Element") -> bool:
    """Return True for a Dimension lookup / update that only looks rows up."""
    return read_text(step, "type") == "DimensionLookup" and not is_set(step, "update")


@dataclass(frozen=True, slots=True)
class RowStep:
    """A row step: the names of the steps that it reads, and its element."""

    name: str
    kind: str
    element: "Element"
    sources: tuple[str, ...]

    @property
    def lookup(self) -> Lookup | None:
        """The table that a Database lookup or a Dimension lookup reads."""
        if self.kind == "DimensionLookup":
            return self._dimension
        if self.kind != "DBLookup":
            return None
        keys = [read_text(key, "field") for key in self.element.iterfind("lookup/key")]
        values = [read_text(value, "name") for value in self.element.iterfind("lookup/value")]
        return Lookup(
            step=f"{self.name} table",
            connection=read_text(self.element, "connection"),
            schema=read_text(self.element, "lookup/schema"),
            table=read_text(self.element, "lookup/table"),
            columns=tuple(dict.fromkeys([*keys, *values])),
        )

    @property
    def _dimension(self) -> Lookup:
        element = self.element
        keys = [read_text(key, "lookup") for key in element.iterfind("fields/key")]
        own = [f"fields/{each}" for each in ("return/name", "date/from", "date/to")]
        values = [read_text(each, "lookup") for each in element.iterfind("fields/field")]
        columns = [*(read_text(element, each) for each in own), *keys, *values]
        return Lookup(
            step=f"{self.name} table",
            connection=read_text(element, "connection"),
            schema=read_text(element, "schema"),
            table=read_text(element, "table"),
            columns=tuple(dict.fromkeys(columns)),
            is_numbered_by_database=read_text(element, "fields/return/creation_method").lower()
            == "autoinc",
        )


@dataclass(frozen=True, slots=True)
class Reading:
    """Relations, orders and fields that a query of a row step reads."""

    relations: Mapping[str, str]
    """Text after FROM for each step of Kettle that is read."""
    orders: Mapping[str, Sequence[tuple[str, bool]] | None] = field(default_factory=dict)
    """Fields by which the query of a Table input orders its rows, and True for descending ones.

    None stands for an order by expressions.
    """
    ignores_case: bool = False
    """True if the database of a lookup compares texts without case."""
    columns: Mapping[str, Sequence[str] | None] = field(default_factory=dict)
    """The fields of each step that is read; None if they are not known."""
    unknown_key: int = 0
    """Technical key of a dimension that stands for rows without a version."""

    def rename(self, source: str, names: Sequence[str]) -> list[str]:
        """Return the names of added fields: Kettle calls a second `name` `name_1`."""
        taken = {each.lower() for each in self.columns.get(source) or ()}
        found = []
        for name in names:
            free, number = name, 0
            while free.lower() in taken:
                number += 1
                free = f"{name}_{number}"
            taken.add(free.lower())
            found.append(free)
        return found

    def get_relation(self, name: str) -> str:
        """Return the text after FROM for a step."""
        return self.relations[name]

    def get_source(self, step: RowStep) -> str:
        """Return the text after FROM for the only step that a step reads."""
        return self.get_relation(step.sources[0])
