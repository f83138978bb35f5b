"""Validation across the files of a project, each of which is valid by itself."""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from logdriven_dagster.config.checking.conditions import (
    check_conditions,
    check_deletions,
    check_relations,
)
from logdriven_dagster.config.checking.plain_secrets import find_definition_secrets
from logdriven_dagster.config.checking.quality import (
    check_quality,
    check_whole_snapshots,
    list_rule_queries,
)
from logdriven_dagster.config.checking.renames import (
    check_renames,
    format_rename_hint,
    map_new_names,
)
from logdriven_dagster.config.derived.running_order import find_cycle, map_upstreams
from logdriven_dagster.config.models.dependencies import AssetDependency
from logdriven_dagster.config.models.frozen import Option
from logdriven_dagster.config.models.jobs import JobConfig, MaintenanceJob, StandardJob
from logdriven_dagster.config.models.notifications import find_unknown_recipients
from logdriven_dagster.config.models.project import ProjectConfig
from logdriven_dagster.config.models.steps import StepConfig
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.models.types.parts import Connected
from logdriven_dagster.config.properties import UnknownPropertyError, query_of
from logdriven_dagster.config.sql.committing import check_job_statements, check_statements
from logdriven_dagster.config.sql.references import UnreadableSqlError, find_table_references
from logdriven_dagster.config.yaml.documents import Document, Location, explain_absence
from logdriven_dagster.errors import ConfigError

T = TypeVar("T")

_UNITE = "read both in steps of one table, and unite them in its last step"
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_NAMES = re.compile(r"[a-z_]\w*(?:\s*\.\s*[a-z_]\w*)*")


@dataclass
class ValidConfigs(Generic[T]):
    """Valid configurations by name, and their documents."""

    items: dict[str, T] = field(default_factory=dict)
    origins: dict[str, Document] = field(default_factory=dict)


def find_mistakes(
    config: ProjectConfig,
    tables: ValidConfigs[TableConfig],
    jobs: ValidConfigs[JobConfig],
    broken: Iterable[str],
) -> Iterator[ConfigError]:
    """Yield every mistake in the project; tables in `broken` are invalid by themselves and skipped.

    `tables` and `jobs` are those whose own files are valid.
    """
    known = {*tables.items, *broken}
    lowered = {name.lower(): name for name in tables.items}
    for name, table in tables.items.items():
        document = tables.origins[name]
        yield from _check_dependencies(table, document, tables.items, known)
        yield from check_conditions(table, document, tables.items)
        yield from check_deletions(table, document)
        yield from _check_steps(table, document, lowered, config)
        yield from check_statements(table, document, config)
        yield from check_quality(table, document, config)
        yield from check_whole_snapshots(table, document, config)
        yield from find_unknown_recipients(document, ("notify",), table.notify, config.recipients)
        yield from find_definition_secrets(document)
    for name, job in jobs.items.items():
        if name in tables.items:
            yield jobs.origins[name].error(("job",), "a table has the same name")
        yield from find_definition_secrets(jobs.origins[name])
        rules = job.notify or ()
        yield from find_unknown_recipients(
            jobs.origins[name], ("notify",), rules, config.recipients
        )
        if isinstance(job, MaintenanceJob):
            yield from _check_upkeep(job, jobs.origins[name], config, known)
            yield from check_job_statements(job, jobs.origins[name], config)
        else:
            yield from _check_job(job, jobs.origins[name], tables.items, known)
    yield from _check_targets(tables)
    yield from check_renames(tables.items, tables.origins, known)
    yield from _check_assets(tables)
    if cycle := find_cycle(map_upstreams(tables.items)):
        document = tables.origins[cycle[0]]
        yield document.error(("depends_on",), f"a cycle of dependencies: {' → '.join(cycle)}")


def _check_job(
    job: StandardJob, document: Document, tables: Mapping[str, TableConfig], known: set[str]
) -> Iterator[ConfigError]:
    for n, name in enumerate(job.tables):
        if name not in known:
            yield _build_unknown_table_error(document, ("tables", n), name, tables)
    edges = map_upstreams(tables)
    for n, relation in enumerate(job.relations):
        for name in relation.upstream:
            if name not in known:
                yield _build_unknown_table_error(document, ("relations", n, "from"), name, tables)
        if relation.to not in job.tables:
            problem = f"{relation.to} is not a table of this job"
            yield document.error(("relations", n, "to"), problem, f"add {relation.to} to tables")
        edges.setdefault(relation.to, set()).update(relation.upstream)
    yield from check_relations(job, document, tables)
    if (cycle := find_cycle(edges)) and not find_cycle(map_upstreams(tables)):
        yield document.error(("relations",), f"a cycle of relations: {' → '.join(cycle)}")


def _check_upkeep(
    job: MaintenanceJob, document: Document, config: ProjectConfig, known: set[str]
) -> Iterator[ConfigError]:
    folder = document.path.parent
    for n, step in enumerate(job.steps):
        place = ("steps", n)
        if step.connection is not None:
            connected = Connected(step.connection, "a database")
            yield from _check_connection(connected, document, (*place, "connection"), config)
        file = (step.python or "").partition(":")[0]
        if file.endswith(".py") and (problem := explain_absence(folder / file)):
            yield document.error((*place, "python"), problem)
        for name in step.tables:
            if name not in known:
                hint = _suggest_name(name, known)
                yield document.error((*place, "tables"), f"unknown table {name!r}", hint)


def _build_unknown_table_error(
    document: Document,
    place: tuple[str | int, ...],
    name: str,
    tables: Mapping[str, TableConfig],
) -> ConfigError:
    return document.error(place, f"unknown table {name!r}", _suggest_table(name, tables))


def _suggest_table(name: str, tables: Mapping[str, TableConfig]) -> str | None:
    new = map_new_names(tables).get(name)
    return _suggest_name(name, tables) if new is None else format_rename_hint(new)


def _check_dependencies(
    table: TableConfig, document: Document, tables: Mapping[str, TableConfig], known: set[str]
) -> Iterator[ConfigError]:
    for n, dependency in enumerate(table.depends_on):
        place = ("depends_on", n)
        if isinstance(dependency, AssetDependency):
            name = dependency.asset.replace("/", ".")
            if name in tables:
                problem = f"asset {dependency.asset} is the table {name} of this project"
                yield document.error(place, problem, f"write {{table: {name}}}")
            continue
        name = dependency.table
        if dependency.managed and name not in known:
            hint = _suggest_table(name, tables)
            unmanaged = f"or write {{table: {name}, managed: false}} if another system manages it"
            hint = f"{hint}; {unmanaged}" if hint else unmanaged.removeprefix("or ")
            yield document.error(place, f"unknown table {name!r}", hint)
        if not dependency.managed and name in tables:
            hint = "remove managed: false"
            yield document.error(place, f"{name} is a table of this project", hint)


def _check_steps(
    table: TableConfig,
    document: Document,
    names: Mapping[str, str],
    config: ProjectConfig,
) -> Iterator[ConfigError]:
    folder = document.path.parent
    for n, step in enumerate(table.steps):
        for place, connected in _list_connections(step):
            yield from _check_connection(connected, document, ("steps", n, *place), config)
        yield from _check_paths(step, document, ("steps", n), config.variables)
        file = (step.python or "").partition(":")[0]
        if file.endswith(".py") and (problem := explain_absence(folder / file)):
            yield document.error(("steps", n, "python"), problem)
        place = ("steps", n, "sql_file" if step.sql_file else "sql")
        try:
            sql = _read_query(table, step, document, place, config)
        except ConfigError as error:
            yield error
            continue
        yield from _check_reads(table, sql, document, place, names)
        if step.loop_over is not None:
            yield from _check_loop(table, n, document, names)
    for n, check in enumerate(table.checks):
        yield from _check_reads(table, check.sql, document, ("checks", n, "sql"), names)
    for location, query in list_rule_queries(table, config):
        yield from _check_reads(table, query, document, location, names)


def _check_paths(
    step: StepConfig,
    document: Document,
    place: tuple[str | int, ...],
    variables: Mapping[str, Option],
) -> Iterator[ConfigError]:
    """Yield an error for each undefined `${name}` in the path of a folder to write to."""
    parts = (("source", step.source), ("target", step.target))
    folders = [(part, *item) for part, used in parts if used for item in used.folders.items()]
    for part, field_name, path in folders:
        for name in _VARIABLE.findall(path or ""):
            if name not in variables:
                known = "a path can use the variables of logdriven.yaml and ${env:NAME}"
                hint = _suggest_name(name, variables) or known
                where = (*place, part, field_name)
                yield document.error(where, f"unknown variable ${{{name}}}", hint)


def _read_query(
    table: TableConfig,
    step: StepConfig,
    document: Document,
    place: tuple[str | int, ...],
    config: ProjectConfig,
) -> str | None:
    """Return the query of a step. Raises ConfigError if it cannot be read."""
    folder = document.path.parent
    if step.sql_file and (problem := explain_absence(folder / step.sql_file)):
        raise document.error(place, problem)
    try:
        return query_of(table, step, folder, config.variables)
    except UnknownPropertyError as error:
        raise document.error(place, str(error), error.hint) from None


def _check_loop(
    table: TableConfig, n: int, document: Document, names: Mapping[str, str]
) -> Iterator[ConfigError]:
    loop, earlier = table.steps[n].loop_over, [step.step for step in table.steps[:n]]
    assert loop is not None
    place = ("steps", n, "loop_over")
    if loop.step is not None and loop.step not in earlier:
        problem = f"unknown earlier step {loop.step!r}"
        yield document.error(place, problem, _suggest_name(loop.step, earlier))
    yield from _check_reads(table, loop.sql, document, (*place, "sql"), names)


def _list_connections(step: StepConfig) -> Iterator[tuple[Location, Connected]]:
    """Yield the location of each connection in a step, and the kind that it must have."""
    for part, used in (("source", step.source), ("target", step.target)):
        if used is not None and used.connected is not None:
            yield (part, "connection"), used.connected
    for n, script in enumerate(step.commit_before_read):
        connected = Connected(script.connection, "a database")
        yield ("commit_before_read", n, "connection"), connected


def _check_connection(
    connected: Connected,
    document: Document,
    where: tuple[str | int, ...],
    config: ProjectConfig,
) -> Iterator[ConfigError]:
    name = connected.name
    if name not in config.connections:
        hint = _suggest_name(name, config.connections)
        yield document.error(where, f"unknown connection {name!r}", hint)
    elif (leads := config.connections[name].leads_to) != connected.to:
        yield document.error(where, f"connection {name!r} leads to {leads}")


def _check_reads(
    table: TableConfig,
    sql: str | None,
    document: Document,
    place: tuple[str | int, ...],
    names: Mapping[str, str],
) -> Iterator[ConfigError]:
    """Yield an error for each table that a query reads without a dependency on it.

    Without a dependency, its rows could be read half-finished. `names` maps lower-case names to
    table names.
    """
    if not sql:
        return
    readable = {d.table for d in table.table_dependencies if d.read != "none"} | {table.table}
    suspects = [name for name in _find_mentioned_tables(sql, names) if name not in readable]
    if not suspects:
        return  # parsing is only needed to distinguish a table from a mere mention
    try:
        read = {name.lower() for name in find_table_references(sql)}
    except UnreadableSqlError as error:
        yield document.error(place, f"cannot read this query: {error}")
        return
    for name in suspects:
        if name.lower() in read:
            problem = f"reads {name}, which is not in depends_on"
            hint = f"add {name} to depends_on"
            if name in {d.table for d in table.table_dependencies}:
                problem, hint = (
                    f"reads {name}, but depends_on lists it with read: none",
                    "remove read: none",
                )
            yield document.error(place, problem, hint)


def _find_mentioned_tables(sql: str, names: Mapping[str, str]) -> list[str]:
    """Return the tables whose names occur in a text, alone or as a qualifier."""
    text = re.sub(r"\s*\.\s*", ".", sql.lower().replace("`", ""))
    prefixes = set()
    for match in set(_NAMES.findall(text)):
        parts = match.split(".")
        prefixes |= {".".join(parts[:n]) for n in range(1, len(parts) + 1)}
    return sorted(names[prefix] for prefix in prefixes & names.keys())


def _check_targets(tables: ValidConfigs[TableConfig]) -> Iterator[ConfigError]:
    """Yield an error for each place that two tables write; they would delete each other's rows."""
    users: dict[str, str] = {}
    for name, table in tables.items.items():
        for n, step in enumerate(table.steps):
            if step.target is None:
                continue
            writer = f"{name}.{step.step}"
            other = users.setdefault(step.target.place(name), writer)
            if other != writer:
                document = tables.origins[name]
                problem, hint = f"{other} writes to the same target", _UNITE
                yield document.error(("steps", n, "target"), problem, hint)


def _check_assets(tables: ValidConfigs[TableConfig]) -> Iterator[ConfigError]:
    """Yield an error for each asset whose partitions two tables declare differently."""
    said: dict[str, tuple[str, AssetDependency]] = {}
    for name, table in tables.items.items():
        for n, dependency in enumerate(table.depends_on):
            if not isinstance(dependency, AssetDependency):
                continue
            other, first = said.setdefault(dependency.asset, (name, dependency))
            for key in ("period", "timezone"):
                if getattr(dependency, key) != getattr(first, key):
                    problem = f"{other} has another {key} for asset {dependency.asset}"
                    fix = (
                        "an asset has one value: write the same one for both dependencies, or for "
                        "none"
                    )
                    yield tables.origins[name].error(("depends_on", n), problem, fix)


def _suggest_name(name: str, names: Iterable[str]) -> str | None:
    near = difflib.get_close_matches(name, list(names), n=1)
    return f"did you mean {near[0]!r}?" if near else None
