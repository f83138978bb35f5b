"""`init`, `validate` and `schema`: a project's files."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from datetime import date, datetime, timezone
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from logdriven_dagster.cli.options import (
    JsonOption,
    NowOption,
    ProjectOption,
    read_data_clock,
)

if TYPE_CHECKING:
    from logdriven_dagster.config.derived.needs import Need
    from logdriven_dagster.config.project import Project
    from logdriven_dagster.errors import ConfigError


_MOST_NOTES = 10
"""The maximum number of sources that `validate` prints because of their files."""


class FileKind(str, Enum):
    """The kinds of files in a project."""

    project = "project"
    table = "table"
    job = "job"


def init(
    folder: Annotated[Path, typer.Argument(help="A new or empty folder.")],
    now: NowOption = None,
) -> None:
    """Create a small project that runs immediately."""
    from logdriven_dagster.cli.shown.rendering import print_line
    from logdriven_dagster.config.scaffolding.new_project import scaffold

    written = scaffold(folder, _day(now))
    print_line(f"A new project in {folder}:")
    for path in written:
        print_line(f"  {path}")
    print_line(f"\nNext: cd {folder} && logdriven run")


def _day(now: str | None) -> date:
    from logdriven_dagster.config.models.fields import parse_instant

    if now is None:
        return datetime.now(timezone.utc).date()
    try:
        return parse_instant(now).date()
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--now") from None


def validate(
    project: ProjectOption = None,
    analyze: Annotated[
        bool,
        typer.Option("--analyze", help="Analyze every query with Spark, without reading rows."),
    ] = False,
    connect: Annotated[
        bool,
        typer.Option(
            "--connect",
            help="Connect to the run log, the warehouse, the catalog and every connection.",
        ),
    ] = False,
    as_json: JsonOption = False,
    now: NowOption = None,
) -> None:
    """Check all files, queries and Python functions of the project; report all errors."""
    from logdriven_dagster.cli.shown.rendering import print_json, print_line
    from logdriven_dagster.config.loading import load_examined_project
    from logdriven_dagster.errors import InvalidProjectError
    from logdriven_dagster.execution.inspection.source_paths import find_path_notes

    try:
        loaded = load_examined_project(project or ".", parsed_by_spark=analyze)
        not_analyzed = _list_not_analyzed(project) if analyze else ()
    except InvalidProjectError as invalid:
        if not as_json:
            raise
        print_json({"valid": False, "errors": [_mistake_json(error) for error in invalid.errors]})
        raise typer.Exit(2) from None
    missing, engines = _missing_here(loaded), _engines(loaded)
    reasons = {name: why for name, (_, why) in engines.items()}
    effects = _describe_effects(loaded, read_data_clock(loaded, now), connect=connect)
    effects += _describe_tables_without_windows(loaded)
    places = _find_problems(loaded) if connect else {}
    path_notes = list(find_path_notes(loaded, connect=connect))
    if as_json:
        analysis_fields = (
            {"not_analyzed": [_mistake_json(error) for error in not_analyzed]} if analyze else {}
        )
        reached = {"places": places} if connect else {}
        print_json(
            {
                "valid": True,
                "errors": [],
                "warnings": [_mistake_json(hint) for hint in loaded.renamed_fields],
                "missing_here": missing,
                "files": [asdict(note) for note in path_notes],
                **({"why_spark": reasons} if engines else {}),
                **({"effects": effects} if effects else {}),
                **reached,
                **analysis_fields,
            }
        )
        raise typer.Exit(2 if any(places.values()) else 0)
    _print_valid(loaded, engines, not_analyzed)
    for text in effects:
        print_line(text)
    for item in missing:
        print_line(
            f"Not available on this host: {item['need']}: {item['problem']}; needed by {item['by']}"
        )
    for note in path_notes[:_MOST_NOTES]:
        print_line(f"{note.table}, step {note.step}: {note.text}")
    if len(path_notes) > _MOST_NOTES:
        print_line(f"… and {len(path_notes) - _MOST_NOTES} more sources; --json has all of them")
    for place, problem in places.items():
        print_line(f"{place}: {problem or 'reached'}")
    if any(places.values()):
        raise typer.Exit(2)


def _print_valid(
    project: "Project",
    engines: dict[str, tuple[str, str | None]],
    not_analyzed: "Iterable[ConfigError]",
) -> None:
    """Print what a valid project consists of, and the engine of its tables."""
    from logdriven_dagster.cli.shown.rendering import print_line

    for error in not_analyzed:
        print_line(f"not analyzed: {error}")
    layers = {table.layer for table in project.tables.values()}
    counted = [
        _format_count(len(project.tables), "table"),
        _format_count(len(layers), "layer"),
        _format_count(len(project.jobs), "job"),
    ]
    print_line(f"Project {project.name} is valid: {', '.join(counted)}.")
    for title, names in _by_engine(engines).items():
        print_line(f"On {title}: {', '.join(names)}.")
    if on_spark := [f"{name} ({why})" for name, (_, why) in engines.items() if why is not None]:
        print_line(f"On Spark: {'; '.join(on_spark)}.")


def _describe_effects(project: "Project", now: datetime, *, connect: bool) -> list[str]:
    """Return the effects on existing windows of `renamed_from` and of changed grids.

    Only with `connect` is the run log of a project without renamed tables read from a server.
    """
    from logdriven_dagster.cli.shown.definitions import iter_part_notes
    from logdriven_dagster.errors import RunLogError
    from logdriven_dagster.execution.definitions.homes import look_at_run_log
    from logdriven_dagster.execution.definitions.renames import find_rename_notes
    from logdriven_dagster.execution.logs import read_logs
    from logdriven_dagster.planning.plan import plan

    is_renamed = any(table.renamed_from for table in project.tables.values())
    is_file = project.run_log_url.get_backend_name() == "sqlite"
    if not (is_renamed or is_file or connect):
        return []
    try:
        run_log = look_at_run_log(project)
        if run_log is None:
            return []
        logs = run_log.ask(lambda conn: read_logs(conn, project, list(project.tables)))
        found = plan(project.tables, logs, now)
        notes = [note.text for note in find_rename_notes(project, run_log)]
        return [*notes, *iter_part_notes(found)]
    except RunLogError as error:
        return [f"the effect on existing windows is not known here: {error}"] if is_renamed else []


def _describe_tables_without_windows(project: "Project") -> Iterator[str]:
    """Describe each table whose first window would end after the table's `end`."""
    for name, table in project.tables.items():
        if table.is_sliced or table.grid.end is None:
            continue
        first = table.grid.window(0)
        if first.end > table.grid.end:
            problem = f"the first window, {first}, ends after `end`, so no window runs"
            yield f"{name}: {problem}; set a later end for the table"


def _missing_here(project: "Project") -> list[dict[str, str]]:
    """Return the needs of tables that this machine or its environment does not meet."""
    from logdriven_dagster.config.derived.needs import list_needs
    from logdriven_dagster.engine.needs import refuse_missing
    from logdriven_dagster.errors import UnmetNeedError

    users: dict[Need, list[str]] = {}
    for name, table in project.tables.items():
        for need in list_needs(project, table):
            users.setdefault(need, []).append(name)
    found = []
    for need, names in users.items():
        try:
            refuse_missing(project, need)
        except UnmetNeedError as unmet:
            found.append({"need": unmet.need, "problem": unmet.problem, "by": ", ".join(names)})
    return found


def _by_engine(engines: dict[str, tuple[str, str | None]]) -> dict[str, list[str]]:
    """Return engine → the tables that it supports, without those that Spark runs."""
    found: dict[str, list[str]] = {}
    for name, (title, reason) in engines.items():
        if reason is None:
            found.setdefault(title, []).append(name)
    return found


def _engines(project: "Project") -> dict[str, tuple[str, str | None]]:
    """Return the engine of each table, and the reason if Spark runs it for want of another one.

    Empty unless the engine is chosen per table.
    """
    if project.config.spark.engine != "auto":
        return {}
    from logdriven_dagster.config.checking.engines import EngineChoice

    choice = EngineChoice(project)
    chosen = {name: choice.engine_and_reason(name) for name in project.tables}
    return {name: (choice.title(engine), why) for name, (engine, why) in chosen.items()}


def _find_problems(project: "Project") -> dict[str, str | None]:
    """Return the problem of each place outside this process; None if it was reached."""
    from logdriven_dagster.config.derived.needs import RUN_LOG, list_shared_needs
    from logdriven_dagster.engine.needs import unmet_in_time

    reached = {str(need): unmet_in_time(project, need) for need in list_shared_needs(project)}
    if reached[str(RUN_LOG)] is None:
        reached[str(RUN_LOG)] = _of_another(project)
    return reached


def _of_another(project: "Project") -> str | None:
    """Return the reason why this project may not use the run log; None if it may."""
    from logdriven_dagster.errors import RunLogError
    from logdriven_dagster.execution.definitions.homes import look_at_run_log

    try:
        look_at_run_log(project)
    except RunLogError as error:
        return str(error)
    return None


def _list_not_analyzed(project: str | None) -> "tuple[ConfigError, ...]":
    """Return the parts that Spark could not check; InvalidProjectError for its errors."""
    from logdriven_dagster.cli.shown.rendering import redirect_output
    from logdriven_dagster.config.loading import read_sources
    from logdriven_dagster.errors import InvalidProjectError
    from logdriven_dagster.execution.inspection.analysing import analysis_of

    with redirect_output():
        analysis = analysis_of(read_sources(project or "."))
    if analysis.mistakes:
        raise InvalidProjectError(analysis.mistakes)
    return analysis.not_analyzed


def _mistake_json(error: "ConfigError") -> dict[str, object]:
    return {name: getattr(error, name) for name in ("path", "line", "field", "problem", "hint")}


def _format_count(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")


def schema(
    kind: Annotated[
        FileKind | None, typer.Argument(help="The kind of file; default: all kinds.")
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", help="Write the schemas into .logdriven/schema/ for editors.")
    ] = False,
    project: ProjectOption = None,
) -> None:
    """Print the JSON schema of the project's files, or write all of them for editors."""
    from logdriven_dagster.cli.shown.rendering import print_json, print_line
    from logdriven_dagster.config.project import PROJECT_FILE
    from logdriven_dagster.config.scaffolding.schemas import build_file_schemas, write_schemas
    from logdriven_dagster.errors import UsageError

    if not write:
        schemas = build_file_schemas()
        print_json(schemas[kind.value] if kind else schemas)
        return
    root = Path(project or ".")
    if not (root / PROJECT_FILE).is_file():
        raise UsageError(f"{root.resolve()} is not a project folder: it has no {PROJECT_FILE}")
    for path in write_schemas(root):
        print_line(f"wrote {path}")
    print_line("\nFirst line of a file, for editors with a YAML language server:")
    print_line("  # yaml-language-server: $schema=../../.logdriven/schema/table.json")
