"""`export` and `import`: all definitions of a project in one file."""

import sys
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from logdriven_dagster.cli.commands.definitions import DryRunOption, OperatorOption, show_changes
from logdriven_dagster.cli.options import JsonOption, ProjectOption


class ExportFormat(str, Enum):
    """The formats of an export."""

    yaml = "yaml"
    json = "json"


def export(
    *,
    form: Annotated[
        ExportFormat, typer.Option("--format", help="The format of the export.")
    ] = ExportFormat.yaml,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The output file; default: standard output."),
    ] = None,
    history: Annotated[
        bool, typer.Option("--history", help="Include every version, not only the latest ones.")
    ] = False,
    project: ProjectOption = None,
) -> None:
    """Export all registered definitions, with codes and versions, as one document."""
    from logdriven_dagster.cli.shown.control_characters import write_document
    from logdriven_dagster.cli.shown.rendering import print_line
    from logdriven_dagster.config.derived.exchange import format_json, format_yaml
    from logdriven_dagster.execution.definitions.exchange import export as exported

    written = exported(Path(project or "."), history=history)
    text = format_yaml(written) if form is ExportFormat.yaml else format_json(written)
    if output is None:
        write_document(text)
        return
    output.write_text(text, encoding="utf-8")
    print_line(f"wrote {output}")


def import_(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="The file of an export; - reads standard input.")
    ],
    *,
    dry_run: DryRunOption = False,
    operator: OperatorOption = None,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Import an export's definitions into this run log; differing ones become new versions."""
    from logdriven_dagster.config.derived.exchange import parse_export
    from logdriven_dagster.errors import UsageError
    from logdriven_dagster.execution.definitions.exchange import import_export
    from logdriven_dagster.execution.definitions.registering import author, rehearse
    from logdriven_dagster.runlog import RunLog

    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: {error}") from None
    found = parse_export(Path(file), text)
    by = author(f"import of {Path(file).name}", operator)
    writing = rehearse if dry_run else RunLog.write
    registered = import_export(Path(project or "."), found, by, writing)
    show_changes(registered.changes, dry_run=dry_run, as_json=as_json)
