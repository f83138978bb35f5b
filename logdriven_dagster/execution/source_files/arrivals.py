"""Files that windows wait for (`missing_files: wait`)."""

from collections.abc import Iterator, Mapping
from typing import Any

from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.models.types.files import FilesSource
from logdriven_dagster.config.project import Project
from logdriven_dagster.model.runs import WindowRun
from logdriven_dagster.model.windows import TimeWindow


class FileArrivals:
    """Lookup of the files of windows. Files that exist are not looked up again."""

    def __init__(self, project: Project, overrides: Mapping[str, Any] | None = None) -> None:
        """Create it. `overrides` replace the variables in paths, as in the run."""
        self._project, self._overrides = project, overrides or {}
        self._complete: set[tuple[str, str]] = set()

    def describe_missing(self, table: TableConfig, window: TimeWindow) -> str | None:
        """Describe the files that a window waits for; None if it waits for none.

        A place that cannot be listed counts as there, because the window's run reports the error.
        """
        sources = list(_list_awaited(table))
        if not sources or (table.table, window.key) in self._complete:
            return None
        missing = [path for source in sources for path in self._find_missing(table, source, window)]
        if not missing:
            self._complete.add((table.table, window.key))
            return None
        more = f" and in {len(missing) - 1} other places" if len(missing) > 1 else ""
        return f"waits for files: there are none in {missing[0]}{more}"

    def _find_missing(
        self, table: TableConfig, source: FilesSource, window: TimeWindow
    ) -> list[str]:
        from logdriven_dagster.engine.queries.rendering import render_paths
        from logdriven_dagster.engine.sources.files.arrivals import has_files

        try:
            variables = {**self._project.variables(table), **self._overrides}
            run = WindowRun(0, table.table, window, 0, variables)
            paths = render_paths(source.path, run, self._project)
            return [path for path in paths if not has_files(self._project, path)]
        except Exception:  # noqa: BLE001 - of any file system; the run of the window reports it
            return []


def _list_awaited(table: TableConfig) -> Iterator[FilesSource]:
    """Yield the sources of a table whose files its windows wait for."""
    for step in table.steps:
        if isinstance(step.source, FilesSource) and step.source.missing_files == "wait":
            yield step.source
