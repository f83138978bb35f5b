"""What the parts of one workflow's translation share."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from logdriven_dagster.config.project import Project
from logdriven_dagster.config.secrets import names_secret, redact, remember
from logdriven_dagster.importers.drafts import Translation, UntranslatableError, Values
from logdriven_dagster.importers.naming import is_whole
from logdriven_dagster.importers.sharpetl.parser import End, Header, Step, Workflow
from logdriven_dagster.importers.sharpetl.variables import Variables

_OF_QUALITY = frozenset({"idColumn", "sortColumn", "desc", "topN"})


@dataclass(frozen=True, slots=True)
class SharpEtlRule:
    """A rule of their `quality-check.yaml`."""

    text: str
    level: str


@dataclass(frozen=True, slots=True)
class Context:
    """The project, the workflow, and where remarks go."""

    project: Project
    workflow: Workflow
    translation: Translation
    connections: Mapping[str, str]
    """Their name of a connection → ours, where these differ."""
    rules: Mapping[str, SharpEtlRule]
    kind: str
    """The table's `incremental_type`."""
    variables: Variables
    temps: dict[str, str] = field(default_factory=dict)
    """Their temporary table, lower case → the step of ours whose result it is."""

    def leave(self, line: int, item: str, reason: str) -> None:
        """List something that was not translated, with its file and line."""
        self.translation.leave(self.workflow.place(line), item, reason)

    def note(self, line: int, item: str, reason: str) -> None:
        """List something that was translated and may mean something else now."""
        self.translation.note(self.workflow.place(line), item, reason)

    def leave_unknown(self, headers: Iterable[Header], known: Iterable[str], of: str) -> None:
        """List the headers whose keys nothing here stands for."""
        names = set(known)
        for header in headers:
            if header.key not in names:
                text = f"{header.key}={header.value}"
                self.leave(header.line, text, f"no header of {of} that has a counterpart here")

    def options(self, end: End) -> Values:
        """Options for Spark; those of quality are none, and secrets are not written to files."""
        found: Values = {}
        for key, header in end.options.items():
            if key in _OF_QUALITY or key.startswith("column."):
                continue
            if names_secret(key):
                remember(header.value)
                reason = "the secret stays out of files: give the connection ${env:NAME}"
                self.leave(header.line, f"options {key}", reason)
            else:
                found[key] = option(header.value)
        return found

    def connection(self, end: End) -> str:
        """Return our connection for that of a source or target: by --map or by its name."""
        theirs = end.get("connectionName") or end.get("dbName") or end.kind
        ours = self.project.config.connections
        mapped = self.connections.get(f"{end.kind}/{theirs}", self.connections.get(theirs, theirs))
        for known in ours:
            if known.lower() == mapped.lower():
                return known
        raise UntranslatableError(
            f"unknown connection {theirs!r} ({end.kind}); add it to logdriven.yaml, or say "
            f"--map {theirs}=OURS"
        )

    def kafka(self, end: End) -> str:
        """Return the project's connection to Kafka: theirs stands in application.properties."""
        if mapped := self.connections.get(end.kind, self.connections.get("kafka")):
            return mapped
        config = self.project.config.connections
        found = [name for name, connection in config.items() if connection.leads_to == "Kafka"]
        if len(found) != 1:
            raise UntranslatableError(
                f"{len(found)} connections of the project lead to Kafka; say --map kafka=OURS"
            )
        return found[0]


@dataclass(slots=True)
class WorkflowStep:
    """A step of ours on its way, and what comes along with it."""

    source: Values | None = None
    sql: str | None = None
    target: Values | None = None
    extra: Values = field(default_factory=dict)
    checks: list[Values] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)


def option(text: str) -> str | int | bool:
    """Return an option as YAML shows it best."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    return int(text) if is_whole(text) and (text == "0" or text[0] != "0") else text


def original(step: Step) -> list[str]:
    """Return a step as a comment, without its secrets."""
    lines = []
    for side, end in (("source", step.source), ("target", step.target)):
        lines.append(f"-- {side}={end.kind}")
        for header in (*end.headers.values(), *end.options.values()):
            secret = names_secret(header.key)
            lines.append(f"--  {header.key}={'***' if secret else redact(header.value)}")
    return [f"    {line}" for line in [*lines, *step.sql.splitlines()]]
