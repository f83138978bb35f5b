"""Reports for plans about targets that other programs filled, before any run and without Spark.

All targets are queried concurrently, each in a daemon thread, so that a database that does not
answer costs a plan only a few seconds and one line of output.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from threading import Thread
from time import monotonic

from logdriven_dagster.config.derived.needs import Need
from logdriven_dagster.config.models.types.targets import Target
from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.failures import step_error
from logdriven_dagster.engine.targets.contents import contents_of
from logdriven_dagster.errors import in_brief

_PATIENCE_SECONDS = 5


@dataclass(frozen=True, slots=True)
class ExistingRows:
    """Rows of other programs in the targets of some tables, and the report on them."""

    tables: tuple[str, ...]
    text: str


def existing_rows(project: Project, tables: Iterable[str]) -> Iterator[ExistingRows]:
    """Report the rows in the targets of tables of which no window has been published yet."""
    looks: dict[tuple[str, str], _ContentsThread] = {}
    for table in tables:
        for step in project.tables[table].steps:
            if step.target is not None:
                place = _get_shared_place(step.target)
                key = (step.target.contents, place or f"{table}.{step.step}")
                looks.setdefault(key, _ContentsThread(project, place)).targets.append(
                    (table, step.target)
                )
    for look in looks.values():
        look.start()
    deadline = monotonic() + _PATIENCE_SECONDS
    for look in looks.values():
        look.join(max(0.0, deadline - monotonic()))
        yield from look.results()


def _get_shared_place(target: Target) -> str:
    """Return the connection or catalog that a target shares with others; empty if there is none."""
    if target.connected is not None:
        return str(Need("connection", target.connected.name))
    return str(Need("catalog")) if target.in_catalog else ""


class _ContentsThread(Thread):
    """A thread that queries all targets of one type in one place."""

    def __init__(self, project: Project, place: str) -> None:
        super().__init__(name=f"existing rows of {place}", daemon=True)
        self._project, self._place = project, place
        self.targets: list[tuple[str, Target]] = []
        self._found: list[str | None] = []
        """The report on each target that was queried; None if there is nothing to report."""
        self._error: str | None = None

    def run(self) -> None:
        """Query the targets one after another; an error ends the thread."""
        contents = contents_of(self.targets[0][1])
        try:
            for found in contents.effects_on_existing_rows(self._project, self.targets):
                self._found.append(found)
        except Exception as error:  # noqa: BLE001 - drivers raise errors of any type
            self._error = in_brief(str(step_error(error)))

    def results(self) -> Iterator[ExistingRows]:
        """Yield the results so far, and a report on the targets that were not queried."""
        found = list(self._found)
        for (table, _), text in zip(self.targets, found, strict=False):
            if text is not None:
                yield ExistingRows((table,), text)
        if left := tuple(dict.fromkeys(table for table, _ in self.targets[len(found) :])):
            why = self._error or f"no answer within {_PATIENCE_SECONDS} s"
            problem = f"{self._place}: {why}" if self._place else why
            unknown = "it is unknown whether the target has existing rows"
            yield ExistingRows(left, f"{unknown}: {problem}")
