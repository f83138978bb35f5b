"""Transformations of Kettle: the guide's template, read from a `.ktr` file.

Source: Kettle guide, transformation template: Execute SQL script → Table input → Table output.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from xml.parsers import expat

from logdriven_dagster.plugins.importers.drafts import UntranslatableError
from logdriven_dagster.plugins.importers.kettle.hops import (
    find_disabled_steps,
    leads,
    refuse_other_paths,
    refuse_other_ways,
)
from logdriven_dagster.plugins.importers.naming import is_whole

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_BOOKKEEPING = frozenset({"StepsMetrics", "SetVariable", "Dummy", "WriteToLog"})
"""Steps that only count, log or pass on rows, which the run log replaces."""

_DIALECTS = {"MYSQL": "mysql", "MARIADB": "mysql", "POSTGRESQL": "postgres", "ORACLE": "oracle"}
_DIALECTS |= {"MSSQL": "tsql", "MSSQLNATIVE": "tsql", "SQLITE": "sqlite"}


@dataclass(frozen=True, slots=True)
class Database:
    """A connection as the file describes it; its password is never read."""

    name: str
    kind: str
    host: str
    port: str
    database: str


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
    has_variables: bool = True
    """True if Kettle replaces variables in it."""


@dataclass(frozen=True, slots=True)
class Input:
    """Table input; `limit` 0 means all rows."""

    step: str
    connection: str
    sql: str
    limit: int
    has_variables: bool = True


@dataclass(frozen=True, slots=True)
class Output:
    """Table output, or Insert / update if it has a key."""

    step: str
    connection: str
    table: str
    truncate: bool
    fields: tuple[tuple[str, str], ...]
    """Pairs of stream field and table column; empty if all names are equal."""
    key: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ktr:
    """Parts of a transformation, in the order of the template."""

    databases: tuple[Database, ...]
    scripts: tuple[Script, ...]
    input: Input | None
    output: Output | None
    disabled: tuple[str, ...] = ()
    """Steps all of whose hops are disabled: Kettle does not start them."""
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
    root = _parse(path)
    every = {_text(step, "name"): step for step in root.findall("step")}
    disabled = find_disabled_steps(root, every)
    steps = {name: step for name, step in every.items() if name not in disabled}
    foreign = sorted(
        f"{name} ({_text(step, 'type')})"
        for name, step in steps.items()
        if _text(step, "type") not in {*_READERS, *_BOOKKEEPING}
    )
    if foreign:
        raise UntranslatableError(f"steps without a counterpart here: {', '.join(foreign)}")
    read: list[Script | Input | Output] = [
        _READERS[_text(step, "type")](name, step)
        for name, step in steps.items()
        if _text(step, "type") in _READERS
    ]
    inputs = [each for each in read if isinstance(each, Input)]
    outputs = [each for each in read if isinstance(each, Output)]
    if len(inputs) > 1 or len(outputs) > 1 or len(inputs) != len(outputs):
        raise UntranslatableError(
            f"{len(inputs)} inputs and {len(outputs)} outputs; only one of each can be translated"
        )
    refuse_other_ways(root, steps)
    for each in read:
        _refuse_connection_settings(root, each)
    if inputs:
        refuse_other_paths(root, steps, inputs[0].step, outputs[0].step)
    scripts = tuple(
        replace(each, behind_output=leads(root, steps, outputs[0].step, each.step))
        if outputs
        else each
        for each in read
        if isinstance(each, Script)
    )
    databases = tuple(_database(each) for each in root.findall("connection"))
    return Ktr(
        databases,
        scripts,
        inputs[0] if inputs else None,
        outputs[0] if outputs else None,
        tuple(sorted(disabled)),
        is_transactional=root.findtext("info/unique_connections", "").strip() == "Y",
    )


def _refuse_connection_settings(root: "Element", read: Script | Input | Output) -> None:
    """Raise UntranslatableError for settings of a connection that change a step's tables or SQL."""
    found = (c for c in root.iterfind("connection") if _text(c, "name") == read.connection)
    for attribute in (each for c in found for each in c.iterfind("attributes/attribute")):
        code, value = _text(attribute, "code"), _text(attribute, "attribute")
        if code == "SQL_CONNECT" and value:
            raise UntranslatableError(
                f"{read.step}: the connection {read.connection} executes SQL when it opens; "
                "set this for its user in the database, and remove it from the file"
            )
        is_unnamed = isinstance(read, Output) and "." not in read.table
        if code == "PREFERRED_SCHEMA_NAME" and value and is_unnamed:
            raise UntranslatableError(
                f"{read.step}: the connection {read.connection} writes into the schema {value}; "
                "set the schema in the step"
            )


def _parse(path: Path) -> "Element":
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
    if root.tag != "transformation":
        raise UntranslatableError(f"not a transformation: its root is <{root.tag}>")
    return root


def _refuse_entities(content: bytes) -> None:
    """Raise UntranslatableError for a document type: its entities may be endless or read files."""

    def refuse(*_: object) -> None:
        raise UntranslatableError("the file declares a document type, which Kettle never does")

    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = refuse
    parser.Parse(content, True)  # noqa: FBT003 - the last part of the document


def _script(name: str, step: "Element") -> Script:
    _refuse(name, step, ("execute_each_row",))
    if step.find("arguments/argument") is not None:
        raise UntranslatableError(f"{name}: it has arguments")
    return Script(
        name,
        _text(step, "connection"),
        _text(step, "sql"),
        is_one_statement=_text(step, "single_statement") == "Y",
        has_variables=_text(step, "replace_variables") != "N",
    )


def _input(name: str, step: "Element") -> Input:
    _refuse(name, step, ("execute_each_row",))
    if _text(step, "lookup"):
        raise UntranslatableError(f"{name}: it inserts data from step {_text(step, 'lookup')}")
    return Input(
        name,
        _text(step, "connection"),
        _text(step, "sql"),
        _number(step, "limit"),
        has_variables=_text(step, "variables_active") != "N",
    )


def _output(name: str, step: "Element") -> Output:
    _refuse(name, step, ("partitioning_enabled", "tablename_in_field", "ignore_errors"))
    fields: tuple[tuple[str, str], ...] = ()
    if _text(step, "specify_fields") == "Y":
        fields = tuple(
            (_text(field, "stream_name"), _text(field, "column_name"))
            for field in step.iterfind("fields/field")
        )
    return Output(
        name, _text(step, "connection"), _target(step), _text(step, "truncate") == "Y", fields
    )


def _upsert(name: str, step: "Element") -> Output:
    _refuse(name, step, ("update_bypassed",))
    keys = list(step.iterfind("lookup/key"))
    values = list(step.iterfind("lookup/value"))
    if not keys or any(_text(key, "condition") != "=" for key in keys):
        raise UntranslatableError(f"{name}: its keys must be compared by =")
    pairs = [(_text(key, "name"), _text(key, "field")) for key in keys]
    fields = dict.fromkeys((_text(v, "rename"), _text(v, "name")) for v in values)
    if outside := [column for field, column in pairs if (field, column) not in fields]:
        raise UntranslatableError(
            f"{name}: {', '.join(outside)} is a key and not among the values, so that Kettle "
            "inserts rows without it; add it to the values, with update N"
        )
    columns = {column for _, column in pairs}
    never = [v for v in values if _text(v, "update") == "N" and _text(v, "name") not in columns]
    if never:
        raise UntranslatableError(f"{name}: some columns are inserted and never updated")
    return Output(
        step=name,
        connection=_text(step, "connection"),
        table=_target(step, "lookup/"),
        truncate=False,
        fields=tuple(fields),
        key=tuple(column for _, column in pairs),
    )


_READERS: Mapping[str, Callable[[str, "Element"], Script | Input | Output]] = {
    "ExecSQL": _script,
    "TableInput": _input,
    "TableOutput": _output,
    "InsertUpdate": _upsert,
}


def _refuse(name: str, step: "Element", flags: tuple[str, ...]) -> None:
    for flag in flags:
        if _text(step, flag) == "Y":
            raise UntranslatableError(f"{name}: {flag} is set")


def _target(step: "Element", below: str = "") -> str:
    schema, table = _text(step, f"{below}schema"), _text(step, f"{below}table")
    return f"{schema}.{table}" if schema else table


def _database(element: "Element") -> Database:
    texts = (_text(element, name) for name in ("name", "type", "server", "port", "database"))
    return Database(*texts)


def _number(step: "Element", name: str) -> int:
    text = _text(step, name) or "0"
    if not is_whole(text):
        raise UntranslatableError(f"{name}: {text} is not a number")
    return int(text)


def _text(element: "Element", name: str) -> str:
    return (element.findtext(name) or "").strip()


def dialect_of(found: Ktr, connection: str) -> str | None:
    """Return sqlglot's dialect name for a connection's database, or None."""
    kind = next((d.kind.upper() for d in found.databases if d.name == connection), "")
    return _DIALECTS.get(kind)


def statements(found: Ktr, connection: str, sql: str) -> Iterator[str]:
    """Yield the statements of a script, split at semicolons outside quotes and comments.

    `connection` determines the dialect. Raises UntranslatableError if the script cannot be
    tokenized.
    """
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.errors import SqlglotError
    from sqlglot.tokenizer_core import TokenType

    try:
        tokens = Dialect.get_or_raise(dialect_of(found, connection)).tokenize(sql)
    except SqlglotError:
        raise UntranslatableError("its SQL cannot be split into statements") from None
    start, words = 0, 0
    for token in tokens:
        if token.token_type is not TokenType.SEMICOLON:
            words += 1
            continue
        if words:
            yield sql[start : token.start].strip()
        start, words = token.end + 1, 0
    if words:
        yield sql[start:].strip()
