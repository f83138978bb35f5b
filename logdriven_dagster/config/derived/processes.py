"""Tables as BDRE processes: the upstream tables whose batches each step consumes."""

from collections.abc import Iterable

from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.model.batches import Enqueuer, Process, Processes, SubProcess


def build_process(table: TableConfig) -> Process:
    """Return the table as a process; only `upstream` and `files` tables have enqueuers.

    A table of files enqueues them itself.
    """
    names = [step.step for step in table.steps]
    steps = tuple(
        SubProcess(
            step.step, _list_enqueuers(table, step.step), step.can_recover, tuple(names[n : n + 1])
        )
        for n, step in enumerate(table.steps, 1)
    )
    return Process(table.table, steps, table.grid.zone)


def build_processes(tables: Iterable[TableConfig]) -> Processes:
    """Return all tables of a project as processes."""
    return Processes(map(build_process, tables))


def get_max_batches(table: TableConfig) -> int | None:
    """Return the maximum number of batches per step of a window, if they have no cut pattern."""
    return table.max_batches or table.incremental.default_batches


def _list_enqueuers(table: TableConfig, step: str) -> tuple[Enqueuer, ...]:
    if table.incremental.registers_files:
        brings = table.sliced_step.step == step
        return (Enqueuer(table.table, required=False),) if brings else ()
    first = table.steps[0].step
    return tuple(
        Enqueuer(dependency.table, dependency.cut_pattern)
        for dependency in table.batch_dependencies
        if (dependency.step or first) == step
    )
