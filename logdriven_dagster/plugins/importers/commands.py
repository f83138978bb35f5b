"""`scaffold` and `import-…`: files from existing systems.

Exit codes: 0 everything was translated, 1 something listed was not, 2 nothing was written.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from logdriven_dagster.cli.installed import show_in_panel
from logdriven_dagster.cli.options import (
    JsonOption,
    NowOption,
    ProjectOption,
    open_project,
    parse_names,
    parse_time,
    read_data_clock,
)
from logdriven_dagster.plugins.importers.output import Manner, bring_in

if TYPE_CHECKING:
    from logdriven_dagster.config.connections import Connection
    from logdriven_dagster.config.project import Project
    from logdriven_dagster.plugins.importers.taking_over import Progress

OverwriteOption = Annotated[
    bool, typer.Option("--overwrite", help="Replace files that exist and differ.")
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Show the result without writing files.")
]
MapOption = Annotated[
    list[str] | None,
    typer.Option(
        "--map",
        metavar="THEIRS=OURS",
        help="A connection of the source system and the project's connection for it; "
        "may be repeated.",
    ),
]
ConnectionOption = Annotated[
    str, typer.Option("--connection", help="The connection of the project to read from.")
]
SchemaOption = Annotated[
    str | None, typer.Option("--schema", help="The database schema; default: the default schema.")
]
TablesOption = Annotated[
    list[str] | None,
    typer.Option("--tables", metavar="A,B", help="Import only these tables; may be repeated."),
]
ViewsOption = Annotated[bool, typer.Option("--views", help="Import views as well as tables.")]
TemplateOption = Annotated[
    bool, typer.Option("--template", help="Write one for_each file for all tables of a kind.")
]
LayerOption = Annotated[
    str, typer.Option("--layer", help="The layer of new tables whose names have none.")
]
RepositoryOption = Annotated[
    Path | None,
    typer.Option("--repository", metavar="FOLDER", help="The folder of the .ktr and .kjb files."),
]
GuideOption = Annotated[
    str | None,
    typer.Option(
        "--connection",
        help="The connection of the project with the tables t_etl_kjb_cfg and others; without it, "
        "only the files are read.",
    ),
]
TakeOverOption = Annotated[
    bool,
    typer.Option(
        "--take-over",
        help="Record the Completed entries of t_etl_tbl_log as finished windows in the run log.",
    ),
]
PathsArgument = Annotated[
    list[Path],
    typer.Argument(metavar="PATHS", help="Workflow files, or folders with workflow files."),
]
ExportsArgument = Annotated[
    list[Path],
    typer.Argument(metavar="PATHS", help="Exported workflows, or folders with .json files."),
]
RulesOption = Annotated[
    Path | None,
    typer.Option("--quality-check", metavar="FILE", help="The quality-check.yaml of Sharp ETL."),
]
JobLogOption = Annotated[
    str | None,
    typer.Option(
        "--job-log",
        metavar="CONNECTION|URL",
        help="The database with the job_log of Sharp ETL; its successful runs are "
        "recorded as finished windows. A connection of the project, or a URL with "
        "its password as '${env:NAME}'.",
    ),
]
ManifestArgument = Annotated[
    Path,
    typer.Argument(
        metavar="MANIFEST", help="target/manifest.json of a dbt project, or the project's folder."
    ),
]
ConvertSqlOption = Annotated[
    bool,
    typer.Option(
        "--convert-sql",
        help="Convert SQL of other dialects to Spark's; each converted table must be reviewed.",
    ),
]
PeriodOption = Annotated[
    str | None,
    typer.Option(
        "--period", help="The period of each table; default: the project's default, or 1 day."
    ),
]
StartOption = Annotated[
    str | None,
    typer.Option("--default-start", metavar="TIME", help="The start of the first time window."),
]


@show_in_panel("Project")
def scaffold(
    *,
    connection: ConnectionOption,
    schema: SchemaOption = None,
    tables: TablesOption = None,
    views: ViewsOption = False,
    layer: LayerOption = "ods",
    default_start: StartOption = None,
    period: PeriodOption = None,
    template: TemplateOption = False,
    overwrite: OverwriteOption = False,
    dry_run: DryRunOption = False,
    now: NowOption = None,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write table files from the schema of a database."""
    loaded = open_project(project)
    _check_times(loaded, default_start, period)
    from logdriven_dagster.plugins.importers.database import importing as scaffolding
    from logdriven_dagster.plugins.importers.naming import table_name

    wish = scaffolding.ScaffoldRequest(
        connection=connection,
        today=read_data_clock(loaded, now).date(),
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
        reason = (
            f"{scaffolding.MANY} or more tables are {kind}; use --template to write one "
            "file per kind"
        )
        translation.note(f"connection {connection}", "many tables", reason)
    bring_in(loaded, translation, Manner(overwrite, dry_run, as_json))


@show_in_panel("Project")
def import_dbt(
    manifest: ManifestArgument,
    *,
    mapped: MapOption = None,
    layer: LayerOption = "dbt",
    default_start: StartOption = None,
    period: PeriodOption = None,
    convert_sql: ConvertSqlOption = False,
    overwrite: OverwriteOption = False,
    dry_run: DryRunOption = False,
    now: NowOption = None,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write tables from the models, sources, seeds and tests of a dbt project."""
    loaded = open_project(project)
    _check_times(loaded, default_start, period)
    from logdriven_dagster.plugins.importers.database.importing import as_date
    from logdriven_dagster.plugins.importers.dbt import importing as dbt
    from logdriven_dagster.plugins.importers.dbt.models import Schedule
    from logdriven_dagster.plugins.importers.naming import table_name

    today = read_data_clock(loaded, now).date()
    start = None if default_start is None else as_date(default_start)
    wish = dbt.DbtRequest(
        manifest=manifest,
        schedule=Schedule(today, start, period or "1 day"),
        layer=table_name(layer),
        connections=_pairs(loaded, mapped),
        convert_sql=convert_sql,
    )
    bring_in(loaded, dbt.import_dbt(loaded, wish), Manner(overwrite, dry_run, as_json))


@show_in_panel("Project")
def import_kettle(
    *,
    connection: GuideOption = None,
    schema: SchemaOption = None,
    repository: RepositoryOption = None,
    layer: LayerOption = "kettle",
    default_start: StartOption = None,
    period: PeriodOption = None,
    mapped: MapOption = None,
    taking_over: TakeOverOption = False,
    overwrite: OverwriteOption = False,
    dry_run: DryRunOption = False,
    now: NowOption = None,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write jobs and tables from Kettle's configuration tables, transformations and jobs."""
    loaded = open_project(project)
    if taking_over and connection is None:
        raise typer.BadParameter("requires --connection", param_hint="--take-over")
    _check_times(loaded, default_start, period)
    from logdriven_dagster.plugins.importers.kettle import importing as kettle
    from logdriven_dagster.plugins.importers.kettle.request import KettleRequest

    wish = KettleRequest(
        connection=connection,
        today=read_data_clock(loaded, now).date(),
        schema=schema,
        repository=repository,
        layer=layer,
        default_start=default_start,
        period=period,
        connections=_pairs(loaded, mapped),
    )
    translation = kettle.import_kettle(loaded, wish)

    def read(written: "Project") -> "list[Progress]":
        from logdriven_dagster.plugins.importers.database.reflection import open_database
        from logdriven_dagster.plugins.importers.kettle.log import read_progress

        assert connection is not None
        engine = open_database(written.connection(connection))
        return read_progress(engine, schema, translation.names, translation)

    old_log = read if taking_over else None
    how = Manner(overwrite, dry_run, as_json)
    bring_in(loaded, translation, how, old_log)


@show_in_panel("Project")
def import_sharpetl(
    paths: PathsArgument,
    *,
    rules: RulesOption = None,
    mapped: MapOption = None,
    job_log: JobLogOption = None,
    overwrite: OverwriteOption = False,
    dry_run: DryRunOption = False,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write tables from Sharp ETL's workflow files."""
    loaded = open_project(project)
    from logdriven_dagster.plugins.importers.sharpetl import importing as sharpetl

    old = None if job_log is None else _database(loaded, job_log)
    translation = sharpetl.import_sharpetl(loaded, paths, _pairs(loaded, mapped), rules)

    def read(written: "Project") -> "list[Progress]":
        from logdriven_dagster.plugins.importers.database.reflection import open_database
        from logdriven_dagster.plugins.importers.sharpetl.log import read_progress

        assert old is not None
        return read_progress(open_database(old), written, translation.names, translation)

    how = Manner(overwrite, dry_run, as_json)
    bring_in(loaded, translation, how, None if old is None else read)


@show_in_panel("Project")
def import_dolphinscheduler(
    paths: ExportsArgument,
    *,
    mapped: MapOption = None,
    layer: LayerOption = "ds",
    default_start: StartOption = None,
    overwrite: OverwriteOption = False,
    dry_run: DryRunOption = False,
    now: NowOption = None,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write jobs and tables from workflows that DolphinScheduler has exported."""
    loaded = open_project(project)
    _check_times(loaded, default_start, None)
    from logdriven_dagster.plugins.importers.dolphinscheduler import importing as dolphinscheduler
    from logdriven_dagster.plugins.importers.naming import table_name

    wish = dolphinscheduler.DolphinRequest(
        paths=paths,
        today=read_data_clock(loaded, now).date(),
        layer=table_name(layer),
        default_start=default_start,
        connections=_pairs(loaded, mapped),
    )
    translation = dolphinscheduler.import_dolphinscheduler(loaded, wish)
    bring_in(loaded, translation, Manner(overwrite, dry_run, as_json))


def _database(project: "Project", text: str) -> "Connection":
    """Return a connection of the project by its name, or the database at a URL."""
    from logdriven_dagster.config.checking.plain_secrets import remember_plain
    from logdriven_dagster.config.checking.secret_texts import find_secrets
    from logdriven_dagster.config.connections import open_connection
    from logdriven_dagster.config.models.types.connections import ConnectionConfig

    if text in project.config.connections:
        return project.connection(text)
    if find_secrets(text):
        remember_plain(text)  # every user of the machine sees it in the list of processes
        problem = (
            "the password must not be in plain text; write '${env:PASSWORD}' and set "
            "it in the environment"
        )
        raise typer.BadParameter(problem, param_hint="--job-log")
    return open_connection("--job-log", ConnectionConfig(url=text), project.root)


def _check_times(project: "Project", default_start: str | None, period: str | None) -> None:
    from logdriven_dagster.model.periods import Period

    if default_start is not None:
        parse_time(project, default_start, "--default-start")
    try:
        Period.parse(period or "1 day")
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--period") from None


def _pairs(project: "Project", texts: list[str] | None) -> dict[str, str]:
    """Parse `--map theirs=ours`; the project must have the connection `ours`."""
    pairs = {}
    for text in texts or ():
        theirs, equals, ours = text.partition("=")
        if not equals or ours not in project.config.connections:
            known = ", ".join(project.config.connections) or "none"
            problem = f"expected THEIRS=OURS, where OURS is one of {known}, not {text!r}"
            raise typer.BadParameter(problem, param_hint="--map")
        pairs[theirs] = ours
    return pairs
