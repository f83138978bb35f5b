"""The order in which tables run: upstreams before downstreams."""

from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter

from logdriven_dagster.config.models.tables import TableConfig


def running_order(tables: Mapping[str, TableConfig]) -> Iterator[str]:
    """Upstreams come first; among equals names decide, so the order never changes by itself."""
    sorter = TopologicalSorter(upstreams_of(tables))
    sorter.prepare()
    while ready := sorted(sorter.get_ready()):
        yield from ready
        sorter.done(*ready)


def upstreams_of(tables: Mapping[str, TableConfig]) -> dict[str, set[str]]:
    """Table → those of the tables that it depends on."""
    return {
        name: {d.table for d in tables[name].table_dependencies if d.table in tables}
        for name in sorted(tables)
    }


def cycle_in(upstreams: Mapping[str, set[str]]) -> list[str]:
    """Return the names along a cycle of dependencies; none if there is none."""
    try:
        TopologicalSorter(upstreams).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []
