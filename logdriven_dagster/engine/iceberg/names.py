"""Names of Iceberg tables: as a project writes them, and as a catalog knows them."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyiceberg.table import Table


def identifier(name: str) -> tuple[str, ...]:
    """Return the catalog's identifier of a table."""
    parts = tuple(name.split("."))
    return parts if len(parts) > 1 else ("default", *parts)


def name_of_table(table: "Table") -> str:
    """Return a table's name as people write it."""
    return ".".join(table.name())
