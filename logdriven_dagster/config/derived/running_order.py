"""The order in which tables run: upstream before downstream tables."""

from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter

from logdriven_dagster.config.models.tables import TableConfig


def running_order(tables: Mapping[str, TableConfig]) -> Iterator[str]:
    """Yield tables with upstream tables first, and by name among equals, so the order is stable."""
    sorter = TopologicalSorter(upstreams_of(tables))
    sorter.prepare()
    while ready := sorted(sorter.get_ready()):
        yield from ready
        sorter.done(*ready)


def upstreams_of(tables: Mapping[str, TableConfig]) -> dict[str, set[str]]:
    """Return the names of each table's upstream tables among `tables`."""
    return {
        name: {d.table for d in tables[name].table_dependencies if d.table in tables}
        for name in sorted(tables)
    }


def cycle_in(upstreams: Mapping[str, set[str]]) -> list[str]:
    """Return the names along a cycle of dependencies, or an empty list."""
    try:
        TopologicalSorter(upstreams).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []
