"""Access to the tables of a catalog."""

from typing import TYPE_CHECKING, Any

from logdriven_dagster.errors import TerminalStepError

if TYPE_CHECKING:
    from pyiceberg.table import Table


def load_table(catalog: Any, identifier: tuple[str, ...]) -> "Table":
    """Return a table in its current state.

    Raises TerminalStepError if PyIceberg cannot read its metadata, and PyIceberg's NoSuchTableError
    if it does not exist.
    """
    from pyiceberg.exceptions import ValidationError

    try:
        table: Table = catalog.load_table(identifier)
    except ValidationError as error:
        problem = " ".join(str(error).partition(" [type=")[0].split())
        raise TerminalStepError(
            f"the metadata of the Iceberg table {'.'.join(identifier)} cannot be read: "
            f"{problem}; rewrite it with the engine that wrote it, or use another table"
        ) from None
    return table
