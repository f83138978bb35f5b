"""`apply`, `enable`, `disable`, `set`, `history`, `diff`, `rollback`, `find`: the registry."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from logdriven_dagster.cli.options import JsonOption, ProjectOption

if TYPE_CHECKING:
    from logdriven_dagster.execution.definitions.changes import Side
    from logdriven_dagster.model.definitions import VersionChange
    from logdriven_dagster.runlog.definitions.history import Finding

NamesArgument = Annotated[
    list[str],
    typer.Argument(metavar="NAME…", help="Tables, jobs, or JOB.STEP of a maintenance job."),
]
NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="A table, a job, JOB.STEP or a relation.")
]
OperatorOption = Annotated[
    str | None,
    typer.Option(
        "--operator",
        metavar="NAME",
        help="The operator to record; default: LOGDRIVEN_OPERATOR, then the user of this process.",
    ),
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Show the changes without writing them.")
]


def apply(
    *,
    dry_run: DryRunOption = False,
    operator: OperatorOption = None,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Register changed files, each as a new version, and show the differences."""
    from logdriven_dagster.execution.definitions.registering import register, rehearse
    from logdriven_dagster.runlog import RunLog

    writing = rehearse if dry_run else RunLog.write
    registered = register(_get_folder(project), by=operator, writing=writing)
    show_changes(registered.changes, dry_run=dry_run, as_json=as_json)


def enable(
    names: NamesArgument,
    *,
    operator: OperatorOption = None,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Enable tables, jobs and steps again, starting with the next tick or run."""
    _set({name: {"enabled": "true"} for name in names}, "enable", operator, project, as_json)


def disable(
    names: NamesArgument,
    *,
    operator: OperatorOption = None,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Disable tables, jobs and steps, regardless of their files."""
    _set({name: {"enabled": "false"} for name in names}, "disable", operator, project, as_json)


def set_(
    name: NameArgument,
    fields: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FIELD=VALUE…",
            help="Values as in YAML; an empty value resets the field to the file.",
        ),
    ] = None,
    *,
    reset: Annotated[
        list[str] | None,
        typer.Option(
            "--reset",
            metavar="FIELD",
            help="Reset this field to the value in the file; may be repeated.",
        ),
    ] = None,
    operator: OperatorOption = None,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Change settings, such as enabled, release_state, priority, retries or timeout."""
    given: dict[str, str | None] = dict.fromkeys(reset or ())
    for text in fields or ():
        field, equals, value = text.partition("=")
        if not equals:
            problem = f"expected FIELD=VALUE, such as retries=3, not {text!r}"
            raise typer.BadParameter(problem, param_hint="FIELD=VALUE")
        given[field.strip()] = value.strip() or None
    if not given:
        raise typer.BadParameter(
            "no fields given; set one with FIELD=VALUE, such as retries=3", param_hint="FIELD=VALUE"
        )
    _set({name: given}, "set", operator, project, as_json)


def history(
    name: NameArgument, *, project: ProjectOption = None, as_json: JsonOption = False
) -> None:
    """Show every version with its operator, time, reason and changed fields."""
    from logdriven_dagster.cli.shown import rendering
    from logdriven_dagster.cli.shown.definitions import convert_version
    from logdriven_dagster.config.derived.contents import rename_content
    from logdriven_dagster.execution.definitions.changes import ProjectRegistry
    from logdriven_dagster.model.definitions import list_content_differences

    versions = ProjectRegistry.open(_get_folder(project)).versions(name)
    contents = [rename_content(version.kind, version.in_force) for version in versions]
    changed = [[], *map(list_content_differences, contents[:-1], contents[1:])]
    if as_json:
        rendering.print_json_list(map(convert_version, versions, changed))
        return
    grid = rendering.make_table("#version", "operation", "operator", "time", "reason", "changed")
    for version, fields in zip(versions, changed, strict=True):
        grid.add_row(
            str(version.version),
            version.operation.value,
            rendering.format_plain(version.operator),
            version.time[:19].replace("T", " ") + "Z",
            rendering.format_plain(version.reason),
            ", ".join(dict.fromkeys(difference.path for difference in fields)),
        )
    rendering.make_console().print(grid)


def diff(
    name: NameArgument,
    first: Annotated[
        str | None,
        typer.Argument(
            metavar="V1", help="A version or `file`; default: the last version but one."
        ),
    ] = None,
    second: Annotated[
        str | None,
        typer.Argument(metavar="V2", help="A version or `file`; default: the last version."),
    ] = None,
    *,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the differences between two versions of a definition; `file` is its current file."""
    from logdriven_dagster.cli.shown import definitions as definition_rendering
    from logdriven_dagster.cli.shown import rendering
    from logdriven_dagster.execution.definitions import changes as definitions

    found = definitions.diff(_get_folder(project), name, _parse_side(first), _parse_side(second))
    if as_json:
        differences = [definition_rendering.convert_difference(item) for item in found.differences]
        rendering.print_json({"first": found.first, "second": found.second, "changed": differences})
        return
    rendering.print_line(f"{name}  {_format_side(found.first)} → {_format_side(found.second)}")
    definition_rendering.print_differences(found.differences)
    if not found.differences:
        rendering.print_line("  no difference")


def rollback(
    name: NameArgument,
    version: Annotated[
        int, typer.Argument(min=1, help="The version; see `logdriven history NAME`.")
    ],
    *,
    operator: OperatorOption = None,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make an older version of a table or job, with its settings, the latest one again."""
    from logdriven_dagster.cli.shown.rendering import print_line
    from logdriven_dagster.execution.definitions import changes as definitions

    done = definitions.rollback(_get_folder(project), name, version, operator)
    show_changes(done.changes, as_json=as_json)
    if done.file is not None and not as_json:
        print_line(
            f"{os.path.relpath(done.file)} has other values. Version {done.version} is "
            "in force until the file changes. Show the differences with `logdriven "
            f"diff {name} {done.version} file`."
        )


def find(
    text: Annotated[
        str | None,
        typer.Argument(
            metavar="TEXT", help="Text to search for: a name, or anything that a definition uses."
        ),
    ] = None,
    *,
    connection: Annotated[
        str | None, typer.Option(help="Find the tables that use this connection.")
    ] = None,
    source: Annotated[
        str | None, typer.Option(help="Find the tables that read this table, file or path.")
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="Find the tables that write this table or path.")
    ] = None,
    file: Annotated[
        str | None, typer.Option(help="Find the tables that use this SQL or Python file.")
    ] = None,
    topic: Annotated[
        str | None, typer.Option(help="Find the tables that read or write this topic.")
    ] = None,
    upstream: Annotated[
        str | None, typer.Option(help="Find the tables that depend on this table.")
    ] = None,
    table: Annotated[
        str | None, typer.Option(help="Find the jobs that contain this table.")
    ] = None,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find definitions by name or by their uses; `*` in a name matches anything."""
    from logdriven_dagster.execution.definitions import changes as definitions

    given = {
        "connection": connection,
        "source": source,
        "target": target,
        "file": file,
        "topic": topic,
        "upstream": upstream,
        "table": table,
    }
    wanted = {kind: used for kind, used in given.items() if used is not None}
    if not wanted and text is None:
        raise typer.BadParameter(
            "missing search text; for example `logdriven find ods.orders` or `--connection shop`",
            param_hint="TEXT",
        )
    found = definitions.find(_get_folder(project), wanted, text)
    _print_findings(found, as_json)


def _print_findings(found: "Sequence[Finding]", as_json: bool) -> None:
    from logdriven_dagster.cli.shown import rendering

    if as_json:
        rendering.print_json_list(
            {
                "kind": item.kind.value.lower(),
                "name": item.name,
                "uses": item.uses,
                "used": item.used,
                "step": item.step or None,
            }
            for item in found
        )
        return
    if not found:
        rendering.print_line("No match in the applied definitions.")
        return
    grid = rendering.make_table("kind", "name", "uses", "what", "step")
    for item in found:
        uses = "" if item.uses == "name" else item.uses
        cells = (item.name, uses, item.used if uses else "", item.step)
        grid.add_row(item.kind.value.lower(), *map(rendering.format_plain, cells))
    rendering.make_console().print(grid)


def show_changes(
    changes: "Sequence[VersionChange]", *, dry_run: bool = False, as_json: bool = False
) -> None:
    """Print the versions that were written, or would be."""
    from logdriven_dagster.cli.shown import definitions as definition_rendering
    from logdriven_dagster.cli.shown import rendering

    if as_json:
        listed = [definition_rendering.change_json(change) for change in changes]
        rendering.print_json({"written": not dry_run, "changes": listed})
        return
    definition_rendering.print_changes(changes)
    if not changes:
        rendering.print_line("No changes.")
        return
    number = f"{len(changes):,} version{'' if len(changes) == 1 else 's'}"
    rendering.print_line(f"{number} {'would be written' if dry_run else 'written'}.")


def _set(
    wanted: Mapping[str, Mapping[str, str | None]],
    reason: str,
    operator: str | None,
    project: str | None,
    as_json: bool,
) -> None:
    from logdriven_dagster.execution.definitions.changes import set_settings
    from logdriven_dagster.execution.definitions.registering import author

    changes = set_settings(_get_folder(project), wanted, author(reason, operator))
    show_changes(changes, as_json=as_json)


def _get_folder(project: str | None) -> Path:
    return Path(project or ".")


def _parse_side(text: str | None) -> "Side | None":
    if text is None:
        return None
    if text == "file":
        return "file"
    if not text.isdigit():
        problem = f"expected a version or `file`, not {text!r}"
        raise typer.BadParameter(problem, param_hint="V1, V2")
    return int(text)


def _format_side(side: "Side") -> str:
    return "file" if side == "file" else f"version {side}"
