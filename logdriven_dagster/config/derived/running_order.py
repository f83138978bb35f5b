"""The order in which tables run: upstream before downstream tables."""

from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter

from logdriven_dagster.config.models.tables import TableConfig


def sort_by_dependencies(tables: Mapping[str, TableConfig]) -> Iterator[str]:
    """Yield tables with upstream tables first, and by name among equals, so the order is stable."""
    sorter = TopologicalSorter(map_upstreams(tables))
    sorter.prepare()
    while ready := sorted(sorter.get_ready()):
        yield from ready
        sorter.done(*ready)


def map_upstreams(tables: Mapping[str, TableConfig]) -> dict[str, set[str]]:
    """Return the names of each table's upstream tables among `tables`."""
    return {
        name: {d.table for d in tables[name].table_dependencies if d.table in tables}
        for name in sorted(tables)
    }


def find_cycle(upstreams: Mapping[str, set[str]]) -> list[str]:
    """Return the names along a cycle of dependencies, or an empty list."""
    try:
        TopologicalSorter(upstreams).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []
