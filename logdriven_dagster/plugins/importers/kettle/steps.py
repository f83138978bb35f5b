"""Steps from transformations of Kettle, or stubs that fail with the reason."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

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
from logdriven_dagster.plugins.importers.kettle.scripts import can_wait, deleting
from logdriven_dagster.plugins.importers.kettle.tables import Transformation
from logdriven_dagster.plugins.importers.naming import identifier
from logdriven_dagster.plugins.importers.yaml_text import block

JOB_VARIABLE = "KJB_NAME"
"""Kettle's variable for the name of the job that runs a transformation."""

_VARIABLE = re.compile(r"\$\{([^}]*)\}|%%([^%\s]+)%%")

_HEXADECIMAL = re.compile(r"\$\[[0-9A-Fa-f]{2}(,[0-9A-Fa-f]{2})*\]")


@dataclass(frozen=True, slots=True)
class KtrStep:
    """A step; `incomplete` for a stub or a step that refers to something unknown."""

    step: Values
    comments: tuple[str, ...] = ()
    incomplete: bool = False
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
            return self._load(row, found, jobs)
        except UntranslatableError as error:
            reason = str(error)
        self.translation.leave(row.place, f"{row.path}/{row.name}", reason)
        step = {"step": "load", "sql": stub_query(f"{row.name}: {reason}")}
        comment = f"TODO: {row.path}/{row.name} was not translated: {reason}"
        return KtrStep({**step, "target": {"type": "iceberg"}}, (comment,), incomplete=True)

    def maintenance_step(self, row: Transformation) -> KtrStep:
        """Return the action of a maintenance step, without its name and position."""
        try:
            found = self._read(row)
            return self._statements(row, found)
        except UntranslatableError as error:
            reason = str(error)
        self.translation.leave(row.place, f"{row.path}/{row.name}", reason)
        comment = f"TODO: {row.path}/{row.name} was not translated: {reason}"
        return KtrStep({"sql": stub_query(f"{row.name}: {reason}")}, (comment,), incomplete=True)

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

    def _load(self, row: Transformation, found: ktr.Ktr, jobs: Sequence[str]) -> KtrStep:
        if found.input is None or found.output is None:
            raise UntranslatableError("it has no table input and output, only scripts")
        names = _Variables(row, jobs)
        origin, output = found.input, found.output
        connection = self._connection(output.connection, found)
        backend = find_backend(self.project.config.connections[connection])
        target: Values = {
            "type": "jdbc",
            "connection": connection,
            "table": ktr.quote_names(names.replace_names(output), backend),
            "mode": "overwrite" if output.truncate else "append",
        }
        if output.key:
            target |= {"mode": "upsert", "key": list(output.key)}
        if target["mode"] == "append":
            target["existing_rows"] = "keep"  # as Kettle does
        source = {
            "type": "jdbc",
            "connection": self._connection(origin.connection, found),
            "query": names.replace_in(origin, _query(found, origin)),
        }
        scripts = self._scripts(row, found, source, target, names)
        step: Values = {"step": "load", **scripts, "source": source}
        if sql := _renaming(origin, output):
            step["sql"] = sql
        return self._build_step({**step, "target": target}, row, names)

    def _scripts(
        self,
        row: Transformation,
        found: ktr.Ktr,
        source: Values,
        target: Values,
        names: "_Variables",
    ) -> Values:
        """Return `commit_before_read` of the step; empty if its target has all scripts.

        Kettle runs scripts before it reads any row. Scripts that change only the target become part
        of the publication, so that readers never see the table without rows.
        """
        place = f"{row.path}/{row.name}"
        for script in found.scripts:
            if script.behind_output:
                reason = "it follows the output; Kettle executes it before the read, as here"
                self.translation.note(place, script.step, reason)
        scripts = [self._script(found, script, names) for script in found.scripts]
        scripts = [script for script in scripts if script["sql"]]
        if not scripts:
            return {}
        assert found.input is not None
        assert found.output is not None
        ends = (found.input.connection, found.output.connection)
        dialects = (ktr.dialect_of(found, end) for end in ends)
        if not can_wait(scripts, source, target, *dialects):
            if found.is_transactional:
                raise UntranslatableError(
                    "its steps share one transaction (unique_connections), but its scripts have "
                    "to be committed before the read; use a table of its own for their rows"
                )
            return {"commit_before_read": scripts}
        backend = find_backend(self.project.config.connections[target["connection"]])
        target["pre_sql"] = [deleting(sql, backend) for script in scripts for sql in script["sql"]]
        if source["connection"] == target["connection"]:
            reason = (
                f"its scripts change {target['table']} when the window is published; if the "
                "query reads this table through a view, move them to commit_before_read"
            )
            self.translation.note(place, "pre_sql", reason)
        return {}

    def _script(self, found: ktr.Ktr, script: ktr.Script, names: "_Variables") -> Values:
        connection = self._connection(script.connection, found)
        texts = _texts(found, script, names)
        backend = find_backend(self.project.config.connections[connection])
        alone = {"transaction": False} if find_script_mistake(texts, backend) else {}
        return {"connection": connection, "sql": texts, **alone}

    def _statements(self, row: Transformation, found: ktr.Ktr) -> KtrStep:
        if found.input is not None:
            raise UntranslatableError(
                "it copies rows from a table input to an output; rewrite it as a table or in SQL"
            )
        places = {script.connection for script in found.scripts}
        if len(places) != 1:
            raise UntranslatableError(f"it has scripts on {len(places)} connections")
        names = _Variables(row, [row.job])
        texts = [text for script in found.scripts for text in _texts(found, script, names)]
        if not texts:
            raise UntranslatableError("its scripts are empty")
        sql = texts[0] if len(texts) == 1 else texts
        connection = self._connection(places.pop(), found)
        step: Values = {"connection": connection, "sql": sql}
        if find_script_mistake(texts, find_backend(self.project.config.connections[connection])):
            step["transaction"] = False
        return self._build_step(step, row, names)

    def _build_step(self, step: Values, row: Transformation, names: "_Variables") -> KtrStep:
        reasons = []
        if names.unknown:
            variables = ", ".join(names.unknown)
            reasons.append(f"the variables {variables} are not set; set them in variables")
        if names.of_its_job:
            jobs = ", ".join(names.jobs)
            reasons.append(
                f"{JOB_VARIABLE} is a parameter of the jobs {jobs}, without which the table "
                "cannot run; set it in variables, or run the table only in these jobs"
            )
        for reason in reasons:
            self.translation.leave(row.place, f"{row.path}/{row.name}", reason)
        comments = tuple(f"TODO: {reason}" for reason in reasons)
        return KtrStep(step, comments, bool(reasons), names.of_its_job)

    def _connection(self, name: str, found: ktr.Ktr) -> str:
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


class _Variables:
    """Kettle's variables in SQL: those of the guide have values, others are collected."""

    def __init__(self, row: Transformation, jobs: Sequence[str]) -> None:
        self.jobs = jobs
        self.of_its_job = False
        self._known = {
            JOB_VARIABLE: jobs[0],
            "KTR_NAME": row.name,
            "KTR_PATH": row.path,
            "TBL_NAME": row.table,
        }
        self.unknown: list[str] = []

    def replace(self, text: str) -> str:
        """Replace variables in a text. Raises UntranslatableError for characters as `$[…]`."""
        if hexadecimal := _HEXADECIMAL.search(text):
            raise UntranslatableError(
                f"{hexadecimal[0]} stands for characters by their numbers; write the characters"
            )
        return _VARIABLE.sub(self._value, text)

    def replace_names(self, output: ktr.Output) -> ktr.Output:
        """Replace variables in the names of an output."""
        return replace(output, schema=self.replace(output.schema), table=self.replace(output.table))

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
        if ours not in self.unknown:
            self.unknown.append(ours)
        return f"${{{ours}}}"


def _texts(found: ktr.Ktr, script: ktr.Script, names: _Variables) -> list[str]:
    texts = ktr.statements(found, script.connection, script.sql)
    if script.is_one_statement:
        texts = iter([script.sql.strip()] if any(texts) else [])
    return [names.replace_in(script, block(text)) for text in texts]


def _query(found: ktr.Ktr, origin: ktr.Input) -> str:
    queries = list(ktr.statements(found, origin.connection, origin.sql))
    if len(queries) != 1:
        raise UntranslatableError(
            f"{origin.step}: {len(queries)} statements; only one query is allowed"
        )
    if re.search(r"(?<![?\w'\"])\?(?![?|&\w'\"])", queries[0]):
        raise UntranslatableError(f"{origin.step}: its query has parameters")
    return block(queries[0])


def _renaming(origin: ktr.Input, output: ktr.Output) -> str | None:
    """Return a query over `source` for renamed fields and a limit, or None."""
    if not output.fields and not origin.limit:
        return None
    parts = [
        f"`{field}`" if field == column else f"`{field}` AS `{column}`"
        for field, column in output.fields
    ]
    limit = f"\nLIMIT {origin.limit}" if origin.limit else ""
    return f"SELECT {', '.join(parts) or '*'}\nFROM source{limit}\n"
