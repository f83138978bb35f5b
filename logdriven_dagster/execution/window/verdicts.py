"""Checks that staged rows may be published."""

from collections.abc import Callable

from logdriven_dagster.config.models.steps import StepConfig
from logdriven_dagster.errors import BadQualityError, TooMuchDataError
from logdriven_dagster.model.runs import Staged


def refuse(step: StepConfig, staged: Staged) -> None:
    """Raise if the rows must not be published: beyond `max_rows`, too many bad ones, a broken rule.

    Only broken blocking rules count. Sources: Sharp ETL, TooMuchData; BDRE, min.pass.threshold.
    """
    rows, most = staged.counts.target, step.max_rows
    if most is not None and rows is not None and rows > most:
        problem = f"{rows:,} rows exceed max_rows, which is {most:,}"
        raise TooMuchDataError(f"{problem}; nothing is published")
    if staged.quality is not None and (refusal := staged.quality.refusal):
        raise BadQualityError(refusal)


def refuse_replacement(step: StepConfig, staged: Staged, replaced: Callable[[], int]) -> None:
    """Raise BadQualityError if the staged rows must not replace the published ones.

    `replaced` counts the published rows that would be replaced; it is called only if the step
    compares them.
    """
    if not step.compares_replaced:
        return
    new, old, most = staged.counts.target, replaced(), step.change_at_most
    if new is None:
        raise BadQualityError(
            "never_empty, change_at_most: the number of staged rows is unknown, so "
            "they cannot be compared"
        )
    fix = "nothing is published; correct the source, or the step if this change is intended"
    if step.never_empty and old and not new:
        raise BadQualityError(f"never_empty: no rows would replace {old:,} published rows; {fix}")
    if most is not None and old and abs(new - old) * 100 > most * old:
        change = f"{new:,} rows would replace {old:,}, a change of {abs(new - old) / old:.1%}"
        raise BadQualityError(f"change_at_most is {most:g} %: {change}; {fix}")
