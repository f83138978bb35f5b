"""Finished windows that ran before any window of an upstream had run.

Nothing indicates whether they should include its rows: the upstream may be new, or may now begin
earlier. So they do not run again automatically.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from logdriven_dagster.model.windows import TimeWindow, refresh_command
from logdriven_dagster.planning.plan import TablePlan


@dataclass(frozen=True, slots=True)
class MadeWithout:
    """Finished windows of a table that overlap pending windows of an upstream that never ran."""

    table: str
    upstream: str
    span: TimeWindow
    """The range from the first to the last of these windows."""

    @property
    def description(self) -> str:
        """The windows, and the command that adds the rows of the upstream, for display."""
        without = f"finished windows in {self.span} ran without {self.upstream}"
        command = refresh_command(self.table, self.span)
        return f"{without}, which has not run yet; add its rows afterwards with {command}"

    @property
    def text(self) -> str:
        """One sentence for display that begins with the table."""
        return f"{self.table}: {self.description}"

    def as_json(self) -> dict[str, object]:
        """Return an item of `made_without` in `--json`."""
        start, end = self.span.bounds
        fields = {"data_range_start": start, "data_range_end": end}
        return {"table": self.table, "upstream": self.upstream, **fields}


def iter_made_without(plans: Mapping[str, TablePlan]) -> Iterator[MadeWithout]:
    """Find such windows in tables that rerun windows when their upstreams do."""
    for name, plan in plans.items():
        table = plan.table
        if table.is_sliced or table.on_upstream_refresh != "rerun":
            continue
        for dependency in table.managed_dependencies:
            upstream = plans.get(dependency.table)
            if upstream is None or not dependency.is_input or dependency.window != "overlapping":
                continue
            if (pending := _find_never_run(upstream)) is not None:
                over = [done for done in plan.log.finished if done.overlaps(pending)]
                if over:
                    yield MadeWithout(name, dependency.table, over[0].up_to_end_of(over[-1]))


def _find_never_run(upstream: TablePlan) -> TimeWindow | None:
    """Return the range of a table's pending windows if it has no finished one; else None."""
    if upstream.table.is_sliced or upstream.log.finished or not upstream.unfinished:
        return None
    return upstream.unfinished[0].up_to_end_of(upstream.unfinished[-1])
