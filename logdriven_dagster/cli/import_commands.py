"""`scaffold`, `import-kettle`, `import-sharpetl`: files of ours from what people have.

Exit codes: 0 everything was translated, 1 something is listed that was not, 2 nothing was written.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from logdriven_dagster.cli.options import (
    JsonOption,
    NowOption,
    ProjectOption,
    data_clock,
    open_project,
    parse_names,
    parse_time,
)

if TYPE_CHECKING:
    from logdriven_dagster.config import Project
    from logdriven_dagster.importers.drafts import Remark, Translation
    from logdriven_dagster.importers.writing import Writing

OverwriteOption = Annotated[
    bool, typer.Option("--overwrite", help="Replace files that exist and differ.")
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Only tell what would be written and what would not.")
]
MapOption = Annotated[
    list[str] | None,
    typer.Option(
        "--map",
        metavar="THEIRS=OURS",
        help="A connection there and the project's connection for it; may be repeated.",
    ),
]
PeriodOption = Annotated[
    str | None, typer.Option("--period", help="Of each table; the project's default, or 1 day.")
]
StartOption = Annotated[
    str | None,
    typer.Option("--default-start", metavar="TIME", help="Where windows of time begin."),
]


def scaffold(
    *,
    connection: Annotated[str, typer.Option("--connection", help="A connection of the project.")],
    schema: Annotated[
        str | None, typer.Option("--schema", help="The default one otherwise.")
    ] = None,
    tables: Annotated[
        list[str] | None,
        typer.Option("--tables", metavar="A,B", help="Only these; may be repeated."),
    ] = None,
    views: Annotated[bool, typer.Option("--views", help="Views as well as tables.")] = False,
    layer: Annotated[str, typer.Option("--layer", help="Of the new tables.")] = "ods",
    default_start: StartOption = None,
    period: PeriodOption = None,
    template: Annotated[
        bool, typer.Option("--template", help="One for_each file for all tables of a kind.")
    ] = False,
    overwrite: OverwriteOption = False,
    dry_run: DryRunOption = False,
    now: NowOption = None,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write table files from the schema of a database."""
    loaded = open_project(project)
    _check_times(loaded, default_start, period)
    from logdriven_dagster.importers import scaffold as scaffolding
    from logdriven_dagster.importers.naming import table_name

    wish = scaffolding.Wish(
        connection=connection,
        today=data_clock(loaded, now).date(),
        schema=schema,
        tables=parse_names(tables),
        kinds=("table", "view") if views else ("table",),
        layer=table_name(layer),
        default_start=default_start,
        period=period,
    )
    translation = scaffolding.scaffold(loaded, wish)
    if template:
        scaffolding.as_templates(loaded, wish, translation)
    elif kind := scaffolding.alike(translation):
        reason = f"{scaffolding.MANY} or more are {kind}; --template makes one file of each kind"
        translation.note(f"connection {connection}", "many tables", reason)
    _bring_in(loaded, translation, overwrite=overwrite, dry_run=dry_run, as_json=as_json)


def import_kettle(
    *,
    connection: Annotated[
        str, typer.Option("--connection", help="The database that holds the t_etl_* tables.")
    ],
    schema: Annotated[
        str | None, typer.Option("--schema", help="The default one otherwise.")
    ] = None,
    repository: Annotated[
        Path | None,
        typer.Option("--repository", metavar="FOLDER", help="The folder of the .ktr files."),
    ] = None,
    layer: Annotated[str, typer.Option("--layer", help="Of names without one.")] = "kettle",
    default_start: StartOption = None,
    period: PeriodOption = None,
    mapped: MapOption = None,
    overwrite: OverwriteOption = False,
    dry_run: DryRunOption = False,
    now: NowOption = None,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write jobs and tables from Kettle's configuration tables and transformations."""
    loaded = open_project(project)
    _check_times(loaded, default_start, period)
    from logdriven_dagster.importers import kettle

    wish = kettle.Wish(
        connection=connection,
        today=data_clock(loaded, now).date(),
        schema=schema,
        repository=repository,
        layer=layer,
        default_start=default_start,
        period=period,
        connections=_pairs(loaded, mapped),
    )
    translation = kettle.import_kettle(loaded, wish)
    _bring_in(loaded, translation, overwrite=overwrite, dry_run=dry_run, as_json=as_json)


def import_sharpetl(
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATHS", help="Workflow files, or folders of them.")
    ],
    *,
    rules: Annotated[
        Path | None,
        typer.Option("--quality-check", metavar="FILE", help="Their quality-check.yaml."),
    ] = None,
    mapped: MapOption = None,
    overwrite: OverwriteOption = False,
    dry_run: DryRunOption = False,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write tables from Sharp ETL's workflow files."""
    loaded = open_project(project)
    from logdriven_dagster.importers import sharpetl

    translation = sharpetl.import_sharpetl(loaded, paths, _pairs(loaded, mapped), rules)
    _bring_in(loaded, translation, overwrite=overwrite, dry_run=dry_run, as_json=as_json)


def _check_times(project: "Project", default_start: str | None, period: str | None) -> None:
    from logdriven_dagster.model.periods import Period

    if default_start is not None:
        parse_time(project, default_start, "--default-start")
    try:
        Period.parse(period or "1 day")
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--period") from None


def _pairs(project: "Project", texts: list[str] | None) -> dict[str, str]:
    """`--map theirs=ours`; ours must exist."""
    pairs = {}
    for text in texts or ():
        theirs, equals, ours = text.partition("=")
        if not equals or ours not in project.config.connections:
            known = ", ".join(project.config.connections) or "none"
            problem = f"expected THEIRS=OURS, ours being one of {known}; not {text!r}"
            raise typer.BadParameter(problem, param_hint="--map")
        pairs[theirs] = ours
    return pairs


def _bring_in(
    project: "Project",
    translation: "Translation",
    *,
    overwrite: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    from logdriven_dagster.importers.writing import prepared

    writing = prepared(project, translation)
    if not overwrite and not dry_run:
        writing.refuse_differing()
    if not dry_run:
        writing.write()
    if as_json:
        _print_json(writing, translation)
    else:
        _print(writing, translation, verb="would be written" if dry_run else "written")
    if translation.untranslated:
        raise typer.Exit(1)


def _print(writing: "Writing", translation: "Translation", *, verb: str) -> None:
    from logdriven_dagster.cli.rendering import print_line

    for path in writing.changed:
        differs = ", which exists and differs" if path in writing.differing else ""
        print_line(f"{verb}  {path}{differs}")
    if writing.unchanged:
        print_line(f"unchanged  {len(writing.unchanged)} files")
    _list("Look at these", translation.notes)
    _list("Not translated", translation.untranslated)
    if not writing.texts and not translation.untranslated:
        print_line("Nothing was found.")


def _list(title: str, remarks: "list[Remark]") -> None:
    from logdriven_dagster.cli.rendering import console, plain, print_line, table

    if not remarks:
        return
    print_line(f"\n{title} ({len(remarks)}):")
    grid = table("where", "what", "reason")
    for remark in remarks:
        grid.add_row(plain(remark.place), plain(remark.item), plain(remark.reason))
    console().print(grid)


def _print_json(writing: "Writing", translation: "Translation") -> None:
    from dataclasses import asdict

    from logdriven_dagster.cli.rendering import print_json

    print_json(
        {
            "written": [str(path) for path in writing.changed],
            "unchanged": [str(path) for path in writing.unchanged],
            "differing": [str(path) for path in writing.differing],
            "notes": [asdict(remark) for remark in translation.notes],
            "untranslated": [asdict(remark) for remark in translation.untranslated],
        }
    )
