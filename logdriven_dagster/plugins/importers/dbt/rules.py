"""Quality rules from dbt's generic tests and the constraints of its contracts.

A test of severity `error` becomes a blocking rule: one bad row stops the publication, and no row is
removed. With severity `warn`, bad rows are counted and written, as in dbt.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from logdriven_dagster.plugins.importers.dbt.dialects import SPARK_TYPE
from logdriven_dagster.plugins.importers.dbt.manifest import Manifest, Node
from logdriven_dagster.plugins.importers.drafts import Translation, UntranslatableError, Values

_CHECK = "write it as a query in `checks` of the table"
_DEFAULTS: Mapping[str, object] = {
    "error_if": "!= 0",
    "warn_if": "!= 0",
    "fail_calc": "count(*)",
    "where": None,
    "limit": None,
}


@dataclass(slots=True)
class TableRules:
    """Rules of a table, by column."""

    columns: dict[str, list[object]] = field(default_factory=dict)
    references: list[str] = field(default_factory=list)
    """Identifiers of the nodes that `references` rules read."""

    def add(self, column: str, rule: Values) -> None:
        """Add a rule that the column does not have yet."""
        rules = self.columns.setdefault(column, [])
        if rule not in rules:
            rules.append(rule)


@dataclass(frozen=True, slots=True)
class TestedTable:
    """A translated table whose tests become rules."""

    node: Node
    columns: str | None
    """Columns that the table declares, or None if its contract cannot be enforced."""
    target: Values
    """Its target; `unique` compares all rows only if a window replaces them all."""


def translate_tests(
    manifest: Manifest,
    tables: Mapping[str, TestedTable],
    names: Mapping[str, str],
    translation: Translation,
) -> dict[str, TableRules]:
    """Return the rules of each translated table; tests without a rule are recorded.

    `names` are the tables of all nodes that have one.
    """
    found: dict[str, TableRules] = {}
    for test in manifest.of_kind("test"):
        try:
            table = _find_table(test, tables)
            rules = found.setdefault(table.node.id, TableRules())
            _add_rule(manifest, test, table, names, rules)
        except UntranslatableError as error:
            translation.leave(test.path, f"test {test.name}", str(error))
    for table in tables.values():
        _add_constraints(table, found.setdefault(table.node.id, TableRules()), translation)
    return found


def _find_table(test: Node, tables: Mapping[str, TestedTable]) -> TestedTable:
    metadata = test.values.get("test_metadata")
    if not metadata:
        raise UntranslatableError(f"it is a query; {_CHECK}")
    attached = test.values.get("attached_node")
    if attached is None and len(test.upstream) == 1:
        attached = test.upstream[0]
    if not isinstance(attached, str) or attached not in tables:
        raise UntranslatableError("the table that it tests is not translated")
    return tables[attached]


def _add_rule(
    manifest: Manifest,
    test: Node,
    table: TestedTable,
    names: Mapping[str, str],
    rules: TableRules,
) -> None:
    metadata = test.values["test_metadata"]
    kind, given = str(metadata.get("name")), dict(metadata.get("kwargs") or {})
    column = given.pop("column_name", None) or test.values.get("column_name")
    given.pop("model", None)
    if metadata.get("namespace") or kind not in _RULES:
        raise UntranslatableError(f"there is no rule with its meaning; {_CHECK}")
    for key, value in _DEFAULTS.items():
        if test.config.get(key, value) != value:
            raise UntranslatableError(f"it has {key}: {test.config[key]}; {_CHECK}")
    if not isinstance(column, str) or not re.fullmatch(r"\w+", column):
        raise UntranslatableError(f"it does not test one column; {_CHECK}")
    rule = _RULES[kind](manifest, test, table, given, names, column)
    if given:
        raise UntranslatableError(f"{kind} has no {min(given)} here; {_CHECK}")
    severity = str(test.config.get("severity") or "error").lower()
    if severity == "warn":
        rule["level"] = "warn"
    elif severity == "error":
        rule["blocking"] = True
    else:
        raise UntranslatableError(f"it has the unknown severity {severity}")
    rules.add(column, rule)
    if kind == "relationships":
        rules.references.append(_find_parent(test, table))


def _not_null(*_: Any) -> Values:
    return {"rule": "not_null"}


def _unique(_m: Manifest, _t: Node, table: TestedTable, *rest: Any) -> Values:
    column = rest[-1]
    target = table.target
    if target.get("mode") != "overwrite" and target.get("key") != [column]:
        raise UntranslatableError(
            f"unique compares the rows of one window, and the test those of all windows; {_CHECK}"
        )
    return {"rule": "unique"}


def _accepted_values(
    _m: Manifest, _t: Node, _table: TestedTable, given: dict[str, Any], *_: Any
) -> Values:
    values, quote = given.pop("values", None), given.pop("quote", True)
    if not isinstance(values, list) or not values or any(value is None for value in values):
        raise UntranslatableError(f"its values are {values!r}; {_CHECK}")
    if quote:
        wrong = [value for value in values if not isinstance(value, str)]
        if wrong:
            raise UntranslatableError(
                f"it compares the text of {wrong[0]!r}; set `quote: false`, or write the rule"
            )
    elif any(isinstance(value, str) for value in values):
        raise UntranslatableError(f"its values are expressions of SQL; {_CHECK}")
    return {"rule": "one_of", "values": values}


def _relationships(
    manifest: Manifest,
    test: Node,
    table: TestedTable,
    given: dict[str, Any],
    names: Mapping[str, str],
    _column: str,
) -> Values:
    given.pop("to", None)
    referenced = given.pop("field", None)
    parent = manifest.nodes.get(_find_parent(test, table))
    if parent is None or parent.id not in names:
        raise UntranslatableError("the table that it refers to is not translated")
    if table.node.id in manifest.find_ancestors(parent):
        raise UntranslatableError(
            f"{names[parent.id]} reads this table, so this table cannot wait for it; write the "
            f"rule as a query in `checks` of {names[parent.id]}"
        )
    return {"rule": "references", "table": names[parent.id], "column": str(referenced)}


def _find_parent(test: Node, table: TestedTable) -> str:
    others = [name for name in test.upstream if name != table.node.id]
    if len(others) != 1:
        raise UntranslatableError(f"it does not refer to one other table; {_CHECK}")
    return others[0]


_RULES = {
    "not_null": _not_null,
    "unique": _unique,
    "accepted_values": _accepted_values,
    "relationships": _relationships,
}


def declare_columns(node: Node) -> str | None:
    """Return the columns of an enforced contract as Spark DDL, if all their types are Spark's."""
    if not _has_contract(node):
        return None
    declared = []
    for column in (node.values.get("columns") or {}).values():
        name, kind = str(column.get("name")), str(column.get("data_type"))
        if not re.fullmatch(r"\w+", name) or not SPARK_TYPE.fullmatch(kind):
            return None
        comment = str(column.get("description") or "")
        note = f" COMMENT '{comment}'" if re.fullmatch(r"[^'\\\n$]+", comment) else ""
        declared.append(f"{name} {kind}{note}")
    return ", ".join(declared) or None


def _has_contract(node: Node) -> bool:
    return bool((node.config.get("contract") or {}).get("enforced"))


def _add_constraints(table: TestedTable, rules: TableRules, translation: Translation) -> None:
    """Add `not_null` constraints of an enforced contract; other parts are recorded."""
    node = table.node
    if not _has_contract(node):
        return
    types = []
    for column in (node.values.get("columns") or {}).values():
        if column.get("data_type") and table.columns is None:
            types.append(f"{column['name']} {column['data_type']}")
        for constraint in column.get("constraints") or ():
            kind = constraint.get("type")
            if kind == "not_null" and re.fullmatch(r"\w+", str(column["name"])):
                rules.add(column["name"], {"rule": "not_null", "blocking": True})
            else:
                reason = f"constraints of type {kind} are not enforced; use a rule of `quality`"
                translation.leave(node.path, f"{node.name}.{column['name']}", reason)
    for constraint in node.values.get("constraints") or ():
        reason = "constraints of several columns are not enforced; use a rule of `quality`"
        translation.leave(node.path, f"{node.name}: {constraint.get('type')}", reason)
    if types:
        reason = "the types of a contract must be Spark's; declare them in `columns` of the table"
        translation.leave(node.path, f"contract: {', '.join(types)}", reason)
