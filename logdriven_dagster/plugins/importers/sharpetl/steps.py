"""Translation of the steps of a Sharp ETL workflow."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from logdriven_dagster.config.sql.references import (
    UnreadableSqlError,
    find_named_tables,
    parse_query,
    replace_tables,
)
from logdriven_dagster.plugins.importers.drafts import UntranslatableError, Values, stub_query
from logdriven_dagster.plugins.importers.naming import step_name
from logdriven_dagster.plugins.importers.sharpetl.context import (
    Context,
    WorkflowStep,
    original,
)
from logdriven_dagster.plugins.importers.sharpetl.ddl import (
    convert_to_declared,
    find_created,
    find_replacement,
)
from logdriven_dagster.plugins.importers.sharpetl.dimensions import load_by_key, loads_by_key
from logdriven_dagster.plugins.importers.sharpetl.histories import (
    find_merge_reader,
    merge_rows,
    merges_rows,
)
from logdriven_dagster.plugins.importers.sharpetl.http import Requests, select_address
from logdriven_dagster.plugins.importers.sharpetl.parser import Step
from logdriven_dagster.plugins.importers.sharpetl.quality import quality
from logdriven_dagster.plugins.importers.sharpetl.sources import (
    JDBC,
    SPARK,
    explain_unread,
    read_from,
)
from logdriven_dagster.plugins.importers.sharpetl.targets import (
    find_moved_tables,
    find_unknown_overwrite,
    write_to,
)
from logdriven_dagster.plugins.importers.sharpetl.variables import (
    NoVariablesError,
    VariablesOfRowsError,
    list_names,
)
from logdriven_dagster.plugins.importers.yaml_text import block

_KNOWN = frozenset({"writeMode", "skipFollowStepWhenEmpty", "throwExceptionIfEmpty", "loopOver"})
_DEPENDENCY_CHECK = frozenset({"className", "methodName", "transformerType", "dependencies"})
_BOUNDS = frozenset({"lowerBound", "upperBound"})
_SPARK_TYPES = frozenset({"kafka"})


@dataclass(slots=True)
class Steps:
    """The steps of a table, with facts collected during translation."""

    context: Context
    requests: Requests
    steps: list[Values] = field(default_factory=list)
    checks: list[Values] = field(default_factory=list)
    comments: dict[str, list[str]] = field(default_factory=dict)
    incomplete: bool = False
    """True if a part is missing without which the table cannot replace the workflow."""

    def add(self, step: Step) -> None:
        """Translate one step; an untranslatable step becomes a stub that fails, and is recorded."""
        self._list(step)
        workflow = self.context.workflow
        reason = find_merge_reader(workflow, step) or find_replacement(workflow, step)
        if (
            reason is None
            and step.target.kind == "console"
            and find_moved_tables(self.context, step)
        ):
            reason = (
                "the step is left out: it only shows rows of a table that is one of the project now"
            )
        if reason:
            self.context.note(step.line, f"step {step.name}", reason)
            return
        if step.target.kind == "variables":
            self.context.leave_unknown(step.target.headers.values(), (), "target variables")
            self._define(step)
            return
        if step.source.get("className").endswith("JobDependencyCheckTransformer"):
            known = _DEPENDENCY_CHECK
            self.context.leave_unknown(step.source.headers.values(), known, "such a step")
            return  # its tables are among depends_on
        name = self._name(step)
        try:
            made = self._build_step(step, name)
        except UntranslatableError as error:
            made = self._stub(step, str(error))
        self._append(step, name, made)
        if step.target.kind == "temp" and step.target.get("tableName"):
            self.context.temps[_temp(self.context, step).lower()] = name

    def list_catalog_tables(self) -> list[str]:
        """Return the tables of Spark's catalog that queries read, which another system fills."""
        own = {str(values["step"]).lower() for values in self.steps} | {"source"}
        found: dict[str, str] = {}
        for values in self.steps:
            try:
                names = find_named_tables(parse_query(str(values.get("sql") or "SELECT 1")))
            except UnreadableSqlError:
                continue
            for name, _ in names:
                if name.lower() not in own and re.fullmatch(r"\w+(\.\w+)?", name):
                    found.setdefault(name.lower(), name)
        return list(found.values())

    def _append(self, step: Step, name: str, made: WorkflowStep) -> Values:
        """Add a translated step, and return its fields."""
        values: Values = {"step": name}
        if made.source is not None:
            values["source"] = made.source
        if made.sql is not None:
            values["sql"] = block(self._rename_tables(made.sql))
        values |= made.extra
        if made.target is not None:
            values["target"] = self._wrap_query(values, made.target)
        self._finish(step, values)
        self.steps.append(values)
        self.comments[f"steps.{name}"] = made.comments
        return values

    def _build_step(self, step: Step, name: str) -> WorkflowStep:
        if step.source.kind == "http":
            made = self._request(step, name)
            made.target = write_to(self.context, step)
            return made
        if loads_by_key(step):
            made, difference = load_by_key(self.context, step)
            self._review(step.line, "JdbcLoadTransformer", difference, made)
            return made
        if merges_rows(step):
            made, differences = merge_rows(self.context, step)
            for difference in differences:
                self._review(step.line, f"step {step.name}", difference, made)
            self.checks += made.checks
            return made
        made = read_from(self.context, step)
        made.target = write_to(self.context, step)
        if not (made.source or made.sql):
            raise UntranslatableError("it has no source")
        if created := find_created(self.context.workflow, step):
            made.sql = convert_to_declared(made.sql, created)
        if reason := find_moved_tables(self.context, step):
            self._review(step.line, f"step {step.name}", reason, made)
        if reason := find_unknown_overwrite(self.context, step):
            self._review(step.headers["writeMode"].line, "writeMode=overwrite", reason, made)
        return made

    def _request(self, step: Step, name: str) -> WorkflowStep:
        """Add a step with the addresses of a step, and return one that requests them."""
        sql = select_address(self.context, step.source)
        taken = {values["step"].lower() for values in self.steps} | {"source", name.lower()}
        values: Values = {"step": step_name(f"{name}_url", taken), "sql": block(sql)}
        self._loop(step, values)
        self._note_unknown(step, values)
        self.steps.append(values)
        function = self.requests.add(step.source, name, values["step"])
        reason = f"{self.requests.file} requests the address; review it"
        self.context.note(step.source.line, "source=http", reason)
        return WorkflowStep(extra={"python": function})

    def _review(self, line: int, item: str, reason: str, made: WorkflowStep) -> None:
        """Record a difference that must be reviewed before the table can replace the workflow."""
        self.incomplete = True
        self.context.leave(line, item, reason)
        made.comments.append(f"TODO: {reason}")

    def _stub(self, step: Step, reason: str) -> WorkflowStep:
        self.incomplete = True
        self.context.leave(step.line, f"step {step.name}", reason)
        comments = [f"TODO: step {step.name} was not translated: {reason}"]
        comments += original(step)
        return WorkflowStep(sql=stub_query(f"step {step.name}: {reason}"), comments=comments)

    def _define(self, step: Step) -> None:
        if self.context.kind == "auto_inc_id" and all(f"`{b}`" in step.sql for b in _BOUNDS):
            return  # a key_column determines the newest key itself
        problem = f"into variables: {explain_unread(step.source.kind)}"
        if step.source.kind == "http":
            try:
                self._define_by_response(step)
                return
            except (NoVariablesError, UntranslatableError) as error:
                problem = str(error)
        if step.source.kind in SPARK | JDBC:
            try:
                self.context.variables.define(step.sql)
                return
            except VariablesOfRowsError:
                try:
                    self._define_by_rows(step)
                    return
                except (NoVariablesError, UntranslatableError) as error:
                    problem = str(error)
            except NoVariablesError as error:
                problem = str(error)
        self.incomplete = True
        self.context.leave(step.line, f"step {step.name}, target=variables", problem)

    def _define_by_response(self, step: Step) -> None:
        """Add steps that request an address, for steps that use the text of the response."""
        name = step_name(
            f"variables_{step.name}", {values["step"].lower() for values in self.steps}
        )
        values = self._append(step, name, self._request(step, name))
        self.context.variables.define_by_rows(
            [step.source.get("fieldName", "value")], values["step"]
        )

    def _define_by_rows(self, step: Step) -> None:
        """Add a step that reads the first row, as Sharp ETL does, for steps that use its values."""
        names = list_names(step.sql)
        for name in names:
            if self._is_sql(step, name):
                raise NoVariablesError(
                    f"{name} is a text of SQL, and no value of a row becomes a part of a query "
                    "here; write the condition in the query that uses it"
                )
        made = read_from(self.context, step)
        if made.source is None:
            made.sql = f"SELECT * FROM (\n{made.sql}\n)\nLIMIT 1"  # noqa: S608 - the text of a file
        else:
            made.sql = "SELECT * FROM source LIMIT 1"
        taken = {values["step"].lower() for values in self.steps} | {"source"}
        values = self._append(step, step_name(f"variables_{step.name}", taken), made)
        self.context.variables.define_by_rows(names, values["step"])
        reason = (
            f"step {values['step']} reads the row; without one, or with NULL, the window fails, "
            "where Sharp ETL keeps an older value or writes null; times have no `.0` at their end"
        )
        self.context.note(step.line, f"{', '.join(names)} of a row", reason)

    def _is_sql(self, step: Step, name: str) -> bool:
        """Return True if a value with blanks is used outside of quotes, so that it is SQL."""
        if not re.search(r"'[^']*\s[^']*'", step.sql):
            return False
        bare = re.compile(rf"(?<!['\"])\$\{{{re.escape(name)}\}}")
        return any(bare.search(each.sql) for each in self.context.workflow.steps)

    def _name(self, step: Step) -> str:
        """Return a temporary table's name, so that queries can still read it, or the step's."""
        taken = {values["step"].lower() for values in self.steps} | {"source"}
        wanted = _temp(self.context, step) if step.target.kind == "temp" else ""
        wanted = wanted or (f"step_{step.name}" if step.name[:1].isdigit() else step.name)
        return step_name(wanted, taken)

    def _rename_tables(self, sql: str) -> str:
        """Replace temporary tables in a query by the names of the steps that produce them."""
        views = {t: s for t, s in self.context.temps.items() if t != s.lower()}
        try:
            return replace_tables(sql, views) if views else sql
        except UnreadableSqlError:
            return sql

    def _wrap_query(self, values: Values, target: Values) -> Values:
        """Wrap a query for Kafka: one message for each row, with its columns as JSON."""
        if target["type"] in _SPARK_TYPES:
            inner = str(values.get("sql", "SELECT * FROM source")).strip()
            values["sql"] = f"SELECT to_json(struct(*)) AS value\nFROM (\n{inner}\n)\n"
        return target

    def _list(self, step: Step) -> None:
        """Record settings of a step without a counterpart, outside its source and target."""
        self.context.leave_unknown(step.headers.values(), _KNOWN, "a step")
        for header in step.conf:
            text = f"conf {header.key}={header.value}"
            reason = "settings of Spark are the project's: spark.config in logdriven.yaml"
            self.context.leave(header.line, text, reason)

    def _finish(self, step: Step, values: Values) -> None:
        if "python" not in values:  # the step of its addresses runs for each row
            self._loop(step, values)
        self._empty(step, values)
        rules = quality(self.context, step)
        if rules and "target" in values:
            values["quality"] = rules
        elif rules:
            line = min(header.line for header in step.source.options.values())
            self.context.leave(line, "quality rules", "only the rows of a target can have them")
        self._note_unknown(step, values)

    def _note_unknown(self, step: Step, values: Values) -> None:
        """Record the variables of a step that are not set here."""
        text = " ".join(_list_texts(values)).replace("${row_", "${env:")
        if unknown := self.context.variables.unknown(text):
            self.incomplete = True
            names = ", ".join(f"${{{name}}}" for name in unknown)
            self.context.leave(step.line, f"step {step.name}", f"{names} are not set here")

    def _loop(self, step: Step, values: Values) -> None:
        """Set the rows for which a step runs: those of `loopOver`, and those with its variables."""
        used = self.context.variables.find_row_values(" ".join(_list_texts(values)))
        every = "loopOver" in step.headers
        if every:
            over = step.headers["loopOver"].value.strip("`'\"")
            values["loop_over"] = self.context.temps.get(over.lower(), over)
            if used:
                self.incomplete = True
                reason = f"{', '.join(used)} are of another row; add them to the rows of {over}"
                self.context.leave(step.headers["loopOver"].line, f"loopOver={over}", reason)
        elif used:
            values["loop_over"] = _row_of(used)
        else:
            return
        for name in ("sql", "source"):
            if name in values:
                values[name] = self._rows(values[name], every=every)

    def _rows(self, value: object, *, every: bool) -> object:
        """Replace variables of rows by columns of the row for which a step runs.

        `every` includes all undefined variables, which are columns of the rows of `loopOver`.
        """
        if isinstance(value, dict):
            return {key: self._rows(part, every=every) for key, part in value.items()}
        if not isinstance(value, str):
            return value
        for name in self.context.variables.unknown(value):
            if re.fullmatch(r"\w+", name) and (every or name in self.context.variables.of_rows):
                value = value.replace(f"${{{name}}}", f"${{row_{name}}}")
        return value

    def _empty(self, step: Step, values: Values) -> None:
        of_files = self.context.kind == "files" and "source" in values
        if step.is_true("skipFollowStepWhenEmpty") and not of_files:
            if "target" in values:
                values["on_empty"] = "skip_following_steps"
            else:
                line = step.headers["skipFollowStepWhenEmpty"].line
                reason = "only written rows are counted, and the step has no target"
                self.context.leave(line, "skipFollowStepWhenEmpty", reason)
        if step.is_true("throwExceptionIfEmpty") and not of_files:
            check = step_name(f"{values['step']}_is_not_empty")
            found = f"SELECT 1 FROM {values['step']}"  # noqa: S608 - a valid name
            sql = f"SELECT 'no rows' AS problem WHERE NOT EXISTS ({found})"
            self.checks.append({"check": check, "sql": sql})


def _list_texts(values: Values) -> list[str]:
    """Return the texts of a step's query and source, which may contain variables."""
    return [values.get("sql", ""), *map(str, (values.get("source") or {}).values())]


def _row_of(used: Mapping[str, str]) -> str | Values:
    """Return the row with values of one or several steps, by the names of the values."""
    steps = list(dict.fromkeys(used.values()))
    if len(steps) == 1:
        return steps[0]
    columns = ", ".join(f"{step}.`{name}`" for name, step in used.items())
    joined = " CROSS JOIN ".join(steps)
    return {"sql": f"SELECT {columns} FROM {joined}"}  # noqa: S608 - names of steps and columns


def _temp(context: Context, step: Step) -> str:
    """Return a temporary table's name, without quotes and with constants replaced."""
    return context.variables.constant(step.target.get("tableName").strip("`'\""))
