"""Check that data quality rules give the same results for a batch of windows as for each window.

Rules that compare rows with each other (duplicates, `unique`) do so within a window, by its number.
Conditions and queries are analysed like those of steps. `TogetherError` names the rule that mixes
windows.
"""

from collections.abc import Mapping

from logdriven_dagster.config.models.quality import (
    ROWS,
    QualityConfig,
    Rule,
    RuleDefinition,
    resolve_rules,
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
    """Raise TogetherError if a rule on the rows that a step has `made` mixes windows.

    `known` are the project's rules. `analysis` is that of the step's own query; the rules' reads
    are added to it.
    """
    for rule in resolve_rules(quality, known):
        try:
            _refuse_mixing(rule, quality, made, analysis)
        except (TogetherError, UnreadableSqlError) as error:
            raise TogetherError(f"rule {rule.name}: {error}") from None


def _refuse_mixing(
    rule: Rule, quality: QualityConfig, made: NamedRows, analysis: KeyAnalysis
) -> None:
    if rule.kind == "python":
        raise TogetherError("the effect of a function on rows of several windows is unknown")
    if rule.kind == "references":
        table = rule.parameters["table"]
        if analysis.relations.get(table.lower(), SHARED) != SHARED:
            raise TogetherError(f"each window reads its own rows of {table}")
    if rule.kind in ("sql", "fails_when"):
        condition = f"SELECT *, ({rule.text}\n) AS broken FROM `{ROWS}`"  # noqa: S608 - offline
        _analyze_rule(condition, made, analysis)
    if rule.kind == "query":
        found, keys = _analyze_rule(rule.text, made, analysis).keys, made.keys or frozenset()
        if found is not None and not found & keys & {name.lower() for name in quality.id}:
            raise TogetherError(
                "an id may be in several windows; quality.id and the query must have the "
                f"column that identifies the window ({', '.join(sorted(keys)) or 'no column'})"
            )


def _analyze_rule(sql: str, made: NamedRows, analysis: KeyAnalysis) -> NamedRows:
    """Analyse a rule's query, which reads the step's rows as `rows`."""
    own = KeyAnalysis(analysis.grid, {**analysis.relations, ROWS: made})
    found = own.analyze(sql)
    # Shared rows are read once per window.
    analysis.multiplies |= bool(own.reads.keys() - {ROWS})
    return found
