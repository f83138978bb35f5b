"""Values in queries for Sail: their types, and equivalents that do not overflow silently.

Sail wraps integers on overflow and returns NULL for decimals that do not fit. Therefore integers
are computed as decimals and cast back, and the cast of a decimal raises an error on overflow.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

from sqlglot import exp

from logdriven_dagster.plugins.sail.supported_casts import (
    BIGINT,
    BOOLEAN,
    INT,
    STRING,
    VOID,
    UnprovenError,
    build_constant,
    build_plain_cast,
    build_safe_cast,
    build_whole_number,
    convert_to_decimal,
    type_written,
    wrap_in_paren,
)
from logdriven_dagster.plugins.sail.supported_sql import (
    CASTS,
    COMPARED,
    MOST_DIGITS,
    MOST_SUMMED_DIGITS,
    ORDERED,
    WHOLE,
    Type,
)

Column = Callable[[exp.Column], Type]
"""Function that returns the type of a named column."""

_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ)
_ARITHMETIC: dict[type[exp.Expression], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}
_AGGREGATES = (exp.Count, exp.Sum, exp.Min, exp.Max)


def is_aggregate(node: exp.Expression) -> bool:
    """Return True if a value is computed from groups of rows."""
    return node.find(*_AGGREGATES) is not None


class Values:
    """The values of one SELECT. Each node is typed and replaced by a safe one, innermost first."""

    def __init__(self, column: Column) -> None:
        self._column = column

    def resolve(self, node: exp.Expression) -> tuple[Type, exp.Expression]:
        """Return a value's type and safe form. Raises UnprovenError if it is not on the list."""
        rule = _RULES.get(type(node))
        if rule is None:
            raise UnprovenError(_describe_node(node))
        return rule(self, node)

    def condition(self, node: exp.Expression) -> exp.Expression:
        """Return the safe form of a condition. Raises UnprovenError if it is not boolean."""
        kind, safe = self.resolve(node)
        if kind != BOOLEAN:
            raise UnprovenError(f"{'NULL' if kind == VOID else kind} as a condition")
        return safe

    def _convert_part_of_condition(self, node: exp.Expression) -> exp.Expression:
        return node if isinstance(node, exp.Null) else self.condition(node)

    def _convert_all(
        self, nodes: Sequence[exp.Expression]
    ) -> tuple[list[Type], list[exp.Expression]]:
        pairs = [self.resolve(node) for node in nodes]
        return [kind for kind, _ in pairs], [safe for _, safe in pairs]

    def _convert_column(self, node: exp.Expression) -> tuple[Type, exp.Expression]:
        assert isinstance(node, exp.Column)
        return self._column(node), node

    def _convert_literal(self, node: exp.Expression) -> tuple[Type, exp.Expression]:
        text = str(node.this)
        if node.args["is_string"]:
            return STRING, node
        if re.fullmatch(r"\d+", text) and int(text) < 2**63:
            return (INT if int(text) < 2**31 else BIGINT), node
        if re.fullmatch(r"\d+\.\d+", text) and len(text) <= MOST_DIGITS:
            whole, fraction = text.split(".")
            digits = len(whole.lstrip("0")) + len(fraction)
            return Type("decimal", max(digits, len(fraction), 1), len(fraction)), node
        raise UnprovenError(f"the number {text}")

    def _convert_negative(self, node: exp.Expression) -> tuple[Type, exp.Expression]:
        if not isinstance(node.this, exp.Literal):
            raise UnprovenError("the minus of anything but a number")
        kind, safe = self._convert_literal(node.this)
        return kind, exp.Neg(this=safe)

    def _convert_paren(self, node: exp.Expression) -> tuple[Type, exp.Expression]:
        kind, safe = self.resolve(node.this)
        return kind, exp.Paren(this=safe)

    def _convert_cast(self, node: exp.Expression) -> tuple[Type, exp.Expression]:
        goal = type_written(node.args["to"])
        if isinstance(node.this, exp.Literal) and node.this.is_string and goal != STRING:
            return goal, build_constant(node.this.name, goal, node)
        kind, safe = self.resolve(node.this)
        if (kind.kind, goal.kind) not in CASTS:
            raise UnprovenError(f"CAST of {kind} to {goal.kind}")
        return goal, build_safe_cast(safe, kind, goal)

    def _convert_comparison(self, node: exp.Expression) -> tuple[Type, exp.Expression]:
        kinds, safe = self._convert_all([node.this, node.expression])
        _refuse_unlike(kinds, _describe_node(node))
        return BOOLEAN, wrap_in_paren(
            type(node)(this=wrap_in_paren(safe[0]), expression=wrap_in_paren(safe[1]))
        )

    def _convert_between(self, node: exp.Expression) -> tuple[Type, exp.Expression]:
        if node.args.get("symmetric"):
            raise UnprovenError("BETWEEN SYMMETRIC")
        kinds, safe = self._convert_all([node.this, node.args["low"], node.args["high"]])
        _refuse_unlike(kinds, "BETWEEN")
        value, low, high = map(wrap_in_paren, safe)
        return BOOLEAN, wrap_in_paren(exp.Between(this=value, low=low, high=high))

    def _convert_in(self, node: exp.Expression) -> tuple[Type, exp.Expression]:
        if not node.expressions or node.args.get("query"):
            raise UnprovenError("IN of a query")
        kinds, (value, *others) = self._convert_all([node.this, *node.expressions])
        _refuse_unlike(kinds, "IN")
        if all(isinstance(each, exp.Literal | exp.Neg | exp.Null) for each in others):
            return BOOLEAN, wrap_in_paren(exp.In(this=wrap_in_paren(value), expressions=others))
        # In an IN list, Sail discards errors of expressions that it evaluates before it reads a
        # row.
        same = (
            exp.EQ(this=wrap_in_paren(value.copy()), expression=wrap_in_paren(each))
            for each in others
        )
        made: exp.Expression = next(same)
        for each in same:
            made = exp.Or(this=made, expression=each)
        return BOOLEAN, wrap_in_paren(made)

    def _convert_is_null(self, node: exp.Expression) -> tuple[Type, exp.Expression]:
        if not isinstance(node.expression, exp.Null):
            raise UnprovenError("IS of anything but NULL")
        _, safe = self.resolve(node.this)
        return BOOLEAN, wrap_in_paren(exp.Is(this=wrap_in_paren(safe), expression=exp.Null()))

    def _convert_logical(self, node: exp.Expression) -> tuple[Type, exp.Expression]:
        left, right = map(self._convert_part_of_condition, (node.this, node.expression))
        return BOOLEAN, wrap_in_paren(type(node)(this=left, expression=right))

    def _convert_not(self, node: exp.Expression) -> tuple[Type, exp.Expression]:
        return BOOLEAN, wrap_in_paren(
            exp.Not(this=wrap_in_paren(self._convert_part_of_condition(node.this)))
        )

    def _convert_arithmetic(self, node: exp.Expression) -> tuple[Type, exp.Expression]:
        sign = _ARITHMETIC[type(node)]
        (left, right), (one, other) = self._convert_all([node.this, node.expression])
        if {left.kind, right.kind} <= set(WHOLE):
            goal = BIGINT if BIGINT in (left, right) else INT
            # 38 digits hold the product of any two: 19 digits each.
            room = Type("decimal", 19, 0)
            made = type(node)(
                this=build_plain_cast(one, room), expression=build_plain_cast(other, room)
            )
            return goal, build_whole_number(made, goal)
        if not {left.kind, right.kind} <= {*WHOLE, "decimal"}:
            raise UnprovenError(f"{left} {sign} {right}")
        for each in (node.this, node.expression):
            if isinstance(each.unnest(), exp.Literal | exp.Neg) and "." not in each.sql():
                raise UnprovenError(
                    f"a decimal {sign} {each.sql()}, whose digits Spark counts; write "
                    f"CAST({each.sql()} AS DECIMAL({len(each.name) or 1}, 0))"
                )
        goal = _compute_decimal_result(sign, convert_to_decimal(left), convert_to_decimal(right))
        made = type(node)(this=wrap_in_paren(one), expression=wrap_in_paren(other))
        return goal, wrap_in_paren(made)

    def _convert_case(self, node: exp.Expression) -> tuple[Type, exp.Expression]:
        if node.this is not None:
            raise UnprovenError("CASE of a value; write CASE WHEN with a condition")
        conditions = [self.condition(each.this) for each in node.args["ifs"]]
        default = node.args.get("default") or exp.Null()
        results = [each.args["true"] for each in node.args["ifs"]]
        kinds, safe = self._convert_all([*results, default])
        *branches, otherwise = safe
        pairs = zip(conditions, branches, strict=True)
        ifs = [exp.If(this=when, true=then) for when, then in pairs]
        return _find_common_type(kinds, "CASE"), exp.Case(ifs=ifs, default=otherwise)

    def _convert_if(self, node: exp.Expression) -> tuple[Type, exp.Expression]:
        condition = self.condition(node.this)
        kinds, (yes, no) = self._convert_all(
            [node.args["true"], node.args.get("false") or exp.Null()]
        )
        made = exp.Case(ifs=[exp.If(this=condition, true=yes)], default=no)
        return _find_common_type(kinds, "IF"), made

    def _convert_coalesce(self, node: exp.Expression) -> tuple[Type, exp.Expression]:
        kinds, safe = self._convert_all([node.this, *node.expressions])
        return _find_common_type(kinds, "coalesce"), exp.Coalesce(
            this=safe[0], expressions=safe[1:]
        )

    def _convert_text(self, node: exp.Expression) -> tuple[Type, exp.Expression]:
        kind, safe = self.resolve(node.this)
        _refuse_other(kind, "string", node)
        goal = INT if isinstance(node, exp.Length) else STRING
        return goal, type(node)(this=safe)

    def _convert_concat(self, node: exp.Expression) -> tuple[Type, exp.Expression]:
        parts = [node.this, node.expression] if isinstance(node, exp.DPipe) else node.expressions
        kinds, safe = self._convert_all(parts)
        for kind in kinds:
            _refuse_other(kind, "string", node)
        return STRING, exp.Concat(expressions=safe, safe=True, coalesce=False)

    def _convert_date_part(self, node: exp.Expression) -> tuple[Type, exp.Expression]:
        inner = node.this.this if isinstance(node.this, exp.TsOrDsToDate) else node.this
        kind, safe = self.resolve(inner)
        _refuse_other(kind, "date", node)
        return INT, exp.Anonymous(this=node.key, expressions=[safe])

    def _convert_count(self, node: exp.Expression) -> tuple[Type, exp.Expression]:
        if node.expressions:
            raise UnprovenError("count of several values")
        if isinstance(node.this, exp.Star):
            return BIGINT, exp.Count(this=exp.Star())
        if isinstance(node.this, exp.Distinct):
            if len(node.this.expressions) != 1:
                raise UnprovenError("count(DISTINCT) of several values")
            kind, safe = self.resolve(node.this.expressions[0])
            if kind.kind not in COMPARED:
                raise UnprovenError(f"count(DISTINCT) of {kind}")
            return BIGINT, exp.Count(this=exp.Distinct(expressions=[safe]))
        _, safe = self.resolve(node.this)
        return BIGINT, exp.Count(this=safe)

    def _convert_sum(self, node: exp.Expression) -> tuple[Type, exp.Expression]:
        if isinstance(node.this, exp.Distinct):
            raise UnprovenError("sum(DISTINCT)")
        kind, safe = self.resolve(node.this)
        if kind.kind in WHOLE:
            summed = exp.Sum(this=build_plain_cast(safe, Type("decimal", MOST_SUMMED_DIGITS, 0)))
            return BIGINT, build_whole_number(summed, BIGINT)
        if kind.kind != "decimal" or kind.precision > MOST_SUMMED_DIGITS:
            raise UnprovenError(f"sum of {kind}")
        return Type("decimal", kind.precision + 10, kind.scale), exp.Sum(this=safe)

    def _convert_extreme(self, node: exp.Expression) -> tuple[Type, exp.Expression]:
        if node.expressions:
            raise UnprovenError(f"{node.key} of several values")
        kind, safe = self.resolve(node.this)
        if kind.kind not in ORDERED:
            raise UnprovenError(f"{node.key} of {kind}")
        return kind, type(node)(this=safe)


_Rule = Callable[[Values, exp.Expression], tuple[Type, exp.Expression]]
# ruff: noqa: SLF001 - the class's own table of rules
_RULES: dict[type, _Rule] = {
    exp.Column: Values._convert_column,
    exp.Literal: Values._convert_literal,
    exp.Boolean: lambda _, node: (BOOLEAN, node),
    exp.Null: lambda _, node: (VOID, node),
    exp.Neg: Values._convert_negative,
    exp.Paren: Values._convert_paren,
    exp.Cast: Values._convert_cast,
    exp.TryCast: Values._convert_cast,  # sqlglot's node for Spark's CAST
    **dict.fromkeys(_COMPARISONS, Values._convert_comparison),
    exp.Between: Values._convert_between,
    exp.In: Values._convert_in,
    exp.Is: Values._convert_is_null,
    exp.And: Values._convert_logical,
    exp.Or: Values._convert_logical,
    exp.Not: Values._convert_not,
    **dict.fromkeys(_ARITHMETIC, Values._convert_arithmetic),
    exp.Case: Values._convert_case,
    exp.If: Values._convert_if,
    exp.Coalesce: Values._convert_coalesce,
    exp.Upper: Values._convert_text,
    exp.Lower: Values._convert_text,
    exp.Length: Values._convert_text,
    exp.Concat: Values._convert_concat,
    exp.DPipe: Values._convert_concat,
    exp.Year: Values._convert_date_part,
    exp.Month: Values._convert_date_part,
    exp.Day: Values._convert_date_part,
    exp.Count: Values._convert_count,
    exp.Sum: Values._convert_sum,
    exp.Min: Values._convert_extreme,
    exp.Max: Values._convert_extreme,
}


def _compute_decimal_result(sign: str, left: Type, right: Type) -> Type:
    """Return the result type by Spark's rules. Raises UnprovenError if digits would be cut off."""
    if sign == "*":
        goal = Type("decimal", left.precision + right.precision + 1, left.scale + right.scale)
    else:
        scale = max(left.scale, right.scale)
        digits = max(left.precision - left.scale, right.precision - right.scale)
        goal = Type("decimal", digits + scale + 1, scale)
    if goal.precision > MOST_DIGITS:
        raise UnprovenError(f"{left} {sign} {right}, which may need more than {MOST_DIGITS} digits")
    return goal


def _refuse_unlike(kinds: Sequence[Type], what: str) -> None:
    """Raise UnprovenError for types that cannot be compared or have no common decimal."""
    known = list(dict.fromkeys(kind for kind in kinds if kind != VOID))
    found = {kind.kind for kind in known}
    numbers = {*WHOLE, "decimal"}
    shown = f"{what} of {' and '.join(map(str, known))}"
    if not found <= COMPARED or (len(found) > 1 and not found <= numbers):
        raise UnprovenError(shown)
    if "decimal" in found:
        common = [convert_to_decimal(kind) for kind in known]
        digits = max(kind.precision - kind.scale for kind in common)
        if digits + max(kind.scale for kind in common) > MOST_DIGITS:
            raise UnprovenError(f"{shown}, which may need more than {MOST_DIGITS} digits")


def _find_common_type(kinds: Sequence[Type], what: str) -> Type:
    """Return the common type of all values, some of which may be NULL."""
    found = list(dict.fromkeys(kind for kind in kinds if kind != VOID))
    if len(found) != 1:
        shown = " and ".join(map(str, found)) or "NULL alone"
        raise UnprovenError(f"{what} of {shown}")
    return found[0]


def _refuse_other(kind: Type, wanted: str, node: exp.Expression) -> None:
    if kind.kind != wanted:
        raise UnprovenError(f"{_describe_node(node)} of {kind}")


def _describe_node(node: Any) -> str:
    """Return a readable name of a query node, for messages."""
    if isinstance(node, exp.Anonymous):
        return f"the function {node.name}"
    if isinstance(node, exp.Func):
        return f"the function {node.sql_name().lower()}"
    if isinstance(node, exp.Placeholder | exp.Parameter):
        return f"the parameter {node.sql('spark')}"
    return str(node.key).upper()
