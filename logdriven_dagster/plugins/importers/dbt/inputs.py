"""Drafts of the tables that dbt's models read: sources and seeds."""

import csv
import re
from collections.abc import Mapping

from logdriven_dagster.config.project import Project
from logdriven_dagster.plugins.importers.dbt.dialects import SPARK_TYPE, speaks_spark
from logdriven_dagster.plugins.importers.dbt.manifest import Manifest, Node
from logdriven_dagster.plugins.importers.drafts import UntranslatableError, Values


def read_source(node: Node, manifest: Manifest, connections: Mapping[str, str]) -> Values:
    """Return the `source` of a table that holds the rows of a dbt source.

    `connections` maps names of dbt sources to the project's. Raises UntranslatableError if the
    rows cannot be read.
    """
    theirs = str(node.values.get("source_name"))
    meta = {**(node.values.get("meta") or {}), **node.config, **(node.config.get("meta") or {})}
    files = meta.get("external_location")
    if manifest.adapter == "duckdb" and (files or meta.get("plugin")):
        raise UntranslatableError(
            f"DuckDB reads it from {files or meta['plugin']}, and not from a table; write the "
            "`source` of this table with the path and the type of the files"
        )
    if theirs in connections:
        identifier = node.values.get("identifier") or node.name
        schema = node.values.get("schema")
        table = f"{schema}.{identifier}" if schema else str(identifier)
        return {"type": "jdbc", "connection": connections[theirs], "table": table}
    if speaks_spark(manifest.adapter):
        return {"type": "table", "name": node.relation}
    place = (node.values.get("external") or {}).get("location") or files or node.relation
    raise UntranslatableError(
        f"{place} of {manifest.adapter} cannot be read without a connection; pass "
        f"--map {theirs}=CONNECTION, or write the `source` of this table"
    )


def read_seed(node: Node, manifest: Manifest, project: Project) -> Values:
    """Return the step of a seed whose columns all have a type in `column_types`.

    dbt reads an empty text and the word null, in any case, as NULL (dbt_common, agate_helper).
    Raises UntranslatableError for other seeds: dbt derives their types from the values.
    """
    file = manifest.project / node.path
    try:
        separator = str(node.config.get("delimiter") or ",")
        with file.open(encoding="utf-8-sig", newline="") as text:
            header = next(csv.reader(text, delimiter=separator), [])
    except (OSError, ValueError, TypeError, csv.Error):
        raise UntranslatableError(
            f"its file {node.path} could not be read; write the `source` of this table"
        ) from None
    types = {str(k).lower(): str(v) for k, v in (node.config.get("column_types") or {}).items()}
    named = [name for name in header if re.fullmatch(r"[A-Za-z_]\w*", name)]
    typed = [name for name in named if SPARK_TYPE.fullmatch(types.get(name.lower(), ""))]
    if missing := [name for name in header if name not in typed]:
        raise UntranslatableError(
            "dbt derives the types of a seed from its values; give column_types in Spark's types "
            f"for {', '.join(missing)}, or write the `source` of this table"
        )
    root = project.root.resolve()
    path = file.relative_to(root).as_posix() if file.is_relative_to(root) else str(file)
    columns = ", ".join(f"{name} {types[name.lower()]}" for name in header)
    source: Values = {"type": "csv", "path": path, "header": True, "columns": columns}
    source |= {"null_value": ""} | ({} if separator == "," else {"sep": separator})
    texts = {name for name in header if types[name.lower()].lower() == "string"}
    if not texts:
        return {"source": source}
    pattern = r"(?i)\\s*(null)?\\s*"
    values = ", ".join(
        f"IF(`{name}` RLIKE '^{pattern}$', NULL, `{name}`) AS `{name}`"
        if name in texts
        else f"`{name}`"
        for name in header
    )
    query = f"SELECT {values} FROM source"  # noqa: S608 - names of the header
    return {"source": source, "sql": query}
