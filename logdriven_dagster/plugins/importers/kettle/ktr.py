"""Transformations of Kettle: the guide's template, read from a `.ktr` file.

Source: Kettle guide, transformation template: Execute SQL script → Table input → Table output.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING
from xml.parsers import expat

from logdriven_dagster.plugins.importers.drafts import UntranslatableError
from logdriven_dagster.plugins.importers.kettle.hops import (
    StepTypes,
    describe_foreign,
    find_idle_steps,
    is_set,
    leads,
    read_text,
    refuse_distribution,
    refuse_flags,
    refuse_other_ways,
    trace_path,
)
from logdriven_dagster.plugins.importers.kettle.outputs.models import Output
from logdriven_dagster.plugins.importers.kettle.outputs.reading import OUTPUTS
from logdriven_dagster.plugins.importers.kettle.rows.models import RowStep, is_lookup
from logdriven_dagster.plugins.importers.kettle.rows.queries import (
    JOINS,
    PASSING,
    PRODUCING,
    QUERIES,
)
from logdriven_dagster.plugins.importers.naming import is_whole
from logdriven_dagster.plugins.importers.sql_texts import split_statements

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_BOOKKEEPING = frozenset({"StepsMetrics", "SetVariable", "Dummy", "WriteToLog"})
"""Steps that only count, log or pass on rows, which the run log replaces."""

_TYPES = StepTypes(PASSING | QUERIES.keys(), _BOOKKEEPING | {"ExecSQL"}, PRODUCING | {"TableInput"})

_DIALECTS = {"MYSQL": "mysql", "MARIADB": "mysql", "POSTGRESQL": "postgres", "ORACLE": "oracle"}
_DIALECTS |= {"MSSQL": "tsql", "MSSQLNATIVE": "tsql", "SQLITE": "sqlite"}

_OPTION = "EXTRA_OPTION_"
_FORCES_CASE = ("FORCE_IDENTIFIERS_TO_LOWERCASE", "FORCE_IDENTIFIERS_TO_UPPERCASE")
_QUOTES = ('"', "`", "[", "]")


@dataclass(frozen=True, slots=True)
class Database:
    """A connection as the file describes it; its password is never read."""

    name: str
    kind: str
    host: str
    port: str
    database: str
    access: str = ""
    """Its way to the database; only `Native` is by host and port."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings that have a value, by code."""

    @property
    def options(self) -> tuple[str, ...]:
        """The names of the options that Kettle passes to the JDBC driver."""
        own = f"{_OPTION}{self.kind.upper()}."
        return tuple(
            sorted(code.removeprefix(own) for code in self.settings if code.startswith(own))
        )


@dataclass(frozen=True, slots=True)
class Script:
    """Execute SQL script: Kettle runs it once before it reads any row, in any position."""

    step: str
    connection: str
    sql: str
    behind_output: bool = False
    """True if hops place it after the output, although Kettle runs it earlier."""
    is_one_statement: bool = False
    """True if the script is sent as a single statement, including semicolons."""
    has_variables: bool = False
    """True if Kettle replaces variables in it."""


@dataclass(frozen=True, slots=True)
class Input:
    """Table input; `limit` 0 means all rows."""

    step: str
    connection: str
    sql: str
    limit: int
    has_variables: bool = False
    columns: tuple[str, ...] = ()
    """Columns of the query when the file was saved; empty if the file has none."""
    parameters_of: str = ""
    """The step whose row has the parameters of the query; empty without parameters."""
    parameters: "Input | None" = None
    """The input of this row, in a flow."""


@dataclass(frozen=True, slots=True)
class Flow:
    """An output, the inputs that it gets rows from, and the steps between them in order."""

    inputs: tuple[Input, ...]
    rows: tuple[RowStep, ...]
    output: Output
    last: tuple[str, ...]
    """The steps whose rows the output gets."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A step that is not translated: an output, or one of another type that no output needs."""

    step: str
    reason: str
    is_output: bool = False


@dataclass(frozen=True, slots=True)
class Ktr:
    """Parts of a transformation, in the order of the template."""

    databases: tuple[Database, ...]
    scripts: tuple[Script, ...]
    flows: tuple[Flow, ...]
    """The way of the rows to each output."""
    refused: tuple[Refused, ...] = ()
    idle: tuple[str, ...] = ()
    """Steps that Kettle does not start: all of their hops are disabled, or they are not drawn."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Default of each named parameter."""
    is_transactional: bool = False
    """True if all steps share one transaction of their connection (`unique_connections`)."""


def find_ktr(repository: Path, folder: str, name: str) -> Path:
    """Return the file of a transformation: below its folder, or the only one of its name.

    Raises UntranslatableError if it does not exist, or lies outside the repository.
    """
    file = name if name.endswith(".ktr") else f"{name}.ktr"
    root = repository.resolve()
    wanted = (root / folder.lstrip("/") / file).resolve()
    if wanted.is_relative_to(root) and wanted.is_file():
        return wanted
    found = sorted(path for path in root.rglob("*.ktr") if path.name == file)
    if len(found) == 1:
        return found[0]
    if found:
        raise UntranslatableError(f"{len(found)} files are called {file}, none below {folder}")
    raise UntranslatableError(
        f"the repository has no {folder.strip('/')}/{file}".replace("//", "/")
    )


def read_ktr(path: Path) -> Ktr:
    """Read a transformation. Raises UntranslatableError for steps without a counterpart."""
    root = parse_file(path, "transformation")
    every = {read_text(step, "name"): step for step in root.findall("step")}
    idle = find_idle_steps(root, every)
    steps = {name: step for name, step in every.items() if name not in idle}
    read: dict[str, Script | Input | Output] = {
        name: _READERS[read_text(step, "type")](name, step)
        for name, step in steps.items()
        if read_text(step, "type") in _READERS and not is_lookup(step)
    }
    refuse_other_ways(root, steps)
    databases = read_databases(root)
    for each in read.values():
        _refuse_connection_settings(databases, each)
    outputs = [each for each in read.values() if isinstance(each, Output)]
    flows, refused = [], []
    for output in outputs:
        try:
            flows.append(_read_flow(root, steps, read, output))
        except UntranslatableError as error:
            refused.append(Refused(output.step, str(error), is_output=True))
    ends = [output.step for output in outputs]
    refused += _find_foreign(root, steps, ends)
    inputs = sum(isinstance(each, Input) for each in read.values())
    if inputs and not outputs and not refused:
        raise UntranslatableError(f"{inputs} inputs and 0 outputs; its rows reach no table")
    scripts = tuple(
        replace(each, behind_output=any(leads(root, steps, end, each.step) for end in ends))
        for each in read.values()
        if isinstance(each, Script)
    )
    return Ktr(
        databases,
        scripts,
        tuple(flows),
        tuple(refused),
        tuple(sorted(idle)),
        _read_parameters(root),
        is_transactional=root.findtext("info/unique_connections", "").strip() == "Y",
    )


def _read_parameters(root: "Element") -> dict[str, str]:
    """Return the default of each named parameter; an empty one is an empty text in Kettle."""
    return {
        name: each.findtext("default_value") or ""
        for each in root.iterfind("info/parameters/parameter")
        if (name := read_text(each, "name"))
    }


def _find_foreign(
    root: "Element", steps: "Mapping[str, Element]", ends: Sequence[str]
) -> Iterator[Refused]:
    """Yield the steps without a counterpart that are not on the way to an output."""
    known = {*_READERS, *_BOOKKEEPING, *QUERIES, *PASSING}
    for name, step in sorted(steps.items()):
        kind = read_text(step, "type")
        if kind not in known and not any(leads(root, steps, name, end) for end in ends):
            yield Refused(name, describe_foreign(name, kind))


def _read_flow(
    root: "Element",
    steps: "Mapping[str, Element]",
    read: Mapping[str, Script | Input | Output],
    output: Output,
) -> Flow:
    """Return the way of the rows to an output."""
    path = trace_path(root, steps, output.step, _TYPES)
    inputs = tuple(
        _find_parameters(root, steps, read, found)
        for step in path
        if isinstance(found := read.get(step.name), Input)
    )
    rows = []
    for each in path[:-1]:
        if each.kind == "TableInput":
            continue
        if each.kind not in JOINS and len(each.sources) > 1:
            raise UntranslatableError(
                f"{each.name}: it gets rows of {', '.join(each.sources)}; unite them in SQL"
            )
        rows.append(RowStep(each.name, each.kind, steps[each.name], each.sources))
    if len(path[-1].sources) > 1:
        names = ", ".join(path[-1].sources)
        raise UntranslatableError(f"{output.step}: it gets rows of {names}; unite them in SQL")
    return Flow(inputs, tuple(rows), output, path[-1].sources)


def _find_parameters(
    root: "Element",
    steps: "Mapping[str, Element]",
    read: Mapping[str, Script | Input | Output],
    origin: Input,
) -> Input:
    """Return an input with the input of its parameters."""
    if not origin.parameters_of:
        return origin
    before = {name.lower(): name for name in steps}
    name = before.get(origin.parameters_of.lower(), origin.parameters_of)
    source = read.get(name)
    if not isinstance(source, Input) or source.parameters_of:
        raise UntranslatableError(
            f"{origin.step}: it takes parameters of step {name}, which must be a Table input "
            "without parameters; join them in SQL, or use time windows with :data_range_start in "
            "place of the last time"
        )
    refuse_distribution(root, steps, name)
    return replace(origin, parameters=source)


def read_databases(root: "Element") -> tuple[Database, ...]:
    """Return the connections that a file describes."""
    return tuple(_database(each) for each in root.findall("connection"))


def find_database(databases: Sequence[Database], name: str) -> Database | None:
    """Return a connection by its name, in any case as in Kettle, or None."""
    return next((d for d in databases if d.name.lower() == name.lower()), None)


def _refuse_connection_settings(
    databases: Sequence[Database], read: Script | Input | Output
) -> None:
    """Raise UntranslatableError for settings of a connection that change a step's tables or SQL."""
    if (found := find_database(databases, read.connection)) is None:
        return
    if "SQL_CONNECT" in found.settings:
        raise UntranslatableError(
            f"{read.step}: the connection {found.name} executes SQL when it opens; "
            "set this for its user in the database, and remove it from the file"
        )
    if not isinstance(read, Output):
        return
    schema = found.settings.get("PREFERRED_SCHEMA_NAME")
    if schema and not read.schema:
        raise UntranslatableError(
            f"{read.step}: the connection {found.name} writes into the schema {schema}; "
            "set the schema in the step"
        )
    if forced := [code for code in _FORCES_CASE if found.settings.get(code) == "Y"]:
        raise UntranslatableError(
            f"{read.step}: the connection {found.name} changes the case of names ({forced[0]}); "
            "write the names as the database has them, and remove the setting"
        )


def quote_names(step: str, names: Sequence[str], backend: str | None) -> str:
    """Return a table's name with its schema, as Kettle would name it in SQL on a database.

    Kettle quotes a name with a dot, and lets PostgreSQL change capitals to lower case. Raises
    UntranslatableError for such capitals: Kettle may quote the name for other reasons.
    """
    parts = []
    for name in filter(None, names):
        is_quoted = any(quote in name for quote in _QUOTES)
        if backend == "postgresql" and not is_quoted and name != name.lower():
            raise UntranslatableError(
                f"{step}: PostgreSQL reads {name} as {name.lower()} unless it is quoted; "
                "write the name as the database has it"
            )
        parts.append(f'"{name}"' if "." in name and not is_quoted else name)
    return ".".join(parts)


def parse_file(path: Path, kind: str) -> "Element":
    """Return the root of a transformation or job. Raises UntranslatableError for other files."""
    from xml.etree import ElementTree as ET

    try:
        content = path.read_bytes()
        _refuse_entities(content)
        root = ET.fromstring(content)  # noqa: S314 - documents that declare entities are refused
    except OSError as error:
        raise UntranslatableError(f"the file cannot be read: {error.strerror}") from None
    except UntranslatableError:
        raise
    # LookupError and ValueError: encodings that are unknown, or that expat cannot read.
    except (ET.ParseError, expat.ExpatError, LookupError, ValueError, RecursionError) as error:
        raise UntranslatableError(f"not valid XML: {error}") from None
    if root.tag != kind:
        raise UntranslatableError(f"not a {kind}: its root is <{root.tag}>")
    return root


def _refuse_entities(content: bytes) -> None:
    """Raise UntranslatableError for a document type: its entities may be endless or read files."""

    def refuse(*_: object) -> None:
        raise UntranslatableError("the file declares a document type, which Kettle never does")

    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = refuse
    parser.Parse(content, True)  # noqa: FBT003 - the last part of the document


def _script(name: str, step: "Element") -> Script:
    refuse_flags(name, step, ("execute_each_row",))
    if step.find("arguments/argument") is not None:
        raise UntranslatableError(f"{name}: it has arguments")
    return Script(
        name,
        read_text(step, "connection"),
        read_text(step, "sql"),
        is_one_statement=is_set(step, "single_statement"),
        has_variables=read_text(step, "replace_variables") == "Y",
    )


def _input(name: str, step: "Element") -> Input:
    refuse_flags(name, step, ("execute_each_row",))
    return Input(
        name,
        read_text(step, "connection"),
        read_text(step, "sql"),
        _number(step, "limit"),
        has_variables=read_text(step, "variables_active") == "Y",
        columns=tuple(read_text(each, "name") for each in step.iterfind("row-meta/value-meta")),
        parameters_of=read_text(step, "lookup"),
    )


_READERS: Mapping[str, Callable[[str, "Element"], Script | Input | Output]] = {
    "ExecSQL": _script,
    "TableInput": _input,
    **OUTPUTS,
}


def _database(element: "Element") -> Database:
    every = {
        read_text(each, "code"): read_text(each, "attribute")
        for each in element.iterfind("attributes/attribute")
    }
    return Database(
        name=read_text(element, "name"),
        kind=read_text(element, "type"),
        host=read_text(element, "server"),
        port=read_text(element, "port"),
        database=read_text(element, "database"),
        access=read_text(element, "access"),
        settings={code: value for code, value in every.items() if value},
    )


def _number(step: "Element", name: str) -> int:
    text = read_text(step, name) or "0"
    if not is_whole(text):
        place = read_text(step, "name")
        raise UntranslatableError(f"{place}: its {name} {text} must be a number; write it there")
    return int(text)


def find_kind(found: Ktr, connection: str) -> str:
    """Return Kettle's type of a connection's database in capitals; empty if it is not described."""
    database = find_database(found.databases, connection)
    return database.kind.upper() if database else ""


def dialect_of(found: Ktr, connection: str) -> str | None:
    """Return sqlglot's dialect name for a connection's database, or None."""
    return _DIALECTS.get(find_kind(found, connection))


def statements(found: Ktr, connection: str, sql: str) -> Iterator[str]:
    """Yield the statements of a script for a connection, which determines the dialect."""
    yield from split_statements(sql, dialect_of(found, connection))
