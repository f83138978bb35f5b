"""Tables from a dbt project's manifest.

dbt rebuilds a table or view with each run; this becomes a table of type `full`. A microbatch model
becomes a table with windows of its batch size. A model with a part that cannot be translated
becomes a step that fails with the reason, in a table without a schedule.
"""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from logdriven_dagster.config.project import Project
from logdriven_dagster.plugins.importers import naming
from logdriven_dagster.plugins.importers.dbt import dialects, inputs, jinja, rules
from logdriven_dagster.plugins.importers.dbt.manifest import Manifest, Node, read_manifest
from logdriven_dagster.plugins.importers.dbt.models import (
    Schedule,
    Shape,
    get_shape,
    is_microbatch,
    with_windows,
)
from logdriven_dagster.plugins.importers.dbt.snapshots import get_history, refuse_absent_columns
from logdriven_dagster.plugins.importers.dbt.variables import Variables, read_variables
from logdriven_dagster.plugins.importers.drafts import (
    DraftFile,
    Translation,
    UntranslatableError,
    Values,
    table_path,
)
from logdriven_dagster.plugins.importers.yaml_text import block

_LAYOUT = ("partition_by", "cluster_by", "indexes", "sort", "dist", "file_format", "grants")
_OWNER = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+|team:\S+")
_SHOWN = 80
"""Length of a tag of Jinja in the error of a step."""
_OTHERS = {
    "unit_tests": "write it as a test of the table, as described in docs/plugins/table_tests.md",
}
_UTC = frozenset({"UTC", "Etc/UTC", "Etc/UCT", "UCT", "Zulu", "Etc/Zulu"})


@dataclass(frozen=True, slots=True)
class DbtRequest:
    """Arguments of `logdriven import-dbt`."""

    manifest: Path
    schedule: Schedule
    layer: str = "dbt"
    connections: Mapping[str, str] = field(default_factory=dict)
    """Project connection for each dbt source that is read from a database."""
    convert_sql: bool = False
    """True to convert SQL of other dialects by sqlglot."""


def import_dbt(project: Project, wish: DbtRequest) -> Translation:
    """Return drafts of all models, and of the sources and seeds that they read.

    Raises UsageError for a file that is not a supported manifest.
    """
    manifest = read_manifest(wish.manifest)
    work = _DbtImport(project, wish, manifest, Translation(), read_variables(manifest.project))
    work.name_tables()
    drafts = [work.draft(node) for node in work.tables()]
    found = rules.translate_tests(
        work.manifest, work.translated, work.names, work.translation, work.resolve_test
    )
    work.translation.drafts = [work.with_rules(draft, found) for draft in drafts]
    work.report_others()
    return work.translation


class _JinjaError(UntranslatableError):
    """Tags of Jinja that cannot be resolved, in the code of a model or of one that it reads."""

    def __init__(self, node: Node, problems: Sequence[jinja.Problem]) -> None:
        self.node, self.problems = node, problems
        first = problems[0]
        more = f" and {len(problems) - 1} more" if len(problems) > 1 else ""
        text = first.text if len(first.text) <= _SHOWN else f"{first.text[:_SHOWN]} …"
        super().__init__(f"{node.path}:{first.line}: {text}{more}: {first.reason}")


@dataclass(slots=True)
class _DbtImport:
    project: Project
    wish: DbtRequest
    manifest: Manifest
    translation: Translation
    variables: Variables
    names: dict[str, str] = field(default_factory=dict)
    """Table of each node that becomes one."""
    translated: dict[str, rules.TestedTable] = field(default_factory=dict)
    """Nodes whose table is not a stub."""
    nodes: dict[str, Node] = field(default_factory=dict)
    """Node of each table."""

    def tables(self) -> Iterator[Node]:
        """Yield the nodes that become tables."""
        readers = [*self.manifest.of_kind("model", "snapshot")]
        read = {name for node in readers for name in node.upstream}
        read |= {name for node in self.manifest.of_kind("test") for name in node.upstream}
        yield from (node for node in self.manifest.of_kind("source") if node.id in read)
        yield from self.manifest.of_kind("seed")
        yield from (node for node in readers if not node.is_ephemeral)

    def name_tables(self) -> None:
        """Give each table a name that is unique ignoring case."""
        taken: set[str] = set()
        for node in self.tables():
            text = f"{node.values.get('source_name')}.{node.name}" if node.kind == "source" else ""
            version = node.values.get("version")
            text = text or (f"{node.name}_v{version}" if version is not None else node.name)
            name = naming.distinct(naming.table_name(text, self.wish.layer), taken)
            taken.add(name.lower())
            self.names[node.id], self.nodes[name] = name, node

    def report_others(self) -> None:
        """Record each item that becomes no table by its name."""
        for kind, name, path in self.manifest.others:
            reason = _OTHERS.get(kind, "not translated")
            self.translation.leave(path, f"{kind}: {name}", reason)
        for node in self.manifest.of_kind("operation"):
            reason = "hooks of a project are not translated"
            self.translation.leave(node.path, node.name, reason)
        for node in self.manifest.of_kind("analysis"):
            self.translation.note(node.path, node.id, "dbt never runs an analysis")
        for node in self.manifest.of_kind("source"):
            if node.id not in self.names:
                self.translation.note(node.path, node.id, "no model or test reads it")

    def find_variable(self, of: Node, arguments: str) -> str:
        """Return the text of a `var()` in the code of a node. Raises LookupError."""
        (name, *defaults), _ = _parse_arguments(arguments)
        default = defaults[0] if defaults else None
        found = self.variables.find(str(of.values.get("package_name") or ""), name, default)
        reason = f"var {name} is {found!r} here; a value of `dbt run --vars` is not in the manifest"
        if all((each.item, each.reason) != (of.id, reason) for each in self.translation.notes):
            self.translation.note(of.path, of.id, reason)
        return found

    def draft(self, node: Node) -> DraftFile:
        """Return the draft of a node's table; a stub if its rows cannot be translated."""
        values: Values = {"table": self.names[node.id], **self._describe(node)}
        values |= self._times(node)
        origin = f"Made by `logdriven import-dbt` from {node.path or node.id}."
        path = table_path(values["table"])
        try:
            made = self._build(node)
        except UntranslatableError as error:
            values |= self._dependencies(node, None)
            self._leave(node, error)
            stub = DraftFile(path, values, origin).stub(f"{node.id}: {error}")
            return replace(stub, comments={"steps.load": _original(node, str(error))})
        values |= made.times
        if made.reviews:
            values["release_state"] = "offline"
        values |= self._dependencies(node, made)
        values["steps"] = made.steps
        columns = rules.declare_columns(node)
        if columns is not None:
            values = {"table": values.pop("table"), "columns": columns, **values}
        target = made.steps[-1]["target"]
        self.translated[node.id] = rules.TestedTable(node, columns, target, self.wish.convert_sql)
        comments = {"steps.load": [f"TODO: {review}" for review in made.reviews]}
        return DraftFile(path, values, origin, comments if made.reviews else {})

    def _leave(self, node: Node, error: UntranslatableError) -> None:
        """Record the reason of a stub: each tag of Jinja with its line, or the error."""
        if not isinstance(error, _JinjaError):
            self.translation.leave(node.path or node.id, node.id, str(error))
            return
        for problem in error.problems:
            place, item = f"{error.node.path}:{problem.line}", f"{node.id}: {problem.text}"
            self.translation.leave(place, item, problem.reason)

    def with_rules(self, draft: DraftFile, found: Mapping[str, rules.TableRules]) -> DraftFile:
        """Return the draft with the rules of its table, and the tables that they read."""
        node = self.nodes[draft.tables[0]]
        added = found.get(node.id)
        if added is None or node.id not in self.translated:
            return draft
        quality = {"columns": added.columns, "rows": added.rows}
        quality = {name: found for name, found in quality.items() if found}
        if not quality and not added.checks:
            return draft
        values = {**draft.values}
        depends = {each["table"]: each for each in values.get("depends_on", ())}
        for name in added.references:
            depends.setdefault(self.names[name], self._dependency(self.manifest.nodes[name]))
        *others, last = values.pop("steps")
        if depends:
            values["depends_on"] = list(depends.values())
        values["steps"] = [*others, {**last, "quality": quality} if quality else last]
        if added.checks:
            values["checks"] = added.checks
        return replace(draft, values=values)

    def resolve_test(self, test: Node, tested: Node) -> str:
        """Return the query of a singular test, in which `load` has the rows of the tested node."""
        return _ModelSteps(self, test).resolve_test(tested)

    def _describe(self, node: Node) -> Values:
        values: Values = {}
        if text := str(node.values.get("description") or "").strip():
            values["description"] = text.replace("${", "$ {")
        meta = {**(node.values.get("meta") or {}), **(node.config.get("meta") or {})}
        group = self.manifest.groups.get(f"group.{node.values.get('package_name')}.{_group(node)}")
        given = [meta.get("owner"), meta.get("owners"), (group or {}).get("owner")]
        owners = list(dict.fromkeys(_texts(given)))
        if known := [owner for owner in owners if _OWNER.fullmatch(owner)]:
            values["owners"] = known
        for owner in owners:
            if owner not in known:
                reason = "owners are email addresses or team:name"
                self.translation.note(node.path, f"{node.name}: owner {owner}", reason)
        if others := sorted({*map(str, meta)} - {"owner", "owners", "external_location"}):
            reason = "meta is not imported; use `tags`"
            self.translation.note(node.path, f"{node.id}: meta {', '.join(others)}", reason)
        if tags := [*_texts(node.values.get("tags")), *_texts(node.config.get("tags"))]:
            values["tags"] = dict.fromkeys(tags, "")
        return values

    def _times(self, node: Node) -> Values:
        """Return the times of a snapshot, as often as the shortest window that reads it."""
        values = self.wish.schedule.snapshots
        if any(self._is_hourly(each) and node.id in ancestors for each, ancestors in self._reads()):
            values["period"] = "1 hour"
        return values

    def _reads(self) -> Iterator[tuple[Node, set[str]]]:
        for node in self.manifest.of_kind("model"):
            if is_microbatch(node):
                yield node, self.manifest.find_ancestors(node)

    @staticmethod
    def _is_hourly(node: Node) -> bool:
        return str(node.config.get("batch_size")).lower() == "hour"

    def _build(self, node: Node) -> "_Made":
        if node.kind in ("model", "snapshot"):
            return _ModelSteps(self, node).build()
        if node.kind == "source":
            if _has_freshness(node):
                reason = "its freshness is not checked here; use `freshness` of the table"
                self.translation.note(node.path, node.id, reason)
            read = {"source": inputs.read_source(node, self.manifest, self.wish.connections)}
        else:
            read = inputs.read_seed(node, self.manifest, self.project)
        target = {"type": "iceberg", "mode": "overwrite"}
        return _Made([{"step": "load", **read, "target": target}])

    def _dependencies(self, node: Node, made: "_Made | None") -> Values:
        """Return `depends_on`: the tables that a node reads, also through ephemeral models."""
        read = self.list_read(node) if made is None else made.read
        depends = {self.names[each.id]: self._dependency(each) for each in read}
        return {"depends_on": list(depends.values())} if depends else {}

    def list_read(self, node: Node) -> list[Node]:
        """Return the nodes with a table that a node reads, also through ephemeral models."""
        found: dict[str, Node] = {}
        for each in self.manifest.list_upstream(node):
            through = self.list_read(each) if each.is_ephemeral else [each]
            found |= {one.id: one for one in through if one.id in self.names}
        return list(found.values())

    def _dependency(self, upstream: Node) -> Values:
        """Return an entry of `depends_on` in which the name means all rows, as in dbt."""
        name = self.names[upstream.id]
        if self.is_snapshot(upstream):
            return {"table": name, "window": "newest"}
        return {"table": name, "window": "ended", "read": "all"}

    def is_snapshot(self, node: Node) -> bool:
        """Return True if the table of a node has the type `full`."""
        if node.kind != "model" or node.materialized != "incremental":
            return True
        try:
            return bool(_ModelSteps(self, node).find_shape().times["incremental_type"] == "full")
        except UntranslatableError:
            return True


@dataclass(slots=True)
class _Made:
    """Steps of a table."""

    steps: list[Values]
    times: Values = field(default_factory=dict)
    read: Sequence[Node] = ()
    reviews: list[str] = field(default_factory=list)
    """Reasons why the table has no schedule until it is reviewed."""


class _ModelSteps:
    """Steps of a model: the ephemeral models that it reads, then its own query."""

    def __init__(self, work: _DbtImport, node: Node) -> None:
        self._work, self._node = work, node
        self._steps: dict[str, Values] = {}
        self._read: dict[str, Node] = {}
        self._converted = False

    def find_shape(self) -> Shape:
        """Return windows and target of the model. Raises UntranslatableError."""
        return self._resolve()[0]

    def build(self) -> _Made:
        """Return the steps of the model. Raises UntranslatableError."""
        work, node = self._work, self._node
        shape, sql = self._resolve()
        for note in shape.notes:
            work.translation.note(node.path, node.id, note)
        layout = [key for key in _LAYOUT if node.config.get(key)]
        if layout:
            reason = "the layout of files and the grants of the warehouse are not imported"
            work.translation.note(node.path, f"{node.id}: {', '.join(layout)}", reason)
        changed = str(node.config.get("on_schema_change") or "ignore")
        if node.materialized == "incremental" and changed in ("sync_all_columns", "fail"):
            reason = (
                "here a new column is added, and a removed one fails the window; "
                "`missing_columns: allow` fills it with NULL"
            )
            work.translation.note(node.path, f"{node.id}: on_schema_change: {changed}", reason)
        if (node.config.get("freshness") or {}).get("build_after"):
            reason = "it builds as often as its period says; set `period` and `freshness`"
            work.translation.note(node.path, f"{node.id}: freshness.build_after", reason)
        times = dict(shape.times)
        if times["incremental_type"] == "full":
            times = {}
        load = {"step": "load", "sql": block(sql), "target": shape.target}
        steps = [*self._steps.values(), load]
        return _Made(steps, times, list(self._read.values()), self._list_reviews(shape))

    def _list_reviews(self, shape: Shape) -> list[str]:
        node, work = self._node, self._work
        found = []
        if self._converted:
            found.append(
                f"its SQL was converted from {work.manifest.adapter} by sqlglot; compare its "
                "results, such as divisions, times and sorted NULLs"
            )
        if shape.is_microbatch and not self._is_utc():
            found.append(
                "dbt's batches are in UTC, and the windows of this project are in "
                f"{work.project.zone}; set `timezone: UTC` in logdriven.yaml"
            )
        found += [shape.review] if shape.review else []
        found += [
            f"its {key} is not translated; write it as `pre_sql` or as a step"
            for key in ("pre-hook", "post-hook")
            if node.config.get(key)
        ]
        for reason in found:
            work.translation.leave(node.path, node.id, reason)
        return found

    def _is_utc(self) -> bool:
        return str(self._work.project.zone) in _UTC

    def _resolve(self) -> tuple[Shape, str]:
        work, node = self._work, self._node
        self._steps, self._read = {}, {}
        if node.kind == "snapshot":
            shape = get_history(node, work.wish.schedule)
        else:
            shape = get_shape(node, work.manifest.adapter, work.wish.schedule)
        resolved = self._resolve_code(node, shape.incremental, node)
        filtered = ":data_range_start" in dialects.without_texts(resolved.sql)
        if shape.is_microbatch and not filtered:
            raise UntranslatableError(
                "no model or source that it reads has event_time, so each batch reads all rows; "
                "set event_time there"
            )
        if resolved.window_column:
            if not filtered:
                raise UntranslatableError("its is_incremental() begins in a comment; move it")
            shape = with_windows(shape, work.wish.schedule)
        return shape, self._in_spark(resolved.sql)

    def _resolve_code(self, node: Node, incremental: jinja.Incremental, of: Node) -> jinja.Resolved:
        def find(function: str, arguments: str) -> str:
            return self._find(of, function, arguments)

        code = str(node.values.get("raw_code") or "")
        refuse_absent_columns(code, self._work.list_read(node))
        resolved = jinja.resolve(code.replace("\r\n", "\n"), find, incremental)
        if not resolved.problems:
            return resolved
        raise _JinjaError(node, resolved.problems)

    def resolve_test(self, tested: Node) -> str:
        """Return the query of a singular test. Raises UntranslatableError."""
        work, test = self._work, self._node

        def find(function: str, arguments: str) -> str:
            if function == "var":
                return work.find_variable(test, arguments)
            upstream = self._choose(test, function.removesuffix(".render()"), arguments)
            if upstream.is_ephemeral:
                raise LookupError("it reads an ephemeral model; write its query into the test")
            return "load" if upstream.id == tested.id else work.names[upstream.id]

        code = str(test.values.get("raw_code") or "")
        refuse_absent_columns(code, work.list_read(test))
        resolved = jinja.resolve(code.replace("\r\n", "\n"), find, "never")
        if resolved.problems:
            raise _JinjaError(test, resolved.problems)
        sql = self._in_spark(resolved.sql)
        if self._converted:
            reason = "its SQL was converted by sqlglot; compare its results"
            work.translation.note(test.path, f"test {test.name}", reason)
        return block(sql)

    def _in_spark(self, sql: str) -> str:
        work = self._work
        found, converted = dialects.as_spark(
            sql, work.manifest.adapter, convert=work.wish.convert_sql
        )
        self._converted = self._converted or converted
        return found

    def _find(self, of: Node, function: str, arguments: str) -> str:
        """Return the SQL for a `ref`, `source` or `var` in the code of a node."""
        if function == "var":
            return self._work.find_variable(of, arguments)
        upstream = self._choose(of, function.removesuffix(".render()"), arguments)
        if upstream.is_ephemeral:
            name = self._add_ephemeral(upstream)
        else:
            name = self._work.names[upstream.id]
            self._read[upstream.id] = upstream
        if of is not self._node or not is_microbatch(of) or function.endswith(".render()"):
            return name
        column = upstream.event_time
        if column is None:
            return name
        condition = f"{column} >= :data_range_start AND {column} < :data_range_end"
        return f"(SELECT * FROM {name} WHERE {condition})"  # noqa: S608 - the text of a file

    def _choose(self, of: Node, function: str, arguments: str) -> Node:
        given, version = _parse_arguments(arguments)
        found = [
            each
            for each in self._work.manifest.list_upstream(of)
            if _is_named(each, function, given, version)
        ]
        if len(found) != 1:
            raise LookupError(f"{len(found)} of the nodes in depends_on match it")
        if not found[0].is_ephemeral and found[0].id not in self._work.names:
            raise LookupError(f"{found[0].id} is not a table")
        return found[0]

    def _add_ephemeral(self, node: Node) -> str:
        """Add the step of an ephemeral model, and return its name."""
        if node.id not in self._steps:
            resolved = self._resolve_code(node, "never", node)
            taken = {values["step"].lower() for values in self._steps.values()}
            name = naming.step_name(f"ephemeral_{node.name}", taken)
            self._steps[node.id] = {"step": name, "sql": block(self._in_spark(resolved.sql))}
        return str(self._steps[node.id]["step"])


def _parse_arguments(text: str) -> tuple[list[str], str | None]:
    """Return the constants of a call, and its `v` or `version`. Raises LookupError for others."""
    try:
        call = ast.parse(f"f({text.strip()})", mode="eval").body
        if not isinstance(call, ast.Call):
            raise LookupError("its arguments are not constants")
        given = [str(ast.literal_eval(value)) for value in call.args]
        named = {each.arg: str(ast.literal_eval(each.value)) for each in call.keywords}
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise LookupError("its arguments are not constants") from None
    if not given or set(named) - {"v", "version"}:
        raise LookupError("its arguments are not constants")
    return given, named.get("v") or named.get("version")


def _is_named(node: Node, function: str, given: Sequence[str], version: str | None) -> bool:
    """Return True if the arguments of `ref` or `source` name a node."""
    if function == "source":
        return node.kind == "source" and list(given) == [node.values["source_name"], node.name]
    if node.kind not in ("model", "seed", "snapshot"):
        return False
    package = given[0] if len(given) > 1 else None
    same = package is None or package == node.values.get("package_name")
    right = version is None or version == str(node.values.get("version"))
    return same and right and given[-1] == node.name


def _has_freshness(node: Node) -> bool:
    given = node.values.get("freshness") or node.config.get("freshness") or {}
    limits = (given.get("warn_after"), given.get("error_after"))
    return any((limit or {}).get("count") for limit in limits)


def _group(node: Node) -> object:
    return node.config.get("group") or node.values.get("group")


def _texts(given: object) -> Iterator[str]:
    """Yield the texts in a text, a list of them, or the `owner` of a group."""
    if isinstance(given, str):
        yield given
    elif isinstance(given, dict):
        yield from _texts(given.get("email") or given.get("name"))
    elif isinstance(given, list):
        for each in given:
            yield from _texts(each)


def _original(node: Node, reason: str) -> list[str]:
    """Return the comments of a stub: the reason, then the code of the model."""
    code = str(node.values.get("raw_code") or "").replace("\r\n", "\n").strip("\n")
    lines = [f"TODO: {node.id} was not translated: {reason}"]
    return [*lines, *(f"    {line}" for line in code.split("\n"))] if code.strip() else lines
