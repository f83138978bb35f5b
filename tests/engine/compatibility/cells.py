"""The table of types of other programs: kept as JSON, drawn as docs/evidence/compatibility.md."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from logdriven_dagster.engine.sources.files.texts import escape_unprintable

ROOT = Path(__file__).resolve().parents[3]
KEPT = ROOT / "docs" / "evidence" / "compatibility.json"
PAGE = ROOT / "docs" / "evidence" / "compatibility.md"
HEADINGS = {
    "parquet": "Parquet files",
    "orc": "ORC files",
    "csv": "CSV files",
    "json": "JSON files",
    "xml": "XML files",
    "avro": "Avro files",
    "excel": "Excel workbooks",
    "fixed_width": "Fixed-width text",
    "iceberg": "Iceberg tables",
    "iceberg features": "Features of Iceberg tables",
    "delta": "Delta tables",
    "delta features": "Features of Delta tables",
    "postgresql": "PostgreSQL columns, read by a source",
    "into postgresql": "PostgreSQL columns, written by a target",
    "mariadb": "MariaDB columns, read by a source",
    "into mariadb": "MariaDB columns, written by a target",
}
_INTRODUCTION = """# Compatibility with other programs

Each line is one type or feature of one program. `make compatibility` has these programs write files
and tables, loads them, and compares each value with the one that the program itself reports; it
fails where a line changes. The project's time zone is America/New_York. Search for the program and
its type, such as *polars Duration*, *DuckDB TIMESTAMP_NS* or *pandas nullable int*.

- *exact*: the program's value, in a column of the type that is named.
- *its text*, *its numbers or bytes*: the value as a text, or the number or bytes in the file.
- *a time of the project's zone*: a time without a zone, as the instant at which clocks of the
  project's zone show it.
- *refused*: the window fails with this message. `FILE` stands for the file's path.
- *other values*: another value than the program wrote. Only plain Spark reads or writes such.
- *needs a jar*: plain Spark reads no such file or table.

Files are read without `columns`; those of CSV, JSON, XML, Excel and fixed width with the type that
is named. *PyArrow …, INT96* and the like name an option of the writer. Feather files are not read:
write Parquet. In databases, tables are made by other programs, and read and written without
options. See also [File sources](../files.md),
[Avro, Excel, fixed width and XML](../plugins/formats.md), [Iceberg tables](../iceberg.md),
[Delta tables](../plugins/delta.md) and [Databases](../databases.md).
"""

Cells = Mapping[str, Any]


def kept() -> dict[str, Any]:
    """Return the table: `versions` of writers, and `cells` of each version of Spark."""
    return json.loads(KEPT.read_text()) if KEPT.exists() else {"versions": {}, "cells": {}}


def keep(table: Mapping[str, Any]) -> None:
    KEPT.write_text(f"{json.dumps(table, indent=1, ensure_ascii=False)}\n")
    PAGE.write_text(page(table))


def page(table: Mapping[str, Any]) -> str:
    """Draw the page of a table."""
    versions = ", ".join(f"{name} {version}" for name, version in table["versions"].items())
    newest, *older = sorted(table["cells"], key=lambda name: [*map(int, name.split("."))])[::-1]
    lines = [_INTRODUCTION, f"Versions: {versions}; Spark {', '.join([newest, *older])}."]
    cells = table["cells"]
    sparks = [f"Spark {version}" for version in (newest, *older)]
    for form, heading in HEADINGS.items():
        keys = [key for key in cells[newest] if key.startswith(f"{form}: ")]
        if not keys:
            continue
        lines += [
            f"\n## {heading}\n",
            f"| program and type | {' | '.join(sparks)} | logdriven_dagster |",
        ]
        lines.append(f"| {' | '.join(['---'] * (len(sparks) + 2))} |")
        for key in keys:
            name = _escaped(key.partition(": ")[2])
            lines.append(f"| {' | '.join([name, *_row(cells, key, newest, older)])} |")
    return "\n".join(lines) + "\n"


def _row(cells: Cells, key: str, newest: str, older: Iterable[str]) -> Iterator[str]:
    """Yield what each version of Spark does, and what the product does on them."""
    here = cells[newest][key]["here"]
    yield _escaped(cells[newest][key]["spark"])
    for version in older:
        cell = cells[version].get(key)
        yield _escaped(cell["spark"]) if cell else "not tried"
        if cell and cell["here"] != cells[newest][key]["here"]:
            here += f"; on Spark {version}: {cell['here']}"
    yield _escaped(here)


def _escaped(text: str) -> str:
    """Return a text that Markdown shows as it is, within a cell of a table."""
    text = escape_unprintable(text.replace("\n", " "))
    parts = text.split("`")
    outside = [part.replace("<", "&lt;").replace("*", r"\*").replace("_", r"\_") for part in parts]
    shown = [part if number % 2 else outside[number] for number, part in enumerate(parts)]
    return "`".join(shown).replace("|", r"\|")
