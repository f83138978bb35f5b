"""The second target of a step with rules, which receives the rejected rows."""

from collections.abc import Iterator

from logdriven_dagster.config.models.steps import StepConfig
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.models.types.files import FileTarget
from logdriven_dagster.config.models.types.targets import REJECTED, Target


def build_rejected_target(table: str, step: StepConfig) -> tuple[str, Target] | None:
    """Return the target for rejected rows and its table name; None if there is none.

    It is of the same type as the step's target, window by window; for topics it is a folder of
    Parquet files below the warehouse. Source: BDRE, good and bad files apart.
    """
    target = step.target
    if target is None or step.quality is None or not step.quality.keep_rejected:
        return None
    mode = "overwrite" if target.write_mode.replaces_whole_table else "overwrite_window"
    apart = target.rejected(table, mode)
    if apart is None:
        apart = FileTarget.model_validate({"type": "parquet", "mode": mode})
    return f"{table}{REJECTED}", apart


def list_named_targets(name: str, table: TableConfig) -> Iterator[tuple[str, Target]]:
    """Yield every target of a table, also those for rejected rows, after its name."""
    for step in table.steps:
        if step.target is not None:
            yield name, step.target
        if (apart := build_rejected_target(name, step)) is not None:
            yield apart
