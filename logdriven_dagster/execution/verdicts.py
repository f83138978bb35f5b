"""Whether what a step has staged may be published."""

from logdriven_dagster.config.steps import StepConfig
from logdriven_dagster.errors import BadQualityError, TooMuchDataError
from logdriven_dagster.model.runs import Staged


def refuse(step: StepConfig, staged: Staged) -> None:
    """Raise if it may not: more rows than `max_rows`, too many bad ones, or a broken blocking rule.

    Sources: Sharp ETL, TooMuchData; BDRE, min.pass.threshold.
    """
    rows, most = staged.counts.target, step.max_rows
    if most is not None and rows is not None and rows > most:
        problem = f"{rows:,} rows are more than max_rows, which is {most:,}"
        raise TooMuchDataError(f"{problem}; nothing is published")
    if staged.quality is not None and (refusal := staged.quality.refusal):
        raise BadQualityError(refusal)
