"""Log entries of staged steps."""

import json
from typing import TYPE_CHECKING

from logdriven_dagster.config.models.steps import StepConfig
from logdriven_dagster.config.models.types.targets import Target
from logdriven_dagster.engine.queries.schemas import columns_of
from logdriven_dagster.engine.targets.store import StagedRows
from logdriven_dagster.model.attempts import Counts
from logdriven_dagster.model.runs import Staged

if TYPE_CHECKING:
    from logdriven_dagster.engine.window.step_results import StepResult


def describe_staged(
    staged: StagedRows,
    target: Target,
    source_type: str | None,
    files: tuple[str, ...],
    malformed: int | None,
) -> Staged:
    """Describe a step whose rows are staged.

    `files` are the names of the files that it read, `malformed` its number of malformed records.
    """
    rejected = staged.quality.rejected if staged.quality else 0
    state = {
        "rows": staged.state(),
        "source_type": source_type,
        "current_files": list(files),
        "malformed": malformed,
    }
    return Staged(
        staged.run.step_id,
        Counts(staged.source_rows, staged.rows, staged.rows, rejected, malformed=malformed),
        source_type,
        target.type,
        columns_of(staged.schema),
        current_files=files,
        output=staged.output,
        location=staged.location,
        state=json.dumps(state),
        quality=staged.quality,
    )


def describe_view(step: StepConfig, made: "StepResult", source_type: str | None) -> Staged:
    """Describe a step without a target, whose result `made` is a view for later steps."""
    columns = columns_of(made.frame.schema)
    return Staged(step.step, Counts(), source_type, None, columns, made.files)
