"""Priorities: the order of tables that are ready at the same time.

Source: DolphinScheduler, priority of a task.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from logdriven_dagster.config.models.tables import TableConfig


def by_priority(
    tables: Mapping[str, TableConfig], names: Sequence[str]
) -> Iterator[tuple[str, ...]]:
    """Yield the named tables in groups of equal priority, the greatest first.

    `tables` holds every table, upstreams first.
    """
    urgent = urgency(tables)
    ranked = sorted(names, key=lambda name: -urgent[name])  # stable: upstreams stay first
    for _, group in groupby(ranked, key=urgent.__getitem__):
        yield tuple(group)


def urgency(tables: Mapping[str, TableConfig]) -> dict[str, int]:
    """Return table → the greatest priority of the table and of all tables that wait for it.

    So upstreams never come after their downstreams.
    """
    found = {name: table.priority for name, table in tables.items()}
    if len(set(found.values())) < 2:
        return found
    for name in reversed(list(tables)):
        for dependency in tables[name].managed_dependencies:
            found[dependency.table] = max(found[dependency.table], found[name])
    return found
