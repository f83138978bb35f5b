"""Shared parts of the examples with their own source: a fresh project, run at a given time."""

import os
import shutil
from datetime import datetime
from pathlib import Path

from sqlalchemy import Engine, text

from logdriven_dagster.cli.shown.rendering import make_console, make_table
from logdriven_dagster.config.loading import load_project
from logdriven_dagster.config.project import Project
from logdriven_dagster.errors import UsageError
from logdriven_dagster.examples.demo import announce, logdriven, print_summary


def prepare(example: Path, folder: Path) -> Project:
    """Copy the project unless it exists, and reset it together with its source.

    Raises UsageError for a folder with other contents.
    """
    os.environ.pop("LOGDRIVEN_RUN_LOG", None)  # an example never writes into the user's run log
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
    """Run `logdriven run` with the data clock at `now`. Returns its exit code."""
    return logdriven(folder, "run", "--now", _clock(now))


def show_log(folder: Path, now: datetime, table: str) -> None:
    """Print a table's newest attempts, the state of each table at `now`, and all counts."""
    logdriven(folder, "log", table, "--limit", "6")
    logdriven(folder, "status", "--now", _clock(now))
    print_summary(load_project(folder))


def show_query(engine: Engine, query: str) -> None:
    """Print a query and its result like an SQL client, with numbers right-aligned."""
    announce(f"SQL> {query}")
    with engine.connect() as conn:
        result = conn.execute(text(query))
        names, rows = list(result.keys()), result.all()
    numeric = [not isinstance(value, str) for value in rows[0]] if rows else [False] * len(names)
    grid = make_table(*(f"#{name}" if n else name for name, n in zip(names, numeric, strict=True)))
    for row in rows:
        grid.add_row(*map(str, row))
    make_console().print(grid)


def _clock(now: datetime) -> str:
    """Format a time in the project's zone for `--now`."""
    return f"{now:%Y-%m-%dT%H:%M}"
