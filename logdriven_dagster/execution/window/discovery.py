"""Discovery: the end of an attempt's slice, queried from the source or taken from the queue."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

from sqlalchemy.engine import Connection

from logdriven_dagster.config.derived.processes import build_process, get_max_batches
from logdriven_dagster.config.models.incremental.batches import get_file_source
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.project import Project
from logdriven_dagster.config.secrets import redact
from logdriven_dagster.errors import FileKnownError, TerminalStepError
from logdriven_dagster.execution.window.sessions import Engine
from logdriven_dagster.model.attempts import Attempt
from logdriven_dagster.model.batches import Route, TakenBatches, build_marking
from logdriven_dagster.model.files import FoundFile, RegisteredFile
from logdriven_dagster.model.ranges import unite
from logdriven_dagster.model.runs import WindowRun
from logdriven_dagster.model.source_rows import SourceRows
from logdriven_dagster.model.windows import Reads, Slice, TimeWindow
from logdriven_dagster.runlog import RunLog, transitions
from logdriven_dagster.runlog.attempts import progress
from logdriven_dagster.runlog.batches import files

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Discovered:
    """An attempt and its run, with the end of their slice."""

    attempt: Attempt
    run: WindowRun
    notes: str = ""
    source_rows: SourceRows | None = None
    """The rows of the source, if some belong to no window."""


@dataclass(frozen=True, slots=True)
class SourceDiscovery:
    """Discovery of the ends of slices; a result is logged before anything is read."""

    project: Project
    run_log: RunLog
    engine: Callable[[], Engine]

    def discover(self, attempt: Attempt, run: WindowRun) -> Discovered:
        """Bound a slice by the contents of its source. Raises StepError if the source fails."""
        if self.project.table(run.table).incremental.registers_files:
            return self._arrivals(attempt, run)
        return self._frontier(attempt, run)

    def _frontier(self, attempt: Attempt, run: WindowRun) -> Discovered:
        from logdriven_dagster.engine.sources.frontiers import frontier

        found = frontier(self.project, run, lambda: self.engine().reading(run))

        def work(conn: Connection) -> Attempt:
            return progress.write_bounds(conn, attempt, found.window, has_more=found.has_more)

        bounded = replace(run, window=found.window)
        return Discovered(self.run_log.write(work), bounded, found.notes, found.source_rows)

    def _arrivals(self, attempt: Attempt, run: WindowRun) -> Discovered:
        """Register new files, and take them. Source: BDRE, BatchEnqueuer."""
        from logdriven_dagster.engine.sources.files.arrivals import arrivals

        table = self.project.table(run.table)
        source = get_file_source(table)
        found = arrivals(self.project, source, run)
        process = build_process(table)
        (route,) = process.routes
        marking = build_marking(attempt.window, table.grid.zone, attempt.claim.now)

        def work(conn: Connection) -> Attempt:
            files.enqueue_files(conn, route, found, marking)
            return transitions.take(conn, process, attempt, get_max_batches(table))

        taker = self.run_log.write(work)
        self._apply_to_left_over(table, route, found)
        discovered = Discovered(taker, window_run(run, self.project, taker))
        if not taker.taken.batches and source.on_empty == "fail":
            # Source: Sharp ETL, NoFileToContinue.
            raise TerminalStepError(f"there are no new files in {source.path}")
        return discovered

    def recheck(self, run: WindowRun) -> tuple[RegisteredFile, ...]:
        """Check the files of a run again, and register those that were replaced.

        A new version stays in the same batch, so that its rows are loaded once. A file that another
        table has registered meanwhile has a batch of its own, which is still pending.
        """
        from logdriven_dagster.engine.sources.files.arrivals import current

        source = get_file_source(self.project.table(run.table))
        found = []
        latest = {file.location: file for file in run.files}  # a batch retains older versions, too
        for file in latest.values():
            now = current(self.project, source, file)
            if now.hash != file.hash:
                try:
                    self._register(now, file.batch_id)
                except FileKnownError:
                    continue
            found.append(RegisteredFile(**asdict(now), batch_id=file.batch_id))
        return tuple(found)

    def _register(self, found: FoundFile, batch_id: int) -> None:
        self.run_log.write(lambda conn: files.register_file(conn, found, batch_id))

    def apply_after_success(self, run: WindowRun) -> None:
        """Apply `after_success`: keep, delete or move the files whose rows are published."""
        self._apply_after_success(self.project.table(run.table), run.files)

    def _apply_to_left_over(
        self, table: TableConfig, route: Route, found: Sequence[FoundFile]
    ) -> None:
        """Keep, delete or move files whose runner died after it had finished their window."""
        if get_file_source(table).after_success != "keep":
            done = self.run_log.ask(lambda conn: files.find_consumed_files(conn, route, found))
            self._apply_after_success(table, done)

    def _apply_after_success(self, table: TableConfig, done: Sequence[FoundFile]) -> None:
        """Keep, delete or move loaded files; log a failure, which the next attempt retries."""
        from logdriven_dagster.engine.sources.files.arrivals import settle

        try:
            settle(self.project, get_file_source(table), done)
        except Exception as error:  # noqa: BLE001 - file systems may raise anything
            _log.warning(
                "%s: could not move or delete a loaded file: %s", table.table, redact(str(error))
            )


def window_run(run: WindowRun, project: Project, attempt: Attempt) -> WindowRun:
    """Return a run with the batches that its attempt has taken."""
    table = project.tables.get(run.table)
    taken, window = attempt.taken, attempt.window
    brought = tuple(file for intake in taken.intakes for file in intake.files)
    if table is None or not table.incremental.takes_upstream_batches:
        return replace(run, window=window, files=brought)
    return replace(run, window=window, reads=_reads(project, table, taken))


def _reads(project: Project, table: TableConfig, taken: TakenBatches) -> dict[str, Reads]:
    """Return upstream table → the windows of the batches; None for an upstream read as a whole."""
    return {
        dependency.table: None
        if dependency.read == "all"
        or dependency.window == "none"
        or project.tables[dependency.table].output.write_mode.keeps_history
        else _windows(project.tables[dependency.table], taken)
        for dependency in table.managed_dependencies
        if dependency.read != "none"
    }


def _windows(upstream: TableConfig, taken: TakenBatches) -> tuple[TimeWindow, ...]:
    zone = upstream.grid.zone
    spans = sorted(b.span for b in taken.batches if b.source == upstream.table and b.span)
    return tuple(unite(TimeWindow.from_seconds(*span, zone) for span in spans))


def needs_discovery(run: WindowRun) -> bool:
    """Return True if the range of the run is still unknown."""
    return is_open_ended(run.window) and not run.files


def is_open_ended(window: TimeWindow) -> bool:
    """Return True if a slice has no end yet, so its source is queried before Spark has to start."""
    return isinstance(window, Slice) and not window.high
