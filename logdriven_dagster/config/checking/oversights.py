"""Mistakes in a valid project that would only fail at run time, found without Spark or a database.

Runs no code of the project. Only `logdriven validate` checks for them: one invalid query must not
prevent other commands from running the rest.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping

from logdriven_dagster.config.checking.columns import find_unknown_names
from logdriven_dagster.config.checking.paths import find_path_mistakes
from logdriven_dagster.config.checking.python_functions import check_function
from logdriven_dagster.config.checking.quality import list_rule_functions, list_rule_queries
from logdriven_dagster.config.checking.renames import format_rename_hint, map_new_names
from logdriven_dagster.config.derived.variables import (
    list_job_names,
    list_parameter_names,
    list_text_names,
)
from logdriven_dagster.config.models.jobs import MaintenanceJob, MaintenanceStep
from logdriven_dagster.config.models.quality import ROWS
from logdriven_dagster.config.models.steps import StepConfig
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.models.types.declared_columns import find_column_mistakes
from logdriven_dagster.config.project import Project
from logdriven_dagster.config.sql.queries import get_connection_dialect
from logdriven_dagster.config.sql.query_mistakes import (
    Names,
    TextPlace,
    find_query_mistakes,
    find_statement_mistakes,
    find_variable_mistakes,
)
from logdriven_dagster.config.yaml.documents import Document, Location, report_once
from logdriven_dagster.errors import ConfigError

_OF_A_STEP = frozenset({"spark", "window", "job_id", "variables", "properties", "inputs"})
_OF_A_RULE = frozenset({ROWS, "column"})
_OF_UPKEEP = frozenset({"project", "run_log", "options", "variables", "job_run_id", "spark"})


def find_oversights(project: Project, documents: Collection[Document]) -> list[ConfigError]:
    """Return every mistake that a run of a table or job would fail with, with location and fix."""
    found: list[ConfigError] = []
    names = map_new_names(project.tables).items()
    renamed = {old.lower(): format_rename_hint(new) for old, new in names}
    for document in documents:
        table = project.tables.get(str(document.values.get("table")))
        job = project.jobs.get(str(document.values.get("job")))
        if table is not None:
            found += _TableOversights(project, table, document, renamed).mistakes()
        elif isinstance(job, MaintenanceJob):
            found += _check_upkeep(project, job, document)
    found += _find_unknown_names(project, documents)
    return list(report_once(found))


def _find_unknown_names(project: Project, documents: Iterable[Document]) -> Iterator[ConfigError]:
    by_name = {str(document.values.get("table")): document for document in documents}
    for table, location, name in find_unknown_names(
        project, may_have_own=_has_other_catalogs(project)
    ):
        document = by_name[table]
        step = project.tables[table].steps[int(location[1])] if location[0] == "steps" else None
        own_file = step.sql_file if step is not None and location[2:] == ("sql",) else None
        file = document.path.parent / own_file if own_file else None
        place = TextPlace(document, location, file)
        problem = name.problem if file else f"{name.problem}{name.place}"
        yield place.error(problem, name.hint, name.line)


class _TableOversights:
    """Validator of one table's file, for mistakes that would fail at run time."""

    def __init__(
        self,
        project: Project,
        table: TableConfig,
        document: Document,
        renamed: Mapping[str, str],
    ) -> None:
        self._project, self._table, self._document = project, table, document
        self._variables = list_text_names(project, table)
        self._parameters = list_parameter_names(project, table)
        read = [d.table for d in table.table_dependencies if d.read != "none"]
        self._known = {*read, table.table}
        """Names of upstream tables, and of the steps so far."""
        self._renamed = renamed
        self._any_table = _has_other_catalogs(project) or any(s.python for s in table.steps)

    def mistakes(self) -> Iterator[ConfigError]:
        for field, problem, hint in find_column_mistakes(self._table.columns or "", {}):
            yield self._locate(field).error(problem, hint)
        for n, step in enumerate(self._table.steps):
            if step.loop_over is not None and step.loop_over.sql is not None:
                place = self._locate("steps", n, "loop_over", "sql")
                yield from find_query_mistakes(place, step.loop_over.sql, self._build_names())
            if step.source is not None:
                self._known.add("source")
            yield from self._check_step(n, step)
            self._known.add(step.step)
        for n, check in enumerate(self._table.checks):
            yield from find_query_mistakes(
                self._locate("checks", n, "sql"), check.sql, self._build_names()
            )
        self._known.add(ROWS)
        for location, query in list_rule_queries(self._table, self._project.config):
            yield from find_query_mistakes(self._locate(*location), query, self._build_names())
        for location, reference in list_rule_functions(self._table, self._project.config):
            yield from self._check_function(location, reference, _OF_A_STEP | _OF_A_RULE)

    def _check_step(self, n: int, step: StepConfig) -> Iterator[ConfigError]:
        names = self._build_names(step)
        for field, text in step.source.texts.items() if step.source else ():
            yield from find_variable_mistakes(
                self._locate("steps", n, "source", field), text, names
            )
        for field, problem, hint in step.source.mistakes() if step.source else ():
            yield self._locate("steps", n, "source", field).error(problem, hint)
        for problem, hint in find_path_mistakes(self._table, step):
            yield self._locate("steps", n, "source", "path").error(problem, hint)
        for location, statement, connection in _list_statements(step):
            place, dialect = (
                self._locate("steps", n, *location),
                get_connection_dialect(self._project, connection),
            )
            yield from find_statement_mistakes(place, statement, names, dialect)
        if step.python is not None:
            yield from self._check_function(("steps", n, "python"), step.python, _OF_A_STEP)
        query = self._project.step_sql(self._table, step)
        if query is not None:
            file = self._document.path.parent / step.sql_file if step.sql_file else None
            place = TextPlace(self._document, ("steps", n, "sql"), file)
            yield from find_query_mistakes(place, query, names)

    def _check_function(
        self, location: Location, reference: str, fixed: frozenset[str]
    ) -> Iterator[ConfigError]:
        names = fixed | {name.replace(".", "_") for name in self._known}
        return _check_function(self._document, location, reference, names)

    def _locate(self, *location: str | int) -> TextPlace:
        return TextPlace(self._document, location)

    def _build_names(self, step: StepConfig | None = None) -> Names:
        tables = None if self._any_table else frozenset(self._known)
        loops = step is not None and step.loop_over is not None
        return Names(self._variables, self._parameters, tables, loops, self._renamed)


def _list_statements(step: StepConfig) -> Iterator[tuple[Location, str, str]]:
    """Yield location, text and connection of each statement that a step sends to a database."""
    for i, script in enumerate(step.commit_before_read):
        for j, statement in enumerate(script.sql):
            yield ("commit_before_read", i, "sql", j), statement, script.connection
    for part, used in (("source", step.source), ("target", step.target)):
        for location, statement, connection in used.statements() if used else ():
            yield (part, *location), statement, connection


def _has_other_catalogs(project: Project) -> bool:
    """Return True if Spark may provide tables that no file declares."""
    spark = project.config.spark
    if spark.remote != "classic" or any("catalog" in name.lower() for name in spark.config):
        return True
    steps = [step for table in project.tables.values() for step in table.steps]
    return any(step.source is not None and step.source.knows_other_tables for step in steps)


def _check_upkeep(
    project: Project, job: MaintenanceJob, document: Document
) -> Iterator[ConfigError]:
    names = Names(list_job_names(project, job))
    for n, step in enumerate(job.steps):
        dialect = get_connection_dialect(project, step.connection) if step.connection else "spark"
        for place, statement in _list_upkeep_statements(document, n, step):
            yield from find_statement_mistakes(place, statement, names, dialect)
        if step.python is not None:
            yield from _check_function(document, ("steps", n, "python"), step.python, _OF_UPKEEP)


def _list_upkeep_statements(
    document: Document, n: int, step: MaintenanceStep
) -> Iterator[tuple[TextPlace, str]]:
    if isinstance(step.sql, str):
        yield TextPlace(document, ("steps", n, "sql")), step.sql
        return
    for i, statement in enumerate(step.sql or ()):
        yield TextPlace(document, ("steps", n, "sql", i)), statement


def _check_function(
    document: Document, location: Location, reference: str, names: frozenset[str]
) -> Iterator[ConfigError]:
    try:
        for problem, hint in check_function(reference, document.path.parent, names):
            yield document.error(location, problem, hint)
    except ConfigError as error:
        yield error
