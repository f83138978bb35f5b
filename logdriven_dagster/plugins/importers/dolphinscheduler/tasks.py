"""Steps of tables from tasks: SQL, PROCEDURE, SHELL and PYTHON."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from logdriven_dagster.config.project import Project
from logdriven_dagster.plugins.importers.dolphinscheduler.definitions import Task, read_objects
from logdriven_dagster.plugins.importers.dolphinscheduler.placeholders import Placeholders
from logdriven_dagster.plugins.importers.drafts import Translation, UntranslatableError, Values
from logdriven_dagster.plugins.importers.sql_texts import is_query, split_statements
from logdriven_dagster.plugins.importers.yaml_text import block

_DIALECTS = {"MYSQL": "mysql", "POSTGRESQL": "postgres", "ORACLE": "oracle", "SQLSERVER": "tsql"}
_DIALECTS |= {"CLICKHOUSE": "clickhouse", "HIVE": "hive", "SPARK": "spark", "DORIS": "doris"}
_DIALECTS |= {"STARROCKS": "starrocks", "REDSHIFT": "redshift", "SNOWFLAKE": "snowflake"}
_DIALECTS |= {"PRESTO": "presto", "TRINO": "trino"}

_MODULE = '''\
{docstring}

import subprocess
{imports}from pathlib import Path
from tempfile import TemporaryDirectory

{errors}SCRIPT = {script}


def run(spark, window):
    """Run the script; another exit code than 0 fails the window."""
    script = SCRIPT
{replacements}    with TemporaryDirectory() as folder:
        file = Path(folder) / "script{suffix}"
        file.write_text(script, encoding="utf-8")
        ended = subprocess.run([{program}, str(file)], cwd=folder, stdin=subprocess.DEVNULL)
    if ended.returncode:
        raise {error}(f"the script ended with exit code {{ended.returncode}}")
    return spark.sql("SELECT 0 AS exit_code")
'''
_TRANSIENT = "from logdriven_dagster.errors import TransientStepError\n\n"


@dataclass(frozen=True, slots=True)
class TaskStep:
    """The step of a task, and the text of the Python file that it runs."""

    step: Values
    variables: Mapping[str, str] = field(default_factory=dict)
    python: str | None = None


@dataclass(frozen=True, slots=True)
class TaskTranslator:
    """Translator of tasks, which maps data sources by number to connections of the project."""

    project: Project
    connections: Mapping[str, str]
    translation: Translation

    def translate(self, task: Task, names: Placeholders, file: str, place: str) -> TaskStep:
        """Return the step of a task.

        `file` is the name of the Python file of a script, `place` the workflow in remarks. Raises
        UntranslatableError for a task without a counterpart.
        """
        self._refuse_other_settings(task)
        match task.kind:
            case "SQL":
                return self._sql(task, names, place)
            case "PROCEDURE":
                return self._procedure(task, names)
            case "SHELL" | "PYTHON":
                return self._script(task, names, file)
            case "SUB_PROCESS" | "SUB_WORKFLOW":
                raise UntranslatableError(
                    "it runs another workflow; name the last tables of that workflow in "
                    "depends_on of the tables after this one"
                )
            case _:
                raise UntranslatableError(
                    f"tasks of type {task.kind} have no counterpart; write a query or a Python step"
                )

    def _refuse_other_settings(self, task: Task) -> None:
        if task.text("taskExecuteType").upper() == "STREAM":
            raise UntranslatableError("it is a streaming task, which never ends")
        if resources := read_objects(task.parameters.get("resourceList"), "resourceList"):
            names = ", ".join(str(each.get("resourceName", each)) for each in resources)
            raise UntranslatableError(
                f"its resources are not in the export: {names}; put the files next to the table"
            )

    def _sql(self, task: Task, names: Placeholders, place: str) -> TaskStep:
        connection, dialect = self._connection(task)
        texts = {
            name: [
                statement
                for text in _list_texts(task.parameters.get(name))
                for statement in self._statements(text, dialect, names)
            ]
            for name in ("preStatements", "sql", "postStatements")
        }
        if str(task.parameters.get("sendEmail", "")).lower() == "true":
            reason = "the e-mail with the rows; read them in the table, or use notify"
            self.translation.leave(place, task.name, reason)
        if str(task.parameters.get("sqlType", "0")) != "0":
            return self._commit(
                [text for each in texts.values() for text in each], connection, names
            )
        if len(texts["sql"]) != 1 or texts["postStatements"]:
            raise UntranslatableError(
                "a query with several statements, or with statements after it; make a table of each"
            )
        if not is_query(texts["sql"][0], dialect):
            raise UntranslatableError(
                "it is a task of type query, and its statement is not a query; export it as "
                "non-query, or write the query of its rows"
            )
        reason = "the rows of its query become the table; DolphinScheduler only logs some of them"
        self.translation.note(place, task.name, reason)
        step: Values = {"step": "run"}
        if before := texts["preStatements"]:
            step["commit_before_read"] = [_committed(before, connection)]
        step["source"] = {"type": "jdbc", "connection": connection, "query": texts["sql"][0]}
        step["target"] = {"type": "iceberg"}
        return TaskStep(step, names.variables)

    def _procedure(self, task: Task, names: Placeholders) -> TaskStep:
        connection, _ = self._connection(task)
        method = str(task.parameters.get("method") or "").strip().rstrip(";").strip()
        if found := re.fullmatch(r"\{\s*(call\s.*)\}", method, re.IGNORECASE | re.DOTALL):
            method = found[1].strip()
        if not re.match(r"call\s", method, re.IGNORECASE):
            raise UntranslatableError("its method is not a CALL; write the statement in SQL")
        if "?" in method:
            raise UntranslatableError("its method has parameters by position; write their values")
        return self._commit([names.replace_in_sql(method)], connection, names)

    def _commit(self, texts: Sequence[str], connection: str, names: Placeholders) -> TaskStep:
        """Return a step that commits statements, and publishes one row for each window."""
        if not texts:
            raise UntranslatableError("it has no statements")
        step: Values = {
            "step": "run",
            "commit_before_read": [_committed(texts, connection)],
            "sql": "SELECT :data_range_start AS run_of",
            "target": {"type": "iceberg"},
        }
        return TaskStep(step, names.variables)

    def _statements(self, text: str, dialect: str | None, names: Placeholders) -> list[str]:
        return [block(names.replace_in_sql(each)) for each in split_statements(text, dialect)]

    def _script(self, task: Task, names: Placeholders, file: str) -> TaskStep:
        script = str(task.parameters.get("rawScript") or "").replace("\r\n", "\n")
        if not script.strip():
            raise UntranslatableError("its script is empty")
        is_shell = task.kind == "SHELL"
        replaced = names.replace_in_script(script)
        replacements = "".join(
            f"    script = script.replace({placeholder!r}, {expression})\n"
            for placeholder, expression in replaced.items()
        )
        imports = "" if is_shell else "import sys\n"
        if "timedelta(" in replacements:
            imports += "from datetime import timedelta\n"
        is_retried = task.number("failRetryTimes") > 0  # DolphinScheduler retries all failures
        text = _MODULE.format(
            docstring=f'"""DolphinScheduler task {task.code} of type {task.kind}."""',
            imports=imports,
            errors=_TRANSIENT if is_retried else "",
            script=_literal(script),
            replacements=replacements,
            suffix=".sh" if is_shell else ".py",
            program='"bash"' if is_shell else "sys.executable",
            error="TransientStepError" if is_retried else "RuntimeError",
        )
        step: Values = {"step": "run", "python": f"{file}:run", "target": {"type": "iceberg"}}
        return TaskStep(step, python=text)

    def _connection(self, task: Task) -> tuple[str, str | None]:
        """Return the project's connection for a data source, and sqlglot's name of its dialect."""
        number = str(task.parameters.get("datasource") or "")
        kind = str(task.parameters.get("type", "")).upper()
        ours = self.project.config.connections
        for name in (self.connections.get(number), number):
            if name in ours:
                return name, _DIALECTS.get(kind)
        if not number:
            raise UntranslatableError(
                f"it has no number of a data source ({kind or 'no type'}); write its statements "
                "with a connection of the project"
            )
        raise UntranslatableError(
            f"data source {number} ({kind}) is not in the export; use --map {number}=OURS with a "
            "connection of the project"
        )


def _committed(statements: Sequence[str], connection: str) -> Values:
    """Return statements that commit each by itself, as DolphinScheduler's connections do."""
    return {"connection": connection, "sql": list(statements), "transaction": False}


def _list_texts(value: object) -> list[str]:
    texts = value if isinstance(value, list) else [value]
    return [str(text) for text in texts if text is not None and str(text).strip()]


def _literal(script: str) -> str:
    """Return a script as a Python literal, which shows its lines if it can."""
    is_plain = all(each.isprintable() or each == "\n" for each in script)
    is_plain = is_plain and not any(each in script for each in ("\\", '"""'))
    return f'"""\\\n{script.rstrip()}\n"""' if is_plain else repr(script)
