"""Whether tables of the lake hold the rows of those of a local project; by PyIceberg alone.

`python -m scripts.lake.comparison PROJECT CATALOG_URL S3_URL`
"""

import sys
from pathlib import Path

from pyiceberg.catalog import Catalog, load_catalog

from scripts.lake import rest_catalog, s3


def main(project: str, catalog: str, store: str) -> int:
    warehouse = Path(project) / ".logdriven" / "warehouse"
    local = load_catalog("logdriven", type="sql", uri=f"sqlite:///{warehouse}/catalog.db")
    lake = load_catalog("lake", **rest_catalog.properties(catalog), **s3.properties(store))
    names = all_tables(local)
    if not names or names != all_tables(lake):
        print(f"tables of the lake: {all_tables(lake)}; local ones: {names}")
        return 1
    different = 0
    for name in names:
        ours, theirs = rows(lake, name), rows(local, name)
        different += ours != theirs
        verdict = "as the local demo" if ours == theirs else f"BUT the local demo has {len(theirs)}"
        print(f"{'.'.join(name)}: {len(ours):,} rows in the lake, {verdict}")
    return 1 if different else 0


def all_tables(catalog: Catalog) -> list[tuple[str, ...]]:
    return sorted(name for each in catalog.list_namespaces() for name in catalog.list_tables(each))


def rows(catalog: Catalog, name: tuple[str, ...]) -> list[str]:
    return sorted(str(row) for row in catalog.load_table(name).scan().to_arrow().to_pylist())


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
