"""Whether what windows need is there: before anything is claimed, and once for all that need it."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from logdriven_dagster.config.derived.needs import Need, refuse_unmet_here
from logdriven_dagster.config.driver_errors import driver_words
from logdriven_dagster.config.project import PROJECT_FILE, Project
from logdriven_dagster.config.secrets import redact
from logdriven_dagster.engine.failures import step_error
from logdriven_dagster.engine.spark.connecting import refuse_unseen_files
from logdriven_dagster.engine.spark.settings import given_settings, refuse_missing_driver
from logdriven_dagster.errors import UnmetNeedError, UsageError, in_brief

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

_PATIENCE_SECONDS = 10


def refuse_missing(project: Project, need: Need) -> None:
    """UnmetNeedError for what this machine or its environment lacks; asks nobody else."""
    try:
        refuse_unmet_here(project, need)
        if need.kind == "table":
            refuse_unseen_files(project, project.table(need.name))
        if need.kind == "Spark":
            given_settings(project)
        if need.kind == "connection":
            refuse_missing_driver(project, need.name)
    except UsageError as error:
        raise UnmetNeedError(str(need), redact(str(error).removeprefix(f"{need}: "))) from None


def refuse_unmet(project: Project, need: Need) -> None:
    """UnmetNeedError for what is missing, and for a database that does not answer."""
    refuse_missing(project, need)
    match need.kind:
        case "connection" if project.config.connections[need.name].kafka is None:
            _refuse_unreachable(need, project.connection(need.name).url)
        case "catalog":
            _refuse_unreachable(need, project.catalog_url)
        case _:
            return


def _refuse_unreachable(need: Need, url: "URL") -> None:
    """UnmetNeedError unless the database lets us in; a file of SQLite only needs its folder."""
    from sqlalchemy import NullPool, create_engine

    if url.get_backend_name() == "sqlite":
        folder = Path(url.database or "").parent
        if need.kind == "connection" and not folder.is_dir():
            raise UnmetNeedError(str(need), f"there is no folder {folder}")
        return
    patient: dict[str, Any] = {"connect_timeout": _PATIENCE_SECONDS}
    try:
        engine = create_engine(url, poolclass=NullPool, connect_args=patient)
        with engine.connect():
            pass
    except ImportError as error:
        raise UnmetNeedError(str(need), f"its driver is not installed: {error}") from None
    except Exception as error:  # noqa: BLE001 - drivers raise whatever they like
        said = redact(driver_words(getattr(error, "orig", None))) or in_brief(
            str(step_error(error))
        )
        place = "catalog" if need.kind == "catalog" else f"connections.{need.name}"
        problem = f"its database cannot be opened: {said}"
        fix = f"check {place} in {PROJECT_FILE}, and that the server runs"
        raise UnmetNeedError(str(need), f"{problem}; {fix}") from None
