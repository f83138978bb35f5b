"""What the examples with a source of their own share: a fresh project, run as of a moment."""

import os
import shutil
from datetime import datetime
from pathlib import Path

from sqlalchemy import Engine, text

from logdriven_dagster.cli.shown.rendering import console, table
from logdriven_dagster.config import Project, load_project
from logdriven_dagster.errors import UsageError
from logdriven_dagster.examples.demo import logdriven, print_summary, say


def prepare(example: Path, folder: Path) -> Project:
    """Copy the project unless it is there, and let it begin anew, as its source does.

    UsageError for a folder that holds anything else.
    """
    os.environ.pop("LOGDRIVEN_RUN_LOG", None)  # an example never writes into anybody's log
    settings = folder / "logdriven.yaml"
    if not settings.exists():
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UsageError(f"{folder} is not an empty folder; name a new one")
        shutil.copytree(example, folder, dirs_exist_ok=True)
    project, original = load_project(folder), load_project(example)
    if project.name != original.name:
        raise UsageError(f"{folder} holds the project {project.name}; name a new folder")
    shutil.rmtree(folder / ".logdriven", ignore_errors=True)
    return project


def run(folder: Path, now: datetime) -> int:
    """`logdriven run` with the data clock at `now`; its exit code."""
    return logdriven(folder, "run", "--now", _clock(now))


def show_log(folder: Path, now: datetime, table: str) -> None:
    """The newest attempts of a table, the state of each table at `now`, and the counts of all."""
    logdriven(folder, "log", table, "--limit", "6")
    logdriven(folder, "status", "--now", _clock(now))
    print_summary(load_project(folder))


def show_query(engine: Engine, query: str) -> None:
    """A query and its result, as an SQL client shows them; numbers to the right."""
    say(f"SQL> {query}")
    with engine.connect() as conn:
        result = conn.execute(text(query))
        names, rows = list(result.keys()), result.all()
    numeric = [not isinstance(value, str) for value in rows[0]] if rows else [False] * len(names)
    grid = table(*(f"#{name}" if n else name for name, n in zip(names, numeric, strict=True)))
    for row in rows:
        grid.add_row(*map(str, row))
    console().print(grid)


def _clock(now: datetime) -> str:
    """A moment in the project's zone, as `--now` takes it."""
    return f"{now:%Y-%m-%dT%H:%M}"
