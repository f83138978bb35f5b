"""Joins of rows with the rows that have their key, as Kettle's lookups find them.

The rows are `s`, the found ones `l`; their keys are `k0`, `k1` and so on.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from logdriven_dagster.plugins.importers.drafts import UntranslatableError
from logdriven_dagster.plugins.importers.kettle.comparisons import (
    are_equal,
    empty_as_null,
    literal,
    quote,
)


@dataclass(frozen=True, slots=True)
class LookupRules:
    """The rules by which a lookup compares keys and joins rows."""

    finds_null: bool
    """True if NULL finds NULL."""
    inner: bool = False
    """True if rows that find nothing are left out."""
    only_one: bool = False
    """True if several matching rows fail, also if their values are equal."""
    ignores_case: bool = False
    """True if the database may compare texts without case, so that texts in doubt fail here."""
    empty_is_null: bool = True
    """False if an empty text does not find NULL."""
    all_rows: bool = False
    """True to find all rows of a key, as an array in `r`."""


def join_lookup(
    step: str,
    sources: tuple[str, str],
    keys: Sequence[tuple[str, str]],
    values: Sequence[tuple[str, str, str]],
    rules: LookupRules,
) -> str:
    """Return the query of a lookup: all fields of the rows, and the values that they find.

    Args:
        step: The name of the lookup.
        sources: The relations of the rows and of the rows to find.
        keys: Pairs of a field and of the field that it finds.
        values: Name, new name and default of each value.
        rules: The rules of the lookup.
    """
    found = [name for name, _, _ in values]
    several = literal(f"{step}: several rows match a key; make the key unique")
    columns = "".join(
        f",\n  CASE WHEN l.n IS NULL THEN {literal(default) if default else 'NULL'} "
        f"WHEN l.n > 1 THEN raise_error({several}) ELSE l.r.`v{n}` END AS {quote(new)}"
        for n, (_, new, default) in enumerate(values)
    )
    join = "JOIN" if rules.inner else "LEFT JOIN"
    matched = match_rows(step, sources[1], keys, found, rules)
    return f"SELECT s.*{columns}\nFROM {sources[0]} AS s\n{join} {matched}"


def match_rows(
    step: str,
    relation: str,
    keys: Sequence[tuple[str, str]],
    values: Sequence[str],
    rules: LookupRules,
) -> str:
    """Return the text after JOIN: one row `l` per key, with `r` of its values and their number `n`.

    `r` is a struct of `v0`, `v1` and so on, or an array of them if the rules want all rows.

    Raises UntranslatableError for a lookup without keys.
    """
    if not keys:
        raise UntranslatableError(f"{step}: it has no keys")
    struct = ", ".join(f"{quote(name)} AS `v{n}`" for n, name in enumerate(values)) or "1 AS v"
    names = [f"`k{n}`" for n in range(len(keys))]
    looked = ", ".join(
        f"{empty_as_null(quote(theirs)) if rules.empty_is_null else quote(theirs)} AS {name}"
        for name, (_, theirs) in zip(names, keys, strict=True)
    )
    found = "collect_list(r)" if rules.all_rows else "first(r)"
    count = "count(*)" if rules.only_one or rules.all_rows else "count(DISTINCT r)"
    conditions = [
        _match(ours, f"l.{name}", rules) for name, (ours, _) in zip(names, keys, strict=True)
    ]
    return (
        f"(\n  SELECT {', '.join(names)}, {found} AS r, {count} AS n\n"
        f"  FROM (SELECT {looked}, struct({struct}) AS r FROM {relation})\n"
        f"  GROUP BY {', '.join(names)}\n) AS l ON {' AND '.join(conditions)}"
    )


def _match(field: str, right: str, rules: LookupRules) -> str:
    left = f"s.{quote(field)}"
    equal = are_equal(left, right, empty_is_null=rules.empty_is_null)
    if not rules.finds_null:
        equal = f"({equal} AND {empty_as_null(left)} IS NOT NULL)"
    if not rules.ignores_case:
        return equal
    problem = f"a text of {field} differs from another one only in case; join it in its database"
    own = empty_as_null(left) if rules.empty_is_null else left
    same = f"{fold_text(own, field)} <=> {fold_text(right, field)}"
    checked = f"IF({own} <=> {right}, {equal}, raise_error({literal(problem)}))"
    return f"IF(typeof({left}) = 'string', {same} AND {checked}, {equal})"


def date_of_version(step: str, field: str, now: str = "current_timestamp()") -> str:
    """Return the time at which a row looks up a version: of a field, or `now`."""
    if not field:
        return now
    column = quote(field)
    problem = literal(f"{step}: {field} must be a date or a timestamp, and not NULL")
    checked = f"typeof({column}) NOT IN ('date', 'timestamp', 'timestamp_ntz') OR {column} IS NULL"
    return f"CAST(IF({checked}, raise_error({problem}), {column}) AS TIMESTAMP)"


def fold_text(text: str, field: str) -> str:
    """Return a text in lower case; one that a database may compare in its own way fails.

    These are texts with other characters than ASCII, and with spaces at the end.
    """
    problem = f"a text of {field} is not ASCII or ends with a space; join it in its database"
    text = f"CAST({text} AS STRING)"
    plain = f"{text} IS NULL OR {text} RLIKE '^([ -~]*[!-~])?$'"
    return f"IF({plain}, lower({text}), raise_error({literal(problem)}))"
