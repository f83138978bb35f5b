"""Mistakes in `renamed_from`, and the new names of tables that references still name as before."""

from collections.abc import Iterator, Mapping

from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.yaml.documents import Document
from logdriven_dagster.errors import ConfigError


def check_renames(
    tables: Mapping[str, TableConfig], documents: Mapping[str, Document], known: set[str]
) -> Iterator[ConfigError]:
    """Yield an error for each `renamed_from` that names another table of the project.

    `known` are the names of all tables, including invalid ones.
    """
    users: dict[str, str] = {}
    for name, table in tables.items():
        old = table.renamed_from
        if old is None:
            continue
        document, place = documents[name], ("renamed_from",)
        other = users.setdefault(old, name)
        if old == name:
            yield document.error(place, "names the table itself", "remove it")
        elif old in known:
            fix = "remove the file of one of them, or this line if the rename was applied"
            yield document.error(place, f"{old} is still a table of this project", fix)
        elif other != name:
            problem = f"{other} has the same renamed_from; only one table can continue with it"
            yield document.error(place, problem, "keep it in one of them")


def map_new_names(tables: Mapping[str, TableConfig]) -> dict[str, str]:
    """Return the earlier name of each renamed table → its name."""
    return {table.renamed_from: name for name, table in tables.items() if table.renamed_from}


def format_rename_hint(new: str) -> str:
    """Return the fix of a reference to the earlier name of a table."""
    return f"it is named {new} now (renamed_from)"
