"""Comparison of two frames in one query: rows by key, or the numbers of equal rows.

Both frames are united and grouped, so that each of them is read and shuffled once. A group holds
the rows of one key, which also shows a key with several rows. Examples take a second query.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from logdriven_dagster.engine.comparison.columns import ColumnPair, MatchedColumns, match_columns
from logdriven_dagster.engine.comparison.comparable import (
    format_comparable,
    format_value,
    make_comparable,
)
from logdriven_dagster.engine.comparison.values import Comparison, Example, Rule
from logdriven_dagster.engine.queries.nested_values import as_type
from logdriven_dagster.engine.queries.quoting import quote_name
from logdriven_dagster.engine.spark import functions as sf
from logdriven_dagster.engine.spark.actions import run_action
from logdriven_dagster.errors import TerminalStepError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

_ONLY_LEFT, _ONLY_RIGHT = -2, -1
"""Kinds of examples; a column that differs has its number."""


def compare_frames(
    spark: "SparkSession", left: "DataFrame", right: "DataFrame", rule: Rule
) -> Comparison:
    """Compare the rows of two frames.

    A key that several rows of a side share is not used: the rows are then compared as a whole.
    Raises TerminalStepError if the rule does not fit the columns, or needs a key that the rows
    lack.
    """
    columns = match_columns(left.schema, right.schema, rule)
    if rule.tolerance is not None and not columns.key:
        raise TerminalStepError(
            "--tolerance must have a key, because it compares rows with the same one; give --key"
        )
    work = _Work(spark, left, right, columns, rule)
    if not columns.key:
        return _compare_whole_rows(work)
    found = _compare_by_key(work)
    if found.duplicates is None:
        return found
    if rule.tolerance is not None:
        raise TerminalStepError(
            f"the key {', '.join(found.key)} is not unique, so values cannot be compared with "
            "--tolerance; give a unique key with --key"
        )
    return replace(_compare_whole_rows(work), duplicates=found.duplicates, key=found.key)


@dataclass(frozen=True, slots=True)
class _Work:
    spark: "SparkSession"
    left: "DataFrame"
    right: "DataFrame"
    columns: MatchedColumns
    rule: Rule

    def collect(self, frame: "DataFrame") -> "list[Row]":
        return run_action(self.spark, "compare", frame.collect)

    def unite(self, select: Callable[[int], Iterable[str]]) -> "DataFrame":
        """Return the rows of both sides; `select` takes the number of the side."""
        frames = (
            frame.selectExpr(f"{side} AS side", *select(side))
            for side, frame in enumerate((self.left, self.right))
        )
        one, other = frames
        return one.union(other)


def _value(pair: ColumnPair, side: int) -> str:
    """Return SQL of a column's value on a side, in the type of the pair."""
    field = (pair.left, pair.right)[side]
    return as_type(quote_name(field.name), field.dataType, pair.kind)


def _compare_by_key(work: _Work) -> Comparison:
    columns = work.columns
    keys = [f"k{n}" for n in range(len(columns.key))]

    def select(side: int) -> Iterator[str]:
        for name, pair in zip(keys, columns.key, strict=True):
            yield f"{make_comparable(_value(pair, side), pair.kind)} AS {name}"
        values = (f", 'v{n}', {_value(pair, side)}" for n, pair in enumerate(columns.values))
        yield f"named_struct('side', {side}{''.join(values)}) AS v"

    grouped = (
        work.unite(select)
        .groupBy(*keys)
        .agg(
            sf.expr("count_if(side = 0) AS lefts"),
            sf.expr("count_if(side = 1) AS rights"),
            sf.expr("any_value(v) FILTER (WHERE side = 0) AS l"),
            sf.expr("any_value(v) FILTER (WHERE side = 1) AS r"),
        )
    )
    differs = [_differs(pair, n, work.rule) for n, pair in enumerate(columns.values)]
    marked = grouped.selectExpr(
        "*", *(f"lefts = 1 AND rights = 1 AND {sql} AS d{n}" for n, sql in enumerate(differs))
    )
    counts = marked.selectExpr(
        "coalesce(sum(lefts), 0) AS lefts",
        "coalesce(sum(rights), 0) AS rights",
        "count_if(rights = 0) AS only_left",
        "count_if(lefts = 0) AS only_right",
        "count_if(lefts > 1) AS twice_left",
        "count_if(rights > 1) AS twice_right",
        f"count_if({_any(len(differs))}) AS differing",
        *(f"count_if(d{n}) AS d{n}" for n in range(len(differs))),
    )
    row = work.collect(counts)[0].asDict()
    twice = row["twice_left"], row["twice_right"]
    found = Comparison(
        tuple(pair.name for pair in columns.key),
        *(row["lefts"], row["rights"], row["only_left"], row["only_right"], row["differing"]),
        {pair.name: row[f"d{n}"] for n, pair in enumerate(columns.values) if row[f"d{n}"]},
        columns.differences,
        twice if any(twice) else None,
    )
    if any(twice) or not (found.only_left or found.only_right or found.differing):
        return found
    return replace(found, examples=tuple(_find_examples_by_key(work, marked, keys)))


def _differs(pair: ColumnPair, number: int, rule: Rule) -> str:
    """Return SQL that is true if the values of a column differ; NULL and NaN equal themselves."""
    one, other = f"l.v{number}", f"r.v{number}"
    same = f"{make_comparable(one, pair.kind)} <=> {make_comparable(other, pair.kind)}"
    if rule.tolerance is not None and pair.kind.typeName() in ("float", "double"):
        same += f" OR coalesce(abs({one} - {other}) <= {rule.tolerance!r}D, false)"
    return f"NOT ({same})"


def _any(number: int) -> str:
    return " OR ".join(f"d{n}" for n in range(number)) or "false"


def _find_examples_by_key(
    work: _Work, marked: "DataFrame", keys: Sequence[str]
) -> Iterator[Example]:
    if not work.rule.examples:
        return
    columns = work.columns
    texts = [
        [format_value(f"{side}.v{n}", pair.kind) for n, pair in enumerate(columns.values)]
        for side in ("l", "r")
    ]
    both = zip(*texts, strict=True)
    found = [
        f"CASE WHEN rights = 0 THEN {_struct(_ONLY_LEFT, texts[0])} END",
        f"CASE WHEN lefts = 0 THEN {_struct(_ONLY_RIGHT, texts[1])} END",
        *(f"CASE WHEN d{n} THEN {_struct(n, pair)} END" for n, pair in enumerate(both)),
    ]
    differing = f"rights = 0 OR lefts = 0 OR {_any(len(columns.values))}"
    listed = marked.where(differing).selectExpr(
        *keys, f"explode(filter(array({', '.join(found)}), e -> e IS NOT NULL)) AS e"
    )
    key = ", ".join(_format_all(keys, columns.key))
    rows = _first_of_each_kind(work, listed, keys).selectExpr(
        "e.kind AS kind", "number", f"array({key}) AS key", "e.texts AS texts"
    )
    names = [pair.name for pair in columns.key], [pair.name for pair in columns.values]
    for row in work.collect(rows.orderBy("kind", "number")):
        identity = dict(zip(names[0], row["key"], strict=True))
        if row["kind"] >= 0:
            yield Example(names[1][row["kind"]], identity, *row["texts"])
        else:
            whole = identity | dict(zip(names[1], row["texts"], strict=True))
            copies = ("1", "0") if row["kind"] == _ONLY_LEFT else ("0", "1")
            yield Example(None, whole, *copies)


def _format_all(names: Sequence[str], columns: Sequence[ColumnPair]) -> list[str]:
    return [format_comparable(name, pair.kind) for name, pair in zip(names, columns, strict=True)]


def _struct(kind: int | str, texts: Iterable[str]) -> str:
    listed = ", ".join(texts)
    return f"named_struct('kind', {kind}, 'texts', CAST(array({listed}) AS ARRAY<STRING>))"


def _first_of_each_kind(work: _Work, rows: "DataFrame", order: Sequence[str]) -> "DataFrame":
    """Return the first examples of each kind, in the order of some columns."""
    number = f"row_number() OVER (PARTITION BY e.kind ORDER BY {', '.join(order)}) AS number"
    return rows.selectExpr("*", number).where(f"number <= {work.rule.examples}")


def _compare_whole_rows(work: _Work) -> Comparison:
    columns = (*work.columns.key, *work.columns.values)
    names = [f"c{n}" for n in range(len(columns))]

    def select(side: int) -> Iterator[str]:
        for name, pair in zip(names, columns, strict=True):
            yield f"{make_comparable(_value(pair, side), pair.kind)} AS {name}"

    grouped = (
        work.unite(select)
        .groupBy(*names)
        .agg(
            sf.expr("count_if(side = 0) AS lefts"),
            sf.expr("count_if(side = 1) AS rights"),
        )
    )
    counts = grouped.selectExpr(
        "coalesce(sum(lefts), 0) AS left_rows",
        "coalesce(sum(rights), 0) AS right_rows",
        "coalesce(sum(greatest(lefts - rights, 0)), 0) AS only_left",
        "coalesce(sum(greatest(rights - lefts, 0)), 0) AS only_right",
    )
    row = work.collect(counts)[0]
    found = Comparison((), **row.asDict(), differing=0, columns={}, schema=work.columns.differences)
    if not work.rule.examples or not (found.only_left or found.only_right):
        return found
    kind = f"IF(lefts > rights, {_ONLY_LEFT}, {_ONLY_RIGHT})"
    example = f"{_struct(kind, _format_all(names, columns))} AS e"
    listed = grouped.where("lefts <> rights").selectExpr(*names, "lefts", "rights", example)
    rows = _first_of_each_kind(work, listed, names).selectExpr("e.*", "lefts", "rights", "number")
    spelled = [pair.name for pair in columns]
    examples = tuple(
        Example(
            None,
            dict(zip(spelled, row["texts"], strict=True)),
            *(str(row["lefts"]), str(row["rights"])),
        )
        for row in work.collect(rows.orderBy("kind", "number"))
    )
    return replace(found, examples=examples)
