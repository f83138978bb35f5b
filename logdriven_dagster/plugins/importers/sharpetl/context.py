"""Shared state of the translation of one workflow."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from logdriven_dagster.config.checking.secret_texts import find_marked_secrets, find_secrets
from logdriven_dagster.config.project import Project
from logdriven_dagster.config.secrets import names_secret, redact, remember
from logdriven_dagster.plugins.importers.drafts import Translation, UntranslatableError, Values
from logdriven_dagster.plugins.importers.naming import is_whole
from logdriven_dagster.plugins.importers.sharpetl.parser import End, Header, Step, Workflow
from logdriven_dagster.plugins.importers.sharpetl.variables import Variables

_OF_QUALITY = frozenset({"idColumn", "sortColumn", "desc", "topN"})


@dataclass(frozen=True, slots=True)
class SharpEtlRule:
    """A rule of Sharp ETL's `quality-check.yaml`."""

    text: str
    level: str


@dataclass(frozen=True, slots=True)
class Context:
    """The project, the workflow, and the destination of remarks."""

    project: Project
    workflow: Workflow
    translation: Translation
    connections: Mapping[str, str]
    """Project connection for each Sharp ETL connection with a different name."""
    rules: Mapping[str, SharpEtlRule]
    kind: str
    """The table's `incremental_type`."""
    variables: Variables
    writers: Mapping[str, str]
    """The workflow that writes each table of Spark's catalog, by the table's lower-case name."""
    temps: dict[str, str] = field(default_factory=dict)
    """Step with the result of each temporary table, by its lower-case name."""

    def leave(self, line: int, item: str, reason: str) -> None:
        """Record a part that was not translated, with its file and line."""
        self.translation.leave(self.workflow.place(line), item, reason)

    def note(self, line: int, item: str, reason: str) -> None:
        """Record a translated part whose meaning may have changed."""
        self.translation.note(self.workflow.place(line), item, reason)

    def leave_unknown(self, headers: Iterable[Header], known: Iterable[str], of: str) -> None:
        """Record the headers whose keys are not `known`; `of` names their owner in the reason."""
        names = set(known)
        for header in headers:
            if header.key not in names:
                text = f"{header.key}={header.value}"
                self.leave(header.line, text, f"not a header of {of} that has a counterpart here")

    def options(self, end: End) -> Values:
        """Return options for Spark, without quality rules and secrets."""
        found: Values = {}
        for key, header in end.options.items():
            if key in _OF_QUALITY or key.startswith("column."):
                continue
            if names_secret(key):
                remember(header.value)
                reason = "secrets are not written to files; use ${env:NAME} in the connection"
                self.leave(header.line, f"options {key}", reason)
            else:
                found[key] = option(header.value)
        return found

    def connection(self, end: End) -> str:
        """Return the project's connection for a source or target: by --map or by its name."""
        theirs = end.get("connectionName") or end.get("dbName") or end.kind
        ours = self.project.config.connections
        mapped = self.connections.get(f"{end.kind}/{theirs}", self.connections.get(theirs, theirs))
        for known in ours:
            if known.lower() == mapped.lower():
                return known
        raise UntranslatableError(
            f"unknown connection {theirs!r} ({end.kind}); add it to logdriven.yaml, or "
            f"use --map {theirs}=OURS"
        )

    def kafka(self, end: End) -> str:
        """Return the project's Kafka connection, which Sharp ETL has in application.properties."""
        if mapped := self.connections.get(end.kind, self.connections.get("kafka")):
            return mapped
        config = self.project.config.connections
        found = [name for name, connection in config.items() if connection.leads_to == "Kafka"]
        if len(found) != 1:
            raise UntranslatableError(
                f"{len(found)} connections of the project lead to Kafka; use --map kafka=OURS"
            )
        return found[0]


@dataclass(slots=True)
class WorkflowStep:
    """A translated step before it is written, with comments and remarks."""

    source: Values | None = None
    sql: str | None = None
    target: Values | None = None
    extra: Values = field(default_factory=dict)
    checks: list[Values] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)


def option(text: str) -> str | int | bool:
    """Convert an option to the simplest YAML value."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    return int(text) if is_whole(text) and (text == "0" or text[0] != "0") else text


def original(step: Step) -> list[str]:
    """Return a step as a comment, without its secrets."""
    ends = (step.source, step.target)
    values = [header.value for end in ends for header in end.headers.values()]
    secrets = [secret for value in values for secret in find_secrets(value)]
    for secret in [*secrets, *find_marked_secrets(step.sql)]:
        remember(secret)
    lines = []
    for side, end in zip(("source", "target"), ends, strict=True):
        lines.append(f"-- {side}={end.kind}")
        for header in (*end.headers.values(), *end.options.values()):
            value = "***" if names_secret(header.key) else redact(header.value)
            lines.append(f"--  {header.key}={value}")
    return [f"    {line}" for line in [*lines, *redact(step.sql).splitlines()]]
