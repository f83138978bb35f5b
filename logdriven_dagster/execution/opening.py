"""Creation of a runner for this process from a project."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING

from logdriven_dagster.config.checking.engines import EngineChoice, EngineContext
from logdriven_dagster.config.project import Project
from logdriven_dagster.config.secrets import redact
from logdriven_dagster.errors import UnmetNeedError, UsageError
from logdriven_dagster.execution.definitions.homes import enter, open_run_log
from logdriven_dagster.execution.owners import current_owner
from logdriven_dagster.execution.runner import Runner
from logdriven_dagster.execution.window.engines import start_engine
from logdriven_dagster.execution.window.sessions import Engine
from logdriven_dagster.model.source_rows import SourceRows
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.observed import audits

if TYPE_CHECKING:
    from logdriven_dagster.engine import SparkSession

_substitutes: list[Engine] = []


@contextmanager
def substitute_engine(engine: Engine) -> Iterator[None]:
    """Make every runner of this process use `engine` within the block, for any project."""
    _substitutes.append(engine)
    try:
        yield
    finally:
        _substitutes.pop()


def _start(context: EngineContext) -> Engine:
    """Start an engine. Raises UnmetNeedError if it cannot be started or reached."""
    from logdriven_dagster.engine.failures import step_error

    kind = context.kind
    try:
        return start_engine(context)
    except UsageError as error:
        raise UnmetNeedError(kind.title, redact(str(error)), kind.name) from None
    except Exception as error:  # noqa: BLE001 - Java, PySpark and packages may raise anything
        problem = f"could not start it: {step_error(error)}"
        raise UnmetNeedError(kind.title, problem, kind.name) from None


def open_runner(
    project: Project,
    *,
    dagster_run_id: str | None = None,
    spark: "Callable[[], SparkSession] | None" = None,
    run_log: RunLog | None = None,
) -> Runner:
    """Return a runner with the project's run log and an engine that its first window starts.

    `spark` returns the session to use; by default the project's own is started or reused. `run_log`
    is the project's, if it is open already. The definitions that a code location has read are
    registered first. Raises RunLogError as `homes.enter`.
    """
    starting, log = Lock(), run_log or open_run_log(project)
    if run_log is not None:
        enter(project, run_log)
    if project.registering is not None:
        project = replace(project.registering(log), config=project.config)

    def recall(table: str) -> list[SourceRows]:
        return log.ask(lambda conn: audits.read_source_rows(conn, [table], with_files=True))

    running: dict[str, Engine] = {}
    choice = EngineChoice(project)

    def engine(name: str) -> Engine:
        if _substitutes:
            return _substitutes[-1]
        from logdriven_dagster.engine.spark import dead_sessions as deaths

        with starting:  # parallel windows ask for the one that all share
            while running and deaths.is_dead():
                running.clear()
                deaths.forget()
            if name not in running:
                context = EngineContext(choice.type_of(name), spark, recall, runner.expected)
                running[name] = _start(context)
            return running[name]

    runner = Runner(project, log, engine, current_owner(dagster_run_id))
    return runner
