"""Steps from transformations of Kettle, or stubs that fail with the reason."""

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from logdriven_dagster.config.connections import get_url
from logdriven_dagster.config.project import Project
from logdriven_dagster.config.sql.committing import find_backend, find_script_mistake
from logdriven_dagster.plugins.importers.drafts import (
    Translation,
    UntranslatableError,
    Values,
    stub_query,
)
from logdriven_dagster.plugins.importers.kettle import ktr
from logdriven_dagster.plugins.importers.kettle.comparisons import quote
from logdriven_dagster.plugins.importers.kettle.hops import read_text
from logdriven_dagster.plugins.importers.kettle.outputs.dimensions import (
    find_unknown_key,
    insert_unknown,
    select_versions,
)
from logdriven_dagster.plugins.importers.kettle.outputs.models import Output
from logdriven_dagster.plugins.importers.kettle.outputs.own_rows import select_written
from logdriven_dagster.plugins.importers.kettle.parameters import (
    find_parameters,
    insert_parameters,
    select_parameters,
)
from logdriven_dagster.plugins.importers.kettle.rows.models import Lookup, Reading, RowStep
from logdriven_dagster.plugins.importers.kettle.rows.queries import QUERIES, list_fields
from logdriven_dagster.plugins.importers.kettle.rows.routing import restrict, restricts
from logdriven_dagster.plugins.importers.kettle.rows.sorting import (
    refuse_first_rows,
    refuse_sorted_comparisons,
    refuse_sorted_texts,
)
from logdriven_dagster.plugins.importers.kettle.scripts import (
    can_wait,
    deleting,
    find_columns,
    find_order,
)
from logdriven_dagster.plugins.importers.kettle.tables import Transformation
from logdriven_dagster.plugins.importers.naming import identifier, step_name
from logdriven_dagster.plugins.importers.sql_texts import has_statements
from logdriven_dagster.plugins.importers.yaml_text import block

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

JOB_VARIABLE = "KJB_NAME"
"""Kettle's variable for the name of the job that runs a transformation."""

_VARIABLE = re.compile(r"\$\{([^}]*)\}|%%([^%\s]+)%%")

_HEXADECIMAL = re.compile(r"\$\[[0-9A-Fa-f]{2}(,[0-9A-Fa-f]{2})*\]")


@dataclass(frozen=True, slots=True)
class KtrStep:
    """Steps; `incomplete` for a stub or steps that refer to something unknown."""

    steps: list[Values]
    comments: tuple[str, ...] = ()
    incomplete: bool = False
    variables: Mapping[str, str] = field(default_factory=dict)
    """Variables of the table: the named parameters that its SQL uses, with their defaults."""
    of_its_job: bool = False
    """True if its SQL uses the job's name and several jobs run it, which pass it as a parameter."""


@dataclass(frozen=True, slots=True)
class Translator:
    """Translator of transformations, which maps their connections to the project's."""

    project: Project
    connections: Mapping[str, str]
    repository: Path | None
    translation: Translation

    def table_steps(self, row: Transformation, jobs: Sequence[str]) -> KtrStep:
        """Return the step of a table that these standard jobs run."""
        try:
            found = self._read(row)
            (flow,) = _refuse_several(found)
            return self.load(row, found, flow, jobs)
        except UntranslatableError as error:
            reason = str(error)
        return self.stub(row, reason)

    def stub(self, row: Transformation, reason: str) -> KtrStep:
        """Return a step that fails with the reason, which is recorded."""
        self.translation.leave(row.place, f"{row.path}/{row.name}", reason)
        step = {"step": "load", "sql": stub_query(f"{row.name}: {reason}")}
        comment = f"TODO: {row.path}/{row.name} was not translated: {reason}"
        return KtrStep([{**step, "target": {"type": "iceberg"}}], (comment,), incomplete=True)

    def maintenance_step(self, row: Transformation) -> KtrStep:
        """Return the action of a maintenance step, without its name and position."""
        try:
            found = self._read(row)
            return self._statements(row, found)
        except UntranslatableError as error:
            reason = str(error)
        self.translation.leave(row.place, f"{row.path}/{row.name}", reason)
        comment = f"TODO: {row.path}/{row.name} was not translated: {reason}"
        return KtrStep([{"sql": stub_query(f"{row.name}: {reason}")}], (comment,), incomplete=True)

    def _read(self, row: Transformation) -> ktr.Ktr:
        if self.repository is None:
            raise UntranslatableError("no --repository was given, so its file is not known")
        found = ktr.read_ktr(ktr.find_ktr(self.repository, row.path, row.name))
        if found.idle:
            names = ", ".join(found.idle)
            reason = (
                "left out, since Kettle does not start them (their hops are disabled, or they are "
                f"not drawn): {names}"
            )
            self.translation.note(row.place, f"{row.path}/{row.name}", reason)
        return found

    def load(
        self, row: Transformation, found: ktr.Ktr, flow: ktr.Flow, jobs: Sequence[str]
    ) -> KtrStep:
        """Return the steps that load one output. Raises UntranslatableError for other meanings."""
        names = self._variables(row, jobs, found)
        output = flow.output
        connection = self.connection(output.connection, found)
        backend = find_backend(self.project.config.connections[connection])
        table = (names.replace(output.schema), names.replace(output.table))
        target: Values = {
            "type": "jdbc",
            "connection": connection,
            "table": ktr.quote_names(output.step, table, backend),
            "mode": "overwrite" if output.truncate else "append",
        }
        if output.key:
            target |= {"mode": "upsert", "key": list(output.key)}
        if target["mode"] == "append":
            target["existing_rows"] = "keep"  # as Kettle does
        if output.dimension is not None:
            kind = ktr.find_kind(found, output.connection)
            target["pre_sql"] = [insert_unknown(output.dimension, target["table"], kind)]
        steps = self._flow(row.place, flow, found, names)
        steps[-1]["target"] = target
        reason = (
            "they stay empty here, and Kettle writes NULL; select nullif(column, '') where the "
            "target must have NULL"
        )
        if all(note.reason != reason for note in self.translation.notes):
            self.translation.note("all tables", "empty texts", reason)
        scripts = self._scripts(row, found, flow, steps, names)
        steps[0] = {"step": steps[0]["step"], **scripts, **steps[0]}
        made = self._build_step(steps, row, names)
        if output.dimension is None:
            return made
        comment = (
            "The dimension stays in its database, with Kettle's technical keys and first versions. "
            "mode: history has neither: see Kettle dimensions in docs/plugins/importers.md."
        )
        return replace(made, comments=(*made.comments, comment))

    def _flow(
        self, place: str, flow: ktr.Flow, found: ktr.Ktr, names: "_Variables"
    ) -> list[Values]:
        """Return the steps of a flow without its target."""
        changing = [each for each in flow.rows if each.kind in QUERIES or restricts(each)]
        for each in flow.rows:
            refuse_first_rows(each)
        origin = flow.inputs[0] if len(flow.inputs) == 1 else None
        is_plain = not changing and not flow.output.own_columns
        if origin is not None and origin.parameters is None and is_plain:
            step: Values = {"step": "load", "source": self.source(origin, found, names)}
            if sql := _renaming(origin, flow.output):
                step["sql"] = sql
            return [step]
        return _FlowSteps(self, place, flow, found, names).build()

    def source(self, origin: ktr.Input, found: ktr.Ktr, names: "_Variables") -> Values:
        """Return the source of a table input."""
        query = names.replace_in(origin, _query(found, origin))
        if origin.parameters is not None:
            query = insert_parameters(origin.step, query, ktr.dialect_of(found, origin.connection))
        return {
            "type": "jdbc",
            "connection": self.connection(origin.connection, found),
            "query": query,
        }

    def scripts_only(self, row: Transformation, found: ktr.Ktr) -> KtrStep:
        """Return the step of a transformation that only executes scripts."""
        names = self._variables(row, [], found)
        try:
            scripts = [self._script(found, script, names) for script in found.scripts]
            scripts = [script for script in scripts if script["sql"]]
            if not scripts:
                return self.stub(row, "it has no table output and no scripts")
            return self._build_step([_committing(scripts)], row, names)
        except UntranslatableError as error:
            return self.stub(row, str(error))

    def sql_entry(
        self, row: Transformation, entry: "Element", databases: tuple[ktr.Database, ...]
    ) -> KtrStep:
        """Return the step of an SQL entry of a job. Raises UntranslatableError for SQL of files."""
        if read_text(entry, "sqlfromfile").upper() in ("Y", "T"):
            raise UntranslatableError(f"{row.name}: its SQL is in a file; write it into the job")
        script = ktr.Script(
            row.name,
            read_text(entry, "connection"),
            read_text(entry, "sql"),
            is_one_statement=read_text(entry, "sendOneStatement").upper() in ("Y", "T"),
            has_variables=read_text(entry, "useVariableSubstitution").upper() in ("Y", "T"),
        )
        return self.scripts_only(row, ktr.Ktr(databases, (script,), ()))

    def _scripts(
        self,
        row: Transformation,
        found: ktr.Ktr,
        flow: ktr.Flow,
        steps: Sequence[Values],
        names: "_Variables",
    ) -> Values:
        """Return `commit_before_read` of the step; empty if its target has all scripts.

        Kettle runs scripts before it reads any row. Scripts that change only the target become part
        of the publication, so that readers never see the table without rows.
        """
        place, target = f"{row.path}/{row.name}", steps[-1]["target"]
        sources = [step["source"] for step in steps if "source" in step]
        for script in found.scripts:
            if script.behind_output:
                reason = "it follows the output; Kettle executes it before the read, as here"
                self.translation.note(place, script.step, reason)
        scripts = [self._script(found, script, names) for script in found.scripts]
        scripts = [script for script in scripts if script["sql"]]
        if not scripts:
            return {}
        written = ktr.dialect_of(found, flow.output.connection)
        read = ktr.dialect_of(found, flow.inputs[0].connection) if flow.inputs else None
        if not all(can_wait(scripts, source, target, read, written) for source in sources):
            if found.is_transactional:
                raise UntranslatableError(
                    "its steps share one transaction (unique_connections), but its scripts have "
                    "to be committed before the read; use a table of its own for their rows"
                )
            return {"commit_before_read": scripts}
        backend = find_backend(self.project.config.connections[target["connection"]])
        texts = [deleting(sql, backend) for script in scripts for sql in script["sql"]]
        target["pre_sql"] = [*texts, *target.get("pre_sql", ())]
        if any(source["connection"] == target["connection"] for source in sources):
            reason = (
                f"its scripts change {target['table']} when the window is published; if the "
                "query reads this table through a view, move them to commit_before_read"
            )
            self.translation.note(place, "pre_sql", reason)
        return {}

    def _script(self, found: ktr.Ktr, script: ktr.Script, names: "_Variables") -> Values:
        connection = self.connection(script.connection, found)
        texts = _texts(found, script, names)
        backend = find_backend(self.project.config.connections[connection])
        alone = {"transaction": False} if find_script_mistake(texts, backend) else {}
        return {"connection": connection, "sql": texts, **alone}

    def _statements(self, row: Transformation, found: ktr.Ktr) -> KtrStep:
        if found.refused:
            raise UntranslatableError("; ".join(each.reason for each in found.refused))
        if found.flows:
            raise UntranslatableError(
                "it copies rows from a table input to an output; rewrite it as a table or in SQL"
            )
        places = {script.connection for script in found.scripts}
        if len(places) != 1:
            raise UntranslatableError(f"it has scripts on {len(places)} connections")
        # A job has no variables for the defaults of named parameters.
        names = self._variables(row, [row.job], replace(found, parameters={}))
        texts = [text for script in found.scripts for text in _texts(found, script, names)]
        if not texts:
            raise UntranslatableError("its scripts are empty")
        sql = texts[0] if len(texts) == 1 else texts
        connection = self.connection(places.pop(), found)
        step: Values = {"connection": connection, "sql": sql}
        if find_script_mistake(texts, find_backend(self.project.config.connections[connection])):
            step["transaction"] = False
        return self._build_step([step], row, names)

    def _variables(self, row: Transformation, jobs: Sequence[str], found: ktr.Ktr) -> "_Variables":
        return _Variables(row, jobs, found.parameters, self.project.config.variables)

    def _build_step(self, steps: list[Values], row: Transformation, names: "_Variables") -> KtrStep:
        """Return steps with their variables. Raises UntranslatableError for those without a value.

        A query with an unknown variable would make the whole project invalid.
        """
        if names.unknown:
            variables = ", ".join(names.unknown)
            raise UntranslatableError(
                f"the variables {variables} have no value; set them in `variables` of "
                "logdriven.yaml, and import again"
            )
        if names.used:
            given = ", ".join(f"{name}={value!r}" for name, value in names.used.items())
            reason = f"defaults of its named parameters, which a job may set to others: {given}"
            self.translation.note(row.place, f"{row.path}/{row.name}", reason)
        if not names.of_its_job:
            return KtrStep(steps, variables=names.used)
        reason = (
            f"{JOB_VARIABLE} is a parameter of the jobs {', '.join(names.jobs)}, without which the "
            "table cannot run; set it in variables, or run the table only in these jobs"
        )
        self.translation.leave(row.place, f"{row.path}/{row.name}", reason)
        return KtrStep(
            steps, (f"TODO: {reason}",), incomplete=True, variables=names.used, of_its_job=True
        )

    def connection(self, name: str, found: ktr.Ktr) -> str:
        """Return the project's connection for Kettle's, and note options that it had there."""
        database = ktr.find_database(found.databases, name)
        connection = self._find_connection(name, database)
        if database is not None and database.options:
            reason = (
                f"its options {', '.join(database.options)} are not imported; set those that "
                f"change values in the connection {connection}"
            )
            if all(note.reason != reason for note in self.translation.notes):
                self.translation.note(f"connection {database.name}", "its options", reason)
        return connection

    def _find_connection(self, name: str, database: ktr.Database | None) -> str:
        """Return the project's connection for Kettle's: by --map, its name, or its database."""
        ours = self.project.config.connections
        for wanted in (self.connections.get(name), name, identifier(name)):
            for known in ours:
                if wanted is not None and known.lower() == wanted.lower():
                    return known
        if database is None:
            raise UntranslatableError(f"connection {name!r} is not described in the file")
        for known, config in ours.items():
            if get_url(config) is not None and self._leads_to(known, database):
                return known
        raise UntranslatableError(
            f"unknown connection {name!r}: {database.kind} {database.database} on "
            f"{database.host}:{database.port}; add it to logdriven.yaml, or use --map "
            f"{name}=OURS"
        )

    def _leads_to(self, known: str, database: ktr.Database) -> bool:
        url = self.project.connection(known).url
        port = database.port or str(url.port or "")
        theirs = (database.host.lower(), port, database.database.lower())
        is_address = bool(database.host) and database.access.lower() in ("", "native")
        return is_address and theirs == (
            (url.host or "").lower(),
            str(url.port or port),
            (url.database or "").lower(),
        )


def _committing(scripts: list[Values]) -> Values:
    """Return a step that executes scripts, and publishes one row for each window."""
    return {
        "step": "load",
        "commit_before_read": scripts,
        "sql": "SELECT current_timestamp() AS executed_at",
        "target": {"type": "iceberg"},
    }


def _refuse_several(found: ktr.Ktr) -> tuple[ktr.Flow, ...]:
    """Return the only flow. Raises UntranslatableError for none or several."""
    if found.refused:
        raise UntranslatableError("; ".join(each.reason for each in found.refused))
    flows = found.flows
    if not flows:
        raise UntranslatableError("it has no table input and output, only scripts")
    if len(flows) > 1:
        inputs = len({each.step for flow in flows for each in flow.inputs})
        raise UntranslatableError(
            f"{inputs} inputs and {len(flows)} outputs; a table has only one output"
        )
    return flows


@dataclass(slots=True)
class _FlowSteps:
    """Builder of the steps of a flow with several inputs or with steps that change rows."""

    translator: Translator
    place: str
    """The file in remarks."""
    flow: ktr.Flow
    found: ktr.Ktr
    names: "_Variables"
    steps: list[Values] = field(default_factory=list)
    taken: set[str] = field(default_factory=lambda: {"load", "source"})
    relations: dict[str, str] = field(default_factory=dict)
    columns: dict[str, list[str] | None] = field(default_factory=dict)

    def build(self) -> list[Values]:
        """Return a step for each input, lookup and change of rows, and the last one to write."""
        rows = {each.name: each for each in self.flow.rows}
        orders = {}
        for origin in self.flow.inputs:
            loop = self._add_parameters(origin)
            source = self.translator.source(origin, self.found, self.names)
            limit = {"sql": f"SELECT * FROM source LIMIT {origin.limit}"} if origin.limit else {}
            self._add(origin.step, {**loop, "source": source, **limit})
            dialect = ktr.dialect_of(self.found, origin.connection)
            orders[origin.step] = find_order(source["query"], dialect)
            columns = find_columns(source["query"], dialect) or list(origin.columns)
            self.columns[origin.step] = columns or None
        for each in self.flow.rows:
            refuse_sorted_comparisons(each, rows)
            if each.kind == "RowGenerator":
                orders[each.name] = []  # its rows are equal
            read = {source: self._read(source, each.name, rows) for source in each.sources}
            if each.kind not in QUERIES:
                self.relations[each.name] = read[each.sources[0]]
                self.columns[each.name] = self.columns[each.sources[0]]
                continue
            ignores_case, unknown_key = False, 0
            if (lookup := each.lookup) is not None:
                ignores_case = self._look_up(lookup)
                read[lookup.step] = self.relations[lookup.step]
                if lookup.is_numbered_by_database:
                    kind = ktr.find_kind(self.found, lookup.connection)
                    unknown_key = find_unknown_key(each.name, kind)
            reading = Reading(read, orders, ignores_case, self.columns, unknown_key)
            self.columns[each.name] = list_fields(each, reading)
            self._add(each.name, {"sql": block(QUERIES[each.kind](each, reading, rows))})
            if each.kind == "Sequence" and not any(orders.values()):
                reason = (
                    "it numbers the rows in the order of all their columns, and Kettle as they "
                    "arrive; add ORDER BY to the query, so that rows keep their numbers"
                )
                self.translator.translation.note(self.place, each.name, reason)
        output = self.flow.output
        if output.dimension is not None:
            updates = output.dimension.updates
            compared = [field for field, column in output.fields if column in updates]
            refuse_sorted_texts(output.step, self.flow.last, compared, rows)
        relation = self._read(self.flow.last[0], output.step, rows)
        self.steps.append({"step": "load", "sql": self._write(relation)})
        return self.steps

    def _add_parameters(self, origin: ktr.Input) -> Values:
        """Add a step for the parameters of an input, and return the loop over its row."""
        given = origin.parameters
        if given is None:
            return {}
        query = self.translator.source(given, self.found, self.names)
        dialect = ktr.dialect_of(self.found, origin.connection)
        count = len(find_parameters(origin.step, origin.sql, dialect))
        known = find_columns(query["query"], ktr.dialect_of(self.found, given.connection))
        if not count or (known is not None and len(known) != count):
            raise UntranslatableError(
                f"{origin.step}: it has {count} parameters, and {given.step} has "
                f"{len(known or ())} columns; make them equal"
            )
        self._add(
            given.step,
            {
                "source": query,
                "sql": block(select_parameters(given.step, count, given.limit, dialect)),
            },
        )
        return {"loop_over": self.steps[-1]["step"]}

    def _write(self, relation: str) -> str:
        """Return the query of the output; adds a step for its own table if it looks rows up."""
        output = self.flow.output
        if not output.own_columns:
            return _columns(output, relation)
        name = f"{output.step} table"
        own = Lookup(
            name,
            output.connection,
            output.schema,
            output.table,
            output.own_columns,
            all_columns=output.dimension is not None,
        )
        ignores_case = self._look_up(own)
        if output.number_column:
            reason = (
                f"new rows get numbers of {output.number_column} in the order of their keys; "
                "Kettle numbers them as they arrive"
            )
            self.translator.translation.note(self.place, output.step, reason)
        found = self.relations[name]
        if output.dimension is None:
            return block(select_written(output, relation, found, ignores_case=ignores_case))
        kind = ktr.find_kind(self.found, output.connection)
        return block(select_versions(output, relation, found, kind=kind, ignores_case=ignores_case))

    def _add(self, name: str, values: Values) -> None:
        step = step_name(name, self.taken)
        self.taken.add(step.lower())
        self.relations[name] = quote(step)
        self.steps.append({"step": step, **values})

    def _read(self, source: str, consumer: str, rows: Mapping[str, RowStep]) -> str:
        relation = self.relations[source]
        condition = restrict(rows[source], consumer) if source in rows else None
        return relation if condition is None else f"(SELECT * FROM {relation} WHERE {condition})"

    def _look_up(self, lookup: Lookup) -> bool:
        """Add a step for the table of a lookup; returns True if texts are compared without case."""
        connection = self.translator.connection(lookup.connection, self.found)
        backend = find_backend(self.translator.project.config.connections[connection])
        parts = (self.names.replace(lookup.schema), self.names.replace(lookup.table))
        table = ktr.quote_names(lookup.step, parts, backend)
        for column in lookup.columns:
            ktr.quote_names(lookup.step, [column], backend)
            if re.fullmatch(r"[A-Za-z_]\w*", column) is None:
                raise UntranslatableError(
                    f"{lookup.step}: {column} must be quoted; write it in SQL"
                )
        columns = "*" if lookup.all_columns else ", ".join(lookup.columns)
        query = f"SELECT {columns} FROM {table}"
        source = {"type": "jdbc", "connection": connection, "query": query}
        self._add(lookup.step, {"source": source})
        return backend not in ("postgresql", "sqlite", "oracle")


class _Variables:
    """Kettle's variables in SQL: those of the guide have values, others are collected.

    The project's variables come before the defaults of named parameters.
    """

    def __init__(
        self,
        row: Transformation,
        jobs: Sequence[str],
        parameters: Mapping[str, str],
        ours: Container[str],
    ) -> None:
        self.jobs = jobs
        self.used: dict[str, str] = {}
        self._parameters, self._ours = parameters, ours
        self.of_its_job = False
        # The variables of the guide, which other jobs do not set.
        guide = {"KTR_NAME": row.name, "KTR_PATH": row.path, "TBL_NAME": row.table}
        self._known = {JOB_VARIABLE: jobs[0], **guide} if jobs else {}
        self.unknown: list[str] = []

    def replace(self, text: str) -> str:
        """Replace variables in a text. Raises UntranslatableError for characters as `$[…]`."""
        if hexadecimal := _HEXADECIMAL.search(text):
            raise UntranslatableError(
                f"{hexadecimal[0]} stands for characters by their numbers; write the characters"
            )
        return _VARIABLE.sub(self._value, text)

    def replace_in(self, origin: ktr.Script | ktr.Input, text: str) -> str:
        """Replace variables in a step's text. Raises UntranslatableError for a literal `${…}`."""
        if origin.has_variables:
            return self.replace(text)
        if "${" in text:
            raise UntranslatableError(
                f"{origin.step}: it does not replace variables, but ${{…}} is always a "
                "variable here"
            )
        return text

    def _value(self, match: re.Match[str]) -> str:
        name = match[1] or match[2] or ""
        if name == JOB_VARIABLE and len(self.jobs) > 1:
            self.of_its_job = True
            return f"${{{JOB_VARIABLE}}}"
        if name in self._known:
            return self._known[name]
        ours = identifier(name, otherwise="v")
        default = self._parameters.get(name, "${")
        if ours in self._ours:
            return f"${{{ours}}}"
        if not _VARIABLE.search(default) and "${" not in default:
            self.used[ours] = default
        elif ours not in self.unknown:
            self.unknown.append(ours)
        return f"${{{ours}}}"


def _texts(found: ktr.Ktr, script: ktr.Script, names: _Variables) -> list[str]:
    texts: Iterable[str] = ktr.statements(found, script.connection, script.sql)
    if script.is_one_statement:  # it may be a block, which has statements itself
        is_given = has_statements(script.sql, ktr.dialect_of(found, script.connection))
        texts = [script.sql.strip()] if is_given else []
    return [names.replace_in(script, block(text)) for text in texts]


def _query(found: ktr.Ktr, origin: ktr.Input) -> str:
    queries = list(ktr.statements(found, origin.connection, origin.sql))
    if len(queries) != 1:
        raise UntranslatableError(
            f"{origin.step}: {len(queries)} statements; only one query is allowed"
        )
    dialect = ktr.dialect_of(found, origin.connection)
    if origin.parameters is None and find_parameters(origin.step, queries[0], dialect):
        raise UntranslatableError(f"{origin.step}: its query has parameters")
    return block(queries[0])


def _renaming(origin: ktr.Input, output: Output) -> str | None:
    """Return a query over `source` for renamed fields and a limit, or None."""
    if not output.fields and not origin.limit:
        return None
    limit = f"\nLIMIT {origin.limit}" if origin.limit else ""
    return f"{_columns(output, 'source')}{limit}\n"


def _columns(output: Output, relation: str) -> str:
    """Return the query of an output: its columns, or all fields."""
    parts = [
        f"`{field}`" if field == column else f"`{field}` AS `{column}`"
        for field, column in output.fields
    ]
    return f"SELECT {', '.join(parts) or '*'}\nFROM {relation}"
