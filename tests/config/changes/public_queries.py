"""Edits of the queries of public dbt and SQLMesh projects, which are not part of this repository.

`python -m tests.config.changes.public_queries FOLDER…` reads checkouts of projects, makes the edits
of `edits.py`, and prints those whose class is smaller than it should be.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import sqlglot
from sqlglot import exp

from tests.config.changes.edits import list_edits

_REMOVED = (
    r"/\*.*?\*/",
    r"--[^\n]*",
    r"\{#.*?#\}",
    r"\{\{\s*config\(.*?\)\s*\}\}",
    r"MODEL\s*\(.*?\);",
)
_REFERENCES = (
    (r"\{\{\s*ref\(\s*['\"](?:\w+['\"]\s*,\s*['\"])?(\w+)['\"]\s*\)\s*\}\}", r"\1"),
    (r"\{\{\s*source\(\s*['\"](\w+)['\"]\s*,\s*['\"](\w+)['\"]\s*\)\s*\}\}", r"\1.\2"),
    (r"\{\{\s*var\(\s*['\"](\w+)['\"].*?\)\s*\}\}", r"\1"),
)


def read_queries(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the names and texts of the queries that need no other Jinja or macros."""
    for path in sorted(folder.rglob("*.sql")):
        text = path.read_text(errors="replace")
        for pattern in _REMOVED:
            text = re.sub(pattern, "", text, flags=re.DOTALL)
        for pattern, name in _REFERENCES:
            text = re.sub(pattern, name, text)
        text = text.strip().rstrip(";")
        if "{" not in text and "@" not in text and _is_query(text):
            yield str(path.relative_to(folder)), text


def _is_query(text: str) -> bool:
    try:
        return isinstance(sqlglot.parse_one(text, read="spark"), exp.Query)
    except sqlglot.ParseError:
        return False


def main() -> None:
    """Print the number of edits, and those with a smaller class."""
    queries = dict(found for folder in sys.argv[1:] for found in read_queries(Path(folder)))
    counts = Counter[str]()
    for edit in list_edits(queries):
        found = edit.found
        counts["smaller" if found < edit.effect else "right or larger"] += 1
        if found < edit.effect:
            sys.stdout.write(f"{edit.query}, {edit.name}: {found.label}, not {edit.effect.label}\n")
    sys.stdout.write(f"{len(queries)} queries, {dict(counts)}\n")


if __name__ == "__main__":
    main()
