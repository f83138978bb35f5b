"""Columns of two sides, matched by name."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from logdriven_dagster.engine.comparison.values import Rule, SchemaDifference
from logdriven_dagster.engine.queries.common_types import MisfitError, common_type
from logdriven_dagster.errors import TerminalStepError

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructField, StructType


@dataclass(frozen=True, slots=True)
class ColumnPair:
    """A column of both sides, and a type that holds the values of both."""

    left: "StructField"
    right: "StructField"
    kind: "DataType"

    @property
    def name(self) -> str:
        return self.left.name


@dataclass(frozen=True, slots=True)
class MatchedColumns:
    """The compared columns of two sides, and the differences between their schemas."""

    key: tuple[ColumnPair, ...]
    values: tuple[ColumnPair, ...]
    """The compared columns without the key."""
    differences: tuple[SchemaDifference, ...]


def match_columns(left: "StructType", right: "StructType", rule: Rule) -> MatchedColumns:
    """Match the columns of two sides; names match in any case.

    Raises TerminalStepError for an unknown column of the rule, a key that cannot be compared, and
    sides without a common column.
    """
    known = _by_name(left), _by_name(right)
    names = list({**known[0], **known[1]})
    for option, given in (
        ("--key", rule.key if rule.requires_key else ()),
        ("--columns", rule.columns or ()),
        ("--exclude", rule.exclude),
    ):
        _refuse_unknown(option, given, names)
    key, exclude = ([name.lower() for name in each] for each in (rule.key, rule.exclude))
    chosen = names if rule.columns is None else [*key, *(name.lower() for name in rule.columns)]
    pairs, differences = dict[str, ColumnPair](), list[SchemaDifference]()
    for name in names:
        if name in exclude or name not in chosen:
            continue
        one, other = known[0].get(name), known[1].get(name)
        pair = None if one is None or other is None else _pair(one, other)
        if pair is not None:
            pairs[name] = pair
        before, after = _type_of(one), _type_of(other)
        if before != after:
            spelled = one or other
            assert spelled is not None
            differences.append(SchemaDifference(spelled.name, before, after, pair is not None))
    if not rule.requires_key:
        key = [name for name in key if name not in exclude]
    if missing := [name for name in key if name not in pairs]:
        if rule.requires_key:
            raise TerminalStepError(
                f"the key column {missing[0]} is excluded, or does not exist on both sides with "
                "types that can be compared; choose other columns with --key"
            )
        key = []
    if not pairs:
        raise TerminalStepError(
            "the two sides must have a column in common; rename columns in the query of --sql"
        )
    values = tuple(pair for name, pair in pairs.items() if name not in key)
    return MatchedColumns(tuple(pairs[name] for name in key), values, tuple(differences))


def _type_of(field: "StructField | None") -> str | None:
    return None if field is None else field.dataType.simpleString()


def _by_name(schema: "StructType") -> "dict[str, StructField]":
    return {field.name.lower(): field for field in schema.fields}


def _refuse_unknown(option: str, given: Iterable[str], names: Sequence[str]) -> None:
    for name in given:
        if name.lower() not in names:
            listed = ", ".join(names)
            raise TerminalStepError(
                f"{option}: no side has a column {name}; the columns are {listed}"
            )


def _pair(one: "StructField", other: "StructField") -> ColumnPair | None:
    """Return the pair with a common type, or None if there is none."""
    for old, new in ((one, other), (other, one)):
        try:
            return ColumnPair(one, other, common_type(old, new.dataType, lost="refuse"))
        except MisfitError:
            continue
    return None
