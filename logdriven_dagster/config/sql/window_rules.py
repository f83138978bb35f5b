"""Whether rules of data quality judge the rows of several windows in one pass as those of each.

What compares rows with each other (duplicates, `unique`) does so within a window, by its number.
Conditions and queries are taken apart like those of steps. `TogetherError` says which rule mixes
windows.
"""

from collections.abc import Mapping

from logdriven_dagster.config.models.quality import (
    ROWS,
    QualityConfig,
    Rule,
    RuleDefinition,
    rules_of,
)
from logdriven_dagster.config.sql.references import UnreadableSqlError
from logdriven_dagster.config.sql.window_keys import KeyAnalysis
from logdriven_dagster.config.sql.window_scopes import SHARED, NamedRows, TogetherError


def refuse_mixing_rules(
    quality: QualityConfig,
    known: Mapping[str, RuleDefinition],
    made: NamedRows,
    analysis: KeyAnalysis,
) -> None:
    """TogetherError if a rule mixes windows of the rows that a step has `made`.

    `known` are the project's rules, `analysis` has looked at the step's own query and learns what
    else is read.
    """
    for rule in rules_of(quality, known):
        try:
            _refuse_mixing(rule, quality, made, analysis)
        except (TogetherError, UnreadableSqlError) as error:
            raise TogetherError(f"rule {rule.name}: {error}") from None


def _refuse_mixing(
    rule: Rule, quality: QualityConfig, made: NamedRows, analysis: KeyAnalysis
) -> None:
    if rule.kind == "python":
        raise TogetherError("what a function does with rows of several windows is not known")
    if rule.kind == "references":
        table = rule.parameters["table"]
        if analysis.relations.get(table.lower(), SHARED) != SHARED:
            raise TogetherError(f"each window reads rows of its own of {table}")
    if rule.kind in ("sql", "fails_when"):
        condition = f"SELECT *, ({rule.text}\n) AS broken FROM `{ROWS}`"  # noqa: S608 - offline
        _looked_at(condition, made, analysis)
    if rule.kind == "query":
        found, keys = _looked_at(rule.text, made, analysis).keys, made.keys or frozenset()
        if found is not None and not found & keys & {name.lower() for name in quality.id}:
            raise TogetherError(
                "an id may be in several windows; quality.id and the query must have the column "
                f"that tells the window ({', '.join(sorted(keys)) or 'no column'} does)"
            )


def _looked_at(sql: str, made: NamedRows, analysis: KeyAnalysis) -> NamedRows:
    """What the result of a rule's query is, which reads the step's rows as `rows`."""
    own = KeyAnalysis(analysis.grid, {**analysis.relations, ROWS: made})
    found = own.of(sql)
    # What all windows share is read for each of them.
    analysis.multiplies |= bool(own.reads.keys() - {ROWS})
    return found
