"""Whether tables of the lake hold the rows of those of a local project; by PyIceberg alone.

`python -m scripts.lake.comparison PROJECT CATALOG_URL S3_URL`
"""

import sys
from collections import Counter
from pathlib import Path

from pyiceberg.catalog import Catalog, load_catalog

from scripts.lake import rest_catalog, s3


def main(project: str, catalog: str, store: str) -> int:
    warehouse = Path(project) / ".logdriven" / "warehouse"
    local = load_catalog("logdriven", type="sql", uri=f"sqlite:///{warehouse}/catalog.db")
    lake = load_catalog("lake", **rest_catalog.properties(catalog), **s3.properties(store))
    return compare(lake, local)


def compare(lake: Catalog, local: Catalog) -> int:
    """Print what each table has in both places; 0 if it is the same everywhere."""
    ours, theirs = all_tables(lake), all_tables(local)
    found = [f"{name} is only in the lake" for name in sorted(ours - theirs)]
    found += [f"{name} is only in the local demo" for name in sorted(theirs - ours)]
    for name in sorted(ours & theirs):
        here, there = rows(lake, name), rows(local, name)
        print(f"{name}: {here.total():,} rows in the lake, {there.total():,} in the local demo")
        found += differences(name, "the lake", here - there)
        found += differences(name, "the local demo", there - here)
    for text in found:
        print(f"DIFFERENT: {text}")
    if found or not theirs:
        print(f"The lake is not the local demo: {len(found)} differences, {len(theirs)} tables.")
        return 1
    print(f"All {len(theirs)} tables: every row of the local demo is in the lake, and no other.")
    return 0


def differences(name: str, where: str, more: Counter[str]) -> list[str]:
    return [f"{name}: only {where} has {more.total():,} rows, such as {min(more)}"] if more else []


def all_tables(catalog: Catalog) -> set[str]:
    names = (name for each in catalog.list_namespaces() for name in catalog.list_tables(each))
    return {".".join(name) for name in names}


def rows(catalog: Catalog, name: str) -> Counter[str]:
    """How often the table holds each row, with all of its columns; order says nothing."""
    return Counter(str(row) for row in catalog.load_table(name).scan().to_arrow().to_pylist())


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
