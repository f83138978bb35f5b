"""Requirements of tables, checked once per run before anything is claimed."""

from collections.abc import Callable

from logdriven_dagster.config.checking.engines import EngineChoice
from logdriven_dagster.config.derived.needs import Need, list_needs
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.project import Project
from logdriven_dagster.errors import UnmetNeedError


class Needs:
    """Cache of met requirements; after a failed window, those of its table are checked again."""

    def __init__(self, project: Project, choice: EngineChoice) -> None:
        self._project, self._choice = project, choice
        self._met: set[Need] = set()
        self._of: dict[str, list[Need]] = {}

    def refuse_unmet(self, table: TableConfig) -> None:
        """Raise UnmetNeedError for the first unmet requirement of a table's windows."""
        from logdriven_dagster.engine.needs import refuse_unmet

        if table.table not in self._of:
            self._of[table.table] = list_needs(self._project, table)
        for need in self._of[table.table]:
            if need not in self._met:
                refuse_unmet(self._project, need)
                self._met.add(need)

    def having(self, unmet: UnmetNeedError, found_by: str) -> Callable[[str], bool]:
        """Return a predicate: True if a table has the unmet requirement, as `found_by` has."""

        def needs(name: str) -> bool:
            table = self._project.tables[name]
            if unmet.engine is not None:
                return unmet.engine == self._choice.choose(table, self._project)
            return unmet.need in map(str, list_needs(self._project, table))

        return lambda name: name == found_by or needs(name)

    def discard(self, table: TableConfig) -> None:
        """Discard the cached requirements of a table whose window failed: they may be unmet now."""
        self._met.difference_update(self._of[table.table])
