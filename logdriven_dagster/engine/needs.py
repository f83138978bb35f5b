"""Checks that the requirements of windows are met, before any window is claimed.

Each requirement is checked once for all tables that share it.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from logdriven_dagster.config.connections import describe_missing_driver, get_url
from logdriven_dagster.config.derived.needs import Need, refuse_unmet_here
from logdriven_dagster.config.project import PROJECT_FILE, Project
from logdriven_dagster.config.secrets import redact
from logdriven_dagster.engine.failures import step_error
from logdriven_dagster.engine.spark.connecting import refuse_unseen_files
from logdriven_dagster.engine.spark.settings import refuse_missing_driver, resolve_settings
from logdriven_dagster.engine.storage.locations import storage_of
from logdriven_dagster.engine.storage.storage import DRAFT
from logdriven_dagster.errors import (
    TerminalStepError,
    UnmetNeedError,
    UsageError,
    get_driver_message,
    in_brief,
)

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

_PATIENCE_SECONDS = 10
_MOST_SECONDS = 40
"""Longer than one timeout, because some drivers and stores apply several in sequence."""


def refuse_missing(project: Project, need: Need) -> None:
    """Raise UnmetNeedError if this machine or its environment lacks a need; contacts no server."""
    try:
        refuse_unmet_here(project, need)
        if need.kind == "table":
            refuse_unseen_files(project, project.table(need.name))
        if need.kind == "Spark":
            resolve_settings(project)
        if need.kind == "connection":
            refuse_missing_driver(project, need.name)
    except UsageError as error:
        raise UnmetNeedError(str(need), redact(str(error).removeprefix(f"{need}: "))) from None


def refuse_unmet(project: Project, need: Need) -> None:
    """Raise UnmetNeedError if a need is missing, or its server does not answer."""
    refuse_missing(project, need)
    match need.kind:
        case "connection" if get_url(project.config.connections[need.name]) is not None:
            _refuse_unreachable(need, project.connection(need.name).url)
        case "catalog" if project.catalog_url is not None:
            _refuse_unreachable(need, project.catalog_url)
        case "catalog":
            _refuse_unanswered(need, partial(_ask_catalog, project), "catalog and storage")
        case "warehouse":
            _refuse_unanswered(need, partial(_ask_warehouse, project), "warehouse and storage")
        case "run log":
            _refuse_unreachable(need, project.run_log_url)
        case _:
            return


def unmet_in_time(project: Project, need: Need) -> str | None:
    """Return the problem with a need in one sentence, or None; unresponsive servers time out."""
    found: list[str] = []

    def look() -> None:
        try:
            refuse_unmet(project, need)
        except UnmetNeedError as unmet:
            found.append(unmet.problem)

    looking = Thread(target=look, daemon=True)
    looking.start()
    looking.join(_MOST_SECONDS)
    if looking.is_alive():
        return f"no answer within {_MOST_SECONDS} seconds"
    return found[0] if found else None


def _refuse_unanswered(need: Need, ask: Callable[[], object], fields: str) -> None:
    try:
        ask()
    except Exception as error:  # noqa: BLE001 - each store and catalog has errors of its own
        problem = in_brief(str(step_error(error)))
        fix = f"check {fields} in {PROJECT_FILE}, and that the server is running"
        raise UnmetNeedError(str(need), f"{problem}; {fix}") from None


def _ask_catalog(project: Project) -> None:
    from logdriven_dagster.engine.targets.iceberg.catalog import open_catalog

    open_catalog(project).list_namespaces()


def _ask_warehouse(project: Project) -> None:
    """Write a file, read it and remove it, as windows do.

    Some targets need a store that refuses to overwrite a file.
    """
    storage = storage_of(project.staging, project.storage)
    location = f"{project.staging}/{uuid4().hex}{DRAFT}"
    once = any(table.output.creates_files_once for table in project.tables.values())
    try:
        (storage.put_if_absent if once else storage.put)(location, b"1")
        if storage.read(location) != b"1":
            raise TerminalStepError(f"{location} has other contents than were written")
    finally:
        storage.remove(location)


def _refuse_unreachable(need: Need, url: "URL") -> None:
    """Raise UnmetNeedError unless the database accepts a connection; SQLite only needs a folder."""
    from sqlalchemy import NullPool, create_engine

    if url.get_backend_name() == "sqlite":
        folder = Path(url.database or "").parent
        if need.kind == "connection" and not folder.is_dir():
            raise UnmetNeedError(str(need), f"folder {folder} does not exist")
        return
    patient: dict[str, Any] = {"connect_timeout": _PATIENCE_SECONDS}
    try:
        engine = create_engine(url, poolclass=NullPool, connect_args=patient)
        with engine.connect():
            pass
    except ImportError as error:
        raise UnmetNeedError(str(need), describe_missing_driver(error)) from None
    except Exception as error:  # noqa: BLE001 - drivers raise exceptions of any type
        said = redact(get_driver_message(getattr(error, "orig", None))) or in_brief(
            str(step_error(error))
        )
        place = need.kind.replace(" ", "_") + f"s.{need.name}" * bool(need.name)
        problem = f"could not open its database: {said}"
        fix = f"check {place} in {PROJECT_FILE}, and that the server is running"
        raise UnmetNeedError(str(need), f"{problem}; {fix}") from None
