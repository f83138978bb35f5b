"""Data quality configuration of a step, and the rules that it resolves to.

Sources: Sharp ETL, `quality-check.yaml` and the options `column.…`, `idColumn`, `sortColumn` of a
source; BDRE, `min.pass.threshold`. Built-in rules have the names that users of dbt, Great
Expectations and Soda search for; Sharp ETL's names still work.
"""

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, model_validator

from logdriven_dagster.config.models.fields import IDENTIFIER
from logdriven_dagster.config.models.frozen import Model
from logdriven_dagster.config.models.rules import ALIASES, BUILT_IN, PARAMETERS
from logdriven_dagster.config.yaml.field_names import Formerly
from logdriven_dagster.errors import TerminalStepError

Level: TypeAlias = Literal["warn", "error"]
"""`error` rows are kept out of the target, `warn` rows are only counted. Source: Sharp ETL."""

DUPLICATES = "Duplicated PK check"
"""Name in the log of rows replaced by a newer row with the same id. Source: Sharp ETL."""

ROWS = "rows"
"""Name of the step's rows in the SQL of a rule."""

RuleName = Annotated[str, StringConstraints(min_length=1, max_length=256)]
_FUNCTION = r"^[^:\s]+:[A-Za-z_][A-Za-z0-9_]*$"
_QUERY = re.compile(r"\s*(SELECT|WITH|FROM)\b", re.IGNORECASE)
_COLUMN = re.compile(r":column\b")
_ORDER = re.compile(rf"\s*`?({IDENTIFIER})`?(?:\s+(asc|desc))?\s*", re.IGNORECASE)


class _Definition(Model):
    """The condition by which a rule identifies failing rows."""

    sql: str | None = Field(
        None,
        description="a condition that good rows meet, in which `:column` is the column; or a "
        "query (SELECT …) of the ids of bad rows, which reads the rows as `rows`",
        examples=[":column > 0"],
    )
    fails_when: str | None = Field(
        None,
        description="the opposite of sql: a condition that bad rows meet, as in Sharp ETL",
        examples=[":column <= 0"],
    )
    python: Annotated[str, StringConstraints(pattern=_FUNCTION)] | None = Field(
        None,
        description="`file.py:function`, which takes the rows as a DataFrame and returns a "
        "Column that is true for bad rows, or a DataFrame of their ids",
        examples=["own.py:bad_rows"],
    )
    description: str | None = Field(
        None, description="a description of the rule", examples=["Amounts are positive."]
    )

    @property
    def texts(self) -> tuple[str, ...]:
        """The given expressions: sql, fails_when and python."""
        return tuple(text for text in (self.sql, self.fails_when, self.python) if text is not None)

    @model_validator(mode="after")
    def _check_one_expression(self) -> "_Definition":
        if len(self.texts) > 1:
            raise ValueError("give only one of sql, fails_when and python")
        return self


class RuleDefinition(_Definition):
    """A project-wide rule, which tables reference by name."""

    level: Level = Field(
        "error", description="error: bad rows are kept out of the target; warn: they are counted"
    )

    @model_validator(mode="after")
    def _check_content(self) -> "RuleDefinition":
        if not self.texts:
            raise ValueError("a rule needs sql, fails_when or python")
        return self


def _refuse_built_in_name(name: str) -> str:
    if name in BUILT_IN:
        raise ValueError(f"{name} is built in; choose another name")
    return name


QualityRules: TypeAlias = dict[
    Annotated[RuleName, AfterValidator(_refuse_built_in_name)], RuleDefinition
]


class RuleUse(_Definition):
    """Use of a rule in a step: by name with parameters, or defined inline."""

    rule: RuleName = Field(
        description="a built-in rule, one of quality_rules, or a name for sql or python",
        examples=["not_null"],
    )
    name: RuleName | None = Field(
        None, description="the name in the log; default: the rule", examples=["has an id"]
    )
    level: Level | None = Field(None, description="default: the level of the rule, usually error")
    blocking: bool = Field(False, description="any row that violates it stops publication")
    min: int | float | str | None = Field(
        None, description="in_range: the least value; min_length: characters", examples=[0]
    )
    max: int | float | str | None = Field(
        None, description="in_range: the greatest value; max_length: characters", examples=[100]
    )
    values: tuple[str | int | float | bool, ...] | None = Field(
        None, description="one_of, none_of: the values", examples=[["new", "paid"]]
    )
    pattern: str | None = Field(
        None,
        description="matches: a regular expression; any part of the text may match",
        examples=["^[A-Z]{2}$"],
    )
    type: str | None = Field(None, description="castable: a type of Spark's", examples=["DATE"])
    table: str | None = Field(
        None, description="references: a table in depends_on", examples=["ods.customers"]
    )
    column: str | None = Field(
        None, description="references: its column; the same name by default", examples=["id"]
    )
    columns: tuple[str, ...] | None = Field(
        None, description="unique, among rows: the columns", examples=[["order_id", "line"]]
    )

    @property
    def given(self) -> dict[str, Any]:
        """The parameters that are set explicitly."""
        return {name: getattr(self, name) for name in PARAMETERS & self.model_fields_set}


def _convert_use(value: Any) -> Any:
    return {"rule": value} if isinstance(value, str) else value


RuleField = Annotated[RuleUse, BeforeValidator(_convert_use, json_schema_input_type=str | RuleUse)]


def _validate_order(text: str) -> str:
    if not all(_ORDER.fullmatch(part) for part in text.split(",")):
        raise ValueError("expected columns, such as `updated_at desc, version`")
    return text


Order: TypeAlias = Annotated[str, AfterValidator(_validate_order)]


class QualityConfig(Model):
    """Quality requirements that the rows of a step must meet to be written."""

    id: tuple[str, ...] = Field(
        (), description="the columns that identify a row in the log", examples=[["id"]]
    )
    deduplicate_order_by: Annotated[Order | None, Formerly("keep")] = Field(
        None,
        description="keep one row per id: the first one in this order, desc by default",
        examples=["updated_at desc"],
    )
    min_pass: float | None = Field(
        None,
        ge=0,
        le=100,
        description="the minimum percentage of rows without an error; below it, nothing is "
        "published and the attempt fails",
        examples=[99.5],
    )
    blocking: bool | tuple[str, ...] = Field(
        default=False,
        description="the names of rules that stop publication; true: all rules of level error",
    )
    keep_rejected: bool = Field(
        default=False, description="publish rows with errors, too: into `<target>__rejected`"
    )
    columns: dict[str, tuple[RuleField, ...]] = Field(
        default_factory=dict,
        description="column → its rules, by name or with parameters",
        examples=[{"id": ["not_null", "unique"]}],
    )
    rows: tuple[RuleField, ...] = Field(
        (),
        description="rules about several columns",
        examples=[[{"rule": "paid", "sql": "paid_at >= ordered_at"}]],
    )

    @model_validator(mode="after")
    def _check_id(self) -> "QualityConfig":
        if self.deduplicate_order_by is not None and not self.id:
            raise ValueError("deduplicate_order_by needs id, the columns that identify duplicates")
        if not (self.columns or self.rows or self.deduplicate_order_by):
            raise ValueError("there are no rules; give columns, rows or deduplicate_order_by")
        return self

    @property
    def order(self) -> tuple[tuple[str, bool], ...]:
        """The columns that order duplicates, each with True if the greatest value comes first."""
        matches = [_ORDER.fullmatch(part) for part in (self.deduplicate_order_by or "").split(",")]
        return tuple((m[1], (m[2] or "desc").lower() == "desc") for m in matches if m)

    def uses(self) -> Iterator[tuple[tuple[str | int, ...], str | None, RuleUse]]:
        """Yield each use of a rule: its location below `quality`, its column, and the use."""
        for column, used in self.columns.items():
            for n, use in enumerate(used):
                yield ("columns", column, n), column, use
        for n, use in enumerate(self.rows):
            yield ("rows", n), None, use


class BadRuleError(ValueError):
    """An invalid use of a rule, with the field and the fix.

    Source: Sharp ETL, DataQualityCheckRuleMissing and BadDataQualityCheckRule.
    """

    def __init__(self, field: str, problem: str, hint: str | None = None) -> None:
        self.field, self.hint = field, hint
        super().__init__(problem)


@dataclass(frozen=True)
class Rule:
    """A resolved rule of a step, ready to be checked."""

    name: str
    """Name in the log."""
    column: str | None
    kind: str
    """Name of the built-in rule, or sql, fails_when, query, python, duplicates."""
    level: Level = "error"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    text: str = ""
    """SQL in which `:column` is replaced, or the reference of a function."""
    description: str | None = None
    blocking: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the rule concerns, if known."""
        return tuple(self.parameters.get("columns") or filter(None, [self.column]))


def resolve_rules(quality: QualityConfig, known: Mapping[str, RuleDefinition]) -> tuple[Rule, ...]:
    """Return the resolved rules of a step, duplicates first; `known` are the project's rules.

    Raises TerminalStepError for a rule that the project no longer defines: an attempt may run an
    earlier version of its table.
    """
    try:
        rules = [resolve_rule(use, column, known, quality) for _, column, use in quality.uses()]
    except BadRuleError as error:
        raise TerminalStepError(f"quality: {error}") from None
    if quality.deduplicate_order_by is None:
        return tuple(rules)
    about, blocks = {"columns": quality.id}, _is_blocking(DUPLICATES, "error", quality)
    name = ", ".join(quality.id)
    return Rule(DUPLICATES, name, "duplicates", parameters=about, blocking=blocks), *rules


def resolve_rule(
    use: RuleUse, column: str | None, known: Mapping[str, RuleDefinition], quality: QualityConfig
) -> Rule:
    """Resolve one use of a rule into a rule that can be checked.

    `column` is that of the use, or None for a rule on rows; `known` are the project's rules and
    `quality` is the block of the step. Raises BadRuleError if the use is invalid.
    """
    name = use.name or use.rule
    if use.texts:
        if use.rule in BUILT_IN:
            raise BadRuleError("rule", f"{use.rule} is built in", "give your rule another name")
        found = _build_user_rule(name, column, use, "error")
    elif use.rule in known:
        found = _build_user_rule(name, column, known[use.rule], known[use.rule].level)
    else:
        found = _build_built_in_rule(name, column, use, known)
    if (use.texts or use.rule in known) and use.given:
        raise BadRuleError(
            min(use.given), f"{use.rule} has no parameters", "only built-in rules have them"
        )
    level = use.level or found.level
    return replace(
        found,
        level=level,
        blocking=use.blocking or _is_blocking(name, level, quality),
        description=use.description or found.description,
    )


def _is_blocking(name: str, level: Level, quality: QualityConfig) -> bool:
    if isinstance(quality.blocking, bool):
        return quality.blocking and level == "error"
    return name in quality.blocking


def _build_user_rule(name: str, column: str | None, given: _Definition, level: Level) -> Rule:
    """Return a rule that the user defined in SQL or Python."""
    if given.python is not None:
        description = given.description
        return Rule(name, column, "python", level, text=given.python, description=description)
    way, text = ("sql", given.sql) if given.sql is not None else ("fails_when", given.fails_when)
    assert text is not None
    if column is None and _COLUMN.search(text):
        raise BadRuleError(way, f"{name} uses :column", "use it below columns")
    text = _COLUMN.sub(f"`{column}`", text)
    kind = "query" if way == "sql" and _QUERY.match(text) else way
    return Rule(name, column, kind, level, text=text, description=given.description)


def _build_built_in_rule(
    name: str, column: str | None, use: RuleUse, known: Mapping[str, RuleDefinition]
) -> Rule:
    alias = ALIASES.get(use.rule)
    kind = alias.rule if alias else use.rule
    if kind not in BUILT_IN:
        names = [*BUILT_IN, *known, *ALIASES]
        near = difflib.get_close_matches(use.rule, names, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"built in are {', '.join(BUILT_IN)}"
        hint += "; quality_rules of logdriven.yaml, sql and python define others"
        raise BadRuleError("rule", f"unknown quality rule {use.rule!r}", hint)
    built_in, given = BUILT_IN[kind], {**(alias.parameters if alias else {}), **use.given}
    takes = built_in.needs | built_in.takes
    if column is None:
        if kind != "unique":
            raise BadRuleError("rule", f"{kind} needs a column", "use it below columns")
        takes = built_in.needs | {"columns"}
        if "columns" not in given:
            raise BadRuleError("columns", "unique among rows needs columns")
    if extra := sorted(given.keys() - takes):
        allowed = ", ".join(sorted(takes)) or "none"
        raise BadRuleError(extra[0], f"{kind} has no parameter {extra[0]}", f"it has {allowed}")
    if missing := sorted(built_in.needs - given.keys()):
        raise BadRuleError("rule", f"{kind} needs {', '.join(missing)}")
    if built_in.one_of and not built_in.one_of & given.keys():
        raise BadRuleError("rule", f"{kind} needs {' or '.join(sorted(built_in.one_of))}")
    return Rule(name, column, kind, alias.level if alias else "error", given)
