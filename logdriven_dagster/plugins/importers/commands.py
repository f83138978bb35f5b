"""`scaffold` and `import-…`: files from existing systems.

Exit codes: 0 everything was translated, 1 something listed was not, 2 nothing was written.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from logdriven_dagster.cli.options import NowOption, parse_names
from logdriven_dagster.plugins.importers.command_line import (
    ImportRun,
    LayerOption,
    MapOption,
    PeriodOption,
    SchemaOption,
    StartOption,
    importer,
)

if TYPE_CHECKING:
    from logdriven_dagster.config.connections import Connection
    from logdriven_dagster.config.project import Project
    from logdriven_dagster.plugins.importers.taking_over import Progress

ConnectionOption = Annotated[
    str, typer.Option("--connection", help="The connection of the project to read from.")
]
TablesOption = Annotated[
    list[str] | None,
    typer.Option("--tables", metavar="A,B", help="Import only these tables; may be repeated."),
]
ViewsOption = Annotated[bool, typer.Option("--views", help="Import views as well as tables.")]
TemplateOption = Annotated[
    bool, typer.Option("--template", help="Write one for_each file for all tables of a kind.")
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


@importer
def scaffold(
    run: ImportRun,
    *,
    connection: ConnectionOption,
    schema: SchemaOption = None,
    tables: TablesOption = None,
    views: ViewsOption = False,
    layer: LayerOption = "ods",
    default_start: StartOption = None,
    period: PeriodOption = None,
    template: TemplateOption = False,
    now: NowOption = None,
) -> None:
    """Write table files from the schema of a database."""
    run.check_times(default_start, period)
    from logdriven_dagster.plugins.importers.database import importing as scaffolding
    from logdriven_dagster.plugins.importers.naming import table_name

    wish = scaffolding.ScaffoldRequest(
        connection=connection,
        today=run.read_today(now),
        schema=schema,
        tables=parse_names(tables),
        kinds=("table", "view") if views else ("table",),
        layer=table_name(layer),
        default_start=default_start,
        period=period,
    )
    translation = scaffolding.scaffold(run.project, wish)
    if template:
        scaffolding.as_templates(run.project, wish, translation)
    elif kind := scaffolding.alike(translation):
        reason = (
            f"{scaffolding.MANY} or more tables are {kind}; use --template to write one "
            "file per kind"
        )
        translation.note(f"connection {connection}", "many tables", reason)
    run.bring_in(translation)


@importer
def import_dbt(
    run: ImportRun,
    manifest: ManifestArgument,
    *,
    mapped: MapOption = None,
    layer: LayerOption = "dbt",
    default_start: StartOption = None,
    period: PeriodOption = None,
    convert_sql: ConvertSqlOption = False,
    now: NowOption = None,
) -> None:
    """Write tables from the models, sources, seeds and tests of a dbt project."""
    run.check_times(default_start, period)
    from logdriven_dagster.plugins.importers.database.importing import as_date
    from logdriven_dagster.plugins.importers.dbt import importing as dbt
    from logdriven_dagster.plugins.importers.dbt.models import Schedule
    from logdriven_dagster.plugins.importers.naming import table_name

    today = run.read_today(now)
    start = None if default_start is None else as_date(default_start)
    wish = dbt.DbtRequest(
        manifest=manifest,
        schedule=Schedule(today, start, period or "1 day"),
        layer=table_name(layer),
        connections=run.parse_map(mapped),
        convert_sql=convert_sql,
    )
    run.bring_in(dbt.import_dbt(run.project, wish))


@importer
def import_kettle(
    run: ImportRun,
    *,
    connection: GuideOption = None,
    schema: SchemaOption = None,
    repository: RepositoryOption = None,
    layer: LayerOption = "kettle",
    default_start: StartOption = None,
    period: PeriodOption = None,
    mapped: MapOption = None,
    taking_over: TakeOverOption = False,
    now: NowOption = None,
) -> None:
    """Write jobs and tables from Kettle's configuration tables, transformations and jobs."""
    if taking_over and connection is None:
        raise typer.BadParameter("requires --connection", param_hint="--take-over")
    run.check_times(default_start, period)
    from logdriven_dagster.plugins.importers.kettle import importing as kettle
    from logdriven_dagster.plugins.importers.kettle.request import KettleRequest

    wish = KettleRequest(
        connection=connection,
        today=run.read_today(now),
        schema=schema,
        repository=repository,
        layer=layer,
        default_start=default_start,
        period=period,
        connections=run.parse_map(mapped),
    )
    translation = kettle.import_kettle(run.project, wish)

    def read(written: "Project") -> "list[Progress]":
        from logdriven_dagster.plugins.importers.database.reflection import open_database
        from logdriven_dagster.plugins.importers.kettle.log import read_progress

        assert connection is not None
        engine = open_database(written.connection(connection))
        return read_progress(engine, schema, translation.names, translation)

    old_log = read if taking_over else None
    run.bring_in(translation, old_log)


@importer
def import_sharpetl(
    run: ImportRun,
    paths: PathsArgument,
    *,
    rules: RulesOption = None,
    mapped: MapOption = None,
    job_log: JobLogOption = None,
) -> None:
    """Write tables from Sharp ETL's workflow files."""
    from logdriven_dagster.plugins.importers.sharpetl import importing as sharpetl

    old = None if job_log is None else _database(run.project, job_log)
    translation = sharpetl.import_sharpetl(run.project, paths, run.parse_map(mapped), rules)

    def read(written: "Project") -> "list[Progress]":
        from logdriven_dagster.plugins.importers.database.reflection import open_database
        from logdriven_dagster.plugins.importers.sharpetl.log import read_progress

        assert old is not None
        return read_progress(open_database(old), written, translation.names, translation)

    run.bring_in(translation, None if old is None else read)


@importer
def import_dolphinscheduler(
    run: ImportRun,
    paths: ExportsArgument,
    *,
    mapped: MapOption = None,
    layer: LayerOption = "ds",
    default_start: StartOption = None,
    now: NowOption = None,
) -> None:
    """Write jobs and tables from workflows that DolphinScheduler has exported."""
    run.check_times(default_start)
    from logdriven_dagster.plugins.importers.dolphinscheduler import importing as dolphinscheduler
    from logdriven_dagster.plugins.importers.naming import table_name

    wish = dolphinscheduler.DolphinRequest(
        paths=paths,
        today=run.read_today(now),
        layer=table_name(layer),
        default_start=default_start,
        connections=run.parse_map(mapped),
    )
    translation = dolphinscheduler.import_dolphinscheduler(run.project, wish)
    run.bring_in(translation)


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
