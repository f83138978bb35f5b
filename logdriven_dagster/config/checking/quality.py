"""Validation of a table's data quality rules when the project is loaded.

Source: Sharp ETL, DataQualityCheckRuleMissing, which is raised when a step begins.
"""

import difflib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from logdriven_dagster.config.models.project import ProjectConfig
from logdriven_dagster.config.models.quality import (
    DUPLICATES,
    ROWS,
    BadRuleError,
    QualityConfig,
    Rule,
    resolve_rule,
)
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.models.types.files import FilesSource, RecordsSource
from logdriven_dagster.config.models.types.targets import HistoryTarget
from logdriven_dagster.config.sql.references import UnreadableSqlError, parse_query
from logdriven_dagster.config.yaml.documents import Document, Location, explain_absence
from logdriven_dagster.errors import ConfigError

_Placed: TypeAlias = tuple[Location, Rule]

_OF_SNAPSHOT = "of a snapshot, whose keys would count as deleted"


def check_quality(
    table: TableConfig, document: Document, config: ProjectConfig
) -> Iterator[ConfigError]:
    """Yield every mistake below `quality` of a table's steps; `document` is the table's file."""
    for n, step in enumerate(table.steps):
        if step.quality is None:
            continue
        if ROWS in [each.step for each in table.steps]:
            problem = f"{ROWS} is the input of SQL rules and cannot be the name of a step"
            yield document.error(("steps", n, "quality"), problem)
        rules: list[_Placed] = []
        for place, column, use in step.quality.uses():
            where: Location = ("steps", n, "quality", *place)
            try:
                rules.append((where, resolve_rule(use, column, config.quality_rules, step.quality)))
            except BadRuleError as error:
                yield document.error((*where, error.field), str(error), error.hint)
        yield from _check_names(rules, step.quality, document, ("steps", n, "quality"))
        for where, rule in rules:
            yield from _check_rule(rule, document, where, table)


def list_rule_queries(table: TableConfig, config: ProjectConfig) -> Iterator[tuple[Location, str]]:
    """Yield the queries among a table's rules with their locations; they may read other tables."""
    return list_rule_texts(table, config, "query", "sql")


def list_rule_functions(
    table: TableConfig, config: ProjectConfig
) -> Iterator[tuple[Location, str]]:
    """Yield the Python functions among a table's rules with their locations."""
    return list_rule_texts(table, config, "python", "python")


def list_rule_texts(
    table: TableConfig, config: ProjectConfig, kind: str, field: str
) -> Iterator[tuple[Location, str]]:
    for n, step in enumerate(table.steps):
        if step.quality is None:
            continue
        for place, rule in _list_valid_rules(step.quality, ("steps", n, "quality"), config):
            if rule.kind == kind:
                yield (*place, field), rule.text


def _check_names(
    rules: list[_Placed], quality: QualityConfig, document: Document, place: Location
) -> Iterator[ConfigError]:
    """Yield errors for duplicate rule names, which the log cannot keep apart, and unknown names."""
    seen: set[tuple[str | None, str]] = set()
    for where, rule in rules:
        if (rule.column, rule.name) in seen:
            problem = f"{rule.name} is defined twice"
            yield document.error(where, problem, "give one of them another name")
        seen.add((rule.column, rule.name))
        if rule.kind in ("query", "python") and not quality.id:
            problem = f"{rule.name} needs id, the columns that identify a row"
            yield document.error((*place, "id"), problem)
    names = {rule.name for _, rule in rules} | (
        {DUPLICATES} if quality.deduplicate_order_by else set()
    )
    for n, name in enumerate(quality.blocking if isinstance(quality.blocking, tuple) else ()):
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"did you mean {near[0]!r}?" if near else None
            yield document.error((*place, "blocking", n), f"unknown rule {name!r}", hint)


def check_whole_snapshots(
    table: TableConfig, document: Document, config: ProjectConfig
) -> Iterator[ConfigError]:
    """Yield an error for each field that leaves rows out of snapshots of a history.

    A key that the rows of such a window lack counts as deleted.
    """
    of_snapshots = table.incremental.is_snapshot
    targets = {n: step.target for n, step in enumerate(table.steps)}
    keys = {
        n: target.key
        for n, target in targets.items()
        if isinstance(target, HistoryTarget) and target.has_all_rows(of_snapshots=of_snapshots)
    }
    if keys:
        yield from _check_whole_sources(table, document)
    for n, key in keys.items():
        if (quality := table.steps[n].quality) is not None:
            place: Location = ("steps", n, "quality")
            yield from _check_whole_quality(quality, key, document, place, config)


def _check_whole_sources(table: TableConfig, document: Document) -> Iterator[ConfigError]:
    for n, step in enumerate(table.steps):
        source, place = step.source, ("steps", n, "source")
        if isinstance(source, RecordsSource) and source.mode == "DROPMALFORMED":
            problem = f"drops records {_OF_SNAPSHOT}"
            yield document.error((*place, "mode"), problem, "use FAILFAST")
        if isinstance(source, FilesSource) and source.missing_files == "no_rows":
            problem = f"reads no rows {_OF_SNAPSHOT}"
            yield document.error((*place, "missing_files"), problem, "use fail or wait")


def _check_whole_quality(
    quality: QualityConfig,
    key: tuple[str, ...],
    document: Document,
    place: Location,
    config: ProjectConfig,
) -> Iterator[ConfigError]:
    for where, rule in _list_valid_rules(quality, place, config):
        if rule.level == "error" and not rule.blocking:
            problem = f"{rule.name} rejects rows {_OF_SNAPSHOT}"
            yield document.error(where, problem, "set blocking: true or level: warn")
    if quality.deduplicate_order_by is not None:
        ids = {each.lower() for each in quality.id}
        if lacking := [name for name in key if name.lower() not in ids]:
            problem = f"deduplicate_order_by rejects rows of other keys {_OF_SNAPSHOT}"
            fix = f"add {', '.join(lacking)} of the target's key"
            yield document.error((*place, "id"), problem, fix)


def _list_valid_rules(
    quality: QualityConfig, place: Location, config: ProjectConfig
) -> Iterator[_Placed]:
    for part, column, use in quality.uses():
        with suppress(BadRuleError):
            yield (*place, *part), resolve_rule(use, column, config.quality_rules, quality)


def _check_rule(
    rule: Rule, document: Document, where: Location, table: TableConfig
) -> Iterator[ConfigError]:
    if rule.kind == "references":
        other = rule.parameters["table"]
        readable = {d.table for d in table.table_dependencies if d.read != "none"}
        if other not in readable:
            problem = f"reads {other}, which is not in depends_on"
            yield document.error((*where, "table"), problem, f"add {other} to depends_on")
    if rule.kind == "python":
        file = Path(document.path.parent, rule.text.partition(":")[0])
        if file.suffix == ".py" and (absent := explain_absence(file)):
            yield document.error((*where, "python"), absent)
    if rule.kind in ("sql", "fails_when", "query"):
        query = rule.text if rule.kind == "query" else build_condition_query(rule.text)
        try:
            parse_query(query)
        except UnreadableSqlError as error:
            field = "fails_when" if rule.kind == "fails_when" else "sql"
            yield document.error((*where, field), f"cannot read this SQL: {error}")


def build_condition_query(condition: str) -> str:
    """Return a query whose only result is a condition over the rows."""
    return f"SELECT ({condition}\n) AS broken FROM `{ROWS}`"  # noqa: S608 - the SQL is the user's own
