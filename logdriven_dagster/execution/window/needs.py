"""Needs of tables: what a run must have is looked at once before anything is claimed."""

from collections.abc import Callable

from logdriven_dagster.config import Project
from logdriven_dagster.config.checking.engines import EngineChoice
from logdriven_dagster.config.derived.needs import Need, needs_of
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.errors import UnmetNeedError


class Needs:
    """Remembers what was found of each need, until a window fails: then it looks again."""

    def __init__(self, project: Project, choice: EngineChoice) -> None:
        self._project, self._choice = project, choice
        self._met: set[Need] = set()
        self._of: dict[str, list[Need]] = {}

    def refuse_unmet(self, table: TableConfig) -> None:
        """UnmetNeedError for the first thing that the windows of a table need in vain."""
        from logdriven_dagster.engine.needs import refuse_unmet

        if table.table not in self._of:
            self._of[table.table] = needs_of(self._project, table)
        for need in self._of[table.table]:
            if need not in self._met:
                refuse_unmet(self._project, need)
                self._met.add(need)

    def having(self, unmet: UnmetNeedError, found_by: str) -> Callable[[str], bool]:
        """Whether a table needs what is broken; `found_by`, whose windows lacked it, does."""

        def needs(name: str) -> bool:
            table = self._project.tables[name]
            if unmet.engine is not None:
                return unmet.engine == self._choice.of(table, self._project)
            return unmet.need in map(str, needs_of(self._project, table))

        return lambda name: name == found_by or needs(name)

    def failed(self, table: TableConfig) -> None:
        """A window of the table has failed: what it needs may be broken by now."""
        self._met.difference_update(self._of[table.table])
