"""Where rows that break rules go: a target of their own, beside that of the good ones."""

from logdriven_dagster.config.models.steps import (
    FileTarget,
    IcebergTarget,
    JdbcTarget,
    KafkaTarget,
    StepConfig,
    Target,
)

REJECTED = "__rejected"


def rejected_target(table: str, step: StepConfig) -> tuple[str, Target] | None:
    """Where rows with errors go, and the table's name that it goes by; None for nowhere.

    It is of the same kind, window by window; beside topics it is a folder of Parquet files below
    the warehouse. Source: BDRE, good and bad files apart.
    """
    target = step.target
    if target is None or step.quality is None or not step.quality.keep_rejected:
        return None
    table = f"{table}{REJECTED}"
    mode = "overwrite" if target.mode == "overwrite" else "overwrite_window"
    plain = {"mode": mode, "window_column": None}
    match target:
        case IcebergTarget():
            named = (target.name or table.removesuffix(REJECTED)) + REJECTED
            return table, target.model_copy(update={**plain, "key": (), "name": named})
        case FileTarget():
            path = f"{target.path}{REJECTED}" if target.path else None
            return table, target.model_copy(update={**plain, "path": path})
        case JdbcTarget():
            named = target.table + REJECTED
            update = {**plain, "key": (), "pre_sql": (), "table": named}
            return table, target.model_copy(update=update)
        case KafkaTarget():
            return table, FileTarget.model_validate({"type": "parquet", "mode": mode})
