"""Names of Iceberg tables: in project files and in catalogs."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyiceberg.table import Table


def identifier(name: str) -> tuple[str, ...]:
    """Return the catalog's identifier of a table; its default namespace is `default`."""
    parts = tuple(name.split("."))
    return parts if len(parts) > 1 else ("default", *parts)


def name_of_table(table: "Table") -> str:
    """Return a table's name with dots, for messages."""
    return ".".join(table.name())
