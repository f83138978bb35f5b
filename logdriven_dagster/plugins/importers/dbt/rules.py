"""Quality rules and checks from dbt's tests, those of dbt_utils, and constraints of contracts.

A test of severity `error` becomes a blocking rule: one bad row stops the publication, and no row is
removed. With severity `warn`, bad rows are counted and written, as in dbt. A test of several rows,
and a singular test, becomes a check, which stops the publication if its query returns a row.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from logdriven_dagster.plugins.importers import naming
from logdriven_dagster.plugins.importers.dbt.dialects import SPARK_TYPE, as_spark
from logdriven_dagster.plugins.importers.dbt.manifest import Manifest, Node
from logdriven_dagster.plugins.importers.dbt.snapshots import (
    refuse_absent_columns,
    refuse_added_columns,
)
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
    """Rules of a table, by column and for whole rows, and its checks."""

    columns: dict[str, list[object]] = field(default_factory=dict)
    rows: list[Values] = field(default_factory=list)
    checks: list[Values] = field(default_factory=list)
    references: list[str] = field(default_factory=list)
    """Identifiers of the nodes that rules and checks read."""
    converted: list[Node] = field(default_factory=list)
    """Tests whose expression sqlglot has converted."""

    def add(self, column: str, rule: Values) -> None:
        """Add a rule that the column does not have yet."""
        rules = self.columns.setdefault(column, [])
        if rule not in rules:
            rules.append(rule)

    def add_check(self, test: Node, sql: str) -> None:
        """Add the query of a test."""
        taken = {check["check"].lower() for check in self.checks}
        check: Values = {"check": naming.step_name(test.name, taken), "sql": sql}
        if text := str(test.values.get("description") or "").strip():
            check["description"] = text.replace("${", "$ {")
        self.checks.append(check)


@dataclass(frozen=True, slots=True)
class TestedTable:
    """A translated table whose tests become rules."""

    node: Node
    columns: str | None
    """Columns that the table declares, or None if its contract cannot be enforced."""
    target: Values
    """Its target; `unique` compares all rows only if a window replaces them all."""
    converts_sql: bool = False
    """True if expressions of other dialects are converted by sqlglot."""


def translate_tests(
    manifest: Manifest,
    tables: Mapping[str, TestedTable],
    names: Mapping[str, str],
    translation: Translation,
    resolve: Callable[[Node, Node], str],
) -> dict[str, TableRules]:
    """Return the rules of each translated table; tests without a rule are recorded.

    `names` are the tables of all nodes that have one. `resolve` returns the query of a singular
    test of a node.
    """
    found: dict[str, TableRules] = {}
    for test in manifest.of_kind("test"):
        try:
            if not test.values.get("test_metadata"):
                _add_singular(manifest, test, tables, found, resolve)
                continue
            table = _find_table(test, tables)
            rules = found.setdefault(table.node.id, TableRules())
            _add_rule(manifest, test, table, names, rules)
        except UntranslatableError as error:
            translation.leave(test.path, f"test {test.name}", str(error))
    for rules in found.values():
        for test in rules.converted:
            reason = "its expression was converted by sqlglot; compare its results"
            translation.note(test.path, f"test {test.name}", reason)
    for table in tables.values():
        _add_constraints(table, found.setdefault(table.node.id, TableRules()), translation)
    return found


def _find_table(test: Node, tables: Mapping[str, TestedTable]) -> TestedTable:
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
    namespace = metadata.get("namespace")
    of_rows = _OF_ROWS.get(kind) if namespace == "dbt_utils" else None
    known = _OF_PACKAGES.get(namespace or "", {})
    if of_rows is None and kind not in known:
        raise UntranslatableError(f"there is no rule with its meaning; {_CHECK}")
    _refuse_settings(test)
    refuse_added_columns(f"{column} {given}", table.node)
    if of_rows is not None:
        of_rows(manifest, test, table, given, column, rules)
        if given:
            raise UntranslatableError(f"{kind} has no {min(given)} here; {_CHECK}")
        return
    if not isinstance(column, str) or not re.fullmatch(r"\w+", column):
        raise UntranslatableError(f"it does not test one column; {_CHECK}")
    rule = known[kind](manifest, test, table, given, names, column)
    if given:
        raise UntranslatableError(f"{kind} has no {min(given)} here; {_CHECK}")
    rules.add(column, {**rule, **_level(test)})
    if kind == "relationships":
        rules.references.append(_find_parent(test, table))


def _refuse_settings(test: Node) -> None:
    for key, value in _DEFAULTS.items():
        if test.config.get(key, value) != value:
            raise UntranslatableError(f"it has {key}: {test.config[key]}; {_CHECK}")


def _level(test: Node) -> Values:
    severity = str(test.config.get("severity") or "error").lower()
    if severity not in ("warn", "error"):
        raise UntranslatableError(f"it has the unknown severity {severity}")
    return {"level": "warn"} if severity == "warn" else {"blocking": True}


def _refuse_as_check(test: Node, table: TestedTable) -> None:
    """Raise UntranslatableError unless a check of a window tests the same rows as dbt."""
    _refuse_settings(test)
    if "level" in _level(test):
        raise UntranslatableError("checks have no severity warn; set severity: error, or leave it")
    if table.target.get("mode") != "overwrite":
        raise UntranslatableError(
            "a check reads the rows of one window, and the test those of all windows; write it as "
            "a query in `checks` of a table that reads all rows"
        )


def _add_singular(
    manifest: Manifest,
    test: Node,
    tables: Mapping[str, TestedTable],
    found: dict[str, TableRules],
    resolve: Callable[[Node, Node], str],
) -> None:
    """Add a singular test to the last of the tables that it reads, which waits for the others."""
    if missing := [name for name in test.upstream if name not in tables]:
        raise UntranslatableError(f"it reads {missing[0]}, which is not translated; {_CHECK}")
    nodes = [tables[name].node for name in test.upstream]
    ancestors = {name for node in nodes for name in manifest.find_ancestors(node)}
    last = [node for node in nodes if node.id not in ancestors]
    if not last:
        raise UntranslatableError(f"it reads no table; {_CHECK}")
    tested = last[-1]
    _refuse_as_check(test, tables[tested.id])
    rules = found.setdefault(tested.id, TableRules())
    rules.add_check(test, resolve(test, tested))
    rules.references += [node.id for node in nodes if node.id != tested.id]


def _unique_combination(
    _m: Manifest,
    test: Node,
    table: TestedTable,
    given: dict[str, Any],
    _column: object,
    rules: TableRules,
) -> None:
    columns, _ = given.pop("combination_of_columns", None), given.pop("quote_columns", None)
    if not isinstance(columns, list) or not all(re.fullmatch(r"\w+", str(c)) for c in columns):
        raise UntranslatableError(f"it does not name columns; {_CHECK}")
    _refuse_as_check(test, table)
    names = ", ".join(map(str, columns))
    sql = f"SELECT {names} FROM load GROUP BY {names} HAVING count(*) > 1"  # noqa: S608 - names
    rules.add_check(test, sql)


def _expression_is_true(
    manifest: Manifest,
    test: Node,
    table: TestedTable,
    given: dict[str, Any],
    *of_table: Any,
) -> None:
    """Add a rule for rows: NULL fulfils the expression, as in dbt_utils."""
    column, rules = of_table
    expression = str(given.pop("expression", "")).strip()
    condition = f"{column} {expression}" if column else expression
    condition, is_converted = _in_spark(condition, manifest, table)
    rules.converted += [test] if is_converted else []
    name = naming.step_name(test.name, {rule["rule"].lower() for rule in rules.rows})
    rules.rows.append({"rule": name, "sql": condition, **_level(test)})


def _at_least_one(
    _m: Manifest,
    test: Node,
    table: TestedTable,
    _given: dict[str, Any],
    column: object,
    rules: TableRules,
) -> None:
    _add_count(test, table, column, rules, count="count({})", bad=0)


def _not_constant(
    _m: Manifest,
    test: Node,
    table: TestedTable,
    _given: dict[str, Any],
    column: object,
    rules: TableRules,
) -> None:
    _add_count(test, table, column, rules, count="count(DISTINCT {})", bad=1)


def _add_count(
    test: Node, table: TestedTable, column: object, rules: TableRules, **counted: Any
) -> None:
    """Add a check for a `count` of a column that is `bad`."""
    if not isinstance(column, str) or not re.fullmatch(r"\w+", column):
        raise UntranslatableError(f"it does not test one column; {_CHECK}")
    _refuse_as_check(test, table)
    count = counted["count"].format(column)
    sql = f"SELECT {count} AS n FROM load HAVING {count} = {counted['bad']}"  # noqa: S608 - a name
    rules.add_check(test, sql)


def _in_spark(condition: str, manifest: Manifest, table: TestedTable) -> tuple[str, bool]:
    """Return a condition as Spark SQL, and True if it was converted.

    Raises UntranslatableError if its meaning in Spark is not known.
    """
    if "{{" in condition or "{%" in condition or not condition:
        raise UntranslatableError(f"its expression is Jinja; {_CHECK}")
    query = f"SELECT * FROM t WHERE NOT ({condition})"  # noqa: S608 - is only analyzed
    found, is_converted = as_spark(query, manifest.adapter, convert=table.converts_sql)
    if not is_converted:
        return condition, False
    import sqlglot

    where = sqlglot.parse_one(found, dialect="spark").args["where"]
    return where.this.this.unnest().sql("spark"), True


def _accepted_range(
    manifest: Manifest,
    _t: Node,
    table: TestedTable,
    given: dict[str, Any],
    _names: object,
    column: str,
) -> Values:
    bounds = {"min": given.pop("min_value", None), "max": given.pop("max_value", None)}
    bounds = {name: value for name, value in bounds.items() if value is not None}
    inclusive = given.pop("inclusive", True)
    if not bounds or not isinstance(inclusive, bool):
        raise UntranslatableError(f"its bounds are not constants; {_CHECK}")
    if inclusive and all(type(value) in (int, float) for value in bounds.values()):
        return {"rule": "in_range", **bounds}
    signs = {"min": ">=" if inclusive else ">", "max": "<=" if inclusive else "<"}
    condition = " AND ".join(f"{column} {signs[name]} {value}" for name, value in bounds.items())
    condition, is_converted = _in_spark(condition, manifest, table)
    if is_converted:
        raise UntranslatableError(f"its bounds are expressions of SQL; {_CHECK}")
    return {"rule": "accepted_range", "sql": condition}


def _be_between(manifest: Manifest, test: Node, table: TestedTable, *rest: Any) -> Values:
    given = rest[0]
    is_strict = given.pop("strictly", False)
    given["inclusive"] = not is_strict if isinstance(is_strict, bool) else None
    return _accepted_range(manifest, test, table, *rest)


def _not_empty_string(
    manifest: Manifest,
    _t: Node,
    table: TestedTable,
    given: dict[str, Any],
    *_: Any,
) -> Values:
    trims = given.pop("trim_whitespace", True)
    _in_spark("t <> ''", manifest, table)
    return (
        {"rule": "not_empty_string", "sql": "trim(:column) <> ''"}
        if trims is True
        else {"rule": "not_empty"}
    )


def _not_accepted_values(*given: Any) -> Values:
    return {**_accepted_values(*given), "rule": "none_of"}


def _not_null(*_: Any) -> Values:
    return {"rule": "not_null"}


def _unique(_m: Manifest, _t: Node, table: TestedTable, *rest: Any) -> Values:
    column = rest[-1]
    mode, key = table.target.get("mode"), table.target.get("key")
    if mode != "overwrite" and not (mode == "upsert" and key == [column]):
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
    refuse_absent_columns(str(referenced), [parent] if parent else [])
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


_OF_UTILS = {
    "accepted_range": _accepted_range,
    "not_empty_string": _not_empty_string,
    "not_accepted_values": _not_accepted_values,
}
"""Tests of dbt_utils for single rows and one column."""

_OF_EXPECTATIONS = {
    "expect_column_values_to_not_be_null": _not_null,
    "expect_column_values_to_be_unique": _unique,
    "expect_column_values_to_be_between": _be_between,
}
"""Tests of dbt_expectations for single rows and one column."""

_OF_PACKAGES = {"": _RULES, "dbt_utils": _OF_UTILS, "dbt_expectations": _OF_EXPECTATIONS}

_OF_ROWS: Mapping[str, Callable[..., None]] = {
    "unique_combination_of_columns": _unique_combination,
    "expression_is_true": _expression_is_true,
    "at_least_one": _at_least_one,
    "not_constant": _not_constant,
}
"""Tests of dbt_utils for several columns or rows."""


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
