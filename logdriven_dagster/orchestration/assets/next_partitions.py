"""Creation of the dynamic partitions of pending windows in Dagster."""

from collections.abc import Collection
from datetime import datetime

from dagster import DagsterInstance

from logdriven_dagster.execution.runner import Runner
from logdriven_dagster.orchestration.assets.partitions import add_partitions, table_partitions
from logdriven_dagster.orchestration.location import Location
from logdriven_dagster.planning.plan import Plan

_KEYS_AHEAD = 1000


def add_next_partitions(instance: DagsterInstance, location: Location, plan: Plan) -> None:
    """Add the next pending windows of tables with dynamic partitions to Dagster."""
    for table in plan.tables.values():
        partitions = table_partitions(table.table, location)
        if partitions.dynamic_name:
            windows = filter(partitions.holds, table.unfinished[:_KEYS_AHEAD])
            add_partitions(instance, location, [(table.table, window) for window in windows])


def add_first_partitions(
    instance: DagsterInstance,
    location: Location,
    runner: Runner,
    now: datetime,
    tables: Collection[str],
) -> None:
    """Add the next windows of those of some tables that have no dynamic partition yet.

    Dagster shows an asset without any partition as if all of them were materialized.
    """
    empty = [
        name
        for name in tables
        if (partitions := table_partitions(runner.project.table(name), location).dynamic_name)
        and not instance.get_paginated_dynamic_partitions(partitions, 1, ascending=True).results
    ]
    if empty:
        add_next_partitions(instance, location, runner.plan(now, empty))
